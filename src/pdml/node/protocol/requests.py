"""What members ask each other: the kinds of requests, what stands in them, and their answers."""

from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec

from pdml.errors import PeerError
from pdml.formats import decode

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


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node says to a request."""

    state: str
    sentence: str = ""
    messages: list[bytes] = []


def read_answer(data: bytes) -> Answer | None:
    """An answer as it arrived; None if it is none."""
    try:
        answer: Answer = decode(data, Answer, msgspec.msgpack.decode)
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
    """How far a member is with a job."""

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
