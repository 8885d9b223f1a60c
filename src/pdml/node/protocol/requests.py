"""What members ask of each other, their answers, and the offer of a job. Each node makes the terms
from its own study; a job begins once every member has signed that it accepts."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec

from pdml.errors import InvalidInput, PeerError
from pdml.formats import Format, decode
from pdml.node.crypto.signing import Identity, verify_signature
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.redaction import public_terms
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study

T = TypeVar("T")


class RequestKind(StrEnum):
    """What a member may ask of another; an operator commands the first and the fourth."""

    OFFER = "offer"
    POSTPONE = "postpone"
    BEGIN = "begin"
    STOP = "stop"
    PROGRESS = "progress"
    FETCH = "fetch"
    PROOF = "proof"
    HELLO = "hello"
    RELEASE = "release"


class AnswerState(StrEnum):
    """What came of a request; any other word of a peer counts as a refusal."""

    OK = "ok"
    LATER = "later"  # not ready: ask again
    REFUSED = "refused"


OK, LATER, REFUSED = AnswerState


class PeerAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    state: str
    sentence: str = ""
    messages: list[bytes] = []


def read_answer(data: bytes) -> PeerAnswer | None:
    """An answer as it arrived; None if it is none."""
    try:
        answer: PeerAnswer = decode(data, PeerAnswer, msgspec.msgpack.decode)
    except msgspec.DecodeError:
        return None
    return answer


class Postpone(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sender's offer waits for another's: whoever has accepted it is free again."""

    attempt: str


class Begin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All have accepted, and here is what they signed."""

    attempt: str
    accepted: dict[str, bytes]


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sender ends this attempt, with its reason."""

    attempt: str
    sentence: str


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    state: str
    round: int


class Fetch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A piece of a server's statement on a job, or of the proof against it, from this byte on."""

    job: str
    terms: str  # the digest of its terms
    server: str
    start: Annotated[int, msgspec.Meta(ge=0)]
    proof: bool = False


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sender can prove that ``peer`` said two things in a job: fetch it."""

    job: str
    peer: str


def read_request(data: bytes, kind: type[T], sender: str) -> T:
    """What stands in a request of ``sender``; anything else is refused."""
    try:
        request: T = decode(data, kind, msgspec.msgpack.decode)
    except msgspec.DecodeError:
        raise PeerError(f"{sender} sent something that cannot be read") from None
    return request


LONGEST_START = 3_600.0  # seconds: a node that has accepted an offer does no other job until then
LONGEST_ROUND = 86_400.0
FORMAT = Format(name="offer", version=1)
_OFFER, _ACCEPTANCE = b"pdml job offer 1\0", b"pdml job acceptance 1\0"
_SIGNATURE = 64  # bytes
_TOKEN = 32  # hexadecimal digits of an attempt's name


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a member proposes; ``attempt`` is fresh each time."""

    version: int = FORMAT.version
    attempt: str
    job: str
    study: str  # its hash
    terms: str  # the digest of its `JobTerms`
    plan: dict[str, Any]
    offerer: str
    resume: bool
    start_timeout: float
    round_timeout: float

    @classmethod
    def of(cls, terms: JobTerms, **options: Any) -> "Offer":
        return cls(
            job=terms.job,
            study=terms.study,
            terms=terms.digest,
            plan=terms.plan.to_dict(),
            **options,
        )

    @classmethod
    def read(cls, data: bytes, sender: str, key: str) -> "Offer":
        signature, content = data[:_SIGNATURE], data[_SIGNATURE:]
        newer = FORMAT.refusal_of(content, f"{sender} sent an offer that", msgspec.msgpack.decode)
        if newer:
            raise PeerError(newer)
        if not verify_signature(key, _OFFER + content, signature):
            raise PeerError(f"{sender} sent an offer that it has not signed")
        try:
            offer: Offer = decode(content, cls, msgspec.msgpack.decode)
        except msgspec.DecodeError as error:
            raise PeerError(f"{sender} sent something that is no offer: {error}") from None
        if offer.offerer != sender:
            raise PeerError(f"{sender} signed an offer in the name of {offer.offerer!r}")
        start, answer = offer.start_timeout, offer.round_timeout
        if not (1 <= start <= LONGEST_START and 1 <= answer <= LONGEST_ROUND):
            raise PeerError(
                f"{sender} offers a job with waits of {start:g} s for its start and {answer:g} s "
                f"for an answer: they must lie in [1, {LONGEST_START:g}] and [1, {LONGEST_ROUND:g}]"
            )
        if len(offer.attempt) != _TOKEN:
            raise PeerError(f"{sender} offers a job without a name of {_TOKEN} digits for its try")
        return offer

    @classmethod
    def stored(cls, data: bytes) -> "Offer":
        """One that was `read` before: its offerer may have another key by now."""
        return read_request(data[_SIGNATURE:], cls, "an earlier pdml")

    def signed(self, identity: Identity) -> bytes:
        """As it travels: 64 bytes of signature, then the terms."""
        content = msgspec.msgpack.encode(self)
        return identity.sign(_OFFER + content) + content

    def make_job_terms(self, study: Study) -> JobTerms:
        """The terms under this node's own study, or a refusal."""
        if study.hash != self.study:
            hashes = f"{self.study[:12]}..., this node has {study.hash[:12]}..."
            raise InvalidInput(
                f"the job is for the study {hashes}: the studies differ"
            ).mark_public()
        with public_terms():
            plan = TrainingPlan.from_dict(dict(self.plan))
        terms = JobTerms.for_study(study, plan, self.job)
        if terms.digest != self.terms:
            what = f"{self.offerer}'s offer of job {self.job}"
            raise InvalidInput(
                f"{what} does not make the same terms under this study"
            ).mark_public()
        return terms


def acceptance(offer: Offer, name: str, identity: Identity) -> bytes:
    return identity.sign(_accepting(offer, name))


def check_begin(begin: Begin, offer: Offer, study: Study) -> None:
    """Nobody begins before everybody has accepted: not on the offerer's word alone."""
    keys: Mapping[str, str] = study.signing_keys
    for server in study.servers:
        if not verify_signature(
            keys.get(server.name, ""),
            _accepting(offer, server.name),
            begin.accepted.get(server.name, b""),
        ):
            raise PeerError(
                f"{offer.offerer} wants to begin job {offer.job}, which {server.name} has "
                "not accepted"
            )


def _accepting(offer: Offer, name: str) -> bytes:
    return _ACCEPTANCE + msgspec.msgpack.encode((offer.attempt, offer.terms, name))
