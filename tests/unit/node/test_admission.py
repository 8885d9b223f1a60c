"""Whether an operator is asked about an offer."""

import secrets
from contextlib import closing
from dataclasses import replace

import pytest

from pdml.node.protocol.job_terms import JobTerms

pytest.importorskip("cryptography")

from joined import join, people

from pdml.node.job.admission import AdmissionRule, Member
from pdml.node.job.training_data import import_table
from pdml.node.protocol.requests import Offer
from pdml.node.storage.journal import Journal
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.training_plan import TrainingPlan

PLAN = TrainingPlan(rounds=5)


@pytest.fixture
def alice(tmp_path):
    home = join(tmp_path)
    import_table(home, people(), label="diagnosed", epsilon_column="eps", randomise=False)
    return NodeDirectory.open(home.folder)


def offered(study, job, by="bob"):
    limits = {"resume": True, "start_timeout": 60.0, "round_timeout": 60.0}
    job_terms = JobTerms.for_study(study, PLAN, job)
    return Offer.of(job_terms, attempt=secrets.token_hex(16), offerer=by, **limits)


def begin(home, study, job, rounds):
    held = home.load_training_data()
    with closing(home.journal()) as journal:
        names = {"server": home.name, "dataset": held.dataset, "source": "secure"}
        job_terms = JobTerms.for_study(study, PLAN, job).digest
        journal.begin(job, terms=job_terms, sealed=b"", plan="", **names)
        for t in range(1, rounds + 1):
            journal.commit(job, t, payload=b"", events=[])


@pytest.mark.parametrize("rule", ["ask", "study"])
def test_a_member_that_left_a_job_begins_no_other_without_the_operator(alice, rule):
    """Nor one that it began and stopped before anything was released: forty of those, begun in
    advance, would be forty jobs that ask nobody.
    """
    study = replace(alice.checked_study(), plan=PLAN)
    begin(alice, study, "begun", 0)
    begin(alice, study, "left", 2)
    home = NodeDirectory.open(alice.folder).save(accept=rule)
    with closing(Journal.peek(home.path("journal.db"))) as committed:
        member = Member(name=home.name, study=study, identity=home.identity())
        judge = AdmissionRule(member, home, committed, "secure")
        allowed = {
            (job, bool(unfinished)): judge.auto_accepts(offered(study, job), unfinished=unfinished)
            for job in ("new", "begun", "left")
            for unfinished in ([], ["left"])
        }
        assert judge.auto_accepts(offered(study, "own", by="alice"), unfinished=[])
    assert allowed == {
        ("new", False): rule == "study",
        ("new", True): False,
        ("begun", False): True,  # it was accepted once
        ("begun", True): False,
        ("left", False): True,
        ("left", True): True,  # the whole of it was accepted, and it has spent already
    }
