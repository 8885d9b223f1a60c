"""Numbers taken from records, rounded for publication.

A column's minimum, maximum and median are the values of single people. What is published of them
keeps two digits of the column's width or deviation: the ends of a range are rounded outwards, so
that it still holds every record. That is no noise: who is extreme is known to that accuracy, and a
value that lies on the grid (an age in whole years) stays what it was.

Decimal arithmetic is exact here, and the step to doubles is monotone: `low <= x` before it holds
after it.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from math import isfinite

from pdml.encoding import scaling
from pdml.errors import InvalidInput

_DIGITS = 2  # of a width or deviation
_MOST = 14  # of any number: a grid as fine as doubles are would hide nobody
_EXACT = Context(prec=2000)  # a double has at most 767 digits, and two lie 632 powers of ten apart


def round_range(low: float, high: float) -> tuple[float, float]:
    """The smallest interval with ends on the grid that holds [low, high]."""
    below, above = _decimal(low), _decimal(high)
    if below == above:  # a constant column needs a range, too; its value is near the middle
        half = max(Decimal("0.5"), _EXACT.divide(below.copy_abs(), Decimal(2)))
        below, above = _EXACT.subtract(below, half), _EXACT.add(above, half)
    width = _EXACT.subtract(above, below)
    grid = _grid(width, max(below.copy_abs(), above.copy_abs()))
    return _on(grid, below, ROUND_FLOOR), _on(grid, above, ROUND_CEILING)


def round_scale(typical: float, spread: float, low: float, high: float) -> tuple[float, float]:
    """A column's median and deviation for publication."""
    if low == high:
        return scaling.of_range(*round_range(low, high))
    width = _EXACT.subtract(_decimal(high), _decimal(low))
    most, least = (_EXACT.divide(width, Decimal(part)) for part in (2, scaling.WIDTH))
    size = min(_decimal(spread), most) or least  # 0 where squares underflow
    middle = _decimal(typical)
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
