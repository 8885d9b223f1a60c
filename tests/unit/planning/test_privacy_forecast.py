"""What a training would spend is what its events say."""

from math import inf

import pytest

from pdml.accounting import Budget, Ledger
from pdml.errors import InvalidInput
from pdml.planning.forecast.privacy_forecast import PrivacyForecast
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

PLAN = TrainingPlan(rounds=30)
SPEC = ServerSpec(server=0, n_servers=8, degree=2, records=900, epsilons=(0.5, 2.0), width=7)


def planned(**changes: object) -> PrivacyForecast:
    summary = {"records": 900, "servers": 8, "degree": 2, "features": 7, "plan": PLAN}
    summary |= {"epsilon": 2.0, "smallest_epsilon": 0.5}
    return PrivacyForecast(**{**summary, **changes})  # type: ignore[arg-type]


def test_the_ledger_is_that_of_the_events() -> None:
    events = (SPEC.flip(), *PLAN.events(SPEC))
    assert planned().ledger.rows() == Ledger((events,)).rows()
    features, labels = zip(*planned().spent, strict=True)
    assert list(features) == Ledger((events,)).epsilons("features")
    assert list(labels) == Ledger((events,)).epsilons("label")


def test_half_the_noise_spends_more() -> None:
    quiet = planned(plan=TrainingPlan(rounds=30, noise_scale=PLAN.noise_scale / 2))
    assert quiet.spent[-1][0] > 1.5 * planned().spent[-1][0]


def test_whoever_chose_the_smallest_epsilon_costs_the_others() -> None:
    assert planned(smallest_epsilon=0.1).spent[-1][1] > planned().spent[-1][1]
    assert planned(smallest_epsilon=None).smallest_epsilon == 2.0


def test_the_last_safe_round_is_the_last_within_the_budget() -> None:
    limit = planned().ledger.up_to(12).row("features", "other servers").epsilon
    bounded = planned(budget=Budget(features_epsilon=limit))
    assert bounded.last_safe_round == 12 and not bounded.within
    assert bounded.to_dict()["budget"]["last_safe_round"] == 12
    assert planned().last_safe_round is None and planned().within
    assert "budget" not in planned().to_dict()


def test_infinity_is_told_in_words() -> None:
    summary = planned(epsilon=inf, plan=TrainingPlan(rounds=2, noise_scale=0.0)).to_dict()
    assert (
        summary["settings"]["epsilon"] == "inf"
        and summary["rounds"][0]["features_epsilon"] == "inf"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("records", 0),
        ("servers", 1),
        ("degree", 8),
        ("features", 0),
        ("classes", 1),
        ("epsilon", 0.0),
        ("smallest_epsilon", 3.0),
        ("norm_bound", 0.0),
        ("delta", 1.0),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        planned(**{name: value})
    assert refused.value.setting == name
