"""Public sizes: what many people with many ε count as, and neighbours that are one question."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import Budget
from pdml.errors import InvalidInput
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.planning.forecast.utility import flip_variance
from pdml.planning.search import candidates
from pdml.planning.search.planner import propose
from pdml.planning.sizes import Sizes

GRAPH = Graph.ring(3)
SIZES = Sizes(records=(200, 210, 190), width=5, epsilon=1.0)


@given(st.integers(1, 10**9))
def test_rounded_counts_are_below_by_less_than_an_eighth_and_rounded_once(count: int) -> None:
    (found,) = Sizes(records=(count,), width=2, epsilon=1.0).rounded().records
    assert 7 / 8 * count < found <= count and (found == count or count > 15)
    assert Sizes(records=(found,), width=2, epsilon=1.0).rounded().records == (found,)


CHOSEN = st.lists(st.sampled_from([0.25, 1.0, 2.0, 4.0]), min_size=3, max_size=30)


@given(CHOSEN, st.sampled_from([None, 0.5, 1.0, 4.0]))
def test_people_count_by_what_their_reports_tell_up_to_the_cap(
    chosen: list[float], cap: float | None
) -> None:
    """V = Σ 1/κ(min(ε, cap))²."""
    sizes = replace(SIZES, records=(len(chosen),))
    found = Sizes.of([sizes.server_spec(0)], np.array(chosen))
    kappa = labels.kappa(np.minimum(chosen, cap or np.inf))
    assert found.epsilon == max(chosen)
    assert found.epsilon_range == tuple(sorted({min(chosen), max(chosen)}))
    assert found.counted_people(cap) == pytest.approx(np.sum(kappa**-2.0))


@given(CHOSEN, st.sampled_from([None, 0.5, 1.0]), st.sampled_from([2, 3]))
def test_flips_of_many_epsilons_are_counted_exactly(
    chosen: list[float], cap: float | None, classes: int
) -> None:
    """Σ v²(E ŷ² - E y²)/V² of everybody."""
    sizes = replace(SIZES, records=(len(chosen),), classes=classes)
    found = Sizes.of([sizes.server_spec(0)], np.array(chosen))
    loss = LOGISTIC if classes == 2 else SOFTMAX
    v = labels.keep_weight(np.minimum(chosen, cap or np.inf), classes) ** -2.0
    noisy = np.array([labels.code_variance(epsilon, loss, classes) for epsilon in chosen])
    exact = np.sum(v**2 * (noisy - labels.code_variance(np.inf, loss, classes))) / v.sum() ** 2
    assert flip_variance(found, loss, cap) == pytest.approx(exact)


def test_many_epsilons_are_few_in_a_forecast() -> None:
    """The largest stays, and what all reports count together about as much."""
    chosen = np.random.default_rng(0).uniform(0.3, 4.0, 999)
    found = Sizes.of([replace(SIZES, records=(999,)).server_spec(0)], chosen)
    few = found.rounded()
    assert len(found.epsilons) == 999 and len(few.epsilons) <= 8 and few.epsilon == found.epsilon
    people = sum(few.records) / sum(found.records)
    assert few.counted_people(1.0) == pytest.approx(people * found.counted_people(1.0), rel=0.1)


@pytest.mark.parametrize(
    "choices", [((1.0, 5.0), (0.5, 5.0)), ((0.5, 5.0), (2.0, 5.0)), ((0.5, 0.0), (1.0, 0.0))]
)
def test_choices_are_ascending_up_to_the_largest_epsilon_of_somebody(choices) -> None:
    with pytest.raises(InvalidInput, match="choices must be pairs of an epsilon"):
        replace(SIZES, choices=choices)


def test_folds_of_one_data_set_are_rehearsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = candidates.sums_search.score
    monkeypatch.setattr(candidates.sums_search, "score", lambda *a: asked.append(a) or real(*a))
    budget = Budget(features_epsilon=0.7)
    found = [
        propose(budget, replace(SIZES, records=records, width=7), GRAPH, method="sums")
        for records in ((193, 193, 194), (194, 193, 193), (200, 199, 201))
    ]
    many = len(asked)  # of each share on each population
    assert many == 3 * 24 and found[0].candidates == found[2].candidates
    again = propose(budget, found[0].sizes, GRAPH, method="sums")
    assert again == found[0] and len(asked) == many
