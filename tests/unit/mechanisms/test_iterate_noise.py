"""θ(t): its variance is ρ^(t-1) V², it is fresh in every round, and V = 0 is exactly nothing.

Both sources are held to it: the simulated one, and the one that protects people.
False alarms: 1e-9 per check (`fitting`); all of them together stay under 1e-6.
"""

from math import sqrt

import numpy as np
import pytest
from fitting import fading, has_variance, is_gaussian, slips
from hypothesis import given
from hypothesis import strategies as st

from pdml.errors import InvalidInput
from pdml.mechanisms.iterate_noise import IterateNoise, draw_round
from pdml.mechanisms.randomness import ITERATES, Secure, Simulated

V, RHO = 0.3, 0.8
SHAPE = (2, 20_000)
SOURCES = {"simulated": lambda: Simulated(1), "secure": Secure}

sources = pytest.mark.parametrize("source", SOURCES)


def stream(source: str, server: int = 0):
    return SOURCES[source]().stream(ITERATES, server)


def drawn(t: int, source: str, out: np.ndarray | None = None) -> np.ndarray:
    out = np.full(SHAPE, np.nan) if out is None else out
    return IterateNoise(V, RHO).draw(t, out, stream(source))


@given(st.floats(1e-6, 1e6), st.floats(0.01, 0.999), st.integers(1, 60))
def test_variance_fades_by_rho_each_round(scale, decay, t):
    noise = IterateNoise(scale, decay)
    assert noise.stddev(1) == scale
    assert noise.stddev(t) ** 2 == pytest.approx(decay ** (t - 1) * scale**2, rel=1e-12)
    assert noise.stddev(t + 1) ** 2 == pytest.approx(decay * noise.stddev(t) ** 2, rel=1e-12)


@sources
@pytest.mark.parametrize("t", [1, 2, 5, 20])
def test_drawn_noise_has_the_variance_of_its_round(t, source):
    """Exactly Gaussian with √ρ^(t-1) V; the same test rejects every usual slip with the scale."""
    sample, stddev = drawn(t, source), fading(V, RHO, t)
    assert is_gaussian(sample, stddev)
    for slip, factor in slips(V, RHO, t).items():
        assert not is_gaussian(sample * factor, stddev), slip
    flat = np.random.default_rng(5).uniform(-sqrt(3) * stddev, sqrt(3) * stddev, SHAPE)
    assert has_variance(flat, stddev**2)  # the right scale, and the wrong shape
    assert not is_gaussian(flat, stddev)


@sources
def test_one_call_for_all_servers_draws_each_ones_noise(source):
    """Server by server and round by round: nobody else's V_i and no other round's noise fits."""
    scales = (0.0, 0.2, 0.4, 0.1)
    noises, streams = [IterateNoise(v, 0.5) for v in scales], [stream(source, i) for i in range(4)]
    for t in (1, 2, 5):
        out = np.full((4, *SHAPE), np.nan)
        assert draw_round(noises, t, out, streams) is out
        assert (out[0] == 0).all()
        for i in (1, 2, 3):
            right = fading(scales[i], 0.5, t)
            assert is_gaussian(out[i], right)
            others = [fading(v, 0.5, t) for v in scales[1:] if v != scales[i]]
            wrong = [factor * right for factor in slips(scales[i], 0.5, t).values()]
            assert not any(is_gaussian(out[i], stddev) for stddev in (*others, *wrong))


@sources
def test_servers_do_not_share_their_noise(source):
    """The sum of two servers' noise has the sum of their variances; shared noise has more."""
    streams = [stream(source, i) for i in range(2)]
    first, second = draw_round([IterateNoise(V, RHO)] * 2, 1, np.empty((2, *SHAPE)), streams)
    assert is_gaussian(first + second, sqrt(2) * V)
    assert not any(is_gaussian(wrong, sqrt(2) * V) for wrong in (2 * first, first + second / 2))


@sources
def test_noise_is_fresh_in_every_round(source):
    """Four rounds add up like independent ones; repeated noise would not, nor pairs that cancel."""
    noise, rng = IterateNoise(V, RHO), stream(source)
    rounds = [noise.draw(t, np.empty(SHAPE), rng) / fading(V, RHO, t) for t in range(1, 5)]
    assert has_variance(sum(rounds), 4.0)
    assert not has_variance(4 * rounds[0], 4.0)
    assert not has_variance(rounds[0] - rounds[0] + rounds[1] - rounds[1], 4.0)


@sources
def test_coordinates_are_independent(source):
    """The two rows' sum has twice the variance; a row drawn once and repeated has four times."""
    sample = drawn(1, source)
    assert has_variance(sample[0] + sample[1], 2 * V**2)
    assert not has_variance(2 * sample[0], 2 * V**2)


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
    np.testing.assert_array_equal(
        out, np.random.default_rng(seed).standard_normal((2, 3)) * noise.stddev(t)
    )


@pytest.mark.parametrize(
    ("scale", "decay"),
    [(-1.0, 0.9), (float("inf"), 0.9), (float("nan"), 0.9), (1.0, 0.0), (1.0, 1.0), (1.0, 1.2)],
)
def test_bad_settings_are_refused(scale, decay):
    with pytest.raises(InvalidInput, match=r"noise_scale|noise_decay .*must fade"):
        IterateNoise(scale, decay)
