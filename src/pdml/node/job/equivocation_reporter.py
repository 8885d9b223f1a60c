"""A member that signed two different things: its proof is stored, announced and fetched."""

import logging
import threading
from pathlib import Path

import msgspec

from pdml.errors import Equivocation, InvalidInput, PDMLError, PeerError, plain
from pdml.files import check_ours, write_private
from pdml.node.job.activity import Runtime, Steps, ask_all
from pdml.node.job.admission import Member
from pdml.node.job.statements import fetch, is_cut_short, piece
from pdml.node.protocol import equivocation, signed_statement
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import (
    LATER,
    OK,
    REFUSED,
    PeerAnswer,
    Proof,
    RequestKind,
    read_answer,
)
from pdml.node.storage.journal import Job, Journal
from pdml.node.storage.node_dir import NodeDirectory

_ATTEMPT = 5.0  # seconds for one answer
_AGAIN = 0.5  # between two announcements
_ANNOUNCING = 60.0  # seconds in which everybody hears of a proof
_MOST = 1 << 24  # bytes of a proof: a longer one is not fetched, so that nobody fills this memory

log = logging.getLogger("pdml.node")


class EquivocationReporter:
    """The proofs of one node: those it made, and those that others announced."""

    def __init__(
        self, member: Member, directory: NodeDirectory, committed: Journal, runtime: Runtime
    ) -> None:
        self._member, self._directory, self._committed = member, directory, committed
        self._runtime = runtime
        self._lock = threading.Lock()
        self._fetching: set[tuple[str, str, str]] = set()  # (from whom, job, against whom)
        self._worthless: set[tuple[str, str, str]] = set()

    def compare(self, terms: JobTerms) -> None:
        """Whoever signed that it sent something else than arrived here has equivocated."""
        journal, keys = self._committed, self._member.study.signing_keys
        for sender in terms.neighbours(self._member.name):
            data = journal.statements(terms.job)[sender]
            statement = signed_statement.signed_by(data, sender, keys)
            digest = equivocation.find_conflict(journal, terms.job, statement)
            if digest is not None:
                evidence = equivocation.encode_evidence([digest], statements=[data])
                proof = equivocation.verify_evidence(evidence, terms.digest, keys)
                raise Equivocation(
                    proof.sentence, peer=sender, round=digest.round, evidence=evidence
                )

    def report(self, job: str, error: Equivocation) -> None:
        if error.evidence:
            self._store(job, error.peer, error.evidence)
            self._runtime.tasks.spawn(self._announce(Proof(job=job, peer=error.peer)))

    def _announce(self, proof: Proof) -> Steps[None]:
        def accept(name: str, data: bytes) -> bool:
            answer = read_answer(data)
            return answer is not None and answer.state != LATER

        yield from ask_all(
            RequestKind.PROOF,
            msgspec.msgpack.encode(proof),
            self._member.others,
            clock=self._runtime.clock,
            limit=_ANNOUNCING,
            timeout=_ATTEMPT,
            pause=self._runtime.pause(_AGAIN),
            accept=accept,
            goes_on=lambda: not self._runtime.is_leaving,
        )

    def _path(self, job: str, peer: str) -> Path:
        return self._directory.evidence(job) / f"{peer}.evidence"

    def _store(self, job: str, peer: str, evidence: bytes) -> None:
        path = self._path(job, peer)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_ours(path.parent, "the folder of proofs", folder=True)
        write_private(path, evidence, first=True)

    def evidence_piece(self, job: Job, peer: str, start: int) -> PeerAnswer:
        if peer not in self._member.all or not self._has(job.job, peer):
            raise InvalidInput(
                f"{self._member.name} has no proof against {plain(peer, 64)!r}"
            ).mark_public()
        return piece(equivocation.read_stored(self._path(job.job, peer)), start)

    def _has(self, job: str, peer: str) -> bool:
        return check_ours(self._path(job, peer), equivocation.DESCRIPTION)

    def handle_proof(self, sender: str, proof: Proof, job: Job) -> PeerAnswer:
        """Fetch what ``sender`` announced; it is stored if signatures alone prove it."""
        about = sender, job.job, proof.peer
        if proof.peer not in self._member.all or about in self._worthless:
            return PeerAnswer(REFUSED, f"{self._member.name} takes no such proof")
        if self._has(job.job, proof.peer):
            return PeerAnswer(OK)
        with self._lock:  # one at a time from each member: it could announce thousands
            if not any(whom == sender for whom, _, _ in self._fetching):
                self._fetching.add(about)
                self._runtime.tasks.spawn(self._fetch(sender, job, proof.peer))
        return PeerAnswer(LATER)

    def _fetch(self, sender: str, job: Job, peer: str) -> Steps[None]:
        about = sender, job.job, peer
        try:
            data = yield from self._pull(sender, job, peer)
            if data is None:
                return
            proof = equivocation.verify_evidence(data, job.terms, self._member.study.signing_keys)
            if proof.sender != peer:
                raise PeerError(f"it is about {proof.sender}")
            self._store(job.job, peer, data)
            log.error("job %s: %s shows that %s", job.job, sender, proof.sentence)
        except PDMLError as error:
            log.warning(
                "job %s: what %s has against %s proves nothing: %s", job.job, sender, peer, error
            )
            self._worthless.add(about)
        finally:
            with self._lock:
                self._fetching.discard(about)

    def _pull(self, sender: str, job: Job, peer: str) -> Steps[bytes | None]:
        """All pieces; None if it does not answer: it will announce it again."""
        data = b""
        while True:
            answer = yield from fetch(
                job.terms, job.job, peer, sender, len(data), _ATTEMPT, proof=True
            )
            if answer is None or answer.state != OK or len(answer.messages) != 2:
                return None
            part, whole = answer.messages[0], int.from_bytes(answer.messages[1][:8], "big")
            data += part
            if is_cut_short(part, data, whole) or max(whole, len(data)) > _MOST:
                raise PeerError(f"{whole:,} bytes are no proof")
            if len(data) >= whole:
                return data
