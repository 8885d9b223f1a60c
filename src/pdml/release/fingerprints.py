"""Records recognised by their values, in the memory of one process: nothing here is ever written.

A fingerprint has 64 bits: of a million records two different ones have the same with a chance of
3·10⁻⁸.
"""

import warnings
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml._types import IntArray, Matrix
from pdml.errors import InvalidInput, UncountedTrainingWarning

_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64
_AT_ONCE = 1 << 20  # numbers
_SKETCH = 64  # fingerprints by which two fits are compared
_FEW = 8  # of them in common: folds share more
_REMEMBERED = 16  # fits
UNCOUNTED = (
    "Clones of a classifier were fitted on the same records, as a search or a cross-validation "
    "does: each ledger counts its own fit alone, while what the fits tell adds up. Open a "
    "pdml.PrivacyLedgerSession around them to have it counted."
)

Words = NDArray[np.uint64]


def fingerprints(x: Matrix, y: Any) -> IntArray:
    """One number for each record with its label: the same for the same values, in whatever storage.

    Values are compared as float32 has them, so that a copy of less precision is the same record.

    Parameters
    ----------
    x : matrix
        Records, dense or sparse.
    y : array
        Their labels.

    Returns
    -------
    array of int64
    """
    found = _mixed(_hashes(y))
    columns = _mixed(np.arange(1, x.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    if sp.issparse(x):
        own = sp.csr_array(x)
        cells = _words(own.data) * columns[own.indices]
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(cells, dtype=np.uint64)])
        return _mixed(found + sums[own.indptr[1:]] - sums[own.indptr[:-1]]).view(np.int64)
    step = max(1, _AT_ONCE // max(1, x.shape[1]))
    for start in range(0, len(found), step):
        found[start : start + step] += _words(np.asarray(x[start : start + step])) @ columns
    return _mixed(found).view(np.int64)


def named(people: Any, records: int) -> IntArray:
    """The same of people who have names or numbers of their own.

    Parameters
    ----------
    people : sequence
        One name for each record.
    records : int
        How many there are.

    Returns
    -------
    array of int64

    Raises
    ------
    InvalidInput
        If there are more or fewer, somebody is named twice, or a name is neither text nor a whole
        number.
    """
    names = np.asarray(people)
    if names.shape != (records,):
        raise InvalidInput(
            f"people must hold a name of its own for each record ({records} of them), got "
            f"shape {names.shape}",
            setting="people",
        )
    for name in names.tolist():
        whole = isinstance(name, (int, float)) and name == name and float(name).is_integer()
        if not (whole or isinstance(name, str)):
            raise InvalidInput(
                "people must hold texts or whole numbers, got something else: it cannot be told "
                "whether two of them are one name",
                setting="people",
            )
    prints = _hashes(names).view(np.int64)
    if len(np.unique(prints)) < records:
        raise InvalidInput(
            f"people must hold a name of its own for each record ({records} of them), got "
            f"{len(np.unique(prints))} different ones",
            setting="people",
        )
    return prints


def label_prints(y: Any) -> IntArray:
    """One number for each label: the same for the same label.

    Parameters
    ----------
    y : array
        Names or numbers.

    Returns
    -------
    array of int64
    """
    return _hashes(y).view(np.int64)


def _hashes(values: Any) -> Words:
    """Digests of names and numbers: 1, 1.0, True and the text "1" are one."""
    names = np.asarray(values).ravel().tolist()
    digests = {name: _digest(name) for name in set(names)}
    return np.array([digests[name] for name in names], dtype=np.uint64)


def _digest(name: Any) -> int:
    whole = isinstance(name, (int, float)) and float(name).is_integer()
    text = str(int(name)) if whole else str(name)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _words(values: NDArray[Any]) -> Words:
    """Of each number; zeros are nothing, as in a sparse matrix."""
    with np.errstate(over="ignore", under="ignore"):
        near = np.ascontiguousarray(values, dtype=np.float32)
    words = near.view(np.uint32).astype(np.uint64)
    return np.where(near == 0, np.uint64(0), _mixed(words))


def _mixed(values: Words) -> Words:
    """Every bit of the result depends on every bit of the value."""
    add, first, second = map(np.uint64, _MIX)
    found = values + add
    found = (found ^ (found >> np.uint64(30))) * first
    found = (found ^ (found >> np.uint64(27))) * second
    return np.asarray(found ^ (found >> np.uint64(31)))


class Uncounted:
    """Notices that clones are fitted on the same records while nobody adds up, and warns once."""

    def __init__(self) -> None:
        self._sketches: list[IntArray] = []
        self._warned, self._lock = False, Lock()

    def notice(self, prints: IntArray) -> None:
        """A clone is about to be fitted on records with these fingerprints.

        Parameters
        ----------
        prints : array
            As `fingerprints` gives them.
        """
        sketch = np.unique(prints)[:_SKETCH]
        with self._lock:
            again = any(
                len(np.intersect1d(sketch, other, assume_unique=True)) >= min(_FEW, len(sketch))
                for other in self._sketches
            )
            self._sketches = [*self._sketches, sketch][-_REMEMBERED:]
            warn, self._warned = again and not self._warned, again or self._warned
        if warn:
            warnings.warn(UNCOUNTED, UncountedTrainingWarning, stacklevel=4)


IN_THIS_PROCESS = Uncounted()
