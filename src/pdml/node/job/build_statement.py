"""From a node's journal to its statement: what `Party.statement` signs."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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


def check(contract: JobTerms, name: str, dataset: str, journal: Journal) -> None:
    """Refuse to begin what a statement could not tell at the end."""
    earlier = _jobs(contract, dataset, journal)
    if len(earlier) > MOST_EARLIER or sum(job.round for job in earlier) > MOST_EARLIER_ROUNDS:
        jobs = f"{len(earlier):,} jobs"
        raise JournalError(f"the data set of {name} has had {jobs}, more than a statement holds")
    if unknown := [job.job for job in earlier if _terms(contract, job) is None]:
        raise JournalError(
            f"the journal of {name} does not hold the plan of job {unknown[0]}, which an older "
            "version began: nobody could check what that spent, so its data set is closed"
        )


def terms(contract: JobTerms) -> str:
    """What a journal keeps so that later statements can tell of this job."""
    return json.dumps({"study": contract.study, "plan": contract.plan.to_dict()})


def build(
    contract: JobTerms,
    name: str,
    holdings: "TrainingData",
    journal: Journal,
    alias: str,
) -> Statement:
    """What a node has to say about a job that is complete."""
    job, entry = contract.job, journal.job(contract.job)
    if entry is None:
        raise JournalError(f"job {job} is not in the journal of {name}")
    spec = holdings.server.spec
    earlier = _jobs(contract, holdings.dataset, journal)
    sent = [journal.outgoing(job, t) for t in range(1, contract.plan.rounds + 1)]
    return Statement(
        terms=contract.digest,
        study=contract.study,
        job=job,
        plan=contract.plan.to_dict(),
        server=name,
        dataset=alias,
        records=spec.records,
        epsilon=spec.epsilon,
        label_epsilon=spec.label_epsilon,
        randomised_by=holdings.randomised_by,
        source=entry.source,
        sent=b"".join(bytes.fromhex(wire_messages.hash_of(payload)) for payload in sent),
        heard=[_neighbour_releases(contract, peer, journal) for peer in contract.neighbours(name)],
        release=sent[-1],
        events=[event_codec.encode_event(event) for event in journal.events_of(job)],
        earlier=[_earlier(contract, before, journal) for before in earlier],
    )


def _neighbour_releases(contract: JobTerms, peer: str, journal: Journal) -> NeighbourReleases:
    job, rounds = contract.job, () if contract.sums else range(1, contract.plan.rounds + 1)
    dataset, before = journal.standing(job, peer)
    apart = []
    for t in rounds:
        sent, other = journal.outgoing(job, t), journal.inbox(job, t)[peer]
        gap = wire_messages.unpacked(sent, contract.shape) - wire_messages.unpacked(
            other, contract.shape
        )
        apart.append(float(np.linalg.norm(gap)))
    digests = b"".join(map(bytes.fromhex, journal.inbox_digests(job, peer)))
    return NeighbourReleases(
        sender=peer, digests=digests, apart=apart, dataset=dataset, before=before
    )


def _jobs(contract: JobTerms, dataset: str, journal: Journal) -> list[Job]:
    """Other jobs that released something of the same data set."""
    jobs = [job for job in journal.jobs() if job.dataset == dataset]
    return [job for job in jobs if job.job != contract.job and job.round]


def _terms(contract: JobTerms, job: Job) -> dict[str, Any] | None:
    """Study and plan of an earlier job; those that format 2 did not keep may be this job's."""
    if job.terms:
        return dict(json.loads(job.terms))
    same = replace(contract, job=job.job).digest == job.contract
    return dict(json.loads(terms(contract))) if same else None


def _earlier(contract: JobTerms, job: Job, journal: Journal) -> Earlier:
    study_and_plan = _terms(contract, job)
    if study_and_plan is None:  # `check` has refused to begin
        raise JournalError(f"the plan of job {job.job} is not known")
    spent = event_groups.merge_iterates(journal.events_of(job.job))
    events = [event_codec.encode_event(event) for event in spent]
    return Earlier(
        job=job.job, terms=job.contract, **study_and_plan, rounds=job.round, events=events
    )


def plan_of(job: Job) -> tuple[TrainingPlan, str]:
    """The plan of a job in the journal, and the hash of the study it was done under."""
    if not job.terms:
        raise JournalError(f"the journal does not hold the plan of job {job.job}")
    kept = json.loads(job.terms)
    return TrainingPlan.from_dict(kept["plan"]), str(kept["study"])
