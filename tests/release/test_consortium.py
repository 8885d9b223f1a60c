"""What a job's outcome says of itself: whose labels were seen, which jobs its ledger counts."""

from dataclasses import replace

import numpy as np
import pytest
from consortium import EPSILON, NAMES, Consortium

from pdml.accounting.events import IterateReleased
from pdml.accounting.provenance import DEVICES, OPERATOR, UNSAID
from pdml.release.consortium import ALL_JOBS, THIS_JOB, Outcome, Part


@pytest.fixture
def outcome(tmp_path):
    made = Consortium(tmp_path)
    parts = tuple(
        Part(
            server=name,
            records=server.records,
            released=np.ones(made.contract.shape),
            apart=[0.1] * (made.contract.plan.rounds - 1),
            label_epsilon=EPSILON,
            events=made.contract.events(name, records=server.records, epsilon=EPSILON),
            randomised_by=DEVICES,
        )
        for name, server in zip(NAMES, made.servers, strict=True)
    )
    return Outcome(contract=made.contract, parts=parts, source="secure")


def test_only_journals_count_more_than_this_job(outcome):
    assert outcome.counted == THIS_JOB and "this job alone" in THIS_JOB
    assert replace(outcome, own_nodes=True).counted == ALL_JOBS and "journals" in ALL_JOBS


def test_earlier_jobs_that_a_journal_tells_are_in_the_ledger(outcome):
    first = outcome.parts[0]
    more = replace(outcome, parts=(replace(first, earlier=first.events), *outcome.parts[1:]))
    spent = [each.ledger.line("features", "other servers", 0).epsilon for each in (outcome, more)]
    assert spent[1] > spent[0]
    sent = [event for event in more.ledger.events[0] if isinstance(event, IterateReleased)]
    assert len(sent) == 2 * outcome.contract.plan.rounds


@pytest.mark.parametrize("by", [OPERATOR, UNSAID])
def test_a_server_that_may_have_had_the_labels_is_no_protection_against_itself(outcome, by):
    parts = (*outcome.parts[:2], replace(outcome.parts[2], randomised_by=by), outcome.parts[3])
    ledger = replace(outcome, parts=parts).ledger
    assert ledger.line("label", "own server").epsilon == np.inf
    assert [ledger.line("label", "own server", i).epsilon for i in (0, 1, 3)] == [EPSILON] * 3
    assert ledger.line("label", "other servers") == outcome.ledger.line("label", "other servers")


def test_of_the_noise_its_deviation_is_told(outcome):
    plan = outcome.contract.plan
    expected = plan.noise_scale * plan.noise_decay ** (np.arange(plan.rounds) / 2)
    np.testing.assert_allclose(outcome.history().noise, expected, rtol=1e-12)
