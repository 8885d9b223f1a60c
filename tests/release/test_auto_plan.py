"""`PDMLClassifier(plan="auto")`: the planner's choice, from public sizes, within what was asked."""

import warnings

import numpy as np
import pytest

from pdml import PDMLClassifier
from pdml.errors import InvalidInput, PrivacyUtilityWarning


def people(seed=0, records=1200, width=6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, width)) / np.sqrt(4 * width)
    y = (x @ rng.normal(size=width) + 0.1 * rng.normal(size=records) > 0).astype(int)
    return x, y


def fitted(x, y, epsilons=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyUtilityWarning)
        settings = {"n_servers": 4, "plan": "auto", "classes": (0, 1), "random_state": 1} | settings
        return PDMLClassifier(**settings).fit(x, y, epsilons=epsilons)


def spent(model, colluding=None):
    return model.privacy_.line("features", "other servers", colluding=colluding).epsilon


def test_a_plan_spends_what_was_asked_for_and_no_more():
    asked = fitted(*people(), features_epsilon=0.7)
    assert 0.6 < spent(asked) <= 0.7
    assert asked.model_.plan == asked.proposal_.plan.to_dict()


def test_a_plan_for_two_colluding_servers_holds_for_two_and_not_for_all():
    model = fitted(*people(), colluding=2)
    assert model.proposal_.plan.colluding == 2
    assert spent(model, 1) < spent(model, 2) <= 1.0 < spent(model)


def test_the_plan_knows_sizes_only():
    one, other = (fitted(*people(seed)).proposal_.plan for seed in (1, 2))
    assert one == other


def test_where_people_chose_for_themselves_the_least_private_of_them_is_within_the_budget():
    x, y = people()
    model = fitted(x, y, epsilons=np.random.default_rng(3).choice([0.5, 2.0], len(y)))
    assert model.proposal_.plan.method == "sums"
    assert 0.8 < spent(model) <= 1.0


def test_whoever_gains_nothing_is_warned_before_and_served_all_the_same():
    x, y = people(records=40)
    hopeless = PDMLClassifier(n_servers=4, plan="auto", features_epsilon=0.01, random_state=1)
    with pytest.warns(PrivacyUtilityWarning, match="Joining is not expected to pay"):
        hopeless.fit(x, y)
    assert not hopeless.proposal_.pays and spent(hopeless) <= 0.01


def test_no_limit_is_no_limit():
    assert spent(fitted(*people(), features_epsilon=None)) == np.inf


def test_no_other_word_is_a_plan():
    with pytest.raises(InvalidInput, match="plan must be"):
        fitted(*people(), plan="best")
