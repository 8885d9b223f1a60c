"""`PDMLClassifier()`: the planner's choice, from public sizes, within what was asked."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from estimators import make_classifier
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pdml import Budget, PDMLClassifier, TrainingPlan
from pdml.errors import BudgetExceeded, ClippingWarning, InvalidInput, PrivacyUtilityWarning
from pdml.numerics.interval import Range
from pdml.planning.forecast.utility import Verdict
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.resolve_plan import NO_LIMIT, SCALE_FIRST, SETTINGS, utility_warnings
from pdml.research.datasets import adult
from pdml.simulation.estimator import PREPROCESSING_NOTE
from pdml.simulation.simulation import DOUBTFUL


def people(seed=0, records=1200, width=6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, width)) / np.sqrt(4 * width)
    y = (x @ rng.normal(size=width) + 0.1 * rng.normal(size=records) > 0).astype(int)
    return x, y


def fitted(x, y, epsilons=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyUtilityWarning)
        settings = {"n_servers": 4, "classes": (0, 1), "random_state": 1} | settings
        return make_classifier(**settings).fit(x, y, epsilons=epsilons)


def spent(model, colluding=None):
    return model.privacy_.row("features", "other servers", colluding=colluding).epsilon


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
    x, y = people(records=80)
    hopeless = PDMLClassifier(n_servers=4, features_epsilon=0.1, random_state=1)
    with pytest.warns(PrivacyUtilityWarning) as result:
        hopeless.fit(x, y)
    assert hopeless.proposal_.gain.verdict == Verdict.PAYS_NOT and spent(hopeless) <= 0.1
    assert [str(one.message) for one in result] == [DOUBTFUL]
    assert hopeless.doubts_[0].startswith("Joining is not expected to pay")
    named = hopeless.proposal_.suggestions
    assert named and all(str(each) in hopeless.doubts_[0] for each in named)


def iris(copies=1):
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    return np.tile(x, (copies, 1)), np.tile(y, copies)


def test_of_raw_columns_scaling_is_the_first_and_only_suggestion():
    """Raw iris with 2,700 records, which had been suggested, stays as bad as guessing; with
    declared scales what the planner names is said again."""
    x, y = iris()
    with pytest.warns(ClippingWarning):
        raw = PDMLClassifier(random_state=0).fit(x, y)
    assert raw.doubts_[0] == SCALE_FIRST and raw.proposal_.gain.middle <= 0
    assert raw.doubts_[1][1:] == f"{raw.proposal_.verdict[1:]}."
    assert raw.proposal_.suggestions  # of which nothing is said
    scaled = make_classifier(random_state=0, scales="from_data").fit(x, y)
    assert scaled.doubts_[0][1:] == f"{scaled.proposal_.advice[1:]}."
    assert scaled.proposal_.advice != scaled.proposal_.verdict


def test_the_same_suggestion_where_rows_are_shrunk_by_less_than_is_warned_of():
    x, y = iris()
    unit = 1.5 * x / np.linalg.norm(x, axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClippingWarning)
        few = PDMLClassifier(random_state=0).fit(unit, y)
        short = PDMLClassifier(random_state=0).fit(unit / 2, y)
    assert few.doubts_[0] == SCALE_FIRST and short.doubts_[0] != SCALE_FIRST


def test_rows_of_many_people_that_are_shrunk_are_warned_of_and_scaling_helps():
    """9,000 rows, all 5 to 11 times as long as the norm bound."""
    x, y = iris(60)
    with pytest.warns(ClippingWarning):
        raw = PDMLClassifier(random_state=0).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = make_classifier(random_state=0, scales="from_data").fit(x, y)
    assert scaled.score(x, y) > 0.8 > raw.score(x, y) and scaled.doubts_ == []


def test_ten_classes_of_few_people_are_refused_hope_and_told_what_would_do():
    """Digits cannot be learnt at the defaults, and what is said to pay does: the same pictures
    drawn again and again."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x - 8) / 64
    few = PDMLClassifier(random_state=0)
    with pytest.warns(PrivacyUtilityWarning):
        few.fit(x[:1257], y[:1257])
    assert few.doubts_[0].startswith("Joining is not expected to pay")
    assert few.score(x[1257:], y[1257:]) < 0.25
    pays = [each for each in few.proposal_.suggestions if each.verdict == Verdict.PAYS]
    assert [each.setting for each in pays] == ["records"] and pays[0].value <= 200_000
    many = np.random.default_rng(0).integers(0, 1257, int(pays[0].value))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        more = PDMLClassifier(random_state=0).fit(x[many], y[many])
    assert more.score(x[1257:], y[1257:]) > 0.7


def test_a_model_that_is_only_the_largest_class_is_told_from_what_was_released():
    """Rows that all point the same way: the planner, which knows sizes alone, expected more."""
    rng = np.random.default_rng(0)
    x = 1000 + rng.normal(size=(4000, 4))
    y = (x[:, 0] + x[:, 1] > 2000 - 0.9).astype(int)  # 74% of one class
    with (
        pytest.warns(ClippingWarning),
        pytest.warns(PrivacyUtilityWarning),
    ):
        model = PDMLClassifier(n_servers=4, random_state=0).fit(x, y)
    assert "one in three or more" in model.doubts_[-1]
    assert model.proposal_.gain.middle > 0
    assert abs(model.score(x, y) - max(y.mean(), 1 - y.mean())) < 0.02
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = PDMLClassifier(n_servers=4, random_state=0).fit((x - 1000) / 4, y)
    assert fine.doubts_ == [] and fine.score((x - 1000) / 4, y) > 0.8


@pytest.mark.parametrize(
    ("low", "middle", "how"),
    [
        (-0.3, 0.0, "the chance is one in three or more that the model is right no more often"),
        (-0.1, 0.2, None),
        (0.1, 0.2, None),
    ],
)
def test_what_was_released_is_held_against_a_model_only_where_it_speaks_against_it(
    low: float, middle: float, how: str | None
) -> None:
    """Not wherever it leaves the question open: then nearly every model of few people is doubted,
    the good ones too."""
    result = utility_warnings(None, Range(low=low, middle=middle, high=0.4))
    assert len(result) == (how is not None) and (how is None or how in result[0])


@pytest.mark.parametrize(
    ("beaten", "low", "warned"),
    [
        ("majority", 0.1, False),  # it is ahead of that one
        ("majority", -0.1, True),
        ("alone", 0.1, True),  # nothing that was released says what a server alone would do
    ],
)
def test_the_largest_class_is_not_feared_where_the_model_is_clearly_ahead_of_it(
    beaten: str, low: float, warned: bool
) -> None:
    proposal = fitted(*people()).proposal_
    good, bad = (np.full((4, 2, len(Yardstick)), share) for share in (0.8, 0.6))
    held = {"alone": bad, "majority": bad, "sums": bad - 0.1, beaten: good}
    said = replace(proposal, comparison=replace(proposal.comparison, scores=held), public=True)
    assert said.plan.method == "sums" and said.gain.middle < 0
    assert said.comparison.apart == beaten
    result = utility_warnings(said, Range(low=low, middle=0.2, high=0.4))
    assert bool(result) == warned and (not warned or "not expected to pay" in result[0])


def test_more_than_two_classes_are_judged_by_what_was_released_too():
    """Nothing is to be learnt of these labels, and the planner, which knows sizes alone, expects
    that joining pays: what was released says otherwise.
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30_000, 3)), rng.choice(3, size=30_000, p=[0.7, 0.2, 0.1])
    with pytest.warns(PrivacyUtilityWarning):
        model = make_classifier(colluding=1, scales=[(0, 1)] * 3, random_state=0).fit(x, y)
    assert model.proposal_.gain.middle > 0 and model.score(x, y) < 0.72
    assert "one in three or more" in model.doubts_[-1]


def test_no_limit_is_no_limit_and_says_so():
    free = fitted(*people(), features_epsilon=None)
    assert spent(free) == np.inf and free.privacy_.notes == (NO_LIMIT, PREPROCESSING_NOTE)
    assert NO_LIMIT[1:] in str(free.privacy_) and NO_LIMIT[1:] not in str(
        fitted(*people()).privacy_
    )
    assert fitted(*people(), plan=TrainingPlan()).privacy_.notes == (NO_LIMIT, PREPROCESSING_NOTE)
    budget = Budget(features_epsilon=1e6)
    assert fitted(*people(), plan=TrainingPlan(), budget=budget).privacy_.notes == (
        PREPROCESSING_NOTE,
    )


def test_the_ledger_tells_every_epsilon_at_the_delta_that_was_asked_for():
    model = fitted(*people(), delta=1e-4)
    assert model.privacy_.delta == 1e-4 and 0.9 < spent(model) <= 1.0


def test_more_columns_than_sums_take_and_an_epsilon_of_ones_own():
    """Rounds, for the loudest and the least private of all."""
    x, y = people(records=400, width=310)
    chosen = np.random.default_rng(3).choice([0.5, 1.0, 4.0], len(y))
    model = fitted(x, y, epsilons=chosen)
    assert model.proposal_.plan.method == "rounds" and 0 < spent(model) <= 1.0
    assert model.proposal_.sizes.epsilon_range == (0.5, 4.0)


class TestSettingsByThemselves:
    """What a grid can search: they take the place of the plan's."""

    def test_every_setting_of_a_plan_has_one(self):
        params = PDMLClassifier().get_params()
        assert all(params[f"plan__{name}"] is None for name in SETTINGS)
        params = PDMLClassifier(plan=TrainingPlan(penalty=0.7)).get_params()
        assert params["plan__penalty"] == 0.7

    @pytest.mark.parametrize(
        "given",
        [
            {"rounds": 3},
            {"penalty": 0.7},
            {"regularization": 0.02},
            {"noise_decay": 0.9},
            {"rounds": 2, "penalty": 1.5, "regularization": 0.1, "noise_decay": 0.8},
        ],
        ids=lambda given: ",".join(given),
    )
    def test_the_planner_fits_its_noise_to_them(self, given):
        model = fitted(*people(), **given)
        for name, value in given.items():
            assert model.model_.plan[name] == pytest.approx(value)
        assert 0.9 < spent(model) <= 1.0

    @pytest.mark.parametrize(
        ("given", "method"),
        [
            ({"noise_scale": 9.0}, "rounds"),
            ({"objective_bound": 5.0}, "rounds"),
            ({"tolerance": 1e-6}, "rounds"),
            ({"label_noise": 50.0}, "sums"),
            ({"method": "rounds"}, "rounds"),
            ({"method": "sums"}, "sums"),
            ({"local_models": True}, "sums"),
        ],
    )
    def test_a_setting_of_one_method_asks_for_it(self, given, method):
        model = fitted(*people(), **given)
        assert model.proposal_.plan.method == method and spent(model) <= 1.0

    def test_less_noise_than_was_planned_is_refused(self):
        with pytest.raises(BudgetExceeded, match="but the budget is epsilon 1"):
            fitted(*people(), noise_scale=1e-3)
        assert spent(fitted(*people(), noise_scale=1e-3, features_epsilon=None)) > 100

    def test_they_change_a_plan_that_was_given(self):
        plan = TrainingPlan(rounds=9, penalty=0.5, noise_scale=1.0)
        model = fitted(*people(), plan=plan, penalty=2.0, noise_decay=0.9)
        assert model.model_.plan["penalty"] == 2.0 and model.model_.plan["noise_decay"] == 0.9
        assert model.model_.plan["rounds"] == 9

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"method": "magic"}, "method must be"),
            ({"method": "sums", "penalty": 1.0}, "penalty must be left out"),
            ({"penalty": -1.0}, "penalty must be"),
            ({"noise_decay": 2.0}, "noise_decay must"),
            (
                {"plan": None},
                "plan must be a TrainingPlan, 'auto' or a mapping of settings, got None",
            ),
            ({"plan": {"colour": 3}}, "a setting of plan must be one of"),
            ({"features_epsilon": -1.0}, "features_epsilon must be"),
            ({"delta": 2.0}, "features_delta must be"),
            ({"colluding": 9}, "colluding must be"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, given, said):
        with pytest.raises(InvalidInput, match=said):
            fitted(*people(), **given)

    def test_a_grid_searches_them_through_a_pipeline_with_routed_metadata(self):
        x, y = people()
        epsilons, servers = np.where(np.arange(len(y)) % 2, 1.0, 2.0), np.arange(len(y)) % 4
        with config_context(enable_metadata_routing=True):
            asked = PDMLClassifier(n_servers=4, classes=(0, 1), random_state=1)
            asked = asked.set_fit_request(epsilons=True, servers=True)
            pipe = make_pipeline(FunctionTransformer(), asked)
            grid = {
                "pdmlclassifier__plan__penalty": [0.1, 1.0],
                "pdmlclassifier__plan__rounds": [3],
            }
            search = GridSearchCV(pipe, grid, cv=3).fit(x, y, epsilons=epsilons, servers=servers)
        model = search.best_estimator_[-1]
        assert model.model_.plan["rounds"] == 3
        np.testing.assert_array_equal(model.privacy_.reports.epsilons, epsilons)
        np.testing.assert_array_equal(model.privacy_.reports.servers, servers)


def test_no_other_word_is_a_plan():
    with pytest.raises(InvalidInput, match="plan must be a TrainingPlan"):
        fitted(*people(), plan="best")


def test_few_records_of_uneven_classes_are_no_worse_than_the_larger_class(data_dir):
    """Adult, 5,000 records, 106 columns, all other servers colluding: over eight trainings the mean
    gain was 1.3 points with a deviation of 1.7, so that the mean of three is below -1 in 1% of
    draws; seeds are fixed. While the offset was scaled with the direction it was -3.4.
    """
    raw = adult.load()
    order = np.random.default_rng(0).permutation(len(raw.y))
    x, y = adult.unit_rows(raw)[order], (raw.y[order] > 0).astype(int)
    test = slice(-5000, None)
    gains = []
    for seed in range(3):
        part = slice(5000 * seed, 5000 * (seed + 1))
        model = PDMLClassifier(random_state=seed).fit(x[part], y[part])
        gains.append(model.score(x[test], y[test]) - np.mean(y[test] == 0))
    assert np.mean(gains) > -0.01
