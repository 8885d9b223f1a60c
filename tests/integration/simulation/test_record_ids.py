"""Records recognised by their values."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pdml.simulation.record_ids import fingerprints, prints_of_names


def records(many=2000, width=6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(many, width)) * (rng.random(size=(many, width)) < 0.5)
    return x, rng.integers(0, 3, many)


def test_the_same_values_have_the_same_in_any_storage_and_order():
    x, y = records()
    found = fingerprints(x, y)
    order = np.random.default_rng(1).permutation(len(y))
    np.testing.assert_array_equal(fingerprints(x[order], y[order]), found[order])
    for same in (sp.csr_array(x), sp.coo_array(x), np.asfortranarray(x), x * 1.0 - 0.0):
        np.testing.assert_array_equal(fingerprints(same, y), found)
    explicit = sp.csr_array(x)
    explicit.data[:5] = 0.0
    dense = explicit.toarray()
    np.testing.assert_array_equal(fingerprints(explicit, y), fingerprints(dense, y))
    np.testing.assert_array_equal(fingerprints(-0.0 * np.ones((2, 2)), [1, 1]), [found_zero()] * 2)


def found_zero():
    return fingerprints(np.zeros((1, 2)), [1])[0]


def test_other_values_have_others():
    """Every single change: another number, another place, another label, by one bit in the last."""
    x, y = records(500)
    x[:, 0] = np.random.default_rng(2).normal(size=500)
    found = set(fingerprints(x, y).tolist())
    assert len(found) == 500
    nudged = x.copy()
    nudged[:, 0] = np.nextafter(x[:, 0].astype(np.float32), np.float32(np.inf))
    swapped = x[:, [1, 0, 2, 3, 4, 5]]
    for other in (fingerprints(nudged, y), fingerprints(swapped, y), fingerprints(x, (y + 1) % 3)):
        assert not found & set(other.tolist())


def test_records_made_to_collide_under_a_sum_of_columns_differ():
    """Sums of columns mod 2^64 have equals that anybody can compute; a keyed digest has none."""
    x = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0], [0.0, 3.0], [1.0, 0.0], [0.0, 1.0]])
    assert len(set(fingerprints(x, np.zeros(6)).tolist())) == 6
    wide = np.zeros((256, 256))
    np.fill_diagonal(wide, 1.0)
    assert len(set(fingerprints(wide, np.zeros(256)).tolist())) == 256


def test_a_sparse_matrix_is_left_as_it_was():
    x = sp.csr_array((np.array([1.0, 2.0, 0.0]), np.array([0, 0, 1]), np.array([0, 3, 3])))
    summed = fingerprints(np.array([[3.0, 0.0], [0.0, 0.0]]), [0, 1])
    np.testing.assert_array_equal(fingerprints(x, [0, 1]), summed)
    assert x.nnz == 3 and x.data.tolist() == [1.0, 2.0, 0.0]


def test_the_key_is_drawn_in_every_process():
    ask = (
        "import numpy as np; from pdml.simulation.record_ids import fingerprints, prints_of_names; "
        "print(fingerprints(np.ones((1, 2)), [0])[0], prints_of_names(['anna'], 1)[0])"
    )
    found = {
        subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(found) == 2


def test_labels_may_be_names():
    x, _ = records(4)
    said = fingerprints(x, ["a", "b", "a", "b"])
    np.testing.assert_array_equal(said[[0, 2]], fingerprints(x[[0, 2]], np.array(["a", "a"])))


def test_people_by_name():
    assert (
        prints_of_names(["anna", "ben"], 2).tolist()
        == prints_of_names(np.array(["anna", "ben"]), 2).tolist()
    )
    assert prints_of_names([1, 2], 2).tolist() == prints_of_names(np.array([1.0, 2.0]), 2).tolist()
    for wrong in (["anna"], ["anna", "anna"], [["anna", "ben"]]):
        with pytest.raises(ValueError, match="people must hold a name of its own"):
            prints_of_names(wrong, 2)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.one_of(st.integers(), st.text()), min_size=1, max_size=20))
def test_two_names_are_one_person_only_if_they_are_spelt_alike(names):
    """hash(-1) == hash(-2) in Python: a digest tells them apart."""
    cells = np.fromiter(names, dtype=object, count=len(names))
    if len({str(name) for name in names}) < len(names):
        with pytest.raises(ValueError, match="people must hold a name of its own"):
            prints_of_names(cells, len(names))
    else:
        assert len(set(prints_of_names(cells, len(names)).tolist())) == len(names)


def test_numbers_that_python_hashes_alike_are_two():
    assert len(set(prints_of_names([-1, -2], 2).tolist())) == 2
    assert len(set(fingerprints(np.ones((2, 3)), [-1, -2]).tolist())) == 2
    for wrong in ([0.5, 1.0], [None, 1], [float("nan"), 1.0], [b"a", b"b"]):
        with pytest.raises(ValueError, match="people must hold texts or whole numbers"):
            prints_of_names(np.array(wrong, dtype=object), 2)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(hnp.arrays(np.float64, (5, 3), elements=st.floats(allow_nan=False)))
def test_a_copy_of_less_precision_is_the_same_record(x):
    with np.errstate(over="ignore"):
        short = x.astype(np.float32)
    y = np.arange(5)
    np.testing.assert_array_equal(fingerprints(x, y), fingerprints(short, y))
    np.testing.assert_array_equal(fingerprints(sp.csr_array(x), y), fingerprints(short, y))
