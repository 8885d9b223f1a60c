"""Entries shrunk by the prior that they choose: against the steps written out one by one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.core import denoise


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
    found = denoise._shrunk(values, noise, 1.0)
    np.testing.assert_allclose(found, plainly(values, noise, 1.0), rtol=1e-9, atol=1e-300)
    assert (np.abs(found) <= np.abs(values)).all()
