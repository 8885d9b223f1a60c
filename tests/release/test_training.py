"""A study trained by one call: the nodes' numbers, the study's budget, and one sentence for bad input."""

from dataclasses import replace

import numpy as np
import pytest
from federation import NAMES, PLAN, SEED, freeze, study_of

from pdml import Budget, TrainingPlan, load_model, train_study
from pdml.errors import BudgetExceeded, DataError, InvalidInput
from pdml.node import holdings
from pdml.report.page import render
from pdml.report.result import training_page


@pytest.fixture(scope="module")
def study():
    return study_of()


@pytest.fixture(scope="module")
def data(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen")
    return {name: freeze(study, name, folder / name) for name in NAMES}


def test_a_study_becomes_a_model_a_ledger_and_a_page(study, data, tmp_path):
    told = []
    trained = train_study(
        study, data, job="first", random_state=SEED, progress=lambda *done: told.append(done)
    )
    assert told[-1] == (PLAN.rounds, PLAN.rounds)
    trained.model.save(tmp_path / "model.json")
    model = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(model.coefficients, trained.model.coefficients)
    assert model.provenance["job"] == "first" and model.classes == study.classes
    assert {line.adversary for line in trained.ledger.lines()} >= {"other servers"}
    assert len(trained.history.consensus) == PLAN.rounds
    page = render(training_page(trained))
    assert study.title in page and "<script" not in page


def test_noise_is_the_operating_systems_unless_a_seed_is_given(study, data):
    one, two = (train_study(study, data).model.coefficients for _ in range(2))
    assert (one != two).any()
    same = [train_study(study, data, random_state=1).outcome for _ in range(2)]
    np.testing.assert_array_equal(same[0].releases, same[1].releases)
    assert [each.source for each in same] == ["simulated", "simulated"]


def test_the_budget_is_checked_before_the_first_round(data, study, tmp_path):
    poor = replace(study, budget=Budget(features_epsilon=1e-3, labels_epsilon=0.1))
    folders = {name: freeze(poor, name, tmp_path / name) for name in NAMES}
    rounds = []
    with pytest.raises(BudgetExceeded):
        train_study(poor, folders, progress=lambda t, of: rounds.append(t))
    assert rounds == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"engine": "spark"}, "engine must be one of local, ray"),
        ({"plan": TrainingPlan(rounds=3)}, "plan must be left out: the study clinic settles it"),
        ({"data": {}}, "data must name a data set for every server, got none for alice, bob"),
        ({"data": {"mallory": "x"}}, r"got one for 'mallory'"),
        ({"job": "a b"}, "job must be 1 to 64 letters"),
    ],
)
def test_bad_input_is_one_sentence(study, data, changes, said):
    given = {"data": data, **changes}
    with pytest.raises(InvalidInput, match=said):
        train_study(study, given.pop("data"), **given)


def test_records_of_another_study_are_refused(study, data):
    other = replace(study, title="Another one")
    with pytest.raises(DataError):
        train_study(other, data)
    assert holdings.agreed(other, PLAN, "job").study != study.hash
