"""Proof that a server signed two different things: two digests for one round, one that is not that
of its own statement, or two statements on one job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from pdml.errors import DataError, PDMLError, PeerError, because
from pdml.files import read_ours
from pdml.formats import Format, decode
from pdml.node.protocol import signed_statement, wire_messages
from pdml.node.protocol.signed_statement import Statement
from pdml.node.protocol.wire_messages import SignedDigest
from pdml.node.storage.journal import Journal

FORMAT = Format(name="evidence", version=1)
DESCRIPTION = "the proof"
_DOMAIN = b"pdml evidence 1\0"


def read_stored(path: Path) -> bytes:
    try:
        return read_ours(path, DESCRIPTION)
    except OSError as error:
        raise DataError(f"{DESCRIPTION} {path} cannot be read: {because(error)}") from None


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one server signed that contradicts itself."""

    digests: Annotated[list[SignedDigest], Meta(max_length=16)] = []
    statements: Annotated[list[bytes], Meta(max_length=2)] = []  # as they were signed


@dataclass(frozen=True, kw_only=True)
class EquivocationProof:
    """What evidence proves: ``sender`` signed all of ``claims``, where the honest say one thing."""

    sender: str
    round: int  # the last one, where whole statements differ
    claims: tuple[tuple[str, str], ...]  # (to whom, digest)

    @property
    def sentence(self) -> str:
        words = " and ".join(f"{digest[:16]} to {whom}" for whom, digest in self.claims)
        return f"{self.sender} equivocated in round {self.round}: it signed {words}"


def stored_digest(journal: Journal, job: str, t: int, sender: str) -> SignedDigest | None:
    """What ``sender`` signed in round t, as its recipient can show it: also after the job."""
    entry, digest = journal.job(job), journal.digest(job, t, sender)
    signature = journal.signature(job, t, sender)
    if entry is None or digest is None or signature is None:
        return None
    return SignedDigest(
        wire_messages.FORMAT.version, entry.terms, t, sender, entry.server, digest, signature
    )


def find_conflict(journal: Journal, job: str, statement: Statement) -> SignedDigest | None:
    """The first release of a server that it does not say it sent, with its signature."""
    for t, digest in enumerate(journal.inbox_digests(job, statement.server), start=1):
        if digest != signed_statement.digest_of(statement.sent, t):
            return stored_digest(journal, job, t, statement.server)
    return None


def encode_evidence(
    digests: Sequence[SignedDigest] = (), *, statements: Sequence[bytes] = ()
) -> bytes:
    """Evidence as it travels and is stored; `verify_evidence` checks it."""
    content = Evidence(digests=list(digests), statements=list(statements))
    return _DOMAIN + msgspec.msgpack.encode(content)


def verify_evidence(
    data: bytes,
    terms: str,
    keys: Mapping[str, str],
    *,
    sent_digests: Mapping[str, bytes] | None = None,
) -> EquivocationProof:
    evidence = _read(data)
    if evidence.digests and len(evidence.statements) == 1:
        statement = signed_statement.signed_by(
            evidence.statements[0], evidence.digests[0].sender, keys
        )
        if statement.terms != evidence.digests[0].terms:
            raise PeerError(f"the statement of {statement.server} is about another job")
        return _compare_digests(
            evidence.digests,
            statement.terms if terms == "" else terms,
            keys,
            {statement.server: statement.sent},
        )
    if evidence.statements:
        return _two_statements(evidence, terms, keys)
    return _compare_digests(evidence.digests, terms, keys, sent_digests or {})


def _read(data: bytes) -> Evidence:
    if not data.startswith(_DOMAIN):
        why = FORMAT.refusal_by_mark(data, "the evidence")
        raise PeerError(why or "this is no evidence that a node has made")
    try:
        evidence: Evidence = decode(data[len(_DOMAIN) :], Evidence, msgspec.msgpack.decode)
    except msgspec.DecodeError as error:
        raise PeerError(f"this is no evidence: {error}") from None
    if encode_evidence(evidence.digests, statements=evidence.statements) != data:
        raise PeerError("this is evidence in another spelling than the one that all use")
    return evidence


def _compare_digests(
    digests: Sequence[SignedDigest],
    terms: str,
    keys: Mapping[str, str],
    sent_digests: Mapping[str, bytes],
) -> EquivocationProof:
    about = {(digest.terms, digest.sender, digest.round) for digest in digests}
    if len(about) != 1 or terms not in ("", digests[0].terms):
        raise PeerError("the evidence is about several servers or rounds, or about another job")
    ((_, sender, t),) = about
    if not all(wire_messages.verify_digest(digest, keys) for digest in digests):
        raise PeerError(f"the evidence against {sender} is not signed by it: it proves nothing")
    claims = [(digest.recipient, digest.digest) for digest in digests]
    if (
        sender in sent_digests
        and terms
        and 1 <= t <= len(sent_digests[sender]) // signed_statement.DIGEST
    ):
        claims.append(
            ("everybody in its statement", signed_statement.digest_of(sent_digests[sender], t))
        )
    if len({digest for _, digest in claims}) < 2:
        raise PeerError(
            f"the evidence shows one release of {sender} in round {t}: it proves nothing"
        )
    return EquivocationProof(sender=sender, round=t, claims=tuple(claims))


def _two_statements(evidence: Evidence, terms: str, keys: Mapping[str, str]) -> EquivocationProof:
    if evidence.digests or len(set(evidence.statements)) != 2:
        raise PeerError("the evidence must be two different statements")
    first, other = evidence.statements
    for server in keys:
        try:
            both = [signed_statement.signed_by(data, server, keys) for data in (first, other)]
        except PDMLError:
            continue
        if both[0].terms != both[1].terms or terms not in ("", both[0].terms):
            raise PeerError(f"the statements of {server} are about another job")
        claims = (("some", wire_messages.hash_of(first)), ("others", wire_messages.hash_of(other)))
        return EquivocationProof(
            sender=server, round=len(both[0].sent) // signed_statement.DIGEST, claims=claims
        )
    raise PeerError("the two statements are not signed by one server of the study")
