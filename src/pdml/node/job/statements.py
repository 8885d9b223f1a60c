"""The end of a job: this node's statement, and every other member's, fetched piece by piece."""

import json
from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np

from pdml.accounting.events import encode_event, merge_iterates
from pdml.clock import Clock
from pdml.errors import JournalError, PeerError, plain
from pdml.node.job.activity import Ask, Steps, Wait
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol import signed_statement, wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import (
    LATER,
    OK,
    REFUSED,
    Fetch,
    PeerAnswer,
    RequestKind,
    read_answer,
)
from pdml.node.protocol.signed_statement import (
    MOST_EARLIER,
    MOST_EARLIER_ROUNDS,
    EarlierJob,
    NeighbourReleases,
    Statement,
)
from pdml.node.storage.journal import Job, Journal
from pdml.planning.training_plan import TrainingPlan


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
    terms: JobTerms, name: str, training_data: TrainingData, journal: Journal, alias: str
) -> Statement:
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
        received=[_neighbour_releases(terms, peer, journal) for peer in terms.neighbours(name)],
        release=sent[-1],
        events=[encode_event(event) for event in journal.events_of(job)],
        earlier_jobs=[_earlier(before, journal) for before in earlier],
    )


def _neighbour_releases(terms: JobTerms, peer: str, journal: Journal) -> NeighbourReleases:
    job, rounds = terms.job, () if terms.sums else range(1, terms.plan.rounds + 1)
    dataset, earlier = journal.peer(job, peer)
    distances = []
    for t in rounds:
        sent, other = journal.outgoing(job, t), journal.inbox(job, t)[peer]
        gap = wire_messages.decode_vector(sent, terms.shape) - wire_messages.decode_vector(
            other, terms.shape
        )
        distances.append(float(np.linalg.norm(gap)))
    digests = b"".join(map(bytes.fromhex, journal.inbox_digests(job, peer)))
    return NeighbourReleases(
        sender=peer, digests=digests, distances=distances, dataset=dataset, earlier_releases=earlier
    )


def _jobs(terms: JobTerms, dataset: str, journal: Journal) -> list[Job]:
    """Other jobs that released something of the same data set."""
    jobs = [job for job in journal.jobs() if job.dataset == dataset]
    return [job for job in jobs if job.job != terms.job and job.round]


def _earlier(job: Job, journal: Journal) -> EarlierJob:
    spent = merge_iterates(journal.events_of(job.job))
    events = [encode_event(event) for event in spent]
    return EarlierJob(
        job=job.job, terms=job.terms, **json.loads(job.plan), rounds=job.round, events=events
    )


def plan_of(job: Job) -> tuple[TrainingPlan, str]:
    """The plan of a job in the journal, and the hash of the study it was done under."""
    if not job.plan:
        raise JournalError(f"job {job.job} has no plan")
    content = json.loads(job.plan)
    return TrainingPlan.from_dict(content["plan"]), str(content["study"])


CHUNK = 1 << 15  # bytes of a long text (a statement) that travel at once
_ATTEMPT = 2.0  # seconds for one piece
_PAUSE = 0.2
_TURNS = 4  # of so many requests for a statement one goes to another than its author


class StatementStore(Protocol):
    """Where statements are kept: an `Exchange`."""

    def stored_statement(self, server: str) -> bytes: ...

    def store_statement(self, server: str, data: bytes) -> None: ...


def piece(data: bytes, start: int) -> PeerAnswer:
    return PeerAnswer(OK, messages=[data[start : start + CHUNK], len(data).to_bytes(8, "big")])


def is_cut_short(part: bytes, data: bytes, whole: int) -> bool:
    """Whether ``part``, with which ``data`` ends, is less than `piece` gives."""
    return not part or (len(part) < CHUNK and len(data) < whole)


def nothing_yet(name: str, job: str, round: int, *, expected: bool) -> PeerAnswer:
    """There is no statement here; ``expected`` says whether one may come."""
    state = LATER if expected else REFUSED
    return PeerAnswer(
        state, f"{name} has no such statement on job {job}", [round.to_bytes(8, "big")]
    )


def fetch(
    terms: str,
    job: str,
    server: str,
    source: str,
    start: int,
    timeout: float,
    *,
    proof: bool = False,
) -> Steps[PeerAnswer | None]:
    request = Fetch(job=job, terms=terms, server=server, start=start, proof=proof)
    messages = {source: msgspec.msgpack.encode(request)}
    replies = yield Ask(kind=RequestKind.FETCH, messages=messages, timeout=timeout)
    return read_answer(replies.get(source, b""))


def fetch_statements(
    terms: JobTerms,
    others: tuple[str, ...],
    store: StatementStore,
    *,
    name: str,
    limit: float,
    check: Callable[[], None],
    clock: Clock,
) -> Steps[None]:
    missing = [server for server in others if not store.stored_statement(server)]
    pieces: dict[tuple[str, str], bytes] = {}  # by author and by who sent them
    rounds, turn = dict.fromkeys(missing, -1), 0
    deadline = clock.monotonic() + limit
    latest = clock.monotonic() + limit * len(terms.servers)
    while missing:
        check()
        progress = later = False
        for server in list(missing):
            source = server
            if turn % _TURNS == _TURNS - 1:
                source = others[(turn // _TURNS + others.index(server)) % len(others)]
            start = len(pieces.get((server, source), b""))
            timeout = min(_ATTEMPT, limit)
            answer = yield from fetch(terms.digest, terms.job, server, source, start, timeout)
            if answer is None:
                continue
            number = int.from_bytes(answer.messages[-1][:8], "big") if answer.messages else 0
            if answer.state == REFUSED and source == server:
                raise PeerError(f"{server} says: {plain(answer.sentence)}")
            if answer.state == OK and len(answer.messages) == 2:
                data = pieces.get((server, source), b"") + answer.messages[0]
                pieces[server, source] = data
                try:
                    _check_piece(terms, server, answer.messages[0], data, number)
                    if len(data) >= number:
                        store.store_statement(server, data)
                        missing.remove(server)
                    progress = True
                except PeerError:  # only its author answers for a statement that is none
                    if source == server:
                        raise
                    del pieces[server, source]
            elif (
                answer.state == LATER
                and source == server
                and rounds[server] < number <= terms.plan.rounds
            ):
                later, rounds[server] = True, number
        now = clock.monotonic()
        if progress:
            deadline = now + limit
            continue
        if later:
            deadline = max(deadline, min(now + limit, latest))
        if missing and now > deadline:
            raise PeerError(
                f"{name} waited {limit:g} s for the statement of {', '.join(sorted(missing))}"
            )
        turn += 1
        yield Wait(_PAUSE)


def _check_piece(terms: JobTerms, server: str, part: bytes, data: bytes, whole: int) -> None:
    most = signed_statement.most_bytes(terms, server)
    if is_cut_short(part, data, whole) or max(whole, len(data)) > most:
        raise PeerError(f"{server} has a statement of {whole:,} bytes, which is none")
