"""η: inside its bound always, of the right distribution, and nothing at all when switched off.

Both sources are held to it: the simulated one, and the one that protects people.
False alarms: 1e-9 per check (`fitting`); all of them together stay under 1e-6.
"""

from copy import copy
from math import sqrt

import numpy as np
import pytest
from fitting import FALSE_ALARM, fits, is_gaussian, is_truncated_gaussian, is_uniform_box
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chi2, uniform

from pdml.accounting.objective_loss import HIDES, Hidden, objective_profile
from pdml.errors import InvalidInput
from pdml.mechanisms.objective_noise import (
    FAMILIES,
    SIGMAS,
    NoiseFamily,
    ObjectiveNoise,
    register,
)
from pdml.mechanisms.randomness import OBJECTIVE, Secure, Simulated

R = 3.0  # σ = 1/2, so that a variance used as a standard deviation shows
KINDS = tuple(FAMILIES.built_in)
NOISY = [kind for kind in KINDS if kind != "none"]
SOURCES = {"simulated": lambda: Simulated(4), "secure": Secure}

sources = pytest.mark.parametrize("source", SOURCES)


def drawn(kind: str, source: str, shape=(2, 25_000)) -> np.ndarray:
    return ObjectiveNoise(kind, R).draw(shape, SOURCES[source]().stream(OBJECTIVE))


def within(noise: ObjectiveNoise, sample: np.ndarray) -> bool:
    reach = np.linalg.norm(sample) if noise.kind == "uniform_ball" else np.abs(sample).max()
    return bool(reach <= noise.bound * (1 + 1e-12))  # the rounding of a norm


@given(
    st.sampled_from(NOISY),
    st.floats(1e-6, 1e6),
    st.integers(1, 4),
    st.integers(1, 60),
    st.integers(0, 2**32),
)
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
    for kind, bound in (
        ("laplace", 1.0),
        ("uniform_box", -1.0),
        ("uniform_box", float("nan")),
        ("uniform_box", float("inf")),
    ):
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
    """Rejection, not clipping: nothing may pile up at the bound. 7 and -6.5 are outside, and so is
    the -9 that replaces one.
    """
    rng = Scripted(1.0, 7.0, -6.0, -6.5, 2.0, -9.0, 0.5)
    sample = ObjectiveNoise("truncated_gaussian", R).draw((1, 4), rng)
    np.testing.assert_array_equal(sample, np.array([[1.0, 2.0, -6.0, 0.5]]) * R / SIGMAS)
    assert rng.values == []


@sources
def test_truncated_gaussian_is_one_sixth_of_its_bound_wide(source):
    """Rejected: half, double, variance for deviation, the bound itself, a uniform."""
    sample = drawn("truncated_gaussian", source)
    assert ObjectiveNoise("truncated_gaussian", R).stddev == R / 6 == 0.5
    assert is_truncated_gaussian(sample, R)
    for factor in (0.5, 2.0, 0.9, 1.1, 0.5**-0.5, SIGMAS):
        assert not is_truncated_gaussian(sample * factor, R), factor
    flat = np.random.default_rng(3).uniform(-sqrt(0.75), sqrt(0.75), sample.shape)
    assert not is_truncated_gaussian(flat, R)


@sources
def test_uniform_box_is_uniform(source):
    """Half, double, 5% less and a Gaussian of the same variance are rejected."""
    sample = drawn("uniform_box", source)
    assert is_uniform_box(sample, R)
    bell = np.random.default_rng(5).normal(0, R / sqrt(3), sample.shape)
    wrong = (sample / 2, sample * 2, sample * 0.95, bell)
    assert not any(is_uniform_box(each, R) for each in wrong)


@sources
def test_box_coordinates_do_not_repeat_each_other(source):
    """The difference of two coordinates is triangular; a copied coordinate is rejected."""
    sample = drawn("uniform_box", source)

    def cdf(x):
        part = np.clip(1 - np.abs(x) / (2 * R), 0, 1) ** 2 / 2
        return np.where(x < 0, part, 1 - part)

    assert fits(sample[0] - sample[1], cdf)
    assert not fits(sample[0] - sample[0], cdf)
    assert not fits(sample[0] + sample[0], cdf)


@sources
def test_truncated_coordinates_do_not_repeat_each_other(source):
    """Their sum is √2 times as wide, and a copied coordinate's twice as wide."""
    sample = drawn("truncated_gaussian", source)
    assert is_gaussian(sample[0] + sample[1], sqrt(2) * R / 6)  # the cut takes 2e-9 of the mass
    assert not is_gaussian(2 * sample[0], sqrt(2) * R / 6)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 4)])
def test_uniform_ball_is_uniform(shape):
    """(r/R)^d is uniform, and the direction has no preferred coordinate.

    Half, double, a radius drawn without the d-th root and directions from a cube are rejected.
    """
    noise, rng, size = (
        ObjectiveNoise("uniform_ball", R),
        np.random.default_rng(7),
        shape[0] * shape[1],
    )
    sample = np.array([noise.draw(shape, rng) for _ in range(8000)]).reshape(-1, size)
    radius = np.linalg.norm(sample, axis=1)

    def right_radius(r):
        return fits((r / R) ** size, uniform.cdf)

    assert right_radius(radius)
    assert not right_radius(radius / 2) and not right_radius(radius * 2)
    if size == 1:
        assert fits(sample, uniform(-R, 2 * R).cdf)
        return
    assert not right_radius(R * np.random.default_rng(8).uniform(size=8000))
    squared = beta(0.5, (size - 1) / 2).cdf
    assert fits(sample[:, 0] ** 2 / radius**2, squared)
    cube = np.random.default_rng(9).uniform(-1, 1, sample.shape)
    assert not fits(cube[:, 0] ** 2 / np.linalg.norm(cube, axis=1) ** 2, squared)
    signs = (sample.prod(axis=1) > 0).sum()  # χ²_1 of a fair coin
    assert (2 * signs - 8000) ** 2 / 8000 <= chi2.isf(FALSE_ALARM, 1)


@pytest.mark.parametrize("kind", NOISY)
def test_lengths_are_those_of_draws(kind):
    noise, rng = ObjectiveNoise(kind, R), np.random.default_rng(11)
    sample = np.array([noise.draw((1, 6), rng)[0] for _ in range(4000)])
    squares = (sample**2).sum(axis=1)
    assert np.sqrt(squares).max() <= noise.longest(6) * (1 + 1e-12)
    assert squares.mean() == pytest.approx(noise.mean_square(6), rel=0.1)
    assert ObjectiveNoise("none", R).longest(6) == ObjectiveNoise(kind, 0.0).mean_square(6) == 0


def triangular() -> NoiseFamily:
    def hides(event, shift):
        return Hidden(flat=np.minimum(1.0, sqrt(event.size) * shift / event.bound))

    return NoiseFamily(
        name="triangular",
        draw=lambda shape, bound, rng: rng.triangular(-bound, 0, bound, shape),
        hides=hides,
    )


def test_a_family_of_ones_own_reaches_the_ledger(own_families):
    noise = ObjectiveNoise(triangular(), R)
    assert (np.abs(noise.draw((2, 500), np.random.default_rng(1))) <= R).all()
    with pytest.raises(InvalidInput, match="'triangular' is for simulations only"):
        noise.draw((2, 500), Secure().stream(OBJECTIVE))
    event = noise.event(size=4, n_servers=1, label_shift=0.3, fixed_shift=0.0, encoding="")
    with pytest.raises(InvalidInput, match="does not know objective noise of kind 'triangular'"):
        objective_profile(event)
    register(noise.family)
    assert objective_profile(event)(1.0) == pytest.approx(2 * 0.3 / R)
    with pytest.raises(InvalidInput, match="a name of its own, got 'uniform_box'"):
        register(NoiseFamily(name="uniform_box", draw=noise.family.draw, hides=noise.family.hides))


@pytest.fixture
def own_families(monkeypatch):
    """Registered here, and nowhere else."""
    monkeypatch.setattr("pdml.mechanisms.objective_noise.FAMILIES", copy(FAMILIES))
    monkeypatch.setattr("pdml.accounting.objective_loss.HIDES", dict(HIDES))
