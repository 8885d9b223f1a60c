"""What a device sends for its features: vectors of float32 and of norm at most 1, bit for bit the
same in Python and in a browser: rows of `pdml.encoding.scaling` and `pdml.encoding.maps`, each
entry rounded to float32.

Only + - · / √ and comparisons in IEEE double precision, each rounded correctly, in a fixed order:
no library decides about a bit (+ 0 turns -0 into 0). The margin 2^-20 outweighs the roundings to
float32 (2^-24 each), so that the norm is at most 1 in whatever order it is summed. Dividing by the
last entry gives the entries back, so that people see what they answered.
"""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import IntArray
from pdml.encoding import scaling
from pdml.encoding.encoder import Attribute, Encoder, Number
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.label_flip import MILLION, flip_labels
from pdml.mechanisms.randomness import SecureStream, Stream
from pdml.numerics import coded_rows
from pdml.numerics.coded_rows import Block
from pdml.tables import Table, number, quote, quote_names

_CHUNK = 16_384  # rows in double precision at a time


def encode(
    encoder: Encoder, answers: Mapping[str, object], draws: Sequence[tuple[int, int]] = ()
) -> NDArray[np.float32]:
    """One person's features, shape (d,), d = n_features + 1.

    ``draws``: each sensitive answer randomised, (level, ε in millionths); no true one is looked at.
    """
    if len(draws) != len(encoder.sensitive):
        raise InvalidInput(
            f"draws must hold one level and epsilon for each of {len(encoder.sensitive)} sensitive "
            f"attributes, got {len(draws)}: their answers must not leave as they are"
        )
    questions = encoder.clear
    names = [attribute.name for attribute in questions]
    if missing := [name for name in names if name not in answers]:
        raise DataError(f"every question must be answered, got no answer to {quote_names(missing)}")
    every = [attribute.name for attribute in encoder.attributes]
    if unknown := [name for name in answers if name not in every]:
        raise DataError(
            "answers must be to the study's questions, got "
            f"{quote_names(list(map(str, unknown)))}: they are {quote_names(every)}"
        )
    columns = [
        np.array([answer(question, answers[question.name]) if question.epsilon is None else 0.0])
        for question in encoder.attributes
    ]
    rows, _ = encoder.rows(encoder.numbers(columns, np.array([draws])))
    return np.asarray(rows[0], dtype=np.float32)


def draw(
    encoder: Encoder, positions: IntArray, millionths: IntArray, stream: Stream
) -> NDArray[np.int64]:
    """Sensitive answers randomised, (people, attributes, 2): levels, and ε in millionths.

    Guarantees
    ----------
    - Each answer is ε-LDP with its own ε and randomness of its own.
    """
    draws = np.empty((*positions.shape, 2), dtype=np.int64)
    for k, attribute in enumerate(encoder.sensitive):
        epsilons = millionths[:, k] / MILLION
        levels = flip_labels(positions[:, k], epsilons, len(attribute.choices), stream)
        draws[:, k, 0], draws[:, k, 1] = levels, millionths[:, k]
    return draws


def encode_table(
    encoder: Encoder, table: Table, stream: Stream | None = None
) -> NDArray[np.float32]:
    """The same bits for every row of a table, shape (m, d).

    Sensitive answers are randomised here, with the ε that each menu suggests, and by default with
    randomness of the operating system.
    """
    features = np.empty((table.n_rows, encoder.n_features + 1), dtype=np.float32)
    columns = encoder.read_answers(table)
    draws = _by_default(encoder, columns, stream or SecureStream())
    for start in range(0, table.n_rows, _CHUNK):
        part = slice(start, start + _CHUNK)
        numbers = encoder.numbers([column[part] for column in columns], draws[part])
        features[part], _ = encoder.rows(numbers)
    return features


def _by_default(
    encoder: Encoder, columns: Sequence[NDArray[Any]], stream: Stream
) -> NDArray[np.int64]:
    """Draws of everybody with what each menu suggests."""
    answers = {
        attribute.name: values
        for attribute, values in zip(encoder.attributes, columns, strict=True)
    }
    positions = np.empty((len(columns[0]), len(encoder.sensitive)), dtype=np.int64)
    millionths = np.empty_like(positions)
    for k, attribute in enumerate(encoder.sensitive):
        assert attribute.epsilon is not None
        positions[:, k] = attribute.position(answers[attribute.name])
        millionths[:, k] = round(attribute.epsilon.default * MILLION)
    return draw(encoder, positions, millionths, stream)


def decode(encoder: Encoder, features: NDArray[Any]) -> dict[str, float | str | None]:
    """The answers behind a report's features, numbers to 6 digits of their range: the inverse that
    people are shown. None where there is no answer."""
    row = np.asarray(features, dtype=np.float64)
    if row.shape != (width := encoder.n_features + 1,):
        raise InvalidInput(f"features must be a vector of {width} entries, got shape {row.shape}")
    return encoder.decode(scaling.unscale(row, encoder.mass))


def read_draws(encoder: Encoder, features: NDArray[Any]) -> tuple[tuple[int, int], ...]:
    """The reported level and ε in millionths of each sensitive answer, read back from features."""
    row = np.asarray(features, dtype=np.float32)
    levels = (int(np.argmax(row[block.columns])) for block in encoder.blocks)
    return tuple(zip(levels, read_epsilons(encoder, row[None])[0].tolist(), strict=True))


def read_epsilons(encoder: Encoder, rows: NDArray[np.float32]) -> IntArray:
    """The ε in millionths that people chose for each sensitive answer, read back from their
    features, (people, attributes)."""
    epsilons = np.empty((len(rows), len(encoder.sensitive)), dtype=np.int64)
    for k, (attribute, block) in enumerate(zip(encoder.sensitive, encoder.blocks, strict=True)):
        assert attribute.epsilon is not None
        epsilons[:, k] = match_epsilons(block, attribute.epsilon.millionths, rows)
        if not epsilons[:, k].all():
            raise DataError(
                f"the features of {attribute.name!r} must be the code of a level at an epsilon of "
                "its menu"
            )
    return epsilons


def match_epsilons(block: Block, menu: Sequence[int], rows: NDArray[np.float32]) -> IntArray:
    """The ε of a menu whose code each row holds, to the bit, in millionths; 0 where it is none, and
    of several that look the same the largest."""
    part = rows[:, block.columns]
    others = np.arange(block.levels) != part.argmax(axis=1)[:, None]
    epsilons = np.zeros(len(part), dtype=np.int64)
    for micro in menu:
        peak, other = code_of(block, micro)
        epsilons[np.where(others, part == other, part == peak).all(axis=1)] = micro
    return epsilons


def code_of(block: Block, micro: int) -> tuple[np.float32, np.float32]:
    """The two entries of a code: of the level that is reported, and of every other."""
    loud = coded_rows.weight(micro, block.levels)
    share = 1.0 / block.levels
    peak = ((1.0 - share) * loud + 0.0) * block.scale
    other = ((0.0 - share) * loud + 0.0) * block.scale
    return np.float32(peak), np.float32(other)


def answer(attribute: Attribute, value: object) -> float:
    """One answer as tables are read (`Number.read`, `Category.read`): a number within its range,
    NaN for no answer; or the position of a level. None is no answer."""
    if value is None and attribute.missing:
        return math.nan if isinstance(attribute, Number) else len(attribute.levels)
    if isinstance(attribute, Number):
        reading = _finite(attribute.name, value)
        if attribute.whole and not reading.is_integer():
            must = f"{attribute.name!r} must be a whole number, without a fraction"
            raise DataError(f"{must}, got {reading:.17g}")
        return min(max(reading, attribute.low), attribute.high)
    level = value.strip() if isinstance(value, str) else value
    if level not in attribute.levels:
        raise DataError(
            f"{attribute.name!r} must be one of {quote_names(attribute.levels)}, got {quote(value)}"
        )
    return attribute.levels.index(level)


def _finite(name: str, value: object) -> float:
    """A finite float from a number, or from text as in a table's cell."""
    kind = isinstance(value, (str, Real)) and not isinstance(value, (bool, np.bool_))
    result = number(value) if kind else None
    if result is None or not math.isfinite(result):
        raise DataError(f"{name!r} must be a finite number, got {_format_value(value)}")
    return result


def _format_value(value: object) -> str:
    try:
        return quote(value)
    except ValueError:  # Python does not print numbers of thousands of digits
        return "a huge number"
