"""Records recognised by their values in the memory of one process. A fingerprint has 64 bits: of a
million records two different ones have the same with a chance of 3·10⁻⁸. Its key is drawn anew in
every process, so that nobody can prepare two records, or two names, that are taken for one.
"""

import os
from hashlib import blake2b
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from pdml._types import IntArray
from pdml.errors import InvalidInput

_KEY = os.urandom(32)
_AT_ONCE = 1 << 20  # numbers
_SKETCH = 64  # fingerprints by which two fits are compared
_FEW = 8  # of them in common: folds share more
_SKETCHES = 16  # fits that are remembered
UNCOUNTED = (
    "Clones of a classifier were fitted on the same records, and each ledger counts its own fit "
    "alone. Open a pdml.PrivacyLedgerSession around them."
)


def fingerprints(x: Any, y: Any) -> IntArray:
    """One number for each record with its label, in whatever storage; values are compared as
    float32, so that a copy of less precision is the same record.
    """
    if not sp.issparse(x):
        x = _table(x)
    if x.dtype == object:
        pairs = zip(label_prints(y).tolist(), x.tolist(), strict=True)
        texts = (repr(pair).encode("utf-8", "surrogatepass") for pair in pairs)
        return np.array([_number(text) for text in texts], dtype=np.int64)
    prints, whole = label_prints(y), sp.csr_array(x) if sp.issparse(x) else x
    step = max(1, _AT_ONCE // max(1, x.shape[1]))
    for start in range(0, len(prints), step):
        part = _single(whole[start : start + step])
        cells = np.empty(part.nnz, dtype=[("column", "<i4"), ("value", "<f4")])
        cells["column"], cells["value"] = part.indices, part.data
        ends, content = part.indptr.tolist(), cells.tobytes()
        spans = zip(prints[start : start + step].tolist(), pairwise(ends), strict=True)
        prints[start : start + step] = [
            _number(label.to_bytes(8, "little", signed=True) + content[8 * a : 8 * b])
            for label, (a, b) in spans
        ]
    return prints


def prints_of_names(people: Any, records: int) -> IntArray:
    """The same by names or numbers of people."""
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
    prints = label_prints(names)
    if len(np.unique(prints)) < records:
        raise InvalidInput(
            f"people must hold a name of its own for each record ({records} of them), got "
            f"{len(np.unique(prints))} different ones",
            setting="people",
        )
    return prints


def label_prints(y: Any) -> IntArray:
    """One number for each label: the same for the same; 1, 1.0, True and the text "1" are one."""
    names = np.asarray(y).ravel().tolist()
    digests = {name: _digest(name) for name in set(names)}
    return np.array([digests[name] for name in names], dtype=np.int64)


def _digest(name: Any) -> int:
    whole = isinstance(name, (int, float)) and float(name).is_integer()
    text = str(int(name)) if whole else str(name)
    return _number(text.encode("utf-8", "surrogatepass"))


def _number(content: bytes) -> int:
    digest = blake2b(content, digest_size=8, key=_KEY).digest()
    return int.from_bytes(digest, "little", signed=True)


def _table(x: Any) -> Any:
    """An array of numbers, or of objects where some are none."""
    whole = np.asarray(x)
    whole = whole[:, None] if whole.ndim == 1 else whole
    try:
        return whole if whole.dtype.kind in "biuf" else whole.astype(float)
    except (TypeError, ValueError):
        return whole.astype(object)


def _single(values: Any) -> Any:
    """In single precision and without zeros, whatever the storage."""
    part = sp.csr_array(values, copy=True)
    part.sum_duplicates()
    with np.errstate(over="ignore", under="ignore"):
        part = part.astype(np.float32)
    part.eliminate_zeros()
    part.data[np.isnan(part.data)] = np.nan  # of which there are many in bits
    return part


class RefitMonitor:
    """Notices clones that are fitted on the same records while no session adds them up."""

    def __init__(self) -> None:
        self._sketches: list[IntArray] = []
        self._lock = Lock()

    def notice(self, prints: IntArray) -> bool:
        """Whether one of the last clones was fitted on records with these fingerprints too."""
        sketch = np.unique(prints)[:_SKETCH]
        with self._lock:
            again = any(
                len(np.intersect1d(sketch, other, assume_unique=True)) >= min(_FEW, len(sketch))
                for other in self._sketches
            )
            self._sketches = [*self._sketches, sketch][-_SKETCHES:]
        return again


REFITS = RefitMonitor()  # of this process
