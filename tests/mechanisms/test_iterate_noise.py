"""θ(t): its variance is ρ^(t-1) V², it is fresh in every round, and V = 0 is exactly nothing."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from pdml.errors import InvalidInput
from pdml.mechanisms.iterate_noise import IterateNoise

FALSE_ALARM = 1e-8  # of every single check below; all of them together stay under 1e-6
V, RHO = 0.3, 0.8
SHAPE = (2, 20_000)


def accepts_variance(sample: np.ndarray, variance: float) -> bool:
    """Σ x²/σ² against exact chi-square quantiles; with 40,000 values, 5% off is seen."""
    total = float((sample**2).sum()) / variance
    return chi2.ppf(FALSE_ALARM / 2, sample.size) <= total <= chi2.isf(FALSE_ALARM / 2, sample.size)


def drawn(t: int, seed: int = 1) -> np.ndarray:
    return IterateNoise(V, RHO).draw(t, np.full(SHAPE, np.nan), np.random.default_rng([seed, t]))


@given(st.floats(1e-6, 1e6), st.floats(0.01, 0.999), st.integers(1, 60))
def test_variance_fades_by_rho_each_round(scale, decay, t):
    noise = IterateNoise(scale, decay)
    assert noise.stddev(1) == scale
    assert noise.stddev(t) ** 2 == pytest.approx(decay ** (t - 1) * scale**2, rel=1e-12)
    assert noise.stddev(t + 1) ** 2 == pytest.approx(decay * noise.stddev(t) ** 2, rel=1e-12)


@pytest.mark.parametrize("t", [1, 2, 5, 20])
def test_drawn_noise_has_that_variance(t):
    """False alarm 1e-8 (chi-square); every usual slip with the scale is rejected by the same statistic."""
    variance = RHO ** (t - 1) * V**2
    sample = drawn(t)
    assert accepts_variance(sample, variance)
    stddev = sqrt(variance)
    slips = {
        "halved": 0.5,
        "doubled": 2.0,
        "variance used as standard deviation": stddev,
        "standard deviation used as variance": 1 / sqrt(stddev),
        "one round too early": sqrt(RHO),
        "one round too late": 1 / sqrt(RHO),
        "V forgotten": 1 / V,
    }
    if t > 1:
        slips |= {"no fading": V / stddev, "deviation fades by ρ": RHO ** (t - 1) * V / stddev, "V fades with ρ": RHO ** ((1 - t) / 4)}
    for slip, factor in slips.items():
        assert not accepts_variance(sample * factor, variance), slip


@pytest.mark.parametrize("t", [1, 9])
def test_drawn_noise_is_gaussian(t):
    """False alarm 1e-8 (DKW, for every sample size); half, double and a uniform of the same variance are rejected."""
    stddev = IterateNoise(V, RHO).stddev(t)

    def accepts(sample):
        values = np.sort(np.ravel(sample))
        n, at = len(values), norm.cdf(values, scale=stddev)
        farthest = max(float((np.arange(1, n + 1) / n - at).max()), float((at - np.arange(n) / n).max()))
        return farthest <= sqrt(log(2 / FALSE_ALARM) / (2 * n))

    sample = drawn(t)
    assert accepts(sample)
    flat = np.random.default_rng(5).uniform(-sqrt(3) * stddev, sqrt(3) * stddev, SHAPE)
    assert not any(accepts(wrong) for wrong in (sample / 2, sample * 2, flat))


def test_noise_is_fresh_in_every_round():
    """False alarm 1e-8 (chi-square): four rounds add up like independent ones; repeated noise would not, nor pairs that cancel."""
    noise, rng = IterateNoise(V, RHO), np.random.default_rng(6)
    rounds = [noise.draw(t, np.empty(SHAPE), rng) / noise.stddev(t) for t in range(1, 5)]
    assert accepts_variance(sum(rounds), 4.0)
    assert not accepts_variance(4 * rounds[0], 4.0)
    assert not accepts_variance(rounds[0] - rounds[0] + rounds[1] - rounds[1], 4.0)


def test_coordinates_are_independent():
    """False alarm 1e-8 (chi-square): the two rows' sum has twice the variance; a row drawn once and repeated has four times."""
    sample = drawn(1)
    assert accepts_variance(sample[0] + sample[1], 2 * V**2)
    assert not accepts_variance(2 * sample[0], 2 * V**2)


@given(st.integers(1, 100), st.floats(0.01, 0.99), st.integers(0, 2**32))
def test_no_scale_is_exactly_zero_and_draws_nothing(t, decay, seed):
    rng = np.random.default_rng(seed)
    before = rng.bit_generator.state
    out = np.full((2, 3), np.nan)
    assert IterateNoise(0.0, decay).draw(t, out, rng) is out
    np.testing.assert_array_equal(out, np.zeros((2, 3)))
    assert rng.bit_generator.state == before


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_noise_is_written_into_out(seed, t):
    out = np.full((2, 3), np.nan)
    noise = IterateNoise(V, RHO)
    assert noise.draw(t, out, np.random.default_rng(seed)) is out
    np.testing.assert_array_equal(out, np.random.default_rng(seed).standard_normal((2, 3)) * noise.stddev(t))


@pytest.mark.parametrize(("scale", "decay"), [(-1.0, 0.9), (float("inf"), 0.9), (float("nan"), 0.9), (1.0, 0.0), (1.0, 1.0), (1.0, 1.2)])
def test_bad_settings_are_refused(scale, decay):
    with pytest.raises(InvalidInput, match=r"noise_scale|noise_decay .*must fade"):
        IterateNoise(scale, decay)
