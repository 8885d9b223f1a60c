"""Whether anybody could ever train under a study."""

from dataclasses import replace

import pytest
from example_study import STUDY
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.accounting import Budget, Ledger
from pdml.errors import BudgetExceeded, InvalidInput, UntrainableStudy
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.schema import trainable

LIMITED = replace(STUDY, budget=Budget(features_epsilon=1.0))


def fits(study, records: int, epsilon: float) -> bool:
    """Whether all servers keep to the budget with so many records of people who chose so."""
    plan, graph = study.plan, study.graph()
    for server in range(graph.n):
        spec = study.terms.server_spec(server, records=records, epsilons=(epsilon,))
        ledger = Ledger(((spec.flip(), *plan.events(spec)),), classes=spec.classes)
        try:
            ledger.check(study.budget)
        except BudgetExceeded:
            return False
    return True


plans = st.fixed_dictionaries(
    {
        "rounds": st.just(5),
        "noise_scale": st.sampled_from([0.0, 1e-9, 1e-4, 1.0]),
        "objective_bound": st.sampled_from([0.0, 1e-7, 1.0]),
        "loss": st.sampled_from(["logistic", "square"]),
    },
    optional={"tolerance": st.sampled_from([1e-9, 1e-2])},
)


@given(plans, st.floats(0.01, 5), st.floats(0.01, 3))
@settings(max_examples=80, deadline=None)
def test_a_plan_is_refused_only_if_no_number_of_records_would_do(plan, features, labels):
    budget = Budget(features_epsilon=features, labels_epsilon=labels)
    study = replace(STUDY, plan=TrainingPlan(**plan), budget=budget)
    some = [fits(study, records, e) for records in (200, 10**5, 2**26) for e in study.menu]
    assert any(some) == (trainable.mistakes(study) == [])


@pytest.mark.parametrize(
    ("plan", "result"),
    [
        ({"noise_scale": 0.0}, "breaks its budget with any number of records at carol"),
        ({"noise_scale": (1.0, 0.0, 1.0)}, "breaks its budget with any number of records at bob"),
        ({"loss": "square"}, "no bound at all on the features"),
    ],
)
def test_plans_that_nobody_could_follow(plan, result):
    ((path, sentence),) = trainable.mistakes(replace(LIMITED, plan=TrainingPlan(**plan)))
    assert path == ("plan",) and result in sentence
    with pytest.raises(UntrainableStudy, match="the study hiv-2026 has a plan"):
        trainable.check(replace(LIMITED, plan=TrainingPlan(**plan)))


@pytest.mark.parametrize("rounds", [0, 1, 20_000, 20_001, 10**9])
def test_a_study_and_a_plan_have_one_limit_on_rounds(rounds):
    def accepted(make):
        try:
            make()
        except InvalidInput as error:
            assert "20,000" in str(error) or "20000" in str(error)
            return False
        return True

    plan = accepted(lambda: TrainingPlan(rounds=rounds))
    study = accepted(lambda: Study.from_document(LIMITED.to_dict() | {"plan": {"rounds": rounds}}))
    assert plan == study == (0 < rounds <= 20_000)


def test_without_a_plan_a_budget_for_features_is_enough():
    assert trainable.mistakes(LIMITED) == [] and trainable.check(LIMITED) is None
    assert LIMITED.plan is None


def test_what_cannot_end_is_told_first():
    ((path, sentence),) = trainable.mistakes(
        replace(STUDY, budget=None, plan=TrainingPlan(noise_scale=0.0))
    )
    assert path == ("budget",) and "has no budget" in sentence


def test_a_thousand_servers_are_looked_at_in_a_moment():
    """Servers alike are looked at once: the number of ledgers does not grow with them."""
    from pdml.study import ServerEntry

    names = [f"s{i}" for i in range(300)]
    servers = tuple(ServerEntry(name, f"https://{name}.test") for name in names)
    ring = tuple(zip(names, [*names[1:], names[0]], strict=True))
    study = replace(LIMITED, servers=servers, edges=ring, plan=TrainingPlan(rounds=40))
    assert trainable.mistakes(study) == []
