"""What is published of a column's minimum, maximum, mean and deviation."""

from decimal import Context, Decimal
from math import inf, isfinite, log10, nan

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pdml.encoding.scaling import round_range, round_scale, round_up
from pdml.errors import InvalidInput

EXACT = Context(prec=2000)
finite = st.floats(-1e307, 1e307)  # whatever is larger may have no double beyond it
offset = st.builds(
    lambda base, steps, step: (base, base + steps * step),
    st.floats(-1e12, 1e12),
    st.integers(1, 10_000),
    st.sampled_from([1e-6, 0.01, 1.0, 1234.5]),
)


def digits(value: Decimal) -> int:
    """How many stand between the first and the last that is not 0."""
    return len(str(value.normalize(EXACT)).lstrip("-").split("E")[0].replace(".", "").strip("0"))


def grid_of(low: float, high: float) -> Decimal:
    """Two digits of the width, but at most fourteen of the larger end."""
    width = EXACT.subtract(Decimal(high), Decimal(low))
    largest = max(abs(Decimal(low)), abs(Decimal(high)))
    return Decimal((0, (1,), max(width.adjusted() - 1, largest.adjusted() - 13)))


def nearest(value: float, grid: Decimal) -> Decimal:
    return Decimal(value).quantize(grid, context=EXACT)


@given(st.one_of(st.tuples(finite, finite), offset))
@example((435839765.7336764, 435839765.7493014))
@example((0.0, 5e-324))
@example((-5e-324, 1e307))
@example((1.0, float(np.nextafter(1.0, 2.0))))
@example((-987654.32, -12345.67))
@example((12345.67, 987654.32))
def test_a_range_holds_the_data_on_a_grid_of_two_digits(ends: tuple[float, float]) -> None:
    low, high = sorted(ends)
    assume(low < high)
    below, above = round_range(low, high)
    assert below <= low < high <= above
    grid = grid_of(low, high)
    for found, end in ((below, low), (above, high)):
        assert found == float(nearest(found, grid))  # the double next to a point of the grid
        assert EXACT.subtract(nearest(found, grid), Decimal(end)).copy_abs() < grid
        # somebody's own value stands there only where anybody would write it so
        assert found != end or end == float(nearest(end, grid))


@given(st.one_of(st.tuples(finite, finite), offset))
def test_the_width_of_a_range_has_two_digits_and_a_carry(ends: tuple[float, float]) -> None:
    low, high = sorted(ends)
    assume(low < high)
    grid = grid_of(low, high)
    below, above = (nearest(end, grid) for end in round_range(low, high))
    steps = EXACT.divide(EXACT.subtract(above, below), grid)
    assert steps == int(steps)
    assert 1 <= steps <= 101  # 99 and a part at either end


@pytest.mark.parametrize(
    ("ends", "published"),
    [
        ((12345.67, 987654.32), (10000.0, 990000.0)),
        ((-987654.32, -12345.67), (-990000.0, -10000.0)),
        ((435839765.7336764, 435839765.7493014), (435839765.733, 435839765.75)),
        ((2001.0, 2020.0), (2001.0, 2020.0)),  # on the grid
        ((0.0, 43210.99), (0.0, 44000.0)),
        ((-0.0, 1.0), (0.0, 1.0)),
        ((7.0, 7.0), (3.5, 10.5)),
        ((0.0, 0.0), (-0.5, 0.5)),
        ((435839765.73, 435839765.73), (210000000.0, 660000000.0)),
    ],
)
def test_ranges(ends: tuple[float, float], published: tuple[float, float]) -> None:
    assert round_range(*ends) == published


@given(finite)
@example(5e-324)
@example(435839765.73)
def test_a_constant_lies_near_the_middle(value: float) -> None:
    low, high = round_range(value, value)
    assert low < value < high
    assert (value - low) / (high - low) == pytest.approx(0.5, abs=0.06)
    average, spread = round_scale(value, 1e-17, value, value)  # a deviation that is rounding alone
    assert abs(value - average) < spread


@given(st.lists(st.floats(-1e150, 1e150), min_size=2, max_size=9))
@example([435839765.7336764, 435839765.74, 435839765.7493014])
@example([0.0, 1e-200])  # its squares are no doubles
@example([0.0, 5e-324])
@example([1.0, float(np.nextafter(1.0, 2.0))])
def test_a_scale_lies_in_the_range_and_has_two_digits(values: list[float]) -> None:
    low, high = min(values), max(values)
    assume(low < high)
    mean, deviation = min(max(float(np.mean(values)), low), high), float(np.std(values))
    average, spread = round_scale(mean, deviation, low, high)
    below, above = round_range(low, high)
    assert below <= average <= above
    assert 0 <= spread <= above - below
    if high - low < 1e-300:  # doubles have no digits left: callers refuse such a spread
        return
    assert spread > 0
    two = Decimal(repr(spread))
    assert digits(two) <= 2
    assert spread >= min(deviation, high / 2 - low / 2)
    assert spread <= 1.1000001 * max(deviation, high / 6 - low / 6)
    grid = max(
        Decimal((0, (1,), two.adjusted() - 2)),  # where the spread was rounded up to 10
        Decimal((0, (1,), Decimal(mean).adjusted() - 13)) if mean else Decimal(0),
    )
    assert average == float(nearest(average, grid))
    assert abs(average - mean) <= 0.051 * spread + 1e-13 * abs(mean)


def test_scales() -> None:
    assert round_scale(43218.55, 20789.1, 12345.67, 987654.32) == (43000.0, 21000.0)
    assert round_scale(2010.0, 5.77, 2001.0, 2020.0) == (2010.0, 5.8)
    assert round_up(0.123) == 0.13
    assert round_up(99.5) == 100.0


@given(st.floats(1e-300, 1e300))
def test_rounding_up_is_at_most_a_tenth(value: float) -> None:
    found = round_up(value)
    assert value <= found <= value * 1.1000001
    assert digits(Decimal(repr(found))) <= 2
    assert log10(found) >= log10(value)


@pytest.mark.parametrize("wrong", [inf, -inf, nan])
def test_what_is_not_finite_is_refused(wrong: float) -> None:
    for ask in (
        lambda: round_range(wrong, 1.0),
        lambda: round_range(0.0, wrong),
        lambda: round_scale(0.0, wrong, -1.0, 1.0),
        lambda: round_scale(wrong, 1.0, -1.0, 1.0),
        lambda: round_up(wrong),
    ):
        with pytest.raises(InvalidInput, match="must hold finite numbers"):
            ask()
    assert not isfinite(round_range(0.0, 1.79e308)[1])  # callers refuse it by its column
