"""From a node's journal to its statement: what `Participant.statement` signs."""

import json
from typing import TYPE_CHECKING

import numpy as np

from pdml.accounting import event_codec, event_groups
from pdml.errors import JournalError
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.signed_statement import (
    MOST_EARLIER,
    MOST_EARLIER_ROUNDS,
    Earlier,
    NeighbourReleases,
    Statement,
)
from pdml.node.storage.journal import Job, Journal
from pdml.planning.training_plan import TrainingPlan

if TYPE_CHECKING:
    from pdml.node.job.participant import TrainingData


def check(terms: JobTerms, name: str, dataset: str, journal: Journal) -> None:
    """Refuse to begin what a statement could not say at the end."""
    earlier = _jobs(terms, dataset, journal)
    if len(earlier) > MOST_EARLIER or sum(job.round for job in earlier) > MOST_EARLIER_ROUNDS:
        jobs = f"{len(earlier):,} jobs"
        raise JournalError(f"the data set of {name} has had {jobs}, more than a statement holds")


def study_and_plan(terms: JobTerms) -> str:
    """What a journal keeps so that later statements can speak of this job."""
    return json.dumps({"study": terms.study, "plan": terms.plan.to_dict()})


def build(
    terms: JobTerms,
    name: str,
    training_data: "TrainingData",
    journal: Journal,
    alias: str,
) -> Statement:
    """What a node has to say about a job that is complete."""
    job, entry = terms.job, journal.job(terms.job)
    if entry is None:
        raise JournalError(f"job {job} is not in the journal of {name}")
    spec = training_data.server.spec
    earlier = _jobs(terms, training_data.dataset, journal)
    sent = [journal.outgoing(job, t) for t in range(1, terms.plan.rounds + 1)]
    return Statement(
        terms=terms.digest,
        study=terms.study,
        job=job,
        plan=terms.plan.to_dict(),
        server=name,
        dataset=alias,
        records=spec.records,
        epsilon=spec.epsilon,
        label_epsilon=spec.label_epsilon,
        randomised_by=training_data.randomised_by,
        source=entry.source,
        sent=b"".join(bytes.fromhex(wire_messages.hash_of(payload)) for payload in sent),
        heard=[_neighbour_releases(terms, peer, journal) for peer in terms.neighbours(name)],
        release=sent[-1],
        events=[event_codec.encode_event(event) for event in journal.events_of(job)],
        earlier=[_earlier(before, journal) for before in earlier],
    )


def _neighbour_releases(terms: JobTerms, peer: str, journal: Journal) -> NeighbourReleases:
    job, rounds = terms.job, () if terms.sums else range(1, terms.plan.rounds + 1)
    dataset, before = journal.peer(job, peer)
    apart = []
    for t in rounds:
        sent, other = journal.outgoing(job, t), journal.inbox(job, t)[peer]
        gap = wire_messages.decode_vector(sent, terms.shape) - wire_messages.decode_vector(
            other, terms.shape
        )
        apart.append(float(np.linalg.norm(gap)))
    digests = b"".join(map(bytes.fromhex, journal.inbox_digests(job, peer)))
    return NeighbourReleases(
        sender=peer, digests=digests, apart=apart, dataset=dataset, before=before
    )


def _jobs(terms: JobTerms, dataset: str, journal: Journal) -> list[Job]:
    """Other jobs that released something of the same data set."""
    jobs = [job for job in journal.jobs() if job.dataset == dataset]
    return [job for job in jobs if job.job != terms.job and job.round]


def _earlier(job: Job, journal: Journal) -> Earlier:
    spent = event_groups.merge_iterates(journal.events_of(job.job))
    events = [event_codec.encode_event(event) for event in spent]
    return Earlier(
        job=job.job, terms=job.terms, **json.loads(job.plan), rounds=job.round, events=events
    )


def plan_of(job: Job) -> tuple[TrainingPlan, str]:
    """The plan of a job in the journal, and the hash of the study it was done under."""
    if not job.plan:
        raise JournalError(f"job {job.job} has no plan")
    content = json.loads(job.plan)
    return TrainingPlan.from_dict(content["plan"]), str(content["study"])
