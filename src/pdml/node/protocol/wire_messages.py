"""What nodes say to each other: signed, versioned msgpack, plain bytes with shape and dtype.

The signature of a release covers its `SignedDigest` (what else is in it must be what the
recipient's own terms say): who keeps that without the vector can still prove what the sender said.
Whatever does not check out raises `PeerError`, which names the sender.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from pdml.errors import PeerError
from pdml.formats import Format, decode
from pdml.node.crypto.signing import Identity, verify_signature
from pdml.node.job import sums_participant
from pdml.node.protocol.job_terms import FLOATS, JobTerms

FORMAT = Format(name="training message", version=1)
ENVELOPE = 1024  # bytes a message may need beyond its payload
ANSWERS = 6  # messages of one answer: a hello and the rounds by which neighbours can differ

_DOMAIN = b"pdml training message 1\0"


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How every message between neighbours begins."""

    version: int
    terms: str  # their digest
    study: str
    job: str
    round: int
    sender: str
    recipient: str


class Vector(Header, frozen=True, tag="vector"):
    """The release of one round, for one neighbour."""

    dtype: str
    shape: tuple[int, int]
    payload: bytes
    signature: bytes = b""


class SignedDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="digest"):
    """A release without its vector: what its sender has signed."""

    version: int
    terms: str
    round: int
    sender: str
    recipient: str
    digest: str  # of the payload
    signature: bytes = b""


class Hello(Header, frozen=True, tag="hello"):
    """Where a node stands. An old hello must not pass for a rollback: ``life`` is fresh in every
    process, and a new one counts only with the recipient's own ``challenge`` in ``echo``."""

    digest: str  # of the payload of ``round``; "" before the first
    dataset: str  # its alias: nothing that depends on records
    releases: int  # of this data set, this job's included
    new_participants: bool  # the operator's word: nobody is in another data set of this node
    life: str
    challenge: str
    echo: str
    signature: bytes = b""


Message = TypeVar("Message", Vector, Hello)


def hash_of(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


def vector(
    terms: JobTerms, identity: Identity, *, sender: str, recipient: str, t: int, payload: bytes
) -> bytes:
    """One release, signed for one neighbour; the same arguments give the same bytes."""
    header = (FORMAT.version, terms.digest, terms.study, terms.job, t, sender, recipient)
    return _signed(identity, Vector(*header, terms.dtype, terms.shape, payload))


def hello(
    terms: JobTerms, identity: Identity, *, sender: str, recipient: str, t: int, **position: Any
) -> bytes:
    """``position``: the fields that only a `Hello` has."""
    header = (FORMAT.version, terms.digest, terms.study, terms.job, t, sender, recipient)
    return _signed(identity, Hello(*header, **position))


def encode_vector(values: NDArray[Any], dtype: str = FLOATS) -> bytes:
    """The bytes of a release; numbers of another kind than ``dtype`` are a mistake."""
    return np.ascontiguousarray(values.astype(dtype, casting="equiv")).tobytes()


def decode_vector(payload: bytes, shape: tuple[int, int], dtype: str = FLOATS) -> NDArray[Any]:
    kind = np.dtype(dtype)
    return np.frombuffer(payload, dtype=kind).reshape(shape).astype(kind.newbyteorder("="))


def most_bytes(shape: tuple[int, int], servers: Sequence[str]) -> int:
    """The longest message about vectors of this shape between these servers."""
    return 8 * shape[0] * shape[1] + ENVELOPE + 4 * max(map(len, servers))


def open_vector(
    data: bytes, terms: JobTerms, *, peer: str, me: str, keys: Mapping[str, str]
) -> tuple[Vector, NDArray[Any]]:
    """Check a release from ``peer`` (the name the transport gives its sender) and unpack it."""
    message = _opened(Vector, data, terms, peer=peer, me=me, keys=keys)
    if (
        message.dtype != terms.dtype
        or message.shape != terms.shape
        or len(message.payload) != 8 * terms.shape[0] * terms.shape[1]
    ):
        raise PeerError(
            f"{peer} sent {message.dtype} of shape {message.shape}, expected "
            f"{terms.dtype} of {terms.shape}"
        )
    if not 1 <= message.round <= terms.plan.rounds:
        raise PeerError(
            f"{peer} sent a release of round {message.round}, but the plan has rounds 1 "
            f"to {terms.plan.rounds}"
        )
    values = decode_vector(message.payload, terms.shape, terms.dtype)
    if why := describe_defect(values, terms):
        raise PeerError(f"{peer} sent a vector of round {message.round} {why}")
    return message, values


def describe_defect(values: NDArray[Any], terms: JobTerms) -> str:
    """Why no honest server has released this; "" if one may have."""
    if terms.sums:
        if not terms.masked and sums_participant.exceeds_plausible_bound(values, terms):
            return "with a sum that no number of records has"
        return ""
    if not np.isfinite(values).all():
        return "that is not finite"
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(values))
    if norm <= terms.norm_cap:
        return ""
    return f"of length {norm:.3g}: no honest one exceeds {terms.norm_cap:.3g}"


def open_hello(
    data: bytes, terms: JobTerms, *, peer: str, me: str, keys: Mapping[str, str]
) -> Hello:
    message = _opened(Hello, data, terms, peer=peer, me=me, keys=keys)
    if not (0 <= message.round <= terms.plan.rounds and message.round <= message.releases < 2**53):
        raise PeerError(
            f"{peer} says it stands at round {message.round} of {terms.plan.rounds}: that cannot be"
        )
    return message


def _signed(identity: Identity, message: Message) -> bytes:
    return msgspec.msgpack.encode(
        msgspec.structs.replace(message, signature=identity.sign(_signable(message)))
    )


def signed_digest(message: Vector) -> SignedDigest:
    """What stays of a release when its vector is gone."""
    header = (message.version, message.terms, message.round, message.sender, message.recipient)
    return SignedDigest(*header, hash_of(message.payload), message.signature)


def verify_digest(digest: SignedDigest, keys: Mapping[str, str]) -> bool:
    key = keys.get(digest.sender, "")
    is_current = digest.version == FORMAT.version
    return is_current and verify_signature(key, _signable(digest), digest.signature)


def _signable(message: Vector | SignedDigest | Hello) -> bytes:
    signed = signed_digest(message) if isinstance(message, Vector) else message
    return _DOMAIN + msgspec.msgpack.encode(msgspec.structs.replace(signed, signature=b""))


def _opened(
    kind: type[Message],
    data: bytes,
    terms: JobTerms,
    *,
    peer: str,
    me: str,
    keys: Mapping[str, str],
) -> Message:
    if len(data) > (most := most_bytes(terms.shape, terms.servers)):
        raise PeerError(
            f"{peer} sent {len(data)} bytes, more than the {most} any message of this job needs"
        )
    try:
        message: Message = decode(data, kind, msgspec.msgpack.decode)
    except msgspec.DecodeError as error:
        why = FORMAT.refusal_of(data, f"{peer} sent a message that", msgspec.msgpack.decode)
        raise PeerError(
            why or f"{peer} sent something that is no {kind.__name__.lower()} message: {error}"
        ) from None
    if why := FORMAT.refusal(message.version, f"{peer} sent a message that"):
        raise PeerError(why)
    if message.study != terms.study:
        raise PeerError(
            f"{peer} trains another study ({message.study[:12]}..., this node has "
            f"{terms.study[:12]}...)"
        )
    if message.job != terms.job or message.terms != terms.digest:
        raise PeerError(
            f"{peer} trains under other terms (job {message.job!r}): plan, servers or links differ"
        )
    if message.sender not in terms.neighbours(me) or message.sender != peer:
        raise PeerError(
            f"{peer} sent a message in the name of {message.sender!r}, who is not the "
            "neighbour that it came from"
        )
    if message.recipient != me:
        raise PeerError(f"{peer} sent a message that was meant for {message.recipient!r}")
    if not verify_signature(keys[message.sender], _signable(message), message.signature):
        raise PeerError(f"{peer} sent a message whose signature is not {message.sender}'s")
    return message
