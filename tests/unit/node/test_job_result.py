"""What a job's result says of itself: whose labels were seen, which jobs its ledger counts."""

from dataclasses import replace

import numpy as np
import pytest
from consortium import EPSILON, NAMES, WIDTH
from results import Studied

from pdml.accounting.events import IterateReleased
from pdml.accounting.kinds import DEVICES, OPERATOR, UNSAID
from pdml.errors import InvalidInput
from pdml.mechanisms import masks
from pdml.model.history import NO_ROUNDS
from pdml.node.job.job_result import study_result
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums.fit import Noise, fit_sums
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release
from pdml.training.result import ALL_JOBS, THIS_JOB, ServerPart


def parts_of(made, sent):
    """What the servers hand over, who have released this."""
    return tuple(
        ServerPart(
            name=name,
            spec=server.spec,
            released=released,
            events=made.job_terms.plan.events(server.spec),
            randomised_by=DEVICES,
        )
        for name, server, released in zip(NAMES, made.servers, sent, strict=True)
    )


@pytest.fixture
def made(tmp_path):
    return Studied(tmp_path)


@pytest.fixture
def parts(made):
    return parts_of(made, [np.ones(made.job_terms.shape)] * len(NAMES))


def result_of(made, parts, **more):
    distances = [0.1] * (made.job_terms.plan.rounds - 1)
    return study_result(
        made.study, made.job_terms, parts, source="secure", distances=distances, **more
    )


def test_only_journals_count_more_than_this_job(made, parts):
    alone, signed = (result_of(made, parts, statements=each) for each in (None, {"alice": "0"}))
    assert alone.counted == THIS_JOB and "this job alone" in THIS_JOB
    assert signed.counted == ALL_JOBS and "journals" in ALL_JOBS


def test_earlier_jobs_that_a_journal_tells_are_in_the_ledger(made, parts):
    outcome, first = result_of(made, parts), parts[0]
    more = result_of(made, (replace(first, earlier=first.events), *parts[1:]))
    spent = [each.ledger.row("features", "other servers", 0).epsilon for each in (outcome, more)]
    assert spent[1] > spent[0]
    sent = [event for event in more.ledger.events[0] if isinstance(event, IterateReleased)]
    assert len(sent) == 2 * outcome.plan.rounds


@pytest.mark.parametrize("by", [OPERATOR, UNSAID])
def test_a_server_that_may_have_had_the_labels_is_no_protection_against_itself(made, parts, by):
    outcome = result_of(made, parts)
    unknown = (*parts[:2], replace(parts[2], randomised_by=by), parts[3])
    ledger = result_of(made, unknown).ledger
    assert ledger.row("label", "own server").epsilon == np.inf
    assert [ledger.row("label", "own server", i).epsilon for i in (0, 1, 3)] == [EPSILON] * 3
    assert ledger.row("label", "other servers") == outcome.ledger.row("label", "other servers")


def test_of_the_noise_its_deviation_is_told(made, parts):
    outcome = result_of(made, parts)
    plan = outcome.plan
    expected = plan.noise_scale * plan.noise_decay ** (np.arange(plan.rounds) / 2)
    np.testing.assert_allclose(outcome.history.noise, expected, rtol=1e-12)


def exchanged(folder, *, colluding, masked):
    """Four organisations after one exchange of sums, and the sum of what they released."""
    plan = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0, colluding=colluding)
    made = Studied(folder, plan=plan)
    rows = [
        sums_release.release_sums(sums_release.exact(each, plan), each, plan, made.source)
        for each in made.servers
    ]
    sent = [
        masks.add_masks(
            row,
            name,
            NAMES,
            {
                other: masks.derive_seed(bytes(32), job="job-1", server=name, other=other)
                for other in NAMES
                if other != name
            },
        )
        if masked
        else row
        for name, row in zip(NAMES, rows, strict=True)
    ]
    return result_of(made, parts_of(made, sent)), sum(rows)


@pytest.mark.parametrize(("colluding", "masked"), [(None, False), (2, False), (2, True)])
def test_sums_give_the_model_of_their_exact_total(tmp_path, colluding, masked):
    """Masks cancel: with them and without, the model is the same to the bit."""
    outcome, total = exchanged(tmp_path, colluding=colluding, masked=masked)
    np.testing.assert_array_equal(outcome.total, total)
    share = np.sqrt(4 if colluding is None else 2)
    noise = Noise(label=2 * share, square=3 * share)
    expected = fit_sums(
        sums_release.totals(total, 1, WIDTH),
        noise,
        loss=LOGISTIC,
        constant=outcome.parts[0].spec.constant,
    ).weights
    np.testing.assert_allclose(outcome.weights, expected, rtol=0, atol=2.0**-22)
    said = outcome.expected
    assert 0 <= said.accuracy.low <= said.accuracy.middle <= said.accuracy.high <= 1
    assert outcome.consensus is None and outcome.history is NO_ROUNDS


def test_a_missing_server_leaves_no_total(tmp_path):
    outcome, _ = exchanged(tmp_path, colluding=2, masked=True)
    with pytest.raises(InvalidInput, match="has those of alice, bob, carol"):
        _ = replace(outcome, parts=outcome.parts[:3]).total
