"""The shipped noise of sums: the ledger agrees with every number, and with none that is smaller."""

from dataclasses import replace
from math import sqrt

import pytest

from pdml.accounting import Budget
from pdml.accounting.profiles import gaussian_mu
from pdml.planning.search import sums_search
from pdml.planning.search.calibration import excess
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

EVERY = [
    (label, features, share)
    for label in sums_search.LABELS
    for features in sums_search.FEATURES
    for share in sums_search.SHARES
]
SPEC = ServerSpec(server=0, n_servers=4, degree=2, records=300, epsilons=(1.0,), width=8)


def over(label: float, features: float, share: float, times: float = 1.0) -> float:
    """By how much an exchange with the tabulated noise, or ``times`` as much, is beyond its budget,
    with as much rounding as the table allows for.
    """
    spec, budget = replace(SPEC, epsilons=(label,)), Budget(features_epsilon=features)
    event = TrainingPlan(method="sums").events(spec)[0]
    record, square = (s - event.fixed_shift for s in (event.record_shift, event.square_shift))
    fixed = sums_search.FIXED * record / (1 - sums_search.FIXED)
    known = sums_search.lookup_noise(budget, spec, share)
    assert known is not None
    mu = gaussian_mu(features, sums_search.DELTA)
    loud = replace(
        event,
        label_shift=record + fixed,
        record_shift=record + fixed,
        square_shift=square + fixed,
        fixed_shift=fixed,
        label_stddev=times * known * (record + fixed),
        square_stddev=(square + fixed) / (sqrt(share) * mu),
    )
    return excess((spec.flip(), loud), budget, 2)


@pytest.mark.parametrize(("label", "features", "share"), [(1.0, 1.0, 0.35), *EVERY[::37]])
def test_the_ledger_agrees_and_not_with_two_per_cent_less(
    label: float, features: float, share: float
) -> None:
    assert over(label, features, share) <= 0 < over(label, features, share, 0.98)


@pytest.mark.slow
@pytest.mark.parametrize(("label", "features", "share"), EVERY)
def test_the_ledger_agrees_with_every_entry(label: float, features: float, share: float) -> None:
    assert over(label, features, share) <= 0 < over(label, features, share, 0.98)


def test_a_plan_with_it_is_near_the_one_that_is_looked_for() -> None:
    usual = sums_search.calibrate(Budget(features_epsilon=1.0), SPEC, 0.35)
    looked_for = sums_search.calibrate(Budget(features_epsilon=1.0001), SPEC, 0.35)
    assert usual.label_noise == pytest.approx(looked_for.label_noise, rel=0.01)
    assert usual.square_noise == pytest.approx(looked_for.square_noise, rel=0.001)


@pytest.mark.parametrize(
    ("budget", "change"),
    [
        ({"features_delta": 1e-5}, {}),
        ({"features_epsilon": 1.1}, {}),
        ({"labels_epsilon": 0.5}, {}),
        ({}, {"classes": 3}),
        ({}, {"epsilons": (0.9,)}),
    ],
)
def test_what_is_not_in_it_is_not_guessed(budget: dict, change: dict) -> None:
    asked = Budget(**({"features_epsilon": 1.0} | budget))
    assert sums_search.lookup_noise(asked, replace(SPEC, **change), 0.35) is None
