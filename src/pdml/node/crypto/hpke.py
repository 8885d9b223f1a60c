"""Messages that only their recipient can read: HPKE (RFC 9180) for a key, then AES-256-GCM.

One hybrid encapsulation (X25519 and ML-KEM-768) per ordered pair, job and life of a process brings
a fresh key, signed by the sender. Every message has a random nonce, and its `Context` as associated
data. What was recorded stays closed to whoever breaks one of the two key exchanges; whoever steals
a sealing key can open what was recorded for it.
"""

import base64
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pdml.errors import PeerError
from pdml.formats import Format, decode
from pdml.node.crypto.signing import Identity, create_secret, load_secret, verify_signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hpke import Suite

FORMAT = Format(name="sealed message", version=1)
ENVELOPE = 1168 + 64 + 16  # bytes of an encapsulated key with its signature
OVERHEAD = ENVELOPE + 512  # what sealing may add to a message
ANSWER = "answer"

_MLKEM, _X25519 = 1184, 64  # where the public halves part, and the private ones
_SECRET = 96  # bytes of both private halves
_NONCE, _SESSION = 12, 16
_KEYING = b"pdml session key 1\0"
# that one peer may have open here: it may have restarted, or changed the job, as often as that
_SESSIONS = 16


class SealingKey:
    """A node's private HPKE key, in a file of its own."""

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._mlkem = MLKEM768PrivateKey.from_seed_bytes(secret[:_X25519])
        self._x25519 = X25519PrivateKey.from_private_bytes(secret[_X25519:])

    @classmethod
    def create(cls, path: Path) -> "SealingKey":
        return cls(create_secret(path, _SECRET))

    @classmethod
    def load(cls, path: Path) -> "SealingKey":
        return cls(load_secret(path, _SECRET))

    @cached_property
    def public(self) -> str:
        halves = self._mlkem.public_key(), self._x25519.public_key()
        return base64.b64encode(b"".join(half.public_bytes_raw() for half in halves)).decode()

    def decapsulate(self, envelope: bytes, info: bytes) -> bytes:
        """What was sealed for this key; raises `InvalidTag` or `ValueError` otherwise."""
        from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey

        return _suite().decrypt(envelope, MLKEM768X25519PrivateKey(self._mlkem, self._x25519), info)

    def shared(self, public: str) -> bytes:
        """The secret shared with another `SealingKey.public`, of which masks are made."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        raw = base64.b64decode(public)[_MLKEM:]
        return self._x25519.exchange(X25519PublicKey.from_public_bytes(raw))


def encapsulate(public: str, content: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.hpke import MLKEM768X25519PublicKey

    raw = base64.b64decode(public)
    pair = (
        MLKEM768PublicKey.from_public_bytes(raw[:_MLKEM]),
        X25519PublicKey.from_public_bytes(raw[_MLKEM:]),
    )
    return _suite().encrypt(content, MLKEM768X25519PublicKey(*pair), info)


def _suite() -> "Suite":
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


class Context(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a message is about: readable on the way, and authenticated with it."""

    study: str
    job: str  # the digest of its terms; "" outside a job
    kind: str
    sender: str
    recipient: str
    request: str


class Box(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message as it travels; the key is sent along until the recipient is known to have it."""

    version: int
    context: Context
    session: bytes
    nonce: bytes
    content: bytes
    envelope: bytes = b""
    signature: bytes = b""


@dataclass
class _Session:
    """A key that this node made for a peer, until the peer has answered under it."""

    id: bytes
    cipher: "AESGCM"
    envelope: bytes
    signature: bytes
    is_confirmed: bool = False


class UnknownSession(PeerError):
    """The sender's key is not here (any more): it must be sent again."""


class Sealer:
    """One process's keys with every peer. Not for two threads at once.

    Guarantees
    ----------
    - `open` returns only what the sender's process sealed for this node, under a key that the
      sender's identity signed.
    - A key is fresh in every process and nonces are random, so that no nonce meets two messages.
    """

    def __init__(
        self,
        name: str,
        identity: Identity,
        key: SealingKey,
        *,
        signing: Mapping[str, str],
        sealing: Mapping[str, str],
    ) -> None:
        """``signing``, ``sealing``: the public keys of all servers, as the study pins them."""
        self.name, self._identity, self._key = name, identity, key
        self._signing, self._sealing = signing, sealing
        self._outgoing: dict[tuple[str, str], _Session] = {}
        self._theirs: dict[str, OrderedDict[bytes, tuple[str, AESGCM]]] = {}

    def seal(self, context: Context, content: bytes) -> bytes:
        session = self._session(context)
        nonce = os.urandom(_NONCE)
        sealed = session.cipher.encrypt(nonce, content, _bound(context, session.id))
        extra = () if session.is_confirmed else (session.envelope, session.signature)
        return msgspec.msgpack.encode(
            Box(FORMAT.version, context, session.id, nonce, sealed, *extra)
        )

    def open(self, sender: str, data: bytes) -> tuple[Context, bytes, bytes]:
        """A request of ``sender``: its context, its content and the session to answer in."""
        box = _unpacked(data)
        context, sessions = box.context, self._theirs.setdefault(sender, OrderedDict())
        ends = context.sender, context.recipient
        if ends != (sender, self.name) or sender not in self._signing:
            raise PeerError(
                f"a message came from {sender} that is not from it, or not for {self.name}"
            )
        if box.session not in sessions:
            if not box.envelope:
                raise UnknownSession(f"{sender} speaks under a key that {self.name} does not have")
            sessions[box.session] = context.job, self._received(box)
            while len(sessions) > _SESSIONS:
                sessions.popitem(last=False)
        job, cipher = sessions[box.session]
        if job != context.job:
            raise PeerError(f"a message came from {sender} under the key of another job")
        return context, _decrypted(cipher, box, _bound(context, box.session)), box.session

    def answer(self, context: Context, session: bytes, content: bytes) -> bytes:
        _, cipher = self._theirs[context.sender][session]
        back, nonce = _back(context), os.urandom(_NONCE)
        sealed = cipher.encrypt(nonce, content, _bound(back, session))
        return msgspec.msgpack.encode(Box(FORMAT.version, back, session, nonce, sealed))

    def open_answer(self, request: Context, data: bytes) -> bytes:
        box, session = _unpacked(data), self._session(request)
        if box.session != session.id or box.context != _back(request):
            raise PeerError(f"an answer of {request.recipient} belongs to another request")
        content = _decrypted(session.cipher, box, _bound(box.context, session.id))
        session.is_confirmed = True
        return content

    def forget(self, peer: str, job: str) -> None:
        """The peer does not have this node's key any more: send it along again."""
        if (session := self._outgoing.get((peer, job))) is not None:
            session.is_confirmed = False

    def _session(self, context: Context) -> _Session:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        pair = context.recipient, context.job
        if pair not in self._outgoing:
            key, name = os.urandom(32), os.urandom(_SESSION)
            about = _about(context, name)
            envelope = encapsulate(self._sealing[context.recipient], key, about)
            self._outgoing[pair] = _Session(
                name, AESGCM(key), envelope, self._identity.sign(about + envelope)
            )
        return self._outgoing[pair]

    def _received(self, box: Box) -> "AESGCM":
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        sender, about = box.context.sender, _about(box.context, box.session)
        if len(box.envelope) > ENVELOPE or not verify_signature(
            self._signing[sender], about + box.envelope, box.signature
        ):
            raise PeerError(f"a key came in the name of {sender} that {sender} has not signed")
        try:
            return AESGCM(self._key.decapsulate(box.envelope, about))
        except (InvalidTag, ValueError):
            raise PeerError(f"{sender} sent a key that was not sealed for {self.name}") from None


def _unpacked(data: bytes) -> Box:
    try:
        box: Box = decode(data, Box, msgspec.msgpack.decode)
    except msgspec.DecodeError:
        raise PeerError(_newer(data) or "a message came that is none") from None
    if why := FORMAT.refusal(box.version, "a sealed message"):
        raise PeerError(why)
    if len(box.session) != _SESSION or len(box.nonce) != _NONCE:
        raise PeerError("a message came that is none")
    return box


def _newer(data: bytes) -> str:
    try:
        (version, *_) = decode(data, by=msgspec.msgpack.decode)
    except (TypeError, ValueError):
        return ""
    return FORMAT.refusal(version, "a sealed message") if type(version) is int else ""


def _decrypted(cipher: "AESGCM", box: Box, bound: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(box.nonce, box.content, bound)
    except (InvalidTag, ValueError):
        raise PeerError(
            f"a message came in the name of {box.context.sender} that it has not sealed"
        ) from None


def _back(context: Context) -> Context:
    """The context of the answer: the other way round, to this request."""
    return msgspec.structs.replace(
        context, kind=f"{ANSWER} {context.kind}", sender=context.recipient, recipient=context.sender
    )


def _bound(context: Context, session: bytes) -> bytes:
    return msgspec.msgpack.encode(context) + session


def _about(context: Context, session: bytes) -> bytes:
    return (
        _KEYING
        + msgspec.msgpack.encode((context.study, context.job, context.sender, context.recipient))
        + session
    )
