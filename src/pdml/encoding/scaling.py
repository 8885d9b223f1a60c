"""From declared numbers and categories to rows of norm at most 1 (docs/concepts/encoding.md).

    number    e = clip((v - average)/spread, ±3): most people lie within average ± spread;
    category  e_l = 1 - 1/L for the level that was chosen and -1/L for the other L - 1;
    row       x = (e · SIZE/√mass, CONSTANT), clipped to norm 1 where it is longer;
    codes     of randomised answers have a scale of their own, and leave the rest of the row, which
              alone is clipped, so much less of the norm (`pdml.numerics.coded_rows`).

An entry's mass is its expected square where the declarations are about right: 1 for a number. So a
typical row has a norm of about SIZE before its constant is appended, however many columns it has,
and nothing points the same way in all rows but the constant. Every step looks at one record and at
public settings only.

Only + - · / √ min max in IEEE double precision, in a fixed order (sums run from left to right), so
that a device computes the same bits in any language. NumPy alone is needed.

**Declarations taken from records.** A column's minimum and maximum are the values of single people.
What is published of them, and of its mean, keeps two digits of the column's width or deviation: the
ends of a range are rounded outwards, so that it still holds every record. That is no noise: who is
extreme is known to that accuracy, and a value that lies on the grid (an age in whole years) stays
what it was. Decimal arithmetic is exact here, and the step to doubles is monotone: `low <= x`
before it holds after it.
"""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, IntArray
from pdml.errors import InvalidInput
from pdml.numerics.coded_rows import CONSTANT as CONSTANT
from pdml.numerics.coded_rows import MARGIN as MARGIN
from pdml.numerics.coded_rows import Block

LIMIT = 3.0  # no entry is farther from 0: one odd value must not push out all others
SIZE = 1.5  # the norm of a typical row without its constant, before it is clipped
NUMBER_MASS = 1.0  # the expected square of a number's entry
WIDTH = 2 * LIMIT  # of a declared range in spreads, where nothing else is declared of a number
_DIGITS = 2  # of a width or deviation
_MOST = 14  # of any number: a grid as fine as doubles are would hide nobody
_EXACT = Context(prec=2000)  # a double has at most 767 digits, and two lie 632 powers of ten apart


def of_range(low: float, high: float) -> tuple[float, float]:
    """(average, spread) of a number of which only the range is declared."""
    return low / 2 + high / 2, high / WIDTH - low / WIDTH


def checked(name: str, average: Any, spread: Any) -> tuple[float, float]:
    """A declared scale as two floats."""
    largest = 1e300
    return (
        _validate.real(f"average of {name!r}", average, low=-largest, high=largest),
        _validate.real(f"spread of {name!r}", spread, low=0, high=largest, open_low=True),
    )


def standardised(values: NDArray[Any], average: Any, spread: Any) -> Array:
    """clip((v - average)/spread, ±3)."""
    with np.errstate(over="ignore"):  # what is too large for a double is clipped like the rest
        far = (np.asarray(values, dtype=np.float64) - average) / spread
    return np.asarray(np.minimum(np.maximum(far, -LIMIT), LIMIT) + 0.0)  # + 0 turns -0 into 0


def original(entries: NDArray[Any], average: Any, spread: Any) -> Array:
    """The values behind entries: the inverse of `standardised` for whatever it did not clip."""
    return np.asarray(average + np.asarray(entries, dtype=np.float64) * spread)


def centred(codes: IntArray, levels: int) -> Array:
    """One row (levels,) for each code: 1 - 1/L where the level was chosen, else -1/L."""
    share = 1.0 / levels
    chosen = np.asarray(codes)[:, None] == np.arange(levels)
    return np.where(chosen, 1.0 - share, 0.0 - share) + 0.0


def level_mass(levels: int) -> float:
    """The expected square of each of a category's L entries, if all levels are as frequent:
    (L - 1)/L²."""
    return (levels - 1) / (levels * levels)


def room(blocks: Sequence[Block]) -> float:
    """The longest that a row may be beside codes of randomised answers."""
    left = 1.0
    for block in blocks:
        left -= (block.length / MARGIN) * (block.length / MARGIN)
    return MARGIN * sqrt(max(left, 0.0))


def typical_constant(
    mass: float, clear: float | None = None, blocks: Sequence[Block] = ()
) -> float:
    """The constant of a row whose entries are as large as is expected of them."""
    entries = row_factor(mass) ** 2 * (mass if clear is None else clear)
    return CONSTANT * min(1.0, room(blocks) / sqrt(entries + CONSTANT * CONSTANT))


def row_factor(mass: float) -> float:
    """What all entries of a row are multiplied by: SIZE/√mass, and 1 without any mass."""
    return float(SIZE / np.sqrt(mass)) if mass > 0 else 1.0


def unscale(row: NDArray[Any], mass: float) -> Array:
    """The entries behind a row with its constant: inverts `row_steps`, up to rounding."""
    return np.asarray(shares(row) * (CONSTANT / row_factor(mass)))


def shares(row: NDArray[Any]) -> Array:
    """A row in units of its last entry, the constant, which is left out."""
    entries = np.asarray(row, dtype=np.float64)
    if not (np.isfinite(entries).all() and entries[-1] > 0):
        raise InvalidInput(
            "features must be finite and end with a positive constant: that is what "
            "everything is measured by"
        )
    return np.asarray(entries[:-1] / entries[-1])


def round_range(low: float, high: float) -> tuple[float, float]:
    """The smallest interval with ends on the grid that holds [low, high]."""
    below, above = _decimal(low), _decimal(high)
    if below == above:  # a constant column needs a range, too; its value is near the middle
        half = max(Decimal("0.5"), _EXACT.divide(below.copy_abs(), Decimal(2)))
        below, above = _EXACT.subtract(below, half), _EXACT.add(above, half)
    width = _EXACT.subtract(above, below)
    grid = _grid(width, max(below.copy_abs(), above.copy_abs()))
    return _on(grid, below, ROUND_FLOOR), _on(grid, above, ROUND_CEILING)


def round_scale(average: float, spread: float, low: float, high: float) -> tuple[float, float]:
    """A column's mean and deviation for publication."""
    if low == high:
        return of_range(*round_range(low, high))
    lowest, highest = _decimal(low), _decimal(high)
    width = _EXACT.subtract(highest, lowest)
    most, least = (_EXACT.divide(width, Decimal(part)) for part in (2, WIDTH))
    size = min(_decimal(spread), most) or least  # 0 where squares underflow
    middle = min(max(_decimal(average), lowest), highest)  # a mean is rounded
    return _on(_grid(size, middle.copy_abs()), middle, ROUND_HALF_EVEN), _round_up(size)


def round_up(value: float) -> float:
    """A positive number with two digits that is not smaller."""
    return _round_up(_decimal(value))


def _round_up(size: Decimal) -> float:
    return _on(_grid(size, size), size, ROUND_CEILING)


def _decimal(value: float) -> Decimal:
    """Exactly this double."""
    if not isfinite(value):
        raise InvalidInput(
            "columns whose ranges or scales are taken from the data must hold finite numbers, got "
            "one with another"
        )
    return Decimal(float(value))


def _grid(size: Decimal, largest: Decimal) -> Decimal:
    """The step between neighbours on the grid of two digits of ``size``."""
    exponent = size.adjusted() - _DIGITS + 1
    if largest:
        exponent = max(exponent, largest.adjusted() - _MOST + 1)
    return Decimal((0, (1,), exponent))


def _on(grid: Decimal, value: Decimal, rounding: str) -> float:
    return float(value.quantize(grid, rounding=rounding, context=_EXACT)) + 0.0
