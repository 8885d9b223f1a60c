"""η: inside its bound always, of the right distribution, and nothing at all when switched off.

Distributions are tested by the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant, which holds for every
sample size: P(sup|F_n - F| > x) <= 2·exp(-2nx²). Scales are tested by exact chi-square quantiles.
"""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chi2, norm, uniform

from pdml.errors import InvalidInput
from pdml.mechanisms.objective_noise import KINDS, SIGMAS, ObjectiveNoise

FALSE_ALARM = 1e-8  # of every single check below; all of them together stay under 1e-6
R = 3.0  # σ = 1/2, so that a variance used as a standard deviation shows
NOISY = [kind for kind in KINDS if kind != "none"]


def accepts_distribution(sample: np.ndarray, cdf) -> bool:
    values = np.sort(np.ravel(sample))
    n, at = len(values), cdf(values)
    farthest = max(float((np.arange(1, n + 1) / n - at).max()), float((at - np.arange(n) / n).max()))
    return farthest <= sqrt(log(2 / FALSE_ALARM) / (2 * n))


def accepts_scale(sample: np.ndarray, stddev: float) -> bool:
    """Σ x²/σ² ~ χ²; cutting at 6σ lowers the variance by 7e-8 of itself, far below what the sample can show."""
    total = float(((np.ravel(sample) / stddev) ** 2).sum())
    return chi2.ppf(FALSE_ALARM / 2, np.size(sample)) <= total <= chi2.isf(FALSE_ALARM / 2, np.size(sample))


def within(noise: ObjectiveNoise, sample: np.ndarray) -> bool:
    reach = np.linalg.norm(sample) if noise.kind == "uniform_ball" else np.abs(sample).max()
    return bool(reach <= noise.bound * (1 + 1e-12))  # the rounding of a norm


@given(st.sampled_from(NOISY), st.floats(1e-6, 1e6), st.integers(1, 4), st.integers(1, 60), st.integers(0, 2**32))
def test_noise_stays_inside_its_bound(kind, bound, codes, width, seed):
    noise = ObjectiveNoise(kind, bound)
    sample = noise.draw((codes, width), np.random.default_rng(seed))
    assert sample.shape == (codes, width) and sample.dtype == np.float64
    assert noise.active and within(noise, sample)
    assert np.abs(sample).max() > 0


@given(st.sampled_from(KINDS), st.integers(0, 2**32))
@settings(max_examples=30)
def test_switched_off_noise_is_exactly_zero_and_draws_nothing(kind, seed):
    rng = np.random.default_rng(seed)
    before = rng.bit_generator.state
    for noise in (ObjectiveNoise("none", R), ObjectiveNoise(kind, 0.0)):
        assert not noise.active
        np.testing.assert_array_equal(noise.draw((2, 5), rng), np.zeros((2, 5)))
    assert rng.bit_generator.state == before


def test_bad_settings_are_refused():
    for kind, bound in (("laplace", 1.0), ("uniform_box", -1.0), ("uniform_box", float("nan")), ("uniform_box", float("inf"))):
        with pytest.raises(InvalidInput, match="objective_"):
            ObjectiveNoise(kind, bound)


class Scripted:
    """A generator that hands out the given normal values in order."""

    def __init__(self, *values):
        self.values = list(values)

    def standard_normal(self, size):
        count = int(np.prod(size))
        head, self.values = self.values[:count], self.values[count:]
        return np.array(head).reshape(size)


def test_only_values_outside_the_box_are_drawn_again():
    """Rejection, not clipping: nothing may pile up at the bound. 7 and -6.5 are outside, and so is the -9 that replaces one."""
    rng = Scripted(1.0, 7.0, -6.0, -6.5, 2.0, -9.0, 0.5)
    sample = ObjectiveNoise("truncated_gaussian", R).draw((1, 4), rng)
    np.testing.assert_array_equal(sample, np.array([[1.0, 2.0, -6.0, 0.5]]) * R / SIGMAS)
    assert rng.values == []


def test_truncated_gaussian_has_the_standard_deviation_it_states():
    """False alarm 1e-8 (chi-square); half, double, variance for deviation and the bound itself are rejected."""
    noise = ObjectiveNoise("truncated_gaussian", R)
    sample = noise.draw((2, 20_000), np.random.default_rng(1))
    assert noise.stddev == R / 6 == 0.5
    assert accepts_scale(sample, noise.stddev)
    for factor in (0.5, 2.0, 0.95, 1.05, noise.stddev, 1 / sqrt(noise.stddev), SIGMAS):
        assert not accepts_scale(sample * factor, noise.stddev)


def test_truncated_gaussian_is_gaussian():
    """False alarm 1e-8 (DKW); half, double, variance for deviation and a uniform of the same variance are rejected."""
    noise = ObjectiveNoise("truncated_gaussian", R)
    sample = noise.draw((1, 100_000), np.random.default_rng(2))
    inside = norm(scale=noise.stddev)
    cut = inside.cdf(-R)

    def cdf(x):
        return (inside.cdf(x) - cut) / (1 - 2 * cut)

    assert accepts_distribution(sample, cdf)
    for wrong in (sample / 2, sample * 2, sample * noise.stddev, np.random.default_rng(3).uniform(-sqrt(0.75), sqrt(0.75), sample.shape)):
        assert not accepts_distribution(wrong, cdf)


def test_uniform_box_is_uniform():
    """False alarm 1e-8 (DKW); half, double and a Gaussian of the same variance are rejected."""
    sample = ObjectiveNoise("uniform_box", R).draw((4, 25_000), np.random.default_rng(4))
    cdf = uniform(-R, 2 * R).cdf
    assert accepts_distribution(sample, cdf)
    for wrong in (sample / 2, sample * 2, np.random.default_rng(5).normal(0, R / sqrt(3), sample.shape)):
        assert not accepts_distribution(wrong, cdf)


def test_box_coordinates_do_not_repeat_each_other():
    """False alarm 1e-8 (DKW): the difference of two coordinates is triangular; a copied coordinate is rejected."""
    sample = ObjectiveNoise("uniform_box", R).draw((2, 20_000), np.random.default_rng(6))

    def cdf(x):
        part = np.clip(1 - np.abs(x) / (2 * R), 0, 1) ** 2 / 2
        return np.where(x < 0, part, 1 - part)

    assert accepts_distribution(sample[0] - sample[1], cdf)
    assert not accepts_distribution(sample[0] - sample[0], cdf)
    assert not accepts_distribution(sample[0] + sample[0], cdf)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 4)])
def test_uniform_ball_is_uniform(shape):
    """False alarm 1e-8 (DKW, chi-square): (r/R)^d is uniform, and the direction has no preferred coordinate.

    Half, double, a radius drawn without the d-th root and directions from a cube are rejected.
    """
    noise, rng, size = ObjectiveNoise("uniform_ball", R), np.random.default_rng(7), shape[0] * shape[1]
    sample = np.array([noise.draw(shape, rng) for _ in range(8000)]).reshape(-1, size)
    radius = np.linalg.norm(sample, axis=1)

    def right_radius(r):
        return accepts_distribution((r / R) ** size, uniform.cdf)

    assert right_radius(radius)
    assert not right_radius(radius / 2) and not right_radius(radius * 2)
    if size == 1:
        assert accepts_distribution(sample, uniform(-R, 2 * R).cdf)
        return
    assert not right_radius(R * np.random.default_rng(8).uniform(size=8000))
    squared = beta(0.5, (size - 1) / 2).cdf
    assert accepts_distribution(sample[:, 0] ** 2 / radius**2, squared)
    cube = np.random.default_rng(9).uniform(-1, 1, sample.shape)
    assert not accepts_distribution(cube[:, 0] ** 2 / np.linalg.norm(cube, axis=1) ** 2, squared)
    signs = (sample.prod(axis=1) > 0).sum()  # χ²_1 of a fair coin
    assert (2 * signs - 8000) ** 2 / 8000 <= chi2.isf(FALSE_ALARM, 1)
