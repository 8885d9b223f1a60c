"""Public sizes: what many people with many ε count as, and neighbours that are one question."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import Budget
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.planning.forecast.utility import flip_variance
from pdml.planning.search import candidates
from pdml.planning.search.planner import propose
from pdml.planning.sizes import Sizes, ledger
from pdml.planning.training_plan import TrainingPlan

GRAPH = Graph.ring(3)
SIZES = Sizes(records=(200, 210, 190), width=5, epsilon=1.0)


@given(st.integers(1, 10**9))
def test_rounded_counts_are_below_by_less_than_an_eighth_and_rounded_once(count: int) -> None:
    (found,) = Sizes(records=(count,), width=2, epsilon=1.0).rounded().records
    assert 7 / 8 * count < found <= count and (found == count or count > 15)
    assert Sizes(records=(found,), width=2, epsilon=1.0).rounded().records == (found,)


@given(st.lists(st.sampled_from([0.25, 1.0, 2.0, 4.0]), min_size=3, max_size=30))
def test_people_count_by_what_their_reports_tell(chosen: list[float]) -> None:
    """Σ κ(top)²/κ(ε)²: as many as there are where all have one ε, and never more."""
    sizes = replace(SIZES, records=(len(chosen), 1, 1))
    places = [sizes.server_spec(i, GRAPH) for i in range(3)]
    found = Sizes.of(places, np.array(chosen))
    kappa = labels.kappa(np.array(chosen))
    assert found.epsilon == max(chosen)
    if len(set(chosen)) == 1:
        assert found.reports == 0 and found.epsilon_range == (chosen[0],)
    else:
        assert found.effective_reports == pytest.approx(np.sum((kappa.min() / kappa) ** 2))
        assert found.epsilon_range == (min(chosen), max(chosen))


@given(
    st.lists(st.sampled_from([0.25, 1.0, 2.0, 4.0]), min_size=3, max_size=30),
    st.sampled_from([2, 3]),
)
def test_flips_of_many_epsilons_are_not_counted_too_low(chosen: list[float], classes: int) -> None:
    """Σ v²(κ² - 1)/V² of everybody, exactly where all have the same; and `alike` tells as much."""
    sizes = replace(SIZES, records=(len(chosen), 1, 1), classes=classes)
    places = [sizes.server_spec(i, GRAPH) for i in range(3)]
    found = Sizes.of([places[0]], np.array(chosen))
    loss = LOGISTIC if classes == 2 else SOFTMAX
    if classes == 2:
        kappa = labels.kappa(np.array(chosen))
        exact = LOGISTIC.label_weight**2 * np.sum((kappa**2 - 1) / kappa**4)
        exact /= np.sum(kappa**-2.0) ** 2
        assert flip_variance(found, loss) >= exact * (1 - 1e-9)
    everybody = Sizes.of([places[0]], np.full(len(chosen), found.equivalent_epsilon))
    assert flip_variance(found, loss) == pytest.approx(flip_variance(everybody, loss), rel=1e-6)
    assert min(chosen) * (1 - 1e-9) <= found.equivalent_epsilon <= max(chosen)


def test_where_the_menu_is_not_known_nobody_is_counted_too_low() -> None:
    """The planned ledger of a smallest and a largest ε is at least that of any menu between."""
    wide = replace(SIZES, epsilon=4.0, smallest_epsilon=0.5)
    for plan in (TrainingPlan(rounds=5), TrainingPlan(method="sums")):
        planned = ledger(plan, wide, GRAPH).row("features", "other servers").epsilon
        for menu in ((0.5, 4.0), (0.5, 1.0, 4.0), (0.5, 2.0, 3.0, 4.0)):
            spec = replace(wide.server_spec(2, GRAPH), epsilons=menu)
            events = ((spec.flip(), *plan.events(spec)),)
            known = replace(ledger(plan, wide, GRAPH), events=events)
            assert known.row("features", "other servers").epsilon <= planned * (1 + 1e-9)


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
