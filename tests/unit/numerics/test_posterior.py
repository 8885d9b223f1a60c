"""The sparse part of the posterior: against the formula solved as it stands."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.numerics.sums import posterior
from pdml.numerics.sums.posterior import Moments


def moments(seed, width, codes, *, label, intercept=True):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(3 * width, width)) / np.sqrt(width)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    return Moments(
        q=rng.normal(size=(codes, width)) * 0.05,
        values=values,
        vectors=vectors,
        label=label,
        report=1e-4,
        deviation=0.5,
        intercept=intercept,
    )


def plainly(known, noise, scale):
    """(S D S + N)⁻¹ S D, six times, with D by EM under three degrees of freedom less one."""
    s = (known.vectors * known.values) @ known.vectors.T
    spread = (known.vectors * noise) @ known.vectors.T
    maps = []
    for target in known.q:
        variance = scale.copy()
        for _ in range(6):
            gain = (np.linalg.inv(s @ np.diag(variance) @ s + spread) @ s @ np.diag(variance)).T
            left = np.diag(np.diag(variance) - gain @ s @ np.diag(variance))
            variance = ((gain @ target) ** 2 + left + 2 * scale) / 3
            if known.intercept:
                variance[-1] = scale[-1]
        maps.append(gain)
    return np.array(maps)


@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.sampled_from([1, 3]),
    st.floats(-3, 0),
    st.booleans(),
)
def test_sparse_weights_solve_their_equations(seed, width, codes, level, intercept):
    known = moments(seed, width, codes, label=10.0**level, intercept=intercept)
    noise = known.label**2 + known.report * known.values
    scale = np.random.default_rng(seed).uniform(0.1, 1.0, width)
    means, variances = posterior._student(known, scale)
    wanted = plainly(known, noise, scale)
    found, exact = posterior._maps(known, variances), np.einsum("cij,cj->ci", wanted, known.q)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9 * np.abs(wanted).max())
    np.testing.assert_allclose(means, exact, rtol=1e-6, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("smallest", [1e-9, 1e-15])
def test_a_hardly_seen_direction_does_not_stop_it(smallest):
    """Where the noise of a direction is a rounding error of the largest moment."""
    known = moments(0, 6, 1, label=0.0)
    known.values[0] = smallest
    found = posterior.posterior(known)
    assert np.isfinite(found).all()
