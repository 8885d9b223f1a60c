"""What other members may ask of a node: one handler for each kind of request.

offer      every member accepts by its operator's rule and its own budget, and signs that it does
postpone   its offerer lets another's offer go first: it is accepted again later
begin      with everybody's signature, so that nobody releases anything for a job that somebody
           refuses
hello, release   the rounds, between neighbours (`Exchange`)
fetch      everybody's signed statement, so that every member has the same result
progress   how far this node is          stop   any member may end the job, for its own reason
proof      a member signed two different things
"""

import logging
from collections.abc import Callable, Mapping

import msgspec

from pdml.errors import InvalidInput, PDMLError, plain
from pdml.node.crypto.hpke import Context
from pdml.node.job.admission import Admission, Member, Work
from pdml.node.job.equivocation_reporter import EquivocationReporter
from pdml.node.job.statements import nothing_yet, piece
from pdml.node.protocol.redaction import public_message
from pdml.node.protocol.requests import (
    LATER,
    OK,
    REFUSED,
    Answer,
    Begin,
    Fetch,
    Offer,
    Postpone,
    Progress,
    Proof,
    RequestKind,
    Stop,
    read_request,
)
from pdml.node.storage.journal import Job, Journal

log = logging.getLogger("pdml.node")

Handler = Callable[[Context, bytes], Answer]


class Handlers:
    """Every request gets an answer; what a member may not do is refused with one sentence."""

    def __init__(
        self,
        member: Member,
        admission: Admission,
        reporter: EquivocationReporter,
        committed: Journal,
        *,
        start_job: Callable[[Work], None],
    ) -> None:
        """``committed``: nothing of a round that is not on disk yet."""
        self._member, self._admission, self._reporter = member, admission, reporter
        self._committed, self._start_job = committed, start_job
        self.by_kind: Mapping[str, Handler] = {
            RequestKind.OFFER: self._offer,
            RequestKind.POSTPONE: self._postpone,
            RequestKind.BEGIN: self._begin,
            RequestKind.STOP: self._stop,
            RequestKind.PROGRESS: self._progress,
            RequestKind.FETCH: self._fetch,
            RequestKind.HELLO: self._exchange,
            RequestKind.RELEASE: self._exchange,
            RequestKind.PROOF: self._proof,
        }

    def handle(self, context: Context, content: bytes) -> bytes:
        """The answer to a request, whose sender the transport has checked."""
        name, study = self._member.name, self._member.study
        try:
            if context.study != study.hash:
                raise InvalidInput(
                    f"{name} has the study {study.hash[:12]}..., not {context.study[:12]}..."
                ).mark_public()
            if context.kind not in self.by_kind:
                raise InvalidInput(
                    f"{name} does not know the request {plain(context.kind, 40)!r}"
                ).mark_public()
            answer = self.by_kind[context.kind](context, content)
        except PDMLError as error:
            log.info("refused %s of %s: %s", plain(context.kind, 40), context.sender, error)
            answer = Answer(REFUSED, public_message(error, name))
        return msgspec.msgpack.encode(answer)

    def _offer(self, context: Context, content: bytes) -> Answer:
        key = self._member.study.signing_keys[context.sender]
        return self._admission.consider(Offer.read(content, context.sender, key), content)

    def _postpone(self, context: Context, content: bytes) -> Answer:
        request = read_request(content, Postpone, context.sender)
        self._admission.postpone(request.attempt, context.sender)
        return Answer(OK)

    def _begin(self, context: Context, content: bytes) -> Answer:
        begin = read_request(content, Begin, context.sender)
        work = self._admission.begin(begin, context.sender)
        if work is not None:
            self._start_job(work)
        return Answer(OK)

    def _stop(self, context: Context, content: bytes) -> Answer:
        stop = read_request(content, Stop, context.sender)
        sentence = f"{context.sender} ended the job: {plain(stop.sentence, 500)}"
        self._admission.stop_by_member(stop.attempt, sentence)
        return Answer(OK)

    def _progress(self, context: Context, content: bytes) -> Answer:
        """How far the job with these terms is here."""
        digest = content.decode("ascii", "replace")
        entry = next((job for job in self._committed.jobs() if job.terms == digest), None)
        state, t = ("", 0) if entry is None else (entry.state, entry.round)
        return Answer(OK, messages=[msgspec.msgpack.encode(Progress(state, t))])

    def _fetch(self, context: Context, content: bytes) -> Answer:
        """A piece of somebody's statement on a job, or of the proof against it, if it is here."""
        request = read_request(content, Fetch, context.sender)
        entry, name = self._known_job(request.job), self._member.name
        if entry.terms != request.terms:
            raise self._unknown_job(request.job)
        if request.proof:
            return self._reporter.evidence_piece(entry, request.server, request.start)
        data = self._committed.statements(entry.job).get(request.server, b"")
        if not data:
            expected = request.server != name or self._admission.is_doing(request.terms)
            return nothing_yet(name, entry.job, entry.round, expected=expected)
        return piece(data, request.start)

    def _proof(self, context: Context, content: bytes) -> Answer:
        proof = read_request(content, Proof, context.sender)
        return self._reporter.handle_proof(context.sender, proof, self._known_job(proof.job))

    def _known_job(self, job: str) -> Job:
        entry = self._committed.job(job)
        if entry is None:
            raise self._unknown_job(job)
        return entry

    def _unknown_job(self, job: str) -> PDMLError:
        return InvalidInput(
            f"{self._member.name} knows no such job {plain(job, 64)!r}"
        ).mark_public()

    def _exchange(self, context: Context, content: bytes) -> Answer:
        exchange = self._admission.exchange(context.job)
        if exchange is None:
            return Answer(LATER)
        return exchange.answer(context.kind, context.sender, content)
