"""benchmarks.mat becomes the published CSV files, to the byte, whatever order and digits it
stores.
"""

import gzip
import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.io import savemat

from pdml._types import Array
from pdml.errors import DataError
from pdml.research.datasets import raetsch
from pdml.research.datasets.catalogue import csv, tables


def mat(**sets: tuple[Array, Array]) -> bytes:
    """A file of the same structure: per set a structure with x, t (a column) and one row of indices
    per split.
    """
    file, split = io.BytesIO(), np.array([[1, 2], [2, 1]])
    records = {
        name: {"x": X, "t": y[:, None], "train": split, "test": split}
        for name, (X, y) in sets.items()
    }
    savemat(file, records, do_compression=True)
    return file.getvalue()


def test_label_first_eight_digits_sorted_by_features_then_label() -> None:
    X = np.array(
        [[2.0, 1.0], [-1.23456789012, 4.0], [2.0, 1.0], [2.0, -7.6151972e-05], [-1.5, 3.0]]
    )
    y = np.array([1, -1, -1, 1, -1])
    expected = b"-1,-1.5,3\n-1,-1.2345679,4\n1,2,-7.6151972e-05\n-1,2,1\n1,2,1\n"
    assert csv(X, y) == expected
    assert tables(mat(banana=(X, y), titanic=(X, y)), ["banana"]) == {"banana": expected}


@given(
    table=arrays(
        np.float64, st.tuples(st.integers(1, 12), st.integers(2, 4)), elements=st.integers(-2, 2)
    ),
    seed=st.integers(0, 2**32),
)
def test_bytes_depend_on_the_set_of_rows_alone(table: Array, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(table)
    content = csv(table[:, 1:], table[:, 0])
    assert csv(shuffled[:, 1:], shuffled[:, 0]) == content
    back = [tuple(map(float, line.split(","))) for line in content.decode().splitlines()]
    assert sorted(back) == sorted(map(tuple, table.tolist()))
    assert [(*row[1:], row[0]) for row in back] == sorted(
        (*row[1:], row[0]) for row in table.tolist()
    )


@pytest.mark.parametrize("name", raetsch.NAMES)
def test_the_published_files_come_out(data_dir: Path, name: str) -> None:
    published = gzip.decompress((data_dir / "raetsch" / f"{name}.csv.gz").read_bytes())
    table = np.loadtxt(io.BytesIO(published), delimiter=",", ndmin=2)
    table = np.random.default_rng(0).permutation(table)
    table[:, 1:] *= 1 + 1e-12  # digits beyond the eighth, where arithmetic differs between machines
    made = tables(mat(**{name: (table[:, 1:], table[:, 0])}), [name])[name]
    assert made == published and hashlib.sha256(made).hexdigest() == raetsch.FACTS[name].sha256


def test_refuses_other_files() -> None:
    X, y = np.ones((2, 2)), np.ones(2)
    plain = io.BytesIO()
    savemat(plain, {"banana": X})
    for content, sentence in (
        (b"", "cannot be read"),
        (b"no MATLAB file" * 50, "cannot be read"),
        (mat(banana=(X, y))[:-40], "cannot be read"),
        (mat(german=(X, y)), "must hold banana as a structure"),
        (plain.getvalue(), "must hold banana as a structure"),
        (mat(banana=(X, np.ones(3))), "one label per row, got x of .* and 3 labels"),
    ):
        with pytest.raises(DataError, match=sentence):
            tables(content, ["banana"])
