"""A job that this node offers: everybody's acceptance first, then the beginning, then how far
everybody is.
"""

import contextlib
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pdml.errors import InvalidInput, PDMLError, PeerError, plain
from pdml.node.job.round_exchange import LATER, OK, REFUSED, Stopped, decoded_answer
from pdml.node.protocol.job_offer import Offer, acceptance
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.redaction import public_message
from pdml.node.protocol.requests import (
    ASK,
    BEGIN,
    OFFER,
    POSTPONE,
    Begin,
    Postpone,
    Progress,
    decoded,
)
from pdml.node.storage import control_db as states
from pdml.node.storage.control_db import Attempt
from pdml.planning.training_plan import TrainingPlan

if TYPE_CHECKING:
    from pdml.node.daemon.daemon import NodeDaemon, Work

log = logging.getLogger("pdml.node")

_ATTEMPT = 5.0  # seconds for one answer about an offer
_AGAIN = 0.5  # before a member that was not ready is asked again
_TELL = 1.0  # seconds between two questions about progress


def run_offer(office: "NodeDaemon", attempt: str, terms: dict[str, Any]) -> None:
    """From the wish of somebody at this machine to the end of the job here."""
    try:
        plan = TrainingPlan.from_dict(dict(terms.pop("plan")))
        contract = JobTerms.for_study(office.study, plan, str(terms.pop("job")))
        offer = Offer.of(contract, attempt=attempt, offerer=office.name, **terms)
    except (PDMLError, TypeError) as error:
        fields = {
            "attempt": attempt,
            "offerer": office.name,
            "state": states.FAILED,
            "sentence": str(error),
        }
        office.record(
            lambda: office.control_db.put(Attempt(job="", contract="", offer=b"", **fields))
        )
        return
    try:
        office.rounds = {}
        work, begin = _begin(office, offer)
        _broadcast_start(office, offer, begin)
    except Exception as error:
        sentence = public_message(error, office.name)
        log.error(
            "the offer of job %s: %s",
            offer.job,
            error,
            exc_info=None if isinstance(error, PDMLError) else error,
        )
        with office.lock:
            if office.work is not None and office.work.offer.attempt == attempt:
                office.halt(office.work, sentence)
            elif (
                stored := office.control_db.attempt(attempt)
            ) is None or stored.state not in states.ENDED:
                office.record(
                    lambda: office.remember(
                        offer, offer.signed(office.identity), states.FAILED, sentence
                    )
                )
        office.tell_stop(attempt, sentence)
        return
    _poll_progress(office, work)


def resume_start(office: "NodeDaemon") -> None:
    """After a restart: tell those who may not have heard that a job begins. They have accepted it,
    and would have time for nothing else until they give it up.
    """
    pending_begin = office.control_db.read_status(BEGIN)
    stored = pending_begin and office.control_db.attempt(pending_begin["attempt"])
    if stored and stored.state in (states.BEGUN, states.DONE):
        with contextlib.suppress(PDMLError):  # who has ended it says why when it is asked
            key = office.study.signing_keys[office.name]
            offer = Offer.read(stored.offer, office.name, key)
            _broadcast_start(office, offer, msgspec.convert(pending_begin, Begin))


def _begin(office: "NodeDaemon", offer: Offer) -> tuple["Work", Begin]:
    """Once everybody has signed; again from the start whenever another's offer went first."""
    content, deadline = offer.signed(office.identity), time.monotonic() + offer.start_timeout
    office.remember(offer, content, states.ALLOWED)  # from now on it can be stopped
    while True:
        _wait_for_turn(office, offer, content, deadline)
        accepted = _acceptances(office, offer, content, deadline)
        if accepted is not None:
            begin = Begin(attempt=offer.attempt, accepted=accepted)
            office.control_db.write_status(BEGIN, msgspec.to_builtins(begin))
            with office.lock:
                _check(office, offer)
                if office.leads(offer):
                    work = office.current(offer.attempt)
                    office.begin(work, begin)
                    return work, begin
        office.tell_others(POSTPONE, Postpone(attempt=offer.attempt))


def _wait_for_turn(office: "NodeDaemon", offer: Offer, content: bytes, deadline: float) -> None:
    """Until this node itself takes part: the job before is about to end."""
    while (answer := office.consider(offer, content)).state == LATER:
        if time.monotonic() > deadline:
            raise _not_accepted(offer, {office.name: answer.sentence})
        time.sleep(_AGAIN)
        _check(office, offer)
    if answer.state != OK:
        raise InvalidInput(answer.sentence).mark_public()


def _acceptances(
    office: "NodeDaemon", offer: Offer, content: bytes, deadline: float
) -> dict[str, bytes] | None:
    """Everybody's signature; a refusal, or too long a silence, ends the offer. None once another
    member's offer goes first.
    """
    accepted = {office.name: acceptance(offer, office.name, office.identity)}
    waiting = dict.fromkeys(office.others, "it does not answer")
    while waiting:
        _check(office, offer)
        if not office.leads(offer):
            return None
        for name, data in office.transport.ask(
            OFFER, dict.fromkeys(waiting, content), timeout=_ATTEMPT
        ).items():
            answer = decoded_answer(data)
            if answer is None:
                continue
            if answer.state == OK and answer.messages:
                accepted[name] = answer.messages[0]
                del waiting[name]
            elif answer.state == LATER:
                waiting[name] = plain(answer.sentence)
            else:
                raise PeerError(f"{name} refused the job: {plain(answer.sentence)}")
        if waiting and time.monotonic() > deadline:
            raise _not_accepted(offer, waiting)
        if waiting:
            time.sleep(_AGAIN)
    return accepted


def _not_accepted(offer: Offer, waiting: Mapping[str, str]) -> PeerError:
    reasons = "; ".join(f"{name}: {why}" for name, why in sorted(waiting.items()))
    return PeerError(
        f"job {offer.job} was not accepted by all within {offer.start_timeout:g} s ({reasons}); "
        "nothing was released"
    )


def _check(office: "NodeDaemon", offer: Offer) -> None:
    """Somebody may have stopped it."""
    stored = office.control_db.attempt(offer.attempt)
    if stored is None or stored.state in states.ENDED:
        raise Stopped((stored and stored.sentence) or "the offer was withdrawn")


def _broadcast_start(office: "NodeDaemon", offer: Offer, begin: Begin) -> None:
    """The beginning to everybody, until everybody has it or the job has failed. It may be done here
    before others know that it has begun.
    """
    content, deadline = msgspec.msgpack.encode(begin), time.monotonic() + offer.start_timeout
    waiting = set(office.others)
    while waiting and time.monotonic() < deadline and not office.leaving.is_set():
        for name, data in office.transport.ask(
            BEGIN, dict.fromkeys(waiting, content), timeout=_ATTEMPT
        ).items():
            waiting.discard(name)
            answer = decoded_answer(data)
            if answer is None or answer.state != REFUSED:
                continue
            if _state(office, offer) != states.DONE:
                raise PeerError(f"{name} does not begin: {plain(answer.sentence)}")
        if _state(office, offer) == states.FAILED:
            return
        if waiting:
            time.sleep(_AGAIN)
    if not waiting:
        office.record(lambda: office.control_db.write_status(BEGIN, None))


def _state(office: "NodeDaemon", offer: Offer) -> str:
    stored = office.control_db.attempt(offer.attempt)
    return states.FAILED if stored is None else stored.state


def _poll_progress(office: "NodeDaemon", work: "Work") -> None:
    """Ask the others how far they are, as long as the job lasts here."""
    contract = work.contract
    while office.work is work and not office.leaving.is_set():
        replies = office.transport.ask(
            ASK, dict.fromkeys(office.others, contract.digest.encode()), timeout=_TELL
        )
        for name, data in replies.items():
            if (answer := decoded_answer(data)) is not None and answer.messages:
                with contextlib.suppress(PeerError):
                    reached = decoded(answer.messages[0], Progress, name).round
                    office.rounds[name] = max(0, min(reached, contract.plan.rounds))
        time.sleep(_TELL / 2)
