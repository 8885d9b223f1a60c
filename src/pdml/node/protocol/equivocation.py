"""Proof that a server said two different things: its own signatures, which the study's keys check.

A hearer holds the sender's signature on every release it heard, so whoever says it heard something
can prove it. Two vouchers of one sender, job and round with different digests prove equivocation.
So does one voucher that differs from the digest in the sender's own signed statement, and so do two
different statements on one job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from pdml.errors import DataError, PDMLError, PeerError, because
from pdml.formats import Format, decode
from pdml.node.protocol import signed_statement, wire_messages
from pdml.node.protocol.signed_statement import Statement
from pdml.node.protocol.wire_messages import Voucher
from pdml.node.storage.journal import Journal
from pdml.ownership import read_ours

FORMAT = Format(name="evidence", version=1)
KEPT = "the proof"
_DOMAIN = b"pdml evidence 1\0"


def read_kept(path: Path) -> bytes:
    """A proof in a node's folder."""
    try:
        return read_ours(path, KEPT)
    except OSError as error:
        raise DataError(f"{KEPT} {path} cannot be read: {because(error)}") from None


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signed words of one server that contradict each other."""

    vouchers: Annotated[list[Voucher], Meta(max_length=16)] = []
    statements: Annotated[list[bytes], Meta(max_length=2)] = []  # as they were signed


@dataclass(frozen=True, kw_only=True)
class EquivocationProof:
    """What evidence proves: ``sender`` signed all of ``claims``, where the honest say one thing."""

    sender: str
    round: int  # the last one, where whole statements differ
    claims: tuple[tuple[str, str], ...]  # (to whom, digest)

    @property
    def sentence(self) -> str:
        """One sentence for people."""
        words = " and ".join(f"{digest[:16]} to {whom}" for whom, digest in self.claims)
        return f"{self.sender} equivocated in round {self.round}: it signed {words}"


def kept(journal: Journal, job: str, t: int, sender: str) -> Voucher | None:
    """What ``sender`` signed in round t of a job, as its hearer can show it: also after the job."""
    entry, digest = journal.job(job), journal.digest(job, t, sender)
    signature = journal.signature(job, t, sender)
    if entry is None or digest is None or signature is None:
        return None
    return Voucher(
        wire_messages.FORMAT.version, entry.contract, t, sender, entry.server, digest, signature
    )


def contradiction(journal: Journal, job: str, statement: Statement) -> Voucher | None:
    """What was heard from a server first that it does not say it sent; its signature is in it."""
    for t, digest in enumerate(journal.inbox_digests(job, statement.server), start=1):
        if digest != signed_statement.digest_of(statement.sent, t):
            return kept(journal, job, t, statement.server)
    return None


def packed(vouchers: Sequence[Voucher] = (), *, statements: Sequence[bytes] = ()) -> bytes:
    """Evidence as it travels and is stored; `proof_of` checks it."""
    content = Evidence(vouchers=list(vouchers), statements=list(statements))
    return _DOMAIN + msgspec.msgpack.encode(content)


def proof_of(
    data: bytes,
    terms: str,
    keys: Mapping[str, str],
    *,
    sent_digests: Mapping[str, bytes] | None = None,
) -> EquivocationProof:
    """What evidence proves."""
    evidence = _read(data)
    if evidence.vouchers and len(evidence.statements) == 1:
        statement = signed_statement.signed_by(
            evidence.statements[0], evidence.vouchers[0].sender, keys
        )
        if statement.terms != evidence.vouchers[0].contract:
            raise PeerError(f"the statement of {statement.server} is about another job")
        return _vouchers(
            evidence.vouchers,
            statement.terms if terms == "" else terms,
            keys,
            {statement.server: statement.sent},
        )
    if evidence.statements:
        return _two_statements(evidence, terms, keys)
    return _vouchers(evidence.vouchers, terms, keys, sent_digests or {})


def _read(data: bytes) -> Evidence:
    if not data.startswith(_DOMAIN):
        why = FORMAT.refusal_by_mark(data, "the evidence")
        raise PeerError(why or "this is no evidence that a node has made")
    try:
        evidence: Evidence = decode(data[len(_DOMAIN) :], Evidence, msgspec.msgpack.decode)
    except msgspec.DecodeError as error:
        raise PeerError(f"this is no evidence: {error}") from None
    if packed(evidence.vouchers, statements=evidence.statements) != data:
        raise PeerError("this is evidence in another spelling than the one that all use")
    return evidence


def _vouchers(
    vouchers: Sequence[Voucher],
    terms: str,
    keys: Mapping[str, str],
    sent_digests: Mapping[str, bytes],
) -> EquivocationProof:
    about = {(voucher.contract, voucher.sender, voucher.round) for voucher in vouchers}
    if len(about) != 1 or terms not in ("", vouchers[0].contract):
        raise PeerError("the evidence is about several servers or rounds, or about another job")
    ((_, sender, t),) = about
    if not all(wire_messages.vouched(voucher, keys) for voucher in vouchers):
        raise PeerError(f"the evidence against {sender} is not signed by it: it proves nothing")
    words = [(voucher.recipient, voucher.digest) for voucher in vouchers]
    if (
        sender in sent_digests
        and terms
        and 1 <= t <= len(sent_digests[sender]) // signed_statement.DIGEST
    ):
        words.append(
            ("everybody in its statement", signed_statement.digest_of(sent_digests[sender], t))
        )
    if len({digest for _, digest in words}) < 2:
        raise PeerError(f"the evidence shows one word of {sender} in round {t}: it proves nothing")
    return EquivocationProof(sender=sender, round=t, claims=tuple(words))


def _two_statements(evidence: Evidence, terms: str, keys: Mapping[str, str]) -> EquivocationProof:
    if evidence.vouchers or len(set(evidence.statements)) != 2:
        raise PeerError("the evidence must be two different statements")
    first, other = evidence.statements
    for server in keys:
        try:
            both = [signed_statement.signed_by(data, server, keys) for data in (first, other)]
        except PDMLError:
            continue
        if both[0].terms != both[1].terms or terms not in ("", both[0].terms):
            raise PeerError(f"the statements of {server} are about another job")
        words = (("some", wire_messages.hash_of(first)), ("others", wire_messages.hash_of(other)))
        return EquivocationProof(
            sender=server, round=len(both[0].sent) // signed_statement.DIGEST, claims=words
        )
    raise PeerError("the two statements are not signed by one server of the study")
