"""What a device sends for its features: vectors of float32 and of norm at most 1, bit for bit the
same in Python and in a browser. Version 1 of the encoder:

    e_k = (clamp(v, low, high) - low)/(high - low) + 0, or 0 and 1 for a level; then a constant 1 as
    the last entry;
    s   = ((e_1² + e_2²) + e_3²) + ...              in float64, from left to right;
    x_k = float32(e_k · ((1 - 2^-20)/√s)).

Version 2 is `pdml.core.scaling`, and the maps of `pdml.core.maps`, each entry rounded to float32.

Only + - · / √ and comparisons in IEEE double precision, each rounded correctly, in a fixed order:
no library decides about a bit (+ 0 turns -0 into 0). The margin 2^-20 outweighs the roundings to
float32 (2^-24 each), so that the norm is at most 1 in whatever order it is summed. Dividing by the
last entry gives e back, so that people see what they answered.
"""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml.core import scaling
from pdml.core.scaling import MARGIN
from pdml.errors import DataError, InvalidInput
from pdml.study.encoder import Attribute, Encoder, Number
from pdml.tables import Table, listed, number, shown

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
    if encoder.version > 1:
        given = [
            np.array([answer(attribute, answers[attribute.name])])
            for attribute in encoder.attributes
        ]
        rows, _ = encoder.finished(given)
        return np.asarray(rows[0], dtype=np.float32)
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
    features = np.empty((table.n_rows, encoder.n_features + 1), dtype=np.float32)
    parts = [slice(start, start + _CHUNK) for start in range(0, table.n_rows, _CHUNK)]
    if encoder.version > 1:
        given = encoder.given(table)
        for part in parts:
            features[part], _ = encoder.finished([column[part] for column in given])
        return features
    values, placed = encoder.placed(table)
    for part in parts:
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


def decode(encoder: Encoder, features: NDArray[Any]) -> dict[str, float | str | None]:
    """The answers behind a report's features, numbers to 6 digits of their range: the inverse that
    people are shown. None where there is no answer.
    """
    row = np.asarray(features, dtype=np.float64)
    if row.shape != (width := encoder.n_features + 1,):
        raise InvalidInput(f"features must be a vector of {width} entries, got shape {row.shape}")
    later = encoder.version > 1
    sent = scaling.unfinished(row, encoder.expansion.mass) if later else scaling.shares(row)
    return encoder.decode(sent, single=True)


def entries(attribute: Attribute, value: object) -> list[float]:
    """The e_k of one answer in version 1; what is no answer to the question is a `DataError`."""
    given = answer(attribute, value)
    if isinstance(attribute, Number):
        return [(given - attribute.low) / (attribute.high - attribute.low) + 0.0]
    return [1.0 if k == given else 0.0 for k in range(len(attribute.levels))]


def answer(attribute: Attribute, value: object) -> float:
    """One answer as tables are read (`Number.read`, `Category.read`): a number within its range,
    NaN for no answer; or the position of a level. None is no answer.

    Raises
    ------
    DataError
        For what is no answer to the question.
    """
    if value is None and attribute.missing:
        return math.nan if isinstance(attribute, Number) else len(attribute.levels)
    if isinstance(attribute, Number):
        given = _finite(attribute.name, value)
        if attribute.whole and not given.is_integer():
            must = f"{attribute.name!r} must be a whole number, without a fraction"
            raise DataError(f"{must}, got {given:.17g}")
        return min(max(given, attribute.low), attribute.high)
    level = value.strip() if isinstance(value, str) else value
    if level not in attribute.levels:
        raise DataError(
            f"{attribute.name!r} must be one of {listed(attribute.levels)}, got {shown(value)}"
        )
    return attribute.levels.index(level)


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
