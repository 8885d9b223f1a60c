"""A study trained by one call: the nodes' numbers, the study's budget, and one sentence for bad input."""

from dataclasses import replace

import numpy as np
import pytest
from federation import NAMES, PLAN, SEED, freeze, study_of

from pdml import Budget, TrainingPlan, __version__, load_model, train_study
from pdml.clock import SystemClock
from pdml.errors import BudgetExceeded, DataError, InvalidInput
from pdml.mechanisms.randomness import source_named
from pdml.node.job import training_data
from pdml.node.protocol.job_terms import JobTerms
from pdml.pages.result_page import training_page
from pdml.pages.training_page import render
from pdml.study.frozen_dataset import open_frozen
from pdml.training import sums_fit, sums_release


@pytest.fixture(scope="module")
def study():
    return study_of()


@pytest.fixture(scope="module")
def data(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen")
    return {name: freeze(study, name, folder / name) for name in NAMES}


def test_a_study_becomes_a_model_a_ledger_and_a_page(study, data, tmp_path):
    result = []
    trained = train_study(
        study, data, job="first", random_state=SEED, progress=lambda *done: result.append(done)
    )
    assert result[-1] == (PLAN.rounds, PLAN.rounds)
    trained.model.save(tmp_path / "model.json")
    model = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(model.coefficients, trained.model.coefficients)
    assert model.provenance["job"] == "first" and model.classes == study.classes
    assert {line.adversary for line in trained.ledger.rows()} >= {"other servers"}
    assert len(trained.history.consensus) == PLAN.rounds
    page = render(training_page(study, trained))
    assert study.title in page and "<script" not in page


class Clock(SystemClock):
    """A summer's night."""

    def now(self):
        return 1_909_000_000.0


def test_the_model_names_program_day_declaration_and_whose_data(study, data):
    named = train_study(study, data, random_state=SEED, clock=Clock()).model.provenance
    assert named["pdml_version"] == __version__ and named["date"] == "2030-06-29"
    assert named["job"].endswith("-20300629-214640")
    assert named["declaration"] == study.encoder.digest and named["data"] == study.hash


def test_noise_is_the_operating_systems_unless_a_seed_is_given(study, data):
    one, two = (train_study(study, data).model.coefficients for _ in range(2))
    assert (one != two).any()
    same = [train_study(study, data, random_state=1) for _ in range(2)]
    np.testing.assert_array_equal(same[0].releases, same[1].releases)
    assert [each.ledger.source for each in same] == ["simulated", "simulated"]


@pytest.fixture(scope="module", params=[None, 2], ids=["each seen", "one total"])
def summed(request, tmp_path_factory):
    """A study of sums, and its data."""
    study = study_of(plan=TrainingPlan(method="sums", colluding=request.param))
    folder = tmp_path_factory.mktemp("frozen")
    return study, {name: freeze(study, name, folder / name) for name in NAMES}


def test_sums_are_those_of_the_nodes_to_the_bit(summed):
    study, data = summed
    result = []
    trained = train_study(
        study, data, job="first", random_state=SEED, progress=lambda *done: result.append(done)
    )
    assert result == [(1, 1)]
    source, plan = source_named("simulated", SEED), trained.plan
    rows = []
    for name, folder in data.items():
        held = training_data.load_training_data(study, name, open_frozen(folder)).server
        rows.append(
            sums_release.release_sums(
                sums_release.exact(held, study.plan), held, study.plan, source
            )
        )
    np.testing.assert_array_equal(trained.releases, rows)
    np.testing.assert_array_equal(trained.total, sum(rows))
    weights = sums_fit.weights(sum(rows), plan, held.spec)
    np.testing.assert_array_equal(trained.model.coefficients, weights[:, :-1])
    np.testing.assert_array_equal(trained.model.intercepts, weights[:, -1])
    assert trained.model.expected == sums_fit.expected(sum(rows), plan, held.spec)
    page = render(training_page(study, trained))
    assert "one exchange of sums" in page and "Accuracy to expect" in page
    assert "links" not in page
    hidden = study.plan.colluding is not None  # then it matters how many collude
    assert page.count("<figure") == 3 + hidden and "more than noise?" in page
    assert hidden == ("If some of them collude" in page)


def test_each_server_has_a_model_of_its_own(summed, tmp_path):
    study, data = summed
    trained = train_study(study, data, random_state=SEED, local_models=True)
    assert list(trained.local_models) == list(NAMES)
    model = trained.local_models["bob"]
    assert model.local == "bob" and model.expected is None and model.classes == study.classes
    assert (model.coefficients != trained.model.coefficients).any()
    model.save(tmp_path / "house.json")
    assert (tmp_path / "house.json").stat().st_mode & 0o777 == 0o600
    loaded = load_model(tmp_path / "house.json")
    assert "never to be shared" in loaded.provenance["do_not_publish"]
    np.testing.assert_array_equal(loaded.coefficients, model.coefficients)


def test_rounds_leave_no_local_model(study, data):
    with pytest.raises(InvalidInput, match="local_models are for jobs with method 'sums'"):
        train_study(study, data, random_state=SEED, local_models=True)


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
    assert JobTerms.for_study(other, PLAN, "job").study != study.hash
