"""Lies in statements, signed by whoever tells them: what can be caught is caught, by name."""

from dataclasses import replace
from html import escape

import msgspec
import pytest
from consortium import NAMES
from results import SHORT, Studied, sentences, verified

from pdml.accounting import kinds
from pdml.accounting.events import encode_event, merge_iterates
from pdml.consortium.result_folder import write_result
from pdml.errors import InvalidInput, PeerError
from pdml.model.model import load_model
from pdml.node.job.job_result import assemble
from pdml.node.protocol import signed_statement
from pdml.training.result import ledger_of


def lied(ended, tmp_path, **changes):
    """What is said of a result in which somebody lies; all that a folder can hold of it."""
    result = assemble(ended.study, ended.job_terms, ended.tell(**changes))
    assert result.problems
    write_result(tmp_path / "lied", result)
    assert not (tmp_path / "lied" / "model.json").exists()
    return sentences(tmp_path / "lied")


def releases_but(statement, peer, **changes):
    def change(release):
        return msgspec.structs.replace(release, **changes) if release.sender == peer else release

    return {"received": [change(release) for release in statement.received]}


def test_a_release_that_nobody_sent_names_who_must_prove_it(ended, tmp_path):
    def lie(statement):
        digests = next(release.digests for release in statement.received if release.sender == "bob")
        return releases_but(statement, "bob", digests=digests[:32] + bytes(32) + digests[64:])

    text = lied(ended, tmp_path, alice=lie)
    assert "bob says it sent" in text and "alice has not shown it" in text
    assert "in round 2, but alice says it heard 0000000000000000" in text


def test_a_data_set_under_another_name_is_noticed_by_neighbours(ended, tmp_path):
    text = lied(ended, tmp_path, bob={"dataset": "0" * 64})
    assert "bob states a data set with 0 releases before this job, but alice says" in text


def test_distances_that_the_other_end_denies_are_noticed(ended, tmp_path):
    text = lied(
        ended, tmp_path, bob=lambda statement: releases_but(statement, "carol", distances=[0.5] * 3)
    )
    assert "differ about how far apart they were in round 1" in text


def test_fewer_records_than_the_study_asks_for_are_noticed(ended, tmp_path):
    def lie(statement):
        terms = ended.job_terms
        place = terms.training.server_spec(terms.index("alice"), records=39, epsilons=(1.0,))
        events = ended.job_terms.plan.events(place)
        return {"records": 39, "events": [encode_event(event) for event in events]}

    text = lied(ended, tmp_path, alice=lie)
    assert "alice trained on 39 records, but the study asks for 40" in text


def test_an_epsilon_that_is_not_on_the_menu_is_noticed(ended, tmp_path):
    text = lied(ended, tmp_path, alice={"label_epsilon": 1.5})
    assert "alice tells of labels with epsilon 1.5, which is not on the menu" in text


@pytest.mark.parametrize(("share", "kept"), [(1.0, True), (1 - 5e-10, True), (1 - 1e-7, False)])
def test_an_overspent_budget_is_noticed(ended, share, kept):
    """A plan may meet it to the last digit, which machines compute differently."""
    result = assemble(ended.study, ended.job_terms, ended.tell())
    spent = result.result.ledger.row("features", "other servers").epsilon
    tight = replace(ended.study.budget, features_epsilon=share * spent)
    problems = replace(result, study=replace(ended.study, budget=tight)).problems
    assert [problem.kind for problem in problems] == ([] if kept else ["budget"])
    assert kept or "the budget is exceeded: 3 rounds would spend" in problems[0].sentence


def test_whoever_lies_about_itself_alone_is_refused_at_once(ended):
    with pytest.raises(PeerError, match="bob tells another spending than the plan's"):
        assemble(ended.study, ended.job_terms, ended.tell(bob={"records": 60}))
    with pytest.raises(InvalidInput, match="got none of dave"):
        signed = ended.tell()
        assemble(ended.study, ended.job_terms, {name: signed[name] for name in NAMES[:3]})


@pytest.fixture(params=[False, True], ids=["open plan", "settled plan"])
def again(request, tmp_path):
    """A second job after two rounds of a first one."""
    (tmp_path / "again").mkdir()
    settings = {"plan": SHORT, "fixed_plan": request.param}
    first = Studied(tmp_path / "again", **settings)
    first.run(until=2)
    first.close()
    consortium = Studied(tmp_path / "again", job="job-2", **settings)
    consortium.run()
    yield consortium
    consortium.close()


def test_earlier_jobs_count_and_cannot_be_left_out(again, tmp_path):
    result = again.write(tmp_path / "result")
    assert verified(tmp_path / "result").ok
    spent = result.result.ledger.row("features", "other servers").epsilon
    forgetful = tuple(replace(part, earlier=()) for part in result.result.parts)
    alone = ledger_of(forgetful, "simulated")
    assert spent > 1.1 * alone.row("features", "other servers").epsilon
    assert load_model(tmp_path / "result" / "model.json").provenance["earlier_releases"] == [2] * 4
    text = lied(again, tmp_path, bob={"earlier_jobs": []})
    assert "bob states a data set with 0 releases before this job" in text
    assert "alice says it was told of 2" in text


def test_an_earlier_job_with_other_terms_is_noticed(again, tmp_path):
    """Consistent in itself and cheaper, but not what the others took part in."""

    def lie(statement):
        (job,) = statement.earlier_jobs
        plan = job.plan | {"noise_scale": 9.0}
        other = signed_statement.TrainingPlan.from_dict(plan)
        before = replace(again.job_terms, job=job.job, plan=other)
        place = before.training.server_spec(before.index("bob"), records=50, epsilons=(1.0,))
        spent = replace(other, rounds=2).events(place)
        events = [encode_event(event) for event in merge_iterates(spent)]
        changes = {"plan": plan, "terms": before.digest, "events": events}
        return {"earlier_jobs": [msgspec.structs.replace(job, **changes)]}

    text = lied(again, tmp_path, bob=lie)
    assert "alice and bob tell of different terms of job job-1" in text
    fixed_plan = "bob tells of another plan than the study's in the earlier job job-1" in text
    assert fixed_plan is (again.study.plan is not None)


def test_labels_that_a_server_had_seen_are_not_hidden_from_it(ended, tmp_path):
    """Where all say that devices randomised them they are; one server that did it is enough."""
    for bob, epsilon in (("devices", 1.0), ("operator", "inf")):
        devices = {name: {"randomised_by": "devices"} for name in NAMES}
        signed = ended.tell(**devices | {"bob": {"randomised_by": bob}})
        result = assemble(ended.study, ended.job_terms, signed)
        write_result(tmp_path / bob, result)
        assert verified(tmp_path / bob).ok
        model = load_model(tmp_path / bob / "model.json")
        assert model.provenance["labels_randomised_by"] == ["devices", bob, "devices", "devices"]
        lines = {(line["data"], line["adversary"]): line for line in model.privacy["rows"]}
        assert lines["label", "own server"]["epsilon"] == epsilon
        assert lines["label", "other servers"]["epsilon"] < 1.0
        page = (tmp_path / bob / "report.html").read_text()
        assert ("labels randomised on people" in page) is (bob == "devices")
        assert (escape(kinds.randomiser_note("bob", "operator")) in page) is (bob != "devices")


def test_noise_of_different_sources_makes_no_result_and_names_who_differs(ended):
    result = assemble(ended.study, ended.job_terms, ended.tell())
    other = msgspec.structs.replace(result.statements["bob"], source="secure")
    mixed = replace(result, statements={**result.statements, "bob": other})
    (flaw,) = [problem for problem in mixed.problems if "different sources" in problem.sentence]
    assert flaw.servers == ("bob",) and "bob: secure" in flaw.sentence
