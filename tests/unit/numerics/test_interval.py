"""Estimates with the interval in which 80% of trainings lie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pdml.numerics.interval import Range, both, ranged

shares = st.lists(st.floats(0.01, 1), min_size=2, max_size=8)


def test_a_normal_truth_has_its_own_quantiles_and_chance() -> None:
    """Of a normal variable: a tenth on each side, and the chance of 0 or less."""
    points = norm.ppf((np.arange(2000) + 0.5) / 2000)
    found = ranged(0.5 + 0.1 * points, np.full(2000, 1 / 2000), 0.0)
    assert found.middle == pytest.approx(0.5, abs=1e-6)
    assert [found.low, found.high] == pytest.approx(0.5 + 0.1 * norm.ppf([0.1, 0.9]), abs=1e-3)
    assert Range(low=0.1, middle=0.3, high=0.5).none == pytest.approx(
        norm.cdf(-0.3 / (0.2 / norm.ppf(0.9))), rel=1e-6
    )


@given(shares, st.floats(0, 0.5), st.integers(0, 99))
def test_what_is_added_widens_it_and_it_stays_within_0_and_1(
    chances: list[float], beyond: float, seed: int
) -> None:
    chance = np.array(chances) / sum(chances)
    values = np.random.default_rng(seed).random(len(chance))
    plain, wide = (ranged(values, chance, each) for each in (0.0, beyond))
    assert 0 <= wide.low <= plain.low + 1e-12 and plain.high - 1e-12 <= wide.high <= 1
    assert plain.middle == wide.middle == pytest.approx(float(chance @ values))


@given(st.floats(-5, 5), st.floats(0.01, 5), st.floats(-5, 5), st.floats(0.01, 5))
def test_two_sources_are_weighted_by_their_precisions(
    value: float, deviation: float, typical: float, spread: float
) -> None:
    """As Bayes' rule has it for two normal variables."""
    middle, left = both(value, deviation, typical, spread)
    precision = deviation**-2 + spread**-2
    assert middle == pytest.approx(
        (value * deviation**-2 + typical * spread**-2) / precision, abs=1e-9
    )
    assert left == pytest.approx(precision**-0.5)
