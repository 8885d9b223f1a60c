"""The statistics behind the audit, against exact answers."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from pdml.accounting import profiles
from pdml.audit.confidence import at_least, at_most, contradict, epsilon_bound, fisher, separate


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (5, 10), (10, 10), (40, 1000)])
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_clopper_pearson_is_exact(hits, trials, alpha):
    """At the lower limit the chance of so many hits is alpha; at the upper one, of so few."""
    low, high = float(at_least(hits, trials, alpha)), float(at_most(hits, trials, alpha))
    assert low <= hits / trials <= high
    if hits > 0:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(alpha, rel=1e-6)
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(alpha, rel=1e-6)


def test_worlds_without_a_difference_give_no_bound():
    assert epsilon_bound(50, 100, 50, 100, 0.0, 0.05) == 0
    assert epsilon_bound(10, 100, 0, 100, 0.5, 0.05) == 0  # δ explains it all


def test_fisher_sees_through_shared_noise():
    """The same noise in both numbers, a shift in one of them: their difference tells the worlds
    apart.
    """
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 500, 1))
    first, second = np.hstack([noise[0], noise[0]]), np.hstack([noise[1], noise[1] + 0.01])
    direction = fisher(first, second)
    assert (second @ direction).min() > (first @ direction).max()


@pytest.mark.parametrize("mu", [1.0, 2.0])
def test_the_bound_of_a_gaussian_is_below_the_truth_and_near_it(mu):
    """False-alarm rate 1e-6 for the first assertion; the second is measured."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(40_000, 1)), rng.normal(size=(40_000, 1)) + mu
    truth = profiles.epsilon_at(profiles.gaussian_profile(mu), 0.1)
    found = separate(first, second, 0.1)
    assert 0.8 * truth < found.epsilon <= truth
    assert found.accuracy == pytest.approx(norm.cdf(mu / 2), abs=0.01)


def test_constant_worlds_are_told_apart():
    found = separate(np.zeros((500, 2)), np.full((500, 2), 1e-3), 0.1)
    assert found.epsilon > 2 and found.accuracy == 1


@pytest.mark.parametrize("mu", [1.0, 2.0])
def test_a_true_profile_is_not_contradicted_and_a_false_one_is(mu):
    """False-alarm rate 1e-6 for the first; the second claims two thirds of the truth."""
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(4_000, 1)), rng.normal(size=(4_000, 1)) + mu
    for share, holds in ((1.0, True), (2 / 3, False)):
        claimed = profiles.gaussian_profile(share * mu)
        deltas = (0.02, 0.1, 0.2, 0.3, 0.4)
        claims = {delta: profiles.epsilon_at(claimed, delta) for delta in deltas}
        found = contradict(first, second, claims)
        assert (found.epsilon <= claims[found.delta]) == holds


def test_one_point_of_a_profile_is_what_separate_looks_at():
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(500, 2)), rng.normal(size=(500, 2)) + 1
    assert contradict(first, second, {0.1: 2.0}) == separate(first, second, 0.1)
