"""Lies in statements, signed by whoever tells them: what can be caught is caught, by name."""

from dataclasses import replace

import msgspec
import pytest
from consortium import NAMES, PLAN
from results import SHORT, Studied, sentences, verified

from pdml.errors import InvalidInput, PeerError
from pdml.node import statement
from pdml.release.model import load_model
from pdml.release.result import assemble, write_result
from pdml.report.result import result_page


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    made = Studied(tmp_path_factory.mktemp("ended"), plan=SHORT)
    made.run()
    made.write(made.folder / "result")
    yield made
    made.close()


def lied(ended, tmp_path, **changes):
    """What is said of a result in which somebody lies; all that a folder can hold of it."""
    result = assemble(ended.study, ended.contract, ended.tell(**changes))
    assert result.problems
    write_result(tmp_path / "lied", result, result_page)
    assert not (tmp_path / "lied" / "model.json").exists()
    return sentences(tmp_path / "lied")


def heard_but(said, peer, **changes):
    def one(heard):
        return msgspec.structs.replace(heard, **changes) if heard.sender == peer else heard

    return {"heard": [one(heard) for heard in said.heard]}


def test_a_release_that_nobody_sent_names_who_must_prove_it(ended, tmp_path):
    def lie(said):
        digests = next(heard.digests for heard in said.heard if heard.sender == "bob")
        return heard_but(said, "bob", digests=digests[:32] + bytes(32) + digests[64:])

    told = lied(ended, tmp_path, alice=lie)
    assert "bob says it sent" in told and "alice has not shown it" in told
    assert "in round 2, but alice says it heard 0000000000000000" in told


def test_a_data_set_under_another_name_is_noticed_by_neighbours(ended, tmp_path):
    told = lied(ended, tmp_path, bob={"dataset": "0" * 64})
    assert "bob states a data set with 0 releases before this job, but alice says" in told


def test_distances_that_the_other_end_denies_are_noticed(ended, tmp_path):
    told = lied(ended, tmp_path, bob=lambda said: heard_but(said, "carol", apart=[0.5] * 3))
    assert "differ about how far apart they were in round 1" in told


def test_fewer_records_than_the_study_asks_for_are_noticed(ended, tmp_path):
    def lie(said):
        events = ended.contract.events("alice", records=39, epsilon=1.0)
        return {"records": 39, "events": [statement.records.plain(event) for event in events]}

    told = lied(ended, tmp_path, alice=lie)
    assert "alice trained on 39 records, but the study asks for 40" in told


def test_an_epsilon_that_is_not_on_the_menu_is_noticed(ended, tmp_path):
    told = lied(ended, tmp_path, alice={"label_epsilon": 1.5})
    assert "alice tells of labels with epsilon 1.5, which is not on the menu" in told


def test_an_overspent_budget_is_noticed(ended, tmp_path):
    tight = replace(ended.study, budget=replace(ended.study.budget, features_epsilon=0.1))
    result = assemble(ended.study, ended.contract, ended.tell())
    (problem,) = replace(result, study=tight).problems
    assert problem.kind == "budget"
    assert "the budget is exceeded: 3 rounds would spend" in problem.sentence


def test_whoever_lies_about_itself_alone_is_refused_at_once(ended):
    with pytest.raises(PeerError, match="bob tells another spending than the plan's"):
        assemble(ended.study, ended.contract, ended.tell(bob={"records": 60}))
    with pytest.raises(InvalidInput, match="got none of dave"):
        signed = ended.tell()
        assemble(ended.study, ended.contract, {name: signed[name] for name in NAMES[:3]})


@pytest.fixture
def again(tmp_path):
    """A second job after five rounds of a first one."""
    (tmp_path / "again").mkdir()
    first = Studied(tmp_path / "again", plan=PLAN, settled=False)
    first.run(until=5)
    first.close()
    made = Studied(tmp_path / "again", plan=SHORT, job="job-2", settled=False)
    made.run()
    yield made
    made.close()


def test_earlier_jobs_count_and_cannot_be_left_out(again, tmp_path):
    result = again.write(tmp_path / "result")
    assert verified(tmp_path / "result").ok
    spent = result.outcome.ledger.line("features", "other servers").epsilon
    forgetful = tuple(replace(part, earlier=()) for part in result.outcome.parts)
    alone = replace(result.outcome, parts=forgetful)
    assert spent > 1.1 * alone.ledger.line("features", "other servers").epsilon
    assert load_model(tmp_path / "result" / "model.json").provenance["earlier_releases"] == [5] * 4
    told = lied(again, tmp_path, bob={"earlier": []})
    assert "bob states a data set with 0 releases before this job" in told
    assert "alice says it was told of 5" in told


def test_an_earlier_job_with_other_terms_is_noticed(again, tmp_path):
    """Consistent in itself and cheaper, but not what the others took part in."""

    def lie(said):
        (job,) = said.earlier
        plan = job.plan | {"noise_scale": 9.0}
        other = statement.TrainingPlan.from_dict(plan)
        before = replace(again.contract, job=job.job, plan=other)
        five = replace(before, plan=replace(other, rounds=5))
        spent = five.events("bob", records=50, epsilon=1.0)
        events = [statement.records.plain(event) for event in statement.spending.summed(spent)]
        told = {"plan": plan, "terms": before.digest, "events": events}
        return {"earlier": [msgspec.structs.replace(job, **told)]}

    assert "alice and bob tell of different terms of job job-1" in lied(again, tmp_path, bob=lie)


def test_labels_that_the_operator_had_seen_are_not_hidden_from_it(ended, tmp_path):
    result = assemble(ended.study, ended.contract, ended.tell(bob={"labels": "operator"}))
    write_result(tmp_path / "seen", result, result_page)
    assert verified(tmp_path / "seen").ok
    lines = load_model(tmp_path / "seen" / "model.json").privacy["lines"]
    told = {(line["data"], line["adversary"]): line["epsilon"] for line in lines}
    assert told["label", "own server"] == told["label", "own and others together"] == "inf"
    assert told["label", "other servers"] < 1.0
    page = (tmp_path / "seen" / "report.html").read_text()
    assert "bob says that it randomised its labels itself: it had seen them." in page
