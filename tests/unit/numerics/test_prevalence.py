"""Shares of people from randomised responses: unbiased, and intervals that hold the truth."""

from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pdml.numerics.prevalence import estimate_prevalence

STRATA = st.lists(st.tuples(st.integers(1, 12), st.floats(0.3, 4)), min_size=1, max_size=2)


def chances(epsilon, answers=2):
    """With which an answer is reported by those who have it, and by others."""
    odds = np.exp(np.asarray(epsilon, dtype=float))
    return odds / (odds + answers - 1), 1 / (odds + answers - 1)


@given(STRATA, st.floats(0, 1), st.floats(0, 1), st.integers(2, 5))
def test_the_estimate_is_unbiased_whoever_chooses_which_epsilon(strata, first, second, answers):
    """Exactly: the mean over all reports that there can be, in strata with shares of their own."""
    people, epsilons = (np.array(column, dtype=float) for column in zip(*strata, strict=True))
    shares = np.array([first, second])[: len(people)]
    kept, other = chances(epsilons, answers)
    grids = np.meshgrid(*(np.arange(n + 1) for n in people.astype(int)), indexing="ij")
    mean = 0.0
    for reports in np.stack([grid.ravel() for grid in grids], axis=1):
        chance = binom.pmf(reports, people, other + (kept - other) * shares).prod()
        mean += chance * estimate_prevalence(reports, people, kept, other).unbiased
    assert mean == pytest.approx(float(people @ shares / people.sum()), abs=1e-9)


@given(st.integers(1, 5000), st.floats(0, 1), st.floats(0.2, 6))
def test_with_one_epsilon_it_is_warners_estimate_and_wilsons_interval(people, part, epsilon):
    """Warner (1965), as R's RRuni gives it: (λ + p - 1)/(2p - 1) of a share λ of reports."""
    reports, p = round(part * people), exp(epsilon) / (exp(epsilon) + 1)
    share = reports / people
    found = estimate_prevalence(
        np.array([reports]), np.array([people]), np.array([p]), np.array([1 - p])
    )
    assert found.unbiased == pytest.approx((share + p - 1) / (2 * p - 1), abs=1e-9)
    z = 1.959963984540054
    middle = (share + z**2 / (2 * people)) / (1 + z**2 / people)
    reach = z * sqrt(share * (1 - share) / people + z**2 / (4 * people**2)) / (1 + z**2 / people)
    for end, reported in ((found.low, middle - reach), (found.high, middle + reach)):
        moved = (reported + p - 1) / (2 * p - 1)
        assert end == pytest.approx(min(max(moved, 0), 1), abs=1e-6)
    assert 0 <= found.low <= found.share <= found.high <= 1


def covered(assumed, real, share, people, answers=2, times=4000):
    """How often intervals hold the truth."""
    rng = np.random.default_rng(5)
    kept, other = chances(assumed, answers)
    true_kept, true_other = chances(real, answers)
    rate = true_other + (true_kept - true_other) * share
    reports = rng.binomial(np.array(people), rate, size=(times, len(people)))
    found = [
        estimate_prevalence(each, np.array(people, dtype=float), kept, other) for each in reports
    ]
    return np.mean([one.low <= share <= one.high for one in found])


@pytest.mark.parametrize(
    ("epsilons", "people", "share", "answers"),
    [
        ([1.0], [300], 0.1, 2),
        ([0.5, 2.0], [150, 250], 0.3, 2),
        ([1.0, 2.0, 4.0], [100, 60, 40], 0.02, 2),
        ([1.0], [800], 0.5, 4),
    ],
)
def test_intervals_hold_the_truth_in_93_to_97_of_a_hundred(epsilons, people, share, answers):
    """4,000 times; the share of a 95% interval has a deviation of 0.35 points, so that a false
    alarm has a chance below 1e-6. If devices add half of the noise that is assumed (or twice), the
    same intervals miss."""
    assert 0.93 <= covered(epsilons, epsilons, share, people, answers) <= 0.97
    other = [2 * epsilon for epsilon in epsilons]
    assert covered(epsilons, other, share, people, answers) < 0.93


@pytest.mark.parametrize("shares", [(0.5, 0.02), (0.02, 0.5)])
def test_intervals_hold_where_those_who_have_it_choose_another_epsilon(shares):
    """At least 93 of a hundred, for the share of all people; an average by how much reports tell,
    which takes the choice for luck, would be off by many deviations."""
    rng, people = np.random.default_rng(6), np.array([400.0, 600.0])
    kept, other = chances([0.5, 2.0])
    reports = rng.binomial(people.astype(int), other + (kept - other) * shares, size=(4000, 2))
    truth = float(people @ shares / people.sum())
    found = [estimate_prevalence(row, people, kept, other) for row in reports]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.93
    assert abs(np.mean([one.unbiased for one in found]) - truth) < 0.01


def test_few_people_say_nothing():
    kept, other = chances([1.0])
    found = estimate_prevalence(np.array([3.0]), np.array([8.0]), kept, other)
    assert not found.enough and found.people == 8
    assert estimate_prevalence(np.array([300.0]), np.array([800.0]), kept, other).enough
