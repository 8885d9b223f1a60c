"""Budgets: the last safe round is exact, and what goes past it is refused."""

import pickle
from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
from estimators import make_classifier
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.accounting import Budget, Ledger, last_safe_round, profiles
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

SPEC = ServerSpec(server=0, n_servers=10, degree=2, records=4500, epsilons=(1.0,), width=20)


def events(rounds: int = 40, *, epsilon: float = 1.0, noise: float = 1.0, **changes):
    plan = TrainingPlan(**({"rounds": rounds, "noise_scale": 0.3 * noise} | changes))
    return (LabelFlipped(epsilon=epsilon), *plan.events(SPEC))


@pytest.mark.parametrize(
    "name", ["features_epsilon", "labels_epsilon", "features_delta", "labels_delta"]
)
@pytest.mark.parametrize("value", [-1, float("nan"), "1", None])
def test_budgets_outside_their_domain_are_refused(name, value):
    with pytest.raises(InvalidInput, match=f"^{name} must"):
        Budget(**{name: value})


@given(st.floats(0.02, 3), st.floats(1e-9, 1e-3), st.floats(0.8, 0.99), st.integers(1, 80))
@settings(max_examples=60)
def test_features_last_safe_round_is_the_last_in_the_geometric_series(
    epsilon, delta, decay, rounds
):
    """μ_t² = (D/V)²·(ρ^-t - 1)/(ρ^-1 - 1), without the ledger: the round is within the budget and
    the next is not.
    """
    planned = events(rounds, noise_decay=decay, objective_noise="none")
    first = planned[2]
    ratio = first.record_sensitivity / first.stddev

    def delta_after(t):
        return profiles.gaussian_profile(ratio * sqrt((decay**-t - 1) / (1 / decay - 1)))(epsilon)

    safe = last_safe_round([planned], budget=Budget(features_epsilon=epsilon, features_delta=delta))
    assert 0 <= safe <= rounds
    assert safe == 0 or delta_after(safe) <= delta * (1 + 1e-6)
    assert safe == rounds or delta_after(safe + 1) > delta * (1 - 1e-6)


@given(
    st.floats(0.005, 1.5),
    st.floats(0.01, 3),
    st.sampled_from([2, 3]),
    st.sampled_from(["none", "truncated_gaussian"]),
)
@settings(max_examples=20)
def test_last_safe_round_is_what_the_ledger_says_round_by_round(labels, features, classes, kind):
    ledger = Ledger(
        (events(objective_noise=kind), events(noise=0.7, objective_noise=kind)), classes=classes
    )
    budget = Budget(features_epsilon=features, labels_epsilon=labels)
    safe = ledger.last_safe_round(budget)
    for t in {1, safe, safe + 1, 40} - {0, 41}:
        fits = True
        for data, limit in (("features", features), ("label", labels)):
            fits &= all(
                ledger.up_to(t).profile(data, "other servers", i)(limit) <= 1e-6 for i in range(2)
            )
        assert fits == (t <= safe)


kinds = st.sampled_from(["none", "truncated_gaussian", "uniform_box"])


@given(st.floats(0.5, 2), st.sampled_from([2, 3]), kinds, kinds, st.sampled_from([0.0, 0.3, 30.0]))
@settings(max_examples=25)
def test_earlier_trainings_count_as_the_ledger_counts_them(share, classes, old, new, noise):
    """Through θ and through η: a training goes as far as one ledger over both would let it.

    The budget is about what the training alone would spend, so that what came before decides.
    """
    changes = {"noise_scale": noise, "objective_bound": 0.2}
    already = events(5, objective_noise=old, **changes)[1:]
    planned = events(20, objective_noise=new, **changes)
    alone = Ledger((planned,), classes=classes)
    rows = ("features", "label")
    limits = {data: share * alone.row(data, "other servers").epsilon for data in rows}
    budget = Budget(features_epsilon=limits["features"], labels_epsilon=limits["label"])
    safe = last_safe_round([planned], budget=budget, classes=classes, already=[already])
    flip, *rest = planned
    for t in {1, safe, safe + 1, 20} - {0, 21}:
        so_far = [e for e in rest if not isinstance(e, IterateReleased) or e.t <= t]
        both = Ledger(((flip, *already, *so_far),), classes=classes)
        spent = {data: both.profile(data, "other servers", 0)(limits[data]) for data in rows}
        assert (max(spent.values()) <= 1e-6) == (t <= safe)


@pytest.mark.parametrize("kind", ["truncated_gaussian", "uniform_box"])
def test_objective_noise_drawn_before_is_spent_as_well(kind):
    """With θ off η is all there is: a budget that allows it once does not allow it twice."""
    once = events(3, objective_noise=kind, noise_scale=0.0, objective_bound=0.2)
    alone = Ledger((once,)).profile("label", "other servers", 0)(0.05)
    budget = Budget(labels_epsilon=0.05, labels_delta=1.2 * alone)
    assert alone > 1e-6
    assert last_safe_round([once], budget=budget) == 3
    assert last_safe_round([once], budget=budget, already=[once[1:]]) == 0


def test_half_the_noise_is_safe_for_fewer_rounds():
    budget = Budget(features_epsilon=0.3)
    rounds = [
        last_safe_round([events(200, noise=noise)], budget=budget) for noise in (0.5, 1.0, 2.0)
    ]
    assert 0 < rounds[0] < rounds[1] < rounds[2] < 200


def test_labels_through_the_objective_are_safe_for_ever_and_without_it_not():
    budget = Budget(labels_epsilon=0.05)
    assert last_safe_round([events(400)], budget=budget) == 400
    assert 0 < last_safe_round([events(400, objective_noise="none")], budget=budget) < 400


def test_the_worst_server_decides():
    budget = Budget(features_epsilon=0.3)
    each = [last_safe_round([one], budget=budget) for one in (events(200), events(200, noise=0.5))]
    assert last_safe_round([events(200), events(200, noise=0.5)], budget=budget) == min(each)


def test_earlier_trainings_are_spent_whatever_happens():
    budget = Budget(features_epsilon=0.3)
    alone = last_safe_round([events(200)], budget=budget)
    after = last_safe_round([events(200)], budget=budget, already=[events(20)])
    assert 0 < after < alone
    assert last_safe_round([events(200)], budget=budget, already=[events(alone + 1)]) == 0
    with pytest.raises(InvalidInput, match="round 1 twice"):
        last_safe_round([(*events(5), *events(5))], budget=budget)
    with pytest.raises(InvalidInput, match="already must hold"):
        last_safe_round([events(5)], budget=budget, already=[])


def test_a_free_budget_stops_nothing_and_delta_zero_everything():
    assert last_safe_round([events(7, noise_scale=0.0)], budget=Budget()) == 7
    assert (
        last_safe_round([events(7)], budget=Budget(features_epsilon=5.0, features_delta=0.0)) == 0
    )
    assert last_safe_round([], budget=Budget()) == 0


def test_the_plan_looks_beyond_its_own_rounds():
    budget = Budget(features_epsilon=1.0)
    assert (
        TrainingPlan(rounds=5).last_safe_round(SPEC, budget=budget)
        == last_safe_round([events(300)], budget=budget)
        > 64
    )
    assert TrainingPlan(rounds=5).last_safe_round(SPEC, budget=Budget(), most=500) == 500


def test_check_says_everything_in_one_sentence():
    ledger = Ledger((events(200), events(200, noise=2.0)))
    ledger.check(Budget(features_epsilon=1e3))
    safe = ledger.last_safe_round(Budget(features_epsilon=0.3))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.check(Budget(features_epsilon=0.3))
    spent = ledger.row("features", "other servers").epsilon
    assert str(refused.value) == (
        f"200 rounds would spend epsilon {spent:.3g} on the features against all other servers "
        "together (delta 1e-06, server 1), "
        f"but the budget is epsilon 0.3: the last safe round is {safe}"
    )
    with pytest.raises(
        BudgetExceeded, match=r"on the label against .* not even the first round is safe$"
    ):
        ledger.check(Budget(labels_epsilon=1e-4))
    with pytest.raises(BudgetExceeded, match="no bound at all on the features"):
        Ledger((events(noise_scale=0.0),)).check(Budget(features_epsilon=1.0))
    with pytest.raises(BudgetExceeded, match=r"the budget is epsilon 0.3$"):
        Ledger(((*events(200), *events(200)),)).check(Budget(features_epsilon=0.3))
    ledger.up_to(safe).check(Budget(features_epsilon=0.3))


def test_what_is_not_written_down_would_allow_more_rounds():
    """So the count of events is part of the claim: tests/unit/node holds every release to its line."""
    budget = Budget(features_epsilon=0.3)
    skipped = tuple(e for e in events(200) if not isinstance(e, IterateReleased) or e.t % 2)
    assert last_safe_round([skipped], budget=budget) > last_safe_round([events(200)], budget=budget)


def test_epsilons_round_by_round_are_the_lines():
    """Up to the device's coin, which is asked after the last round only: nobody knew more before."""
    ledger = Ledger((events(6, objective_bound=0.5), events(6, noise=0.5)))
    for data in ("label", "features"):
        each = ledger.epsilons(data)
        lines = [ledger.up_to(t).row(data, "other servers").epsilon for t in range(1, 7)]
        assert each[-1] == pytest.approx(lines[-1], abs=1e-8)
        if data == "label":
            assert each == pytest.approx(lines, abs=1e-8)
        else:
            found, known = np.array(each), np.array(lines)
            assert (known <= found + 1e-8).all() and (found <= 1.3 * known).all()
            assert (found <= found[-1]).all()


# The estimator


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    return x, x[:, 0] > 0


TIGHT = Budget(features_epsilon=2.0)


def classifier(**changes):
    return make_classifier(
        **(
            {"n_servers": 3, "topology": "ring", "random_state": 0, "budget": TIGHT}
            | {"plan": TrainingPlan(), "rounds": 60}
            | changes
        )
    )


def test_a_run_beyond_the_budget_is_refused_before_it_starts():
    seen = []
    fitted = classifier()
    with pytest.raises(BudgetExceeded, match="the last safe round is"):
        fitted.fit(*data(), on_round=lambda t, rounds: seen.append(t))
    assert not seen and not hasattr(fitted, "model_") and not hasattr(fitted, "privacy_")


def test_an_open_ended_run_stops_at_the_last_safe_round():
    seen = []
    fitted = classifier(open_ended=True).fit(
        *data(), on_round=lambda t, rounds: seen.append((t, rounds))
    )
    free = classifier(budget=None).fit(*data())
    safe = free.privacy_.last_safe_round(TIGHT)
    assert 0 < safe < 60
    assert (
        fitted.rounds_
        == safe
        == len(fitted.history_.spent)
        == len(fitted.history_.risk)
        == len(seen)
    )
    assert seen[-1] == (safe, safe)
    assert fitted.model_.plan["rounds"] == safe and fitted.model_.provenance["rounds_asked"] == 60
    assert fitted.privacy_ == free.privacy_.up_to(safe)
    assert (
        fitted.privacy_.row("features", "other servers").epsilon <= 2.0 < free.history_.spent[safe]
    )
    same = classifier(budget=None, rounds=safe).fit(*data())
    np.testing.assert_array_equal(fitted.coef_, same.coef_)


def test_an_open_ended_run_without_a_safe_round_is_refused():
    with pytest.raises(BudgetExceeded, match="not even the first round is safe"):
        classifier(open_ended=True, budget=Budget(features_epsilon=1e-3)).fit(*data())


def test_a_run_within_the_budget_is_the_same_run():
    generous = classifier(budget=Budget(features_epsilon=1e4), open_ended=True).fit(*data())
    np.testing.assert_array_equal(generous.coef_, classifier(budget=None).fit(*data()).coef_)
    assert generous.rounds_ == 60 and "rounds_asked" not in generous.model_.provenance


def test_wrong_budgets_are_refused():
    with pytest.raises(InvalidInput, match=r"^budget must be"):
        classifier(budget=1.0).fit(*data())
    with pytest.raises(InvalidInput, match=r"^open_ended must be False"):
        classifier(budget=None, open_ended=True).fit(*data())


def test_noise_switched_off_leaves_no_safe_round():
    silent = replace(TrainingPlan(rounds=3), noise_scale=0.0)
    with pytest.raises(BudgetExceeded, match="no bound at all"):
        classifier(plan=silent, rounds=3).fit(*data())


def test_objective_of_unknown_kind_is_refused():
    odd = ObjectiveNoised(
        kind="laplace", bound=1.0, stddev=1.0, size=2, n_servers=2, label_shift=0.1
    )
    with pytest.raises(InvalidInput, match="does not know objective noise"):
        last_safe_round([(odd, *events(3)[2:])], budget=Budget(labels_epsilon=inf))


@pytest.mark.parametrize("wrong", [{"features": 1.0}, {"epsilon": 1.0, "colluding": 1}])
def test_other_names_are_refused_with_those_that_there_are(wrong):
    with pytest.raises(InvalidInput, match="features_epsilon, features_delta, labels_epsilon"):
        Budget(**wrong)
    with pytest.raises(InvalidInput, match=r"by the names .* got 2"):
        Budget(2)
    assert pickle.loads(pickle.dumps(Budget(colluding=2))) == Budget(colluding=2)


@pytest.mark.parametrize("name", ["features_epsilon", "labels_epsilon"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
def test_a_limit_that_allows_no_release_is_refused(name, value):
    with pytest.raises(InvalidInput, match=f"^{name} must be a number in .0, inf.*no release"):
        Budget(**{name: value})
