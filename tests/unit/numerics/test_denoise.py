"""Entries shrunk by the prior that they choose: against the steps written out one by one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.numerics.sums import fit


def plainly(values, stddev, largest):
    """EM entry by entry: each one's chances of the scales, their means, the posterior mean."""
    scales = np.array([0.0, *(largest * 2.0**-k for k in range(8))])
    variance = scales**2 + max(stddev, 1e-9 * largest) ** 2

    def chances(value, weights):
        logs = -0.5 * (value**2 / variance + np.log(variance))
        joint = np.exp(logs - logs.max()) * weights
        return joint / joint.sum()

    chosen = np.sort(np.abs(values))
    if len(chosen) > 512:
        chosen = chosen[np.linspace(0, len(chosen) - 1, 512).astype(int)]
    weights = np.full(9, 1 / 9)
    for _ in range(30):
        counts = np.mean([chances(each, weights) for each in chosen], axis=0) * len(values)
        counts[0] += 10.0
        weights = counts / counts.sum()
    return np.array([v * (chances(v, weights) @ (scales**2 / variance)) for v in values])


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 30, 700]), st.floats(-6, 1))
def test_entries_are_shrunk_by_the_prior_that_they_choose(seed, many, level):
    rng = np.random.default_rng(seed)
    noise = 10.0**level
    values = rng.normal(size=many) * rng.choice([0.0, 0.3, 1.0], many) + noise * rng.normal(
        size=many
    )
    found = fit._shrink_entries(values, noise, 1.0)
    np.testing.assert_allclose(found, plainly(values, noise, 1.0), rtol=1e-9, atol=1e-300)
    assert (np.abs(found) <= np.abs(values)).all()


def moments(seed, width, noise):
    """S of rows of norm 1 that end with a constant of 0.13, and with noise."""
    rng = np.random.default_rng(seed)
    x = np.hstack([rng.normal(size=(400, width)), np.ones((400, 1))])
    x[:, :-1] *= np.sqrt(1 - 0.13**2) / np.linalg.norm(x[:, :-1], axis=1, keepdims=True)
    x[:, -1] = 0.13
    s, fresh = x.T @ x / len(x), rng.normal(size=(width + 1, width + 1))
    return s, s + noise * (fresh + fresh.T) / 2


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.floats(-6, 1), st.floats(0.01, 1.0))
def test_a_known_constant_scales_its_column_alone(seed, width, level, constant):
    noise = 10.0**level
    _, noisy = moments(seed, width, noise)
    unknown, known = (fit.estimate_moments(noisy, noise, constant=each) for each in (0.0, constant))
    assert np.linalg.eigvalsh(known)[0] > 0
    np.testing.assert_array_equal(known[:-1, :-1], unknown[:-1, :-1])
    ratio = np.sqrt(known[-1, -1] / unknown[-1, -1])
    np.testing.assert_allclose(known[-1, :-1], ratio * unknown[-1, :-1], rtol=1e-12)
    low, high = sorted([noisy[-1, -1], constant**2])
    assert max(low, 0.2 * min(constant**2, unknown[-1, -1])) <= known[-1, -1] * (1 + 1e-9)
    assert known[-1, -1] <= high * (1 + 1e-9)


def test_the_constant_is_measured_where_it_can_be_and_else_typical():
    exact, still = moments(0, 20, 1e-9)
    np.testing.assert_allclose(fit.estimate_moments(still, 1e-9, constant=0.3), exact, atol=1e-7)
    np.testing.assert_array_equal(
        fit.estimate_moments(exact, 0.0, constant=0.3), fit.estimate_moments(exact, 0.0)
    )
    _, hidden = moments(0, 20, 10.0)
    assert abs(fit.estimate_moments(hidden, 10.0, constant=0.3)[-1, -1] - 0.09) < 1e-3
    without = fit.estimate_moments(hidden, 10.0, intercept=False, constant=0.3)
    np.testing.assert_array_equal(without, fit.estimate_moments(hidden, 10.0, intercept=False))
