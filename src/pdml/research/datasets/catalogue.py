"""The data sets of experiments, each one object: how it is read, and where it lives in public, with
the digests that decide whether it is the right thing.
"""

import io
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from pdml._registry import Registry
from pdml._types import Array, IntArray, Matrix
from pdml.errors import DataError
from pdml.research.datasets import adult, raetsch

Unpack = Callable[[bytes], Mapping[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class Address:
    """``unpack`` turns what ``url`` gives into files. ``sha256`` is checked before anything is
    unpacked; None for an archive that may be packed again: there the digests of its files decide.
    """

    url: str
    unpack: Unpack
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Files with their sha256, and ways to get all of them, the best first. Each way is the
    addresses to visit.
    """

    files: Mapping[str, str]
    ways: tuple[tuple[Address, ...], ...]


def plain(url: str, file: str, sha256: str) -> Address:
    """An address that gives the file itself."""
    return Address(url=url, sha256=sha256, unpack=lambda content: {file: content})


def zipped(url: str, files: Collection[str]) -> Address:
    """An address that gives a ZIP archive with these files."""

    def unpack(content: bytes) -> Mapping[str, bytes]:
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                return {file: archive.read(file) for file in files}
        except Exception as error:  # zipfile raises whatever its parsers stumble over
            raise DataError(f"not a ZIP archive with {' and '.join(files)}") from error

    return Address(url=url, unpack=unpack)


def tables(content: bytes, names: Sequence[str]) -> Mapping[str, bytes]:
    """The CSV of each named set in a benchmarks.mat, to the byte as `raetsch` reads it.

    The file holds one structure per set: ``x`` (rows x features), ``t`` (labels ±1), and the
    indices ``train`` and ``test`` of the published splits, which are not used here.
    """
    from scipy.io import loadmat

    try:
        structures = loadmat(io.BytesIO(content), variable_names=list(names))
    except Exception as error:  # loadmat raises whatever its parser stumbles over
        raise DataError(
            "benchmarks.mat must be a MATLAB file, got one that cannot be read: "
            f"{type(error).__name__}"
        ) from error
    return {name: _table(name, structures) for name in names}


def _table(name: str, structures: Mapping[str, Array]) -> bytes:
    try:
        record = structures[name][0, 0]
        X, y = (
            np.asarray(record["x"], dtype=np.float64),
            np.asarray(record["t"], dtype=np.float64).ravel(),
        )
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise DataError(
            f"benchmarks.mat must hold {name} as a structure with x and t, got none"
        ) from error
    if X.ndim != 2 or len(X) != len(y):
        raise DataError(
            f"{name} in benchmarks.mat must have one label per row, got x of {X.shape} and "
            f"{len(y)} labels"
        )
    return csv(X, y)


def csv(X: Array, y: Array) -> bytes:
    """Label first, eight significant digits (as Rätsch published them), rows in lexical order of
    their features, then of their label.

    The order makes the bytes a function of the set of rows alone.
    """
    digits = np.char.mod("%.8g", np.column_stack([y, X]))
    values = digits.astype(np.float64)
    # the last key given is the first compared: x₁, ..., x_d, y
    order = np.lexsort(np.roll(values, -1, axis=1).T[::-1])
    return "".join(",".join(row) + "\n" for row in digits[order].tolist()).encode()


def matlab(content: bytes) -> Mapping[str, bytes]:
    """A CSV per set of Rätsch's benchmarks.mat."""
    return {_csv(name): table for name, table in tables(content, raetsch.NAMES).items()}


def _csv(name: str) -> str:
    return f"raetsch/{name}.csv"


_UCI = "https://archive.ics.uci.edu"
_RAETSCH = "tdiethe/gunnar_raetsch_benchmark_datasets"
_MATLAB = "47c19e4bc4716edc4077cfa5ea61edf4d02af4ec51a0ecfe035626ae8b561c75"

SOURCES: Mapping[str, DataSource] = MappingProxyType(
    {
        "adult": DataSource(
            files=adult.FILES,
            ways=(
                (zipped(f"{_UCI}/static/public/2/adult.zip", adult.FILES),),
                tuple(
                    plain(f"{_UCI}/ml/machine-learning-databases/adult/{file}", file, sha256)
                    for file, sha256 in adult.FILES.items()
                ),
            ),
        ),
        "raetsch": DataSource(
            files={_csv(name): facts.sha256 for name, facts in raetsch.FACTS.items()},
            ways=tuple(
                (Address(url=url, sha256=_MATLAB, unpack=matlab),)
                for url in (
                    f"https://github.com/{_RAETSCH}/raw/master/benchmarks.mat",
                    f"https://raw.githubusercontent.com/{_RAETSCH}/master/benchmarks.mat",
                )
            ),
        ),
    }
)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A set for experiments.

    Parameters
    ----------
    name : str
        What tables and figures call it.
    load : callable
        Nothing -> rows (m, d) without a constant column, and class indices 0 and 1.
    test_records : int
        How many records a random split keeps for tests.
    source : str
        Which of `SOURCES` brings its files; "": it needs none.
    """

    name: str
    load: Callable[[], tuple[Matrix, IntArray]]
    test_records: int
    source: str = ""


_SPLICE = (2.5, 1.25)  # codes 1 to 4 about their middle, from the code book and not from the data
_ADULT_TEST = 15_060  # as many as UCI's own test file


def _load_raetsch(name: str) -> tuple[Array, IntArray]:
    x, y = raetsch.load(name)
    if name == "splice":
        x = (x - _SPLICE[0]) / _SPLICE[1]
    return x, (y > 0).astype(np.int64)


def _load_adult() -> tuple[Matrix, IntArray]:
    raw = adult.load()
    return adult.unit_rows(raw), (raw.y > 0).astype(np.int64)


DATASETS: Registry[Dataset] = Registry(
    "dataset",
    Dataset,
    (
        *(
            Dataset(
                name=name,
                load=partial(_load_raetsch, name),
                test_records=facts.test_rows,
                source="raetsch",
            )
            for name, facts in raetsch.FACTS.items()
        ),
        Dataset(name="adult", load=_load_adult, test_records=_ADULT_TEST, source="adult"),
    ),
)


def register(dataset: Dataset) -> Dataset:
    """Make a data set known to experiments by its name, in this process."""
    return DATASETS.register(dataset)
