"""One exchange of sums in the ledger: two Gaussian releases, by whoever is worst off."""

from dataclasses import replace
from math import hypot, inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.accounting import Budget, Ledger, Reports, last_safe_round, profiles
from pdml.accounting.events import IterateReleased, LabelFlipped, SumsReleased
from pdml.errors import BudgetExceeded
from pdml.numerics.admm import labels
from pdml.numerics.admm.labels import keep_weight
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.numerics.sums import statistics
from pdml.planning.search import sums_search
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

DELTA = 1e-6
SPEC = ServerSpec(server=0, n_servers=4, degree=2, records=300, epsilons=(1.0,), width=6)


def sums(**changes) -> SumsReleased:
    usual = {"label_stddev": 4.0, "square_stddev": 8.0, "label_shift": 0.5, "record_shift": 0.6}
    rest = {"square_shift": 0.4, "fixed_shift": 0.0, "epsilon": 1.0}
    return SumsReleased(**{**usual, **rest, **changes})


def spent(*events, data: str, **asked) -> float:
    return Ledger((events,), delta=DELTA).row(data, "other servers", **asked).epsilon


def gaussian(mu: float) -> float:
    return profiles.epsilon_at(profiles.gaussian_profile(mu), DELTA)


def opposite(label: float, square: float) -> float:
    """μ of the worst pair of records that are seen as they are: whoever moves Q most, by the
    opposite, does not move S."""
    return sqrt(max(label**2 * c + square**2 * 4 * c * (1 - c) for c in np.linspace(0, 1, 10_001)))


@given(
    st.sampled_from([0.2, 1.0, 3.0]), st.sampled_from([1.0, 4.0, 20.0]), st.sampled_from([1.0, 9.0])
)
@settings(max_examples=12)
def test_a_label_through_q_and_a_record_never_above_both_sums_together(epsilon, label, square):
    """A label is in Q alone, and went through the coin; a record is in both."""
    flip = LabelFlipped(epsilon=epsilon)
    event = sums(label_stddev=label, square_stddev=square, epsilon=epsilon)
    joint = profiles.joint_profile(epsilon, profiles.gaussian_profile(0.5 / label))
    known = profiles.epsilon_at(joint, DELTA)
    assert spent(flip, event, data="label") == pytest.approx(known, rel=1e-7, abs=1e-8)
    both = gaussian(hypot(0.6 / label, 0.4 / square))
    assert gaussian(0.4 / square) <= spent(flip, event, data="features") <= both * (1 + 1e-7)
    alone = gaussian(opposite(0.6 / label, 0.4 / square))  # no coin
    assert spent(event, data="features") == pytest.approx(min(both, alone), rel=2e-3)


@pytest.mark.parametrize("data", ["label", "features"])
def test_half_of_either_noise_costs_more_and_none_protects_nothing(data):
    flip, event = LabelFlipped(epsilon=1.0), sums()
    now = spent(flip, event, data=data)
    assert spent(flip, replace(event, label_stddev=2.0), data=data) > 1.2 * now
    less = spent(flip, replace(event, square_stddev=4.0), data=data)
    assert less > 1.05 * now if data == "features" else less == now
    bare = spent(flip, replace(event, label_stddev=0.0, square_stddev=0.0), data=data)
    assert bare == inf if data == "features" else bare == pytest.approx(1.0, abs=1e-5)
    once_more = spent(flip, event, event, data=data)
    half = replace(event, label_stddev=4 / sqrt(2), square_stddev=8 / sqrt(2))
    assert once_more == pytest.approx(spent(flip, half, data=data), rel=1e-6)


def test_sums_after_rounds_add_up_with_them():
    rounds = [
        IterateReleased(t=t, stddev=1.0, label_sensitivity=0.03, record_sensitivity=0.05)
        for t in range(1, 5)
    ]
    event = sums()
    alone = Ledger(((*rounds, event),)).row("features", "other servers").epsilon
    known = gaussian(sqrt(4 * 0.05**2 + (0.6 / 4) ** 2 + (0.4 / 8) ** 2))
    assert alone == pytest.approx(known, rel=1e-7)
    by_round = Ledger(((*rounds, event),)).epsilons("features")
    assert len(by_round) == 4 and by_round[-1] == pytest.approx(known, rel=1e-7)
    only = Ledger(((event,),))
    assert only.epsilons("features") == [only.row("features", "other servers").epsilon]


def test_one_exchange_is_one_round():
    ledger = Ledger(((LabelFlipped(epsilon=1.0), sums()),))
    assert ledger.up_to(1) == ledger
    assert ledger.up_to(0).row("features", "other servers").epsilon == 0
    limit = ledger.row("features", "other servers").epsilon
    for allowed, safe in ((1.01 * limit, 1), (0.99 * limit, 0)):
        assert ledger.last_safe_round(Budget(features_epsilon=allowed)) == safe
    again = {"planned": ledger.events, "already": [(sums(),)]}
    assert last_safe_round(**again, budget=Budget(features_epsilon=1.01 * limit)) == 0
    assert last_safe_round(**again, budget=Budget(features_epsilon=2 * limit)) == 1


def test_a_budget_that_is_broken_names_the_exchange():
    ledger = Ledger(((LabelFlipped(epsilon=1.0), sums()),))
    with pytest.raises(BudgetExceeded, match=r"^one exchange of sums would spend epsilon"):
        ledger.check(Budget(features_epsilon=0.01))
    masked = Ledger(((LabelFlipped(epsilon=1.0), sums(hidden_among=10)),))
    with pytest.raises(
        BudgetExceeded, match=r"on the features against any 3 of the other servers together"
    ):
        masked.check(Budget(features_epsilon=0.01, colluding=3))


@pytest.mark.parametrize("classes", [2, 4])
def test_everybodys_own_line_is_that_of_an_exchange_of_their_own(classes):
    """Q moves by 1/κ, S by 1/κ²: whoever asks for more is quieter, and never above the worst."""
    plan, menu = TrainingPlan(method="sums", label_noise=3.0, square_noise=2.0), (0.5, 1.0, 2.0)
    spec = replace(SPEC, epsilons=menu, classes=classes)
    weights = np.ones(3)  # of rounds
    reports = Reports(np.zeros(3, dtype=np.int64), np.array(menu), weights)
    whole = Ledger(((spec.flip(), *plan.events(spec)),), classes=classes, reports=reports)
    lines = whole.person_rows()
    for j, epsilon in enumerate(menu):
        own = replace(spec, epsilons=(epsilon,))
        alone = Ledger(((own.flip(), *plan.events(own)),), classes=classes)
        known = alone.row("label", "other servers").epsilon
        assert lines.label_other_servers[j] == pytest.approx(known, rel=1e-5)
    assert lines.label_other_servers.max() <= whole.row("label", "other servers").epsilon + 1e-9


@pytest.mark.parametrize("classes", [2, 4])
def test_reports_that_are_counted_up_to_a_cap_move_sums_as_the_ledger_says(classes):
    """Exact sums of neighbours, at every ε of the menu: nobody moves them by more than their own
    line counts, and the worst pair by as much."""
    menu, cap, loss = (0.5, 1.0, 2.0, 4.0), 1.0, LOGISTIC if classes == 2 else SOFTMAX
    plan = TrainingPlan(method="sums", epsilon_cap=cap, label_noise=1.0, square_noise=1.0)
    spec = replace(SPEC, epsilons=menu, classes=classes, width=2)
    (event,) = plan.events(spec)
    assert event.epsilon == cap
    loud = keep_weight(np.array(menu), classes)
    weights = np.minimum(1.0, (loud[1] / loud) ** 2)
    for epsilon, weight, kappa in zip(menu, weights, loud, strict=True):

        def sums_of(x, label, epsilon=epsilon):
            codes = labels.codes(np.array([label]), epsilon, classes)
            return statistics.exact(np.array([x]), codes, loss, cap_weight=plan.cap_weight(classes))

        label_moves = np.linalg.norm(
            sums_of([1.0, 0.0], 0).label_sum - sums_of([1.0, 0.0], 1).label_sum
        )
        mine = weight * kappa / loud[1]
        assert label_moves == pytest.approx(mine * (event.label_shift - event.fixed_shift))
        square_moves = np.linalg.norm(
            sums_of([1.0, 0.0], 0).square_sum - sums_of([0.0, 1.0], 0).square_sum
        )
        assert square_moves == pytest.approx(weight * (event.square_shift - event.fixed_shift))
        own = replace(spec, epsilons=(epsilon,))
        scaled = replace(
            event,
            label_shift=mine * event.label_shift,
            record_shift=mine * event.record_shift,
            square_shift=weight * event.square_shift,
            fixed_shift=0.0,
            epsilon=epsilon,
        )
        known = Ledger(((own.flip(), scaled),), classes=classes)
        line = Ledger(((own.flip(), event),), classes=classes)
        for data in ("label", "features"):
            spent_line = line.row(data, "other servers").epsilon
            assert spent_line == pytest.approx(known.row(data, "other servers").epsilon, rel=1e-3)


def test_the_noise_follows_the_largest_epsilon_that_is_counted_in_full():
    """Capped at 1 a menu up to 4 costs what a menu up to 1 does, and half the noise does not do."""
    budget, menu = Budget(features_epsilon=1.0), (0.5, 1.0, 4.0)
    spec = replace(SPEC, epsilons=menu)
    capped = sums_search.calibrate(budget, spec, 0.35, cap=1.0)
    alike = sums_search.calibrate(budget, replace(SPEC, epsilons=(1.0,)), 0.35)
    loudest = sums_search.calibrate(budget, spec, 0.35)
    assert capped.label_noise == pytest.approx(alike.label_noise, rel=0.01)
    assert capped.square_noise == pytest.approx(alike.square_noise, rel=0.01)
    assert loudest.label_noise > 3 * capped.label_noise
    whole = Ledger(((spec.flip(), *capped.events(spec)),))
    whole.check(budget)
    for name in ("label_noise", "square_noise"):
        less = replace(capped, **{name: getattr(capped, name) / 2})
        with pytest.raises(BudgetExceeded):
            Ledger(((spec.flip(), *less.events(spec)),)).check(budget)
