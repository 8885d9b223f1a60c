"""What a device sends for its features: unit vectors of float32, bit for bit the same in Python and
in a browser.

    e_k = (clamp(v, low, high) - low)/(high - low) + 0, or 0 and 1 for a level; then a constant 1 as
    the last entry;
    s   = ((e_1² + e_2²) + e_3²) + ...              in float64, from left to right;
    x_k = float32(e_k · ((1 - 2^-20)/√s)).

Only + - · / and √ in IEEE double precision, each rounded correctly, in a fixed order: no library
decides about a bit (+ 0 turns -0 into 0). As s ≥ 1, nothing overflows. The margin 2^-20 outweighs
the roundings to float32 (2^-24 each), so that the norm is at most 1 in whatever order it is summed.
Dividing by the last entry gives e back, because float32 is monotone and 0 and 1 stay exact: people
see what they answered.
"""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml.errors import DataError, InvalidInput
from pdml.study.encoder import Attribute, Encoder, Number
from pdml.tables import Table, listed, number, shown

MARGIN = 1 - 2.0**-20  # the norm of every report, up to rounding
_CHUNK = 16_384  # rows in double precision at a time


def encode(encoder: Encoder, answers: Mapping[str, object]) -> NDArray[np.float32]:
    """One person's features, shape (d,), d = n_features + 1."""
    names = [attribute.name for attribute in encoder.attributes]
    if missing := [name for name in names if name not in answers]:
        raise DataError(f"every question must be answered, got no answer to {listed(missing)}")
    if unknown := [name for name in answers if name not in names]:
        raise DataError(
            "answers must be to the study's questions, got "
            f"{listed(list(map(str, unknown)))}: they are {listed(names)}"
        )
    row: list[float] = []
    for attribute in encoder.attributes:
        row += entries(attribute, answers[attribute.name])
    row.append(1.0)
    total = 0.0
    for entry in row:
        total += entry * entry
    factor = MARGIN / math.sqrt(total)
    return np.array([entry * factor for entry in row], dtype=np.float32)


def encode_table(encoder: Encoder, table: Table) -> NDArray[np.float32]:
    """The same bits for every row of a table, shape (m, d)."""
    values, placed = encoder.placed(table)
    features = np.empty((table.n_rows, encoder.n_features + 1), dtype=np.float32)
    for start in range(0, table.n_rows, _CHUNK):
        part = slice(start, start + _CHUNK)
        dense = np.zeros((len(values[part]), encoder.n_features))
        np.put_along_axis(dense, placed[part], values[part] + 0.0, axis=1)
        total = np.zeros(len(dense))
        for column in dense.T:  # numpy's own sums reorder; one column after the other does not
            total += column * column
        total += 1.0
        factor = MARGIN / np.sqrt(total)
        features[part, :-1] = dense * factor[:, None]
        features[part, -1] = factor
    return features


def decode(encoder: Encoder, features: NDArray[Any]) -> dict[str, float | str]:
    """The answers behind a report's features, numbers to 6 digits of their range: the inverse that
    people are shown.
    """
    row = np.asarray(features, dtype=np.float64)
    if row.shape != (width := encoder.n_features + 1,):
        raise InvalidInput(f"features must be a vector of {width} entries, got shape {row.shape}")
    if not (np.isfinite(row).all() and row[-1] > 0):
        raise InvalidInput(
            "features must be finite and end with a positive constant: that is what "
            "everything is measured by"
        )
    return encoder.decode(row[:-1] / row[-1], single=True)


def entries(attribute: Attribute, value: object) -> list[float]:
    """The e_k of one answer; what is no answer to the question is a `DataError`."""
    if isinstance(attribute, Number):
        given = _finite(attribute.name, value)
        if attribute.whole and not given.is_integer():
            must = f"{attribute.name!r} must be a whole number, without a fraction"
            raise DataError(f"{must}, got {given:.17g}")
        inside = (
            attribute.low
            if given < attribute.low
            else attribute.high
            if given > attribute.high
            else given
        )
        return [(inside - attribute.low) / (attribute.high - attribute.low) + 0.0]
    level = value.strip() if isinstance(value, str) else value
    if level not in attribute.levels:
        raise DataError(
            f"{attribute.name!r} must be one of {listed(attribute.levels)}, got {shown(value)}"
        )
    return [1.0 if level == other else 0.0 for other in attribute.levels]


def _finite(name: str, value: object) -> float:
    """A finite float from a number, or from text as in a table's cell."""
    kind = isinstance(value, (str, Real)) and not isinstance(value, (bool, np.bool_))
    found = number(value) if kind else None
    if found is None or not math.isfinite(found):
        raise DataError(f"{name!r} must be a finite number, got {_shown(value)}")
    return found


def _shown(value: object) -> str:
    try:
        return shown(value)
    except ValueError:  # Python does not print numbers of thousands of digits
        return "a huge number"
