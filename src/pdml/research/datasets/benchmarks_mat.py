"""Rätsch's benchmarks.mat, turned into the CSV files that `raetsch` reads, to the byte.

The file holds one structure per set: ``x`` (rows x features), ``t`` (labels ±1), and the indices
``train`` and ``test`` of the published splits, which are not used here.
"""

import io
from collections.abc import Mapping, Sequence

import numpy as np

from pdml._types import Array
from pdml.errors import DataError


def tables(content: bytes, names: Sequence[str]) -> Mapping[str, bytes]:
    """The CSV of each named set in a benchmarks.mat."""
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
