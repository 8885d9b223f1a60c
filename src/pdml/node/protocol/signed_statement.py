"""What a node signs at the end of a job: what it sent and heard, and what its data set has spent.

Everything in it is noisy or public; all statements and the study give the model and its page. It
travels as the domain, 64 bytes of signature, and msgpack: its length is bounded by the terms before
anything is read, its signature checked before anything is parsed.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from numpy.typing import NDArray

from pdml.accounting.budget import MOST_ROUNDS
from pdml.accounting.events import Event, decode_event, describe_difference, merge_iterates
from pdml.errors import PDMLError, PeerError
from pdml.formats import Format, decode
from pdml.mechanisms.exact_gaussian import on_grid
from pdml.mechanisms.randomness import SOURCES, Secure
from pdml.node.crypto.signing import Identity, verify_signature
from pdml.node.job import sums_participant
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.study.frozen_dataset import RANDOMISERS

FORMAT = Format(name="statement", version=1)
DIGEST = 32  # bytes of a sha256
MOST_RECORDS = 10**8  # of one data set; beyond, rounding costs more than further records save
MOST_EARLIER = 1_000  # jobs on one data set before this one
MOST_EARLIER_ROUNDS = 100_000  # of all of them

_ALIAS = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DOMAIN = b"pdml statement 1\0"
_SIGNATURE = 64
_HEAD = len(_DOMAIN) + _SIGNATURE
_EVENT = 256  # bytes that one event needs at most
_NAMES = 4096  # all names, digests and single numbers


# Lengths are checked where msgpack announces them, before anything is allocated.
Rounds = Annotated[list[float], Meta(max_length=MOST_ROUNDS)]
PerServer = Annotated[list[int | float], Meta(max_length=1_000)]  # one number per server
Settings = dict[str, int | float | str | PerServer | None]
Part = Annotated[list[int | float | str], Meta(max_length=8)]  # of one field of an event
Parts = Annotated[list[int | float | Part], Meta(max_length=1_000)]
Fields = dict[str, bool | int | float | str | Parts | None]
Events = Annotated[list[Fields], Meta(max_length=MOST_ROUNDS + 1)]


class NeighbourReleases(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a node has of one neighbour."""

    sender: str
    digests: bytes  # of its release of every round, 32 bytes each
    distances: Rounds  # the distance between its release and this node's own; of sums there is none
    dataset: str  # the alias of the data set on which it said, in its hello, that it trains
    earlier_releases: int  # vectors of that data set before this job, as it said


class EarlierJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job before this one that released something of the same data set."""

    job: str
    terms: str  # the digest of its terms
    study: str  # which may be an earlier revision
    plan: Settings
    rounds: int  # as many as were released
    events: Events  # what they spent, as `merge_iterates` has it


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The end of a job at one node."""

    version: int = FORMAT.version
    terms: str  # the digest of the terms
    study: str
    job: str
    plan: Settings
    server: str
    dataset: str  # its alias
    records: int
    epsilon: float  # the smallest label ε of the records
    label_epsilon: float  # the largest
    randomised_by: str  # who randomised the labels, as the operator says
    source: str  # of the noise
    sent: bytes  # the digest of the release of every round, 32 bytes each
    received: Annotated[list[NeighbourReleases], Meta(max_length=1_000)]  # in the terms' order
    release: bytes  # the payload of the last round
    events: Events  # of this job
    earlier_jobs: Annotated[list[EarlierJob], Meta(max_length=MOST_EARLIER)]

    def vector(self, terms: JobTerms) -> NDArray[Any]:
        """w̃_i(T), or the row of sums."""
        return wire_messages.decode_vector(self.release, terms.shape, terms.dtype)

    @property
    def spent(self) -> tuple[Event, ...]:
        return tuple(decode_event(values) for values in self.events)

    @property
    def earlier_spending(self) -> tuple[Event, ...]:
        return tuple(decode_event(values) for job in self.earlier_jobs for values in job.events)

    @property
    def earlier_releases(self) -> int:
        """How many vectors the data set had released before this job."""
        return sum(job.rounds for job in self.earlier_jobs)


def digest_of(digests: bytes, t: int) -> str:
    """The digest of round t, in hex, among 32 bytes per round."""
    return digests[DIGEST * (t - 1) : DIGEST * t].hex()


def most_bytes(terms: JobTerms, server: str) -> int:
    """The longest statement of a server that the terms allow: checked before anything is read."""
    neighbours = len(terms.neighbours(server))
    round_bytes = DIGEST + (DIGEST + 9) * neighbours + _EVENT  # of one round
    names = _NAMES + 512 * neighbours
    plan = 1024 + 20 * len(terms.servers)
    vector = 8 * terms.shape[0] * terms.shape[1]
    this_job = names + round_bytes * (terms.plan.rounds + 1) + vector + plan
    return _HEAD + this_job + MOST_EARLIER * (4 * _EVENT + plan)


def sign(statement: Statement, identity: Identity) -> bytes:
    content = msgspec.msgpack.encode(statement)
    return _DOMAIN + identity.sign(_DOMAIN + content) + content


def signed_by(data: bytes, server: str, keys: Mapping[str, str]) -> Statement:
    """What ``server`` has signed: its signature and its form are checked, and nothing else."""
    if why := FORMAT.refusal_by_mark(data, f"{server} signed a statement that"):
        raise PeerError(why)
    signature, content = data[len(_DOMAIN) : _HEAD], data[_HEAD:]
    good = verify_signature(keys.get(server, ""), _DOMAIN + content, signature)
    if not good or not data.startswith(_DOMAIN):
        raise PeerError(f"the statement of {server} is not signed by it: somebody changed it")
    try:
        statement: Statement = decode(content, Statement, msgspec.msgpack.decode)
    except msgspec.DecodeError as error:
        raise PeerError(f"{server} signed something that is no statement: {error}") from None
    if why := FORMAT.refusal(statement.version, f"{server} signed a statement that"):
        raise PeerError(why)
    if statement.server != server:
        raise PeerError(f"{server} signed a statement of {statement.server!r}")
    if msgspec.msgpack.encode(statement) != content:
        raise PeerError(f"{server} spelt its statement in another way than all others do")
    return statement


def open_statement(data: bytes, terms: JobTerms, server: str, keys: Mapping[str, str]) -> Statement:
    """Check the statement of ``server`` by itself; `job_result` compares it with others."""
    if len(data) > most_bytes(terms, server):
        raise PeerError(f"{server} made a statement of {len(data):,} bytes, longer than any may be")
    statement = signed_by(data, server, keys)
    expected = (terms.digest, terms.job, terms.study)
    if (statement.terms, statement.job, statement.study) != expected or not _same_plan(
        statement.plan, terms.plan
    ):
        raise PeerError(f"{server} made a statement on another job")
    _check_lengths(statement, terms)
    _check_claims(statement, terms)
    _check_release(statement, terms)
    _check_events(statement, terms)
    return statement


def _same_plan(values: Mapping[str, Any], plan: TrainingPlan) -> bool:
    try:
        return TrainingPlan.from_dict(dict(values)) == plan
    except (PDMLError, TypeError):
        return False


def _check_lengths(statement: Statement, terms: JobTerms) -> None:
    """Every round of every neighbour, and nothing else."""
    server, rounds = statement.server, terms.plan.rounds
    if tuple(neighbour.sender for neighbour in statement.received) != terms.neighbours(server):
        raise PeerError(f"{server} tells what it heard from others than its neighbours")
    lengths = {len(statement.sent), *(len(neighbour.digests) for neighbour in statement.received)}
    gaps = 0 if terms.sums else rounds
    if lengths != {DIGEST * rounds} or any(
        len(neighbour.distances) != gaps for neighbour in statement.received
    ):
        raise PeerError(f"{server} does not tell what it sent and heard in each of {rounds} rounds")
    farthest = 2 * terms.norm_cap
    if not all(
        0 <= gap <= farthest for neighbour in statement.received for gap in neighbour.distances
    ):
        raise PeerError(f"{server} tells distances that no honest node would have")


def _check_claims(statement: Statement, terms: JobTerms) -> None:
    """What nobody else can know must at least be possible."""
    server, low, high = statement.server, statement.epsilon, statement.label_epsilon
    if not 1 <= statement.records <= MOST_RECORDS:
        raise PeerError(
            f"{server} tells of {statement.records:,} records, not 1 to {MOST_RECORDS:,}"
        )
    if not terms.epsilon <= low <= high < inf:
        raise PeerError(f"{server} tells of impossible label epsilons, from {low:g} to {high:g}")
    if statement.randomised_by not in RANDOMISERS:
        raise PeerError(
            f"{server} says that {statement.randomised_by[:40]!r} randomised its labels"
        )
    if statement.source not in SOURCES:
        raise PeerError(
            f"{server} tells of noise from {statement.source[:40]!r}, which nobody knows"
        )
    if not _ALIAS.fullmatch(statement.dataset):
        raise PeerError(f"{server} gives its data set a name that no node gives")


def _check_release(statement: Statement, terms: JobTerms) -> None:
    """The last release is what was sent, and what the noise it speaks of can have made."""
    server, (rows, width) = statement.server, terms.shape
    if len(statement.release) != 8 * rows * width:
        raise PeerError(f"{server} tells a last release of {len(statement.release):,} bytes")
    values = statement.vector(terms)
    if wire_messages.describe_defect(values, terms) or _unlikely(values, statement, terms):
        raise PeerError(f"{server} tells a last release that no honest node would have")
    if wire_messages.hash_of(statement.release) != digest_of(statement.sent, terms.plan.rounds):
        raise PeerError(f"{server} tells another last release than it says it sent")
    if statement.source == Secure.name and not terms.sums and not on_grid(values):
        raise PeerError(f"{server} speaks of secure noise, which cannot make its last release")


def _unlikely(values: NDArray[Any], statement: Statement, terms: JobTerms) -> bool:
    """Whether its records cannot have these sums; masks hide it."""
    is_readable = terms.sums and not terms.masked
    return is_readable and sums_participant.inconsistent_with_record_counts(
        values, terms, [spec_of(statement, terms)]
    )


def _check_events(statement: Statement, terms: JobTerms) -> None:
    """A node cannot understate what it spent: its records and its ε say what the plan costs."""
    server = statement.server
    try:
        planned = terms.plan.events(spec_of(statement, terms))
        if difference := describe_difference(statement.spent, planned):
            raise PeerError(f"{server} tells another spending than the plan's: {difference}")
        if not 0 <= statement.earlier_releases <= MOST_EARLIER_ROUNDS:
            raise PeerError(f"{server} tells of more earlier rounds than a data set can have had")
        for job in statement.earlier_jobs:
            _check_earlier(statement, job, terms)
        if len({job.job for job in statement.earlier_jobs} | {terms.job}) <= len(
            statement.earlier_jobs
        ):
            raise PeerError(f"{server} tells of one earlier job twice")
    except PeerError:
        raise
    except (PDMLError, TypeError, ValueError, OverflowError) as error:
        raise PeerError(f"{server} tells of events that cannot be read: {error}") from None


def spec_of(statement: Statement, terms: JobTerms) -> ServerSpec:
    return terms.training.server_spec(
        terms.index(statement.server),
        records=statement.records,
        epsilons=(statement.epsilon, statement.label_epsilon),
    )


def _check_earlier(statement: Statement, job: EarlierJob, terms: JobTerms) -> None:
    plan = TrainingPlan.from_dict(dict(job.plan))
    before = replace(terms, job=job.job, study=job.study, plan=plan)
    if before.digest != job.terms or not 1 <= job.rounds <= before.plan.rounds:
        raise PeerError(
            f"{statement.server} tells of an earlier job {job.job} with impossible terms"
        )
    planned = replace(plan, rounds=job.rounds).events(spec_of(statement, terms))
    events = tuple(decode_event(values) for values in job.events)
    expected = merge_iterates(planned)
    if difference := describe_difference(events, expected):
        sentence = f"{statement.server} tells another spending of job {job.job} than its plan's"
        raise PeerError(f"{sentence}: {difference}")
