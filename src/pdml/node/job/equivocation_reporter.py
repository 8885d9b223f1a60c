"""A member that said two things: its proof is kept, announced to everybody, and fetched piece by
piece by who has it not.
"""

import logging
import time
from typing import TYPE_CHECKING

import msgspec

from pdml.errors import Equivocation, InvalidInput, PDMLError, PeerError, plain
from pdml.files import write_private
from pdml.node.job.round_exchange import LATER, OK, REFUSED, Answer, decoded_answer
from pdml.node.job.statement_sync import cut_short, piece
from pdml.node.protocol import equivocation, signed_statement
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import FETCH, PROOF, Fetch, Proof
from pdml.ownership import check_ours

if TYPE_CHECKING:
    from pathlib import Path

    from pdml.node.daemon.daemon import NodeDaemon
    from pdml.node.storage.journal import Job

_ATTEMPT = 5.0  # seconds for one answer
_AGAIN = 0.5  # between two announcements
_SHOWING = 60.0  # seconds in which everybody is told
_MOST = (
    1 << 24
)  # bytes of a proof: one that is longer is not fetched, so that nobody fills this memory

log = logging.getLogger("pdml.node")


class EquivocationReporter:
    """The proofs of one node: those it made, and those it was shown."""

    def __init__(self, office: "NodeDaemon") -> None:
        self._office = office
        self._fetching: set[tuple[str, str, str]] = set()  # (from whom, job, against whom)
        self._worthless: set[tuple[str, str, str]] = set()

    def compare(self, contract: JobTerms) -> None:
        """Whoever says it sent something else than was heard here is proved to have said two
        things.
        """
        journal, keys = self._office.committed, self._office.study.signing_keys
        for sender in contract.neighbours(self._office.name):
            data = journal.statements(contract.job)[sender]
            statement = signed_statement.signed_by(data, sender, keys)
            if (
                voucher := equivocation.contradiction(journal, contract.job, statement)
            ) is not None:
                proof = equivocation.packed([voucher], statements=[data])
                sentence = equivocation.proof_of(proof, contract.digest, keys).sentence
                raise Equivocation(sentence, peer=sender, round=voucher.round, evidence=proof)

    def accuse(self, job: str, error: Equivocation) -> None:
        """Keep the proof, and tell everybody that it is here."""
        if error.evidence:
            self._keep(job, error.peer, error.evidence)
            self._office.spawn(
                self._announce, msgspec.msgpack.encode(Proof(job=job, peer=error.peer))
            )

    def _announce(self, content: bytes) -> None:
        office = self._office
        waiting, deadline = set(office.others), time.monotonic() + _SHOWING
        while waiting and time.monotonic() < deadline and not office.leaving.is_set():
            replies = office.transport.ask(PROOF, dict.fromkeys(waiting, content), timeout=_ATTEMPT)
            waiting -= {
                name
                for name, data in replies.items()
                if (answer := decoded_answer(data)) and answer.state != LATER
            }
            office.leaving.wait(_AGAIN)

    def _path(self, job: str, peer: str) -> "Path":
        return self._office.home.evidence(job) / f"{peer}.evidence"

    def _keep(self, job: str, peer: str, proof: bytes) -> None:
        path = self._path(job, peer)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_ours(path.parent, "the folder of proofs", folder=True)
        write_private(path, proof, first=True)

    def kept(self, job: "Job", peer: str, start: int) -> Answer:
        """A piece of the proof against a member, for who asks for it."""
        if peer not in self._office.members or not self._has(job.job, peer):
            raise InvalidInput(
                f"{self._office.name} has no proof against {plain(peer, 64)!r}"
            ).mark_public()
        return piece(equivocation.read_kept(self._path(job.job, peer)), start)

    def _has(self, job: str, peer: str) -> bool:
        return check_ours(self._path(job, peer), equivocation.KEPT)

    def handle_proof(self, sender: str, proof: Proof, job: "Job") -> Answer:
        """``sender`` has a proof against somebody: it is fetched, and kept if it proves what it
        says by signatures alone.
        """
        about = sender, job.job, proof.peer
        if proof.peer not in self._office.members or about in self._worthless:
            return Answer(REFUSED, f"{self._office.name} is shown no proof")
        if self._has(job.job, proof.peer):
            return Answer(OK)
        with self._office.lock:  # one at a time from each member: it could announce thousands
            if not any(whom == sender for whom, _, _ in self._fetching):
                self._fetching.add(about)
                self._office.spawn(self._fetch, *about, job.contract)
        return Answer(LATER)

    def _fetch(self, sender: str, job: str, peer: str, contract: str) -> None:
        about = sender, job, peer
        try:
            data = self._pulled(
                sender, Fetch(job=job, contract=contract, server=peer, start=0, proof=True)
            )
            if data is None:
                return
            proof = equivocation.proof_of(data, contract, self._office.study.signing_keys)
            if proof.sender != peer:
                raise PeerError(f"it is about {proof.sender}")
            self._keep(job, peer, data)
            log.error("job %s: %s shows that %s", job, sender, proof.sentence)
        except PDMLError as error:
            log.warning(
                "job %s: what %s has against %s proves nothing: %s", job, sender, peer, error
            )
            self._worthless.add(about)
        finally:
            with self._office.lock:
                self._fetching.discard(about)

    def _pulled(self, sender: str, question: Fetch) -> bytes | None:
        """All pieces; None if it does not answer: it will announce it again."""
        data = b""
        while True:
            request = msgspec.msgpack.encode(msgspec.structs.replace(question, start=len(data)))
            answer = decoded_answer(
                self._office.transport.ask(FETCH, {sender: request}, timeout=_ATTEMPT).get(
                    sender, b""
                )
            )
            if answer is None or answer.state != OK or len(answer.messages) != 2:
                return None
            part, whole = answer.messages[0], int.from_bytes(answer.messages[1][:8], "big")
            data += part
            if cut_short(part, data, whole) or max(whole, len(data)) > _MOST:
                raise PeerError(f"{whole:,} bytes are no proof")
            if len(data) >= whole:
                return data
