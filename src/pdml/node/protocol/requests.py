"""What members ask each other beside the rounds: the kinds, and what stands in them."""

from typing import Annotated, TypeVar

import msgspec

from pdml.errors import PeerError
from pdml.formats import decode

OFFER, POSTPONE, BEGIN, STOP = "offer", "postpone", "begin", "stop"
ASK, FETCH, PROOF = "ask", "fetch", "proof"

T = TypeVar("T")


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
    contract: str
    server: str
    start: Annotated[int, msgspec.Meta(ge=0)]
    proof: bool = False


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sender can prove that ``peer`` said two things in a job: fetch it."""

    job: str
    peer: str


def decoded(data: bytes, kind: type[T], sender: str) -> T:
    """What ``sender`` asks; anything else is refused."""
    try:
        question: T = decode(data, kind, msgspec.msgpack.decode)
    except msgspec.DecodeError:
        raise PeerError(f"{sender} sent something that cannot be read") from None
    return question
