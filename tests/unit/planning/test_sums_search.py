"""The noise of sums: the least that the real ledger allows, and the same for any number of
records.
"""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.accounting import Budget
from pdml.errors import BudgetExceeded
from pdml.numerics.admm.graph import Graph
from pdml.planning.forecast.synthetic import populations
from pdml.planning.forecast.utility import Verdict
from pdml.planning.search import sums_search
from pdml.planning.search.candidates import UtilityRuns, compare
from pdml.planning.search.planner import propose
from pdml.planning.search.rounds_search import SearchSpace
from pdml.planning.server_spec import ServerSpec
from pdml.planning.sizes import Sizes, ledger
from pdml.planning.training_plan import TrainingPlan

GRAPH = Graph.ring(5)
SPEC = ServerSpec(server=0, n_servers=5, degree=2, records=300, epsilons=(1.0,), width=8)


def checked(plan: TrainingPlan, budget: Budget, spec: ServerSpec) -> None:
    sizes = Sizes(
        records=(spec.records,) * 5,
        width=spec.width,
        epsilon=spec.epsilon,
        classes=spec.classes,
        norm_bound=spec.norm_bound,
    )
    ledger(plan, sizes, GRAPH).check(budget)


@settings(max_examples=20)
@given(
    features=st.sampled_from([0.2, 1.0, 4.0]),
    label=st.sampled_from([0.1, 0.5, 1.0, inf]),
    delta=st.sampled_from([1e-9, 1e-6, 1e-4]),
    epsilon=st.sampled_from([0.4, 1.0, 3.0]),
    classes=st.sampled_from([2, 4]),
    colluding=st.sampled_from([None, 1, 3]),
    share=st.sampled_from(sums_search.SHARES),
    bound=st.sampled_from([0.5, 1.0, 20.0]),
)
def test_a_calibrated_plan_keeps_its_budget_and_two_per_cent_less_noise_does_not(
    features: float,
    label: float,
    delta: float,
    epsilon: float,
    classes: int,
    colluding: int | None,
    share: float,
    bound: float,
) -> None:
    """By the real ledger of all servers."""
    budget = Budget(
        features_epsilon=features,
        features_delta=delta,
        labels_epsilon=label,
        labels_delta=delta,
        colluding=colluding,
    )
    spec = replace(SPEC, epsilons=(epsilon,), classes=classes, norm_bound=bound)
    plan = sums_search.calibrate(budget, spec, share)
    assert plan is not None and plan.colluding == colluding and plan.method == "sums"
    checked(plan, budget, spec)
    less = replace(plan, label_noise=0.98 * plan.label_noise, square_noise=0.98 * plan.square_noise)
    with pytest.raises(BudgetExceeded):
        checked(less, budget, spec)


def test_the_noise_depends_neither_on_the_records_nor_on_who_colludes() -> None:
    budget = Budget(features_epsilon=1.0, labels_epsilon=1.0)
    found = [
        sums_search.calibrate(replace(budget, colluding=k), replace(SPEC, records=m), 0.5)
        for m in (10, 300, 100_000)
        for k in (None, 1, 4)
    ]
    for plan in found[1:]:
        assert plan.label_noise == pytest.approx(found[0].label_noise, rel=0.005)
        assert plan.square_noise == pytest.approx(found[0].square_noise, rel=0.005)
    loud, quiet = (plan.noise_of_total(SPEC) for plan in found[:2])
    assert loud.label == pytest.approx(2 * quiet.label, rel=0.005)  # h = 1 against h = 4


def test_what_has_no_limit_has_no_noise() -> None:
    free = sums_search.calibrate(Budget(labels_epsilon=0.3), SPEC, 0.5)
    assert free.square_noise == 0 and free.label_noise > 0
    nothing = sums_search.calibrate(Budget(), SPEC, 0.5)
    assert (nothing.label_noise, nothing.square_noise) == (0, 0)


def test_no_gaussian_meets_a_delta_of_zero() -> None:
    none = Budget(features_epsilon=1.0, features_delta=0.0)
    assert sums_search.calibrate(none, SPEC, 0.5) is None


@pytest.mark.parametrize("features", [0.25, 1.0, 8.0])
def test_the_share_is_chosen_by_rehearsals(features: float) -> None:
    """Of plans that spend the same, the one whose rehearsals were right most often; whoever only
    asks whether joining pays hears the same."""
    sizes = Sizes(records=(192,) * 5, width=6, epsilon=1.0)
    budget, made_up = Budget(features_epsilon=features), populations(sizes)
    within = SearchSpace(graph=GRAPH, method="sums")
    found, enough = (compare(UtilityRuns(sizes), budget, within, enough=e) for e in (False, True))
    plans = [sums_search.calibrate(budget, sizes.server_spec(0), s) for s in sums_search.SHARES]
    right = [sums_search.score(plan, sizes, made_up, 1) for plan in plans]
    best = int(np.argmax([each[..., 1].mean() for each in right]))
    assert found.share == sums_search.SHARES[best]
    np.testing.assert_array_equal(found.scores["sums"], right[best])
    pays = [comparison.gain.verdict == Verdict.PAYS for comparison in (found, enough)]
    assert pays == sorted(pays) and (enough.gain.middle > 0) == (found.gain.middle > 0)
    asked = right[sums_search.SHARES.index(enough.share)]
    np.testing.assert_array_equal(enough.scores["sums"], asked)


def test_a_few_generous_people_are_capped() -> None:
    """One in ten at epsilon 4 among many at 1: counted up to 1, the forecast is nearly that of all
    at 1, and the plan keeps to the budget with everybody in it."""
    sizes = Sizes(records=(192,) * 5, width=6, epsilon=4.0, choices=((1.0, 864.0), (4.0, 96.0)))
    budget, within = Budget(features_epsilon=1.0), SearchSpace(graph=GRAPH, method="sums")
    found = compare(UtilityRuns(sizes), budget, within)
    assert found.cap == 1.0
    alike = compare(UtilityRuns(replace(sizes, epsilon=1.0, choices=())), budget, within)
    right, known = (each.scores["sums"][..., 1].mean() for each in (found, alike))
    assert right == pytest.approx(known, abs=0.01)
    loud = UtilityRuns(sizes).sums(budget, "logistic", 0.35)[..., 1].mean()
    assert right > loud + 0.02
    proposal = propose(budget, sizes, GRAPH, method="sums")
    assert proposal.plan.epsilon_cap == 1.0 and any(
        "up to epsilon 1" in r for r in proposal.reasons
    )
    proposal.ledger.check(budget)
