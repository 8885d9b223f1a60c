"""A job that this node offers: acceptances first, then the beginning, then everybody's progress."""

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pdml.errors import InvalidInput, PDMLError, PeerError, plain
from pdml.node.job.activity import Ask, Runtime, Steps, Wait, ask_all
from pdml.node.job.admission import JobAdmission, Member, Work
from pdml.node.job.round_exchange import Stopped
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.redaction import public_message
from pdml.node.protocol.requests import (
    LATER,
    OK,
    REFUSED,
    Begin,
    Offer,
    Postpone,
    Progress,
    RequestKind,
    Stop,
    acceptance,
    read_answer,
    read_request,
)
from pdml.node.storage.control_db import (
    ENDED,
    Attempt,
    ControlDatabase,
    OfferState,
    ProgressReport,
    StatusName,
)
from pdml.planning.training_plan import TrainingPlan

log = logging.getLogger("pdml.node")

_ATTEMPT = 5.0  # seconds for one answer about an offer
_AGAIN = 0.5  # before a member that was not ready is asked again
_PROGRESS = 1.0  # seconds for an answer about progress
_NOTICE, _NOTICE_AGAIN = 5.0, 0.2  # seconds in which others hear of a stop, and between two tries


def tell_others(
    member: Member, kind: RequestKind, message: Stop | Postpone, runtime: Runtime
) -> Steps[None]:
    """To everybody, as far as they can be reached within a few seconds."""
    yield from ask_all(
        kind,
        msgspec.msgpack.encode(message),
        member.others,
        clock=runtime.clock,
        limit=_NOTICE,
        timeout=_PROGRESS,
        pause=runtime.pause(_NOTICE_AGAIN),
        goes_on=lambda: not runtime.is_leaving,
    )


def tell_stop(member: Member, attempt: str, sentence: str, runtime: Runtime) -> Steps[None]:
    yield from tell_others(
        member, RequestKind.STOP, Stop(attempt=attempt, sentence=sentence), runtime
    )


class Coordinator:
    """The offers of one node, from an operator's command to the end of the job here."""

    def __init__(
        self,
        member: Member,
        admission: JobAdmission,
        *,
        control_db: ControlDatabase,
        progress: ProgressReport,
        start_job: Callable[[Work], None],
        runtime: Runtime,
    ) -> None:
        self._member, self._admission, self._control_db = member, admission, control_db
        self._progress, self._start_job = progress, start_job
        self._runtime = runtime

    def run_offer(self, attempt: str, content: dict[str, Any]) -> Steps[None]:
        member = self._member
        try:
            plan = TrainingPlan.from_dict(dict(content.pop("plan")))
            terms = JobTerms.for_study(member.study, plan, str(content.pop("job")))
            offer = Offer.of(terms, attempt=attempt, offerer=member.name, **content)
        except (PDMLError, TypeError) as error:
            content = {"job": "", "terms": "", "offerer": member.name, "offer": b""}
            state, sentence = OfferState.FAILED, str(error)
            failed = Attempt(attempt=attempt, **content, state=state, sentence=sentence)
            self._control_db.insist(lambda: self._control_db.put(failed))
            return
        try:
            self._progress.clear()
            work, begin = yield from self._begin(offer)
            yield from self.broadcast_begin(offer, begin)
        except Exception as error:
            sentence = public_message(error, member.name)
            trace = None if isinstance(error, PDMLError) else error
            log.error("the offer of job %s: %s", offer.job, error, exc_info=trace)
            stopped = self._admission.stop(attempt, sentence)
            if not stopped and self._control_db.attempt(attempt) is None:
                signed = offer.signed(member.identity)
                self._control_db.insist(
                    lambda: self._admission.store(offer, signed, OfferState.FAILED, sentence)
                )
            yield from tell_stop(self._member, attempt, sentence, self._runtime)
            return
        yield from self._poll_progress(work)

    def resume_start(self) -> Steps[None]:
        """After a restart: tell those who may not have heard that a job begins, and wait for it."""
        pending = self._control_db.read_status(StatusName.BEGIN)
        stored = pending and self._control_db.attempt(pending["attempt"])
        if stored and stored.state in (OfferState.BEGUN, OfferState.DONE):
            with contextlib.suppress(PDMLError):  # who has ended it says why when it is asked
                name, keys = self._member.name, self._member.study.signing_keys
                offer = Offer.read(stored.offer, name, keys[name])
                yield from self.broadcast_begin(offer, msgspec.convert(pending, Begin))

    def stop(self, attempt: str) -> Steps[None]:
        sentence = f"{self._member.name} stopped the job"
        self._admission.stop(attempt, sentence)
        yield from tell_stop(self._member, attempt, sentence, self._runtime)

    def _begin(self, offer: Offer) -> Steps[tuple[Work, Begin]]:
        """Once everybody has signed; again from the start whenever another's offer went first."""
        content = offer.signed(self._member.identity)
        deadline = self._runtime.clock.monotonic() + offer.start_timeout
        self._admission.store(offer, content, OfferState.ALLOWED)  # from now on it can be stopped
        while True:
            yield from self._wait_for_turn(offer, content, deadline)
            accepted = yield from self._collect_acceptances(offer, content, deadline)
            if accepted is not None:
                begin = Begin(attempt=offer.attempt, accepted=accepted)
                self._control_db.write_status(StatusName.BEGIN, msgspec.to_builtins(begin))
                with self._admission.lock:
                    self._check_offered(offer)
                    if self._admission.is_in(offer):
                        work = self._admission.begin(begin, self._member.name)
                        assert work is not None  # nobody else begins it
                        self._start_job(work)
                        return work, begin
            message = Postpone(attempt=offer.attempt)
            yield from tell_others(self._member, RequestKind.POSTPONE, message, self._runtime)

    def _wait_for_turn(self, offer: Offer, content: bytes, deadline: float) -> Steps[None]:
        """Until this node itself takes part: the job before is about to end."""
        while (answer := self._admission.consider(offer, content)).state == LATER:
            if self._runtime.clock.monotonic() > deadline:
                raise _not_accepted(offer, {self._member.name: answer.sentence})
            yield Wait(_AGAIN)
            self._check_offered(offer)
        if answer.state != OK:
            raise InvalidInput(answer.sentence).mark_public()

    def _collect_acceptances(
        self, offer: Offer, content: bytes, deadline: float
    ) -> Steps[dict[str, bytes] | None]:
        """Everybody's signature, or a refusal; None once another member's offer goes first."""
        name, others = self._member.name, self._member.others
        accepted = {name: acceptance(offer, name, self._member.identity)}
        reasons = dict.fromkeys(others, "it does not answer")

        def accept(peer: str, data: bytes) -> bool:
            answer = read_answer(data)
            if answer is None:
                return False
            if answer.state == OK and answer.messages:
                accepted[peer] = answer.messages[0]
                return True
            if answer.state != LATER:
                raise PeerError(f"{peer} refused the job: {plain(answer.sentence)}")
            reasons[peer] = plain(answer.sentence)
            return False

        def goes_on() -> bool:
            self._check_offered(offer)
            return self._admission.is_in(offer)

        missing = yield from ask_all(
            RequestKind.OFFER,
            content,
            others,
            clock=self._runtime.clock,
            limit=deadline - self._runtime.clock.monotonic(),
            timeout=_ATTEMPT,
            pause=Wait(_AGAIN),
            accept=accept,
            goes_on=goes_on,
        )
        if not missing:
            return accepted
        if not goes_on():
            return None
        raise _not_accepted(offer, {peer: reasons[peer] for peer in missing})

    def _check_offered(self, offer: Offer) -> None:
        stored = self._control_db.attempt(offer.attempt)
        if stored is None or stored.state in ENDED:
            raise Stopped((stored and stored.sentence) or "the offer was withdrawn")

    def broadcast_begin(self, offer: Offer, begin: Begin) -> Steps[None]:
        """Until everybody has it or the job has failed; it may be done here before others begin."""

        def accept(peer: str, data: bytes) -> bool:
            answer = read_answer(data)
            refused = answer is not None and answer.state == REFUSED
            if answer is not None and refused and self._state(offer) != OfferState.DONE:
                raise PeerError(f"{peer} does not begin: {plain(answer.sentence)}")
            return True

        missing = yield from ask_all(
            RequestKind.BEGIN,
            msgspec.msgpack.encode(begin),
            self._member.others,
            clock=self._runtime.clock,
            limit=offer.start_timeout,
            timeout=_ATTEMPT,
            pause=self._runtime.pause(_AGAIN),
            accept=accept,
            goes_on=lambda: (
                not self._runtime.is_leaving and self._state(offer) != OfferState.FAILED
            ),
        )
        if not missing:
            self._control_db.insist(lambda: self._control_db.write_status(StatusName.BEGIN, None))

    def _state(self, offer: Offer) -> OfferState:
        stored = self._control_db.attempt(offer.attempt)
        return OfferState.FAILED if stored is None else stored.state

    def _poll_progress(self, work: Work) -> Steps[None]:
        terms, others = work.terms, self._member.others
        messages = dict.fromkeys(others, terms.digest.encode())
        while self._admission.work is work and not self._runtime.is_leaving:
            replies = yield Ask(kind=RequestKind.PROGRESS, messages=messages, timeout=_PROGRESS)
            for name, data in replies.items():
                if (answer := read_answer(data)) is not None and answer.messages:
                    with contextlib.suppress(PeerError):
                        reached = read_request(answer.messages[0], Progress, name).round
                        self._progress.set_round(name, max(0, min(reached, terms.plan.rounds)))
            yield self._runtime.pause(_PROGRESS / 2)


def _not_accepted(offer: Offer, waiting: Mapping[str, str]) -> PeerError:
    reasons = "; ".join(f"{name}: {why}" for name, why in sorted(waiting.items()))
    return PeerError(
        f"job {offer.job} was not accepted by all within {offer.start_timeout:g} s ({reasons}); "
        "nothing was released"
    )
