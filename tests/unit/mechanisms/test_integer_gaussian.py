"""Noise in whole numbers: the right distribution, and no other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from pdml.errors import InvalidInput
from pdml.mechanisms import integer_gaussian
from pdml.mechanisms.randomness import Secure, Simulated

sums = hnp.arrays(float, 7, elements=st.floats(-(2.0**28), 2.0**28))


@given(sums)
def test_settling_moves_each_sum_by_at_most_half_a_unit(values):
    units = integer_gaussian.quantize(values)
    assert units.dtype == np.int64
    assert np.abs(integer_gaussian.dequantize(units) - values).max() <= integer_gaussian.UNIT / 2


@given(sums, sums)
def test_settling_adds_at_most_its_shift_to_a_distance(one, other):
    apart = np.linalg.norm(one - other)
    found = np.linalg.norm(
        integer_gaussian.dequantize(
            integer_gaussian.quantize(one) - integer_gaussian.quantize(other)
        )
    )
    assert found <= apart * (1 + 1e-15) + integer_gaussian.rounding_shift(7)


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_settling_can_add_nearly_its_shift(size):
    """Numbers just below and just above the middle of two units: nothing smaller would do."""
    middle = np.full(size, 0.5 * integer_gaussian.UNIT)
    below, above = (integer_gaussian.quantize(middle * share) for share in (0.999, 1.001))
    found = np.linalg.norm(integer_gaussian.dequantize(above - below))
    assert found == pytest.approx(integer_gaussian.rounding_shift(size))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**28 + 1])
def test_what_noise_cannot_hide_is_refused(bad):
    with pytest.raises(InvalidInput, match="a sum to be protected"):
        integer_gaussian.quantize(np.array([0.0, bad]))


@pytest.mark.parametrize("source", [Secure(), Simulated(3)], ids=lambda source: source.name)
@pytest.mark.parametrize("stddev", [2.0**-20, 0.7, 8.84, 5000.0])
def test_noise_has_its_deviation_and_no_other(source, stddev):
    """Kolmogorov-Smirnov on 20,000 draws: the right scale fails once in 10^6 runs, half of it,
    double of it and 1/√2 of it (the off-diagonal's) always do."""
    drawn = integer_gaussian.sample(np.full(20_000, stddev), source.stream(0, 0))
    smooth = np.random.default_rng(5).uniform(-0.5, 0.5, drawn.size)  # undoes the rounding
    values = (drawn + smooth) * integer_gaussian.UNIT
    # With the uniform, the sum is a normal variable but for 2^-24: smaller than the test can see.
    assert stats.kstest(values, stats.norm(0, stddev).cdf).pvalue > 1e-6
    for wrong in (0.5, 2.0, np.sqrt(0.5)):
        assert stats.kstest(values, stats.norm(0, wrong * stddev).cdf).pvalue < 1e-12


def test_every_coordinate_has_its_own_deviation():
    scales = np.repeat([0.0, 1.0, 100.0], 4000)
    drawn = integer_gaussian.dequantize(integer_gaussian.sample(scales, Secure().stream(0)))
    assert not drawn[:4000].any()
    assert stats.kstest(drawn[4000:8000], stats.norm(0, 1).cdf).pvalue > 1e-6
    assert stats.kstest(drawn[8000:], stats.norm(0, 100).cdf).pvalue > 1e-6


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 2 * integer_gaussian.LARGEST])
def test_a_deviation_that_cannot_be_drawn_is_refused(bad):
    with pytest.raises(InvalidInput, match="standard deviation"):
        integer_gaussian.sample(np.array([bad]), Secure().stream(0))


def test_secure_noise_is_never_the_same_twice():
    stream = Secure().stream(0)
    one, other = (integer_gaussian.sample(np.ones(8), stream) for _ in range(2))
    assert (one != other).any()
