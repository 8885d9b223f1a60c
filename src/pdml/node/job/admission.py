"""Which job a node takes part in: its answer to offers, and the attempt it is in until its end."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from pdml.accounting import Budget
from pdml.errors import Equivocation, InvalidInput, JournalError, PDMLError, PeerError, plain
from pdml.node.crypto.signing import Identity
from pdml.node.job.activity import Runtime
from pdml.node.job.participant import check_job
from pdml.node.job.round_exchange import Exchange
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.redaction import busy, goes_first, no_result, public_message
from pdml.node.protocol.requests import (
    LATER,
    OK,
    REFUSED,
    Begin,
    Offer,
    PeerAnswer,
    acceptance,
    check_begin,
)
from pdml.node.storage.control_db import ENDED, Attempt, ControlDatabase, OfferState, digest_of
from pdml.node.storage.journal import JobState, Journal
from pdml.node.storage.node_dir import Config, NodeDirectory, OfferRule
from pdml.study import Study

_MOST_PENDING = 8  # offers of one member that an operator is asked about


@dataclass(frozen=True, kw_only=True)
class Member:
    """This node as a member of its study."""

    name: str
    study: Study
    identity: Identity

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(server.name for server in self.study.servers)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.all if name != self.name)


@dataclass
class Work:
    """The attempt that this node is in: accepted, or begun."""

    offer: Offer
    terms: JobTerms
    begun: bool = False
    deadline: float = inf  # until when it must begin, once accepted
    exchange: Exchange | None = None
    stop_reason: str = ""

    @property
    def equivocation(self) -> Equivocation | None:
        """What a neighbour is proved to have done, whatever came of it since."""
        return None if self.exchange is None else self.exchange.equivocation


class AdmissionRule:
    """Whether this node may take part, by what is committed."""

    def __init__(
        self, member: Member, directory: NodeDirectory, committed: Journal, source: str
    ) -> None:
        self._member, self._folder = member, directory.folder
        self._committed, self._source = committed, source
        self._cache: tuple[Config, TrainingData] | None = None

    def load_training_data(self) -> TrainingData:
        """The records; read once for each data set."""
        directory = NodeDirectory.open(self._folder)
        if self._cache is None or self._cache[0] != directory.config:
            self._cache = directory.config, directory.load_training_data()
        return self._cache[1]

    def auto_accepts(self, offer: Offer, *, unfinished: Sequence[str]) -> bool:
        """Whether nobody needs to be asked: own offers, jobs that were accepted before, and the
        study's plan by the rule. Not while ``unfinished`` jobs of the offerer have spent budget
        for nothing: a member could begin and end one after the other."""
        entry = self._committed.job(offer.job)
        again = entry is not None and entry.terms == offer.terms
        spent = entry is not None and entry.round > 0
        rule = NodeDirectory.open(self._folder).config.accept
        planned = self._member.study.plan is not None
        return (
            offer.offerer == self._member.name
            or (again and (spent or not unfinished))
            or (rule == OfferRule.STUDY and planned and not unfinished)
        )

    def check(self, offer: Offer) -> JobTerms:
        """The terms, if this node can do the job: refused before anybody releases anything."""
        study, name = self._member.study, self._member.name
        terms, entry = offer.make_job_terms(study), self._committed.job(offer.job)
        if entry is not None and entry.terms != offer.terms:
            raise JournalError(
                f"job {offer.job} is in {name}'s journal with other terms: give the job another "
                "name"
            ).mark_public()
        if entry is not None and not offer.resume:
            raise JournalError(
                f"{name} knows job {offer.job} already: resume it, or give the job another name"
            ).mark_public()
        if entry is None or entry.state != JobState.FINISHED:
            check_job(
                terms,
                name,
                self.load_training_data(),
                keys=study.signing_keys,
                journal=self._committed,
                source=self._source,
                budget=study.budget or Budget(),
            )
        return terms


class JobAdmission:
    """The offers, and the one attempt that this node is in; for any thread.

    Guarantees
    ----------
    - One job at a time; an accepted offer that does not begin within its own limit is given up.
    - Nothing begins without the signature of every member.
    """

    def __init__(
        self,
        member: Member,
        rule: AdmissionRule,
        *,
        control_db: ControlDatabase,
        committed: Journal,
        runtime: Runtime,
    ) -> None:
        self._member, self._rule, self._control_db = member, rule, control_db
        self._committed, self._runtime = committed, runtime
        self.lock = threading.RLock()
        self.work: Work | None = None
        self._start_limits: dict[str, float] = {}  # until when the offers of others may begin

    # Offers

    def consider(self, offer: Offer, content: bytes) -> PeerAnswer:
        name = self._member.name
        with self.lock:
            work, stored = self.work, self._control_db.attempt(offer.attempt)
            if stored is not None and stored.offer != content:
                raise PeerError(f"{offer.offerer} made two offers under one name")
            if work is not None and work.offer.attempt == offer.attempt:
                return self._accept(offer)
            if stored is not None and stored.state in ENDED:
                return PeerAnswer(REFUSED, stored.sentence or f"{name} refused job {offer.job}")
            if work is not None and not self._gives_way(work, offer, content):
                current = work.offer
                return PeerAnswer(LATER, busy(name, current.job, current.offerer, begun=work.begun))
            first = self._first_state(offer) if stored is None else None
            try:
                terms = self._rule.check(offer)
            except PDMLError as error:
                self.store(offer, content, OfferState.REFUSED, public_message(error, name))
                raise
            if first is not None:
                stored = self.store(offer, content, *first)
            self.expect_start(offer)
            if stored is not None and stored.state == OfferState.PENDING:
                return PeerAnswer(LATER, f"{name}'s operator has not decided yet")
            if work is not None:
                self._postpone(work, goes_first(offer.job, offer.offerer))
            self._control_db.move(offer.attempt, OfferState.ACCEPTED)
            self.work = Work(offer, terms)
            if offer.offerer != name:  # the coordinator gives up its own
                self.work.deadline = self._runtime.clock.monotonic() + offer.start_timeout
            return self._accept(offer)

    def _accept(self, offer: Offer) -> PeerAnswer:
        member = self._member
        return PeerAnswer(OK, messages=[acceptance(offer, member.name, member.identity)])

    def _gives_way(self, work: Work, offer: Offer, content: bytes) -> bool:
        """Whether an own offer that waits lets another member's go first: of two the one with the
        smaller digest does, at every member alike. Only its offerer knows that it does not
        begin."""
        name = self._member.name
        if work.begun or work.offer.offerer != name or offer.offerer == name:
            return False
        stored = self._control_db.attempt(work.offer.attempt)
        return stored is not None and digest_of(content) < stored.digest

    def _first_state(self, offer: Offer) -> tuple[OfferState, str]:
        """By the rule; and why the operator is asked although the rule would do."""
        unfinished = self._control_db.unfinished().get(offer.offerer, [])
        if self._rule.auto_accepts(offer, unfinished=unfinished):
            return OfferState.ALLOWED, ""
        if self._control_db.pending(offer.offerer) >= _MOST_PENDING:
            raise InvalidInput(
                f"{_MOST_PENDING} offers of {offer.offerer} wait for {self._member.name}'s "
                "operator: stop one, or wait for an answer"
            ).mark_public()
        return OfferState.PENDING, no_result(offer.offerer, unfinished) if unfinished else ""

    def expect_start(self, offer: Offer) -> None:
        """From now on for as long as its offerer waits; own offers end by themselves."""
        if offer.offerer != self._member.name:
            self._start_limits[offer.attempt] = (
                self._runtime.clock.monotonic() + offer.start_timeout
            )

    def store(self, offer: Offer, content: bytes, state: OfferState, sentence: str = "") -> Attempt:
        attempt = Attempt(
            attempt=offer.attempt,
            job=plain(offer.job, 64),  # of a refused offer it may be anything
            terms=offer.terms,
            offerer=offer.offerer,
            offer=content,
            state=state,
            sentence=sentence,
        )
        if self._control_db.attempt(offer.attempt) is None:
            self._control_db.put(attempt)
        else:
            self._control_db.move(offer.attempt, state, sentence)
        return attempt

    def postpone(self, attempt: str, sender: str) -> None:
        with self.lock:
            work = self.work
            if work is None or work.offer.attempt != attempt:
                return
            if work.offer.offerer != sender:
                raise PeerError(f"{sender} wants to postpone another member's job")
            if work.begun:
                raise PeerError(f"{sender} wants to postpone a job that has begun")
            self._postpone(work, f"{sender} lets another member's job go first")

    def _postpone(self, work: Work, sentence: str) -> None:
        """Back to the offers that wait: it can be accepted again."""
        self._control_db.move(work.offer.attempt, OfferState.ALLOWED, sentence)
        self.work = None

    def expire(self) -> None:
        """Give up what was accepted or offered and has not begun in time."""
        with self.lock:
            work, now = self.work, self._runtime.clock.monotonic()
            if work is not None and not work.begun and now > work.deadline:
                limit = f"within {work.offer.start_timeout:g} s"
                self.end(work, OfferState.FAILED, _late(work.offer.offerer, work.offer.job, limit))
            for attempt in [key for key, end in self._start_limits.items() if now > end]:
                # its offerer gave it up, and may not have said so
                stored = self._control_db.attempt(attempt)
                if stored is not None and stored.state in (OfferState.PENDING, OfferState.ALLOWED):
                    late = _late(stored.offerer, stored.job, "in time")
                    self._control_db.move(attempt, OfferState.FAILED, late)
                del self._start_limits[attempt]  # else the disk failed: it is tried again

    # The attempt that this node is in

    def is_in(self, offer: Offer) -> bool:
        """Whether this offer is what the node is in, and has not given way to another's."""
        with self.lock:
            return self.work is not None and self.work.offer.attempt == offer.attempt

    def current(self, attempt: str) -> Work:
        if self.work is None or self.work.offer.attempt != attempt:
            raise InvalidInput(f"{self._member.name} is in no such attempt").mark_public()
        return self.work

    def begin(self, begin: Begin, sender: str) -> Work | None:
        """All have accepted; None if it has begun before."""
        with self.lock:
            stored = self._control_db.attempt(begin.attempt)
            if stored is not None and (stored.state, stored.offerer) == (OfferState.DONE, sender):
                return None  # done here before its offerer heard that it has begun
            work = self.current(begin.attempt)
            if work.offer.offerer != sender:
                raise PeerError(f"{sender} wants to begin a job that it has not offered")
            if work.begun:
                return None
            check_begin(begin, work.offer, self._member.study)
            self._control_db.move(work.offer.attempt, OfferState.BEGUN)
            work.begun = True
            return work

    def resume(self, work: Work) -> None:
        with self.lock:
            self.work = work

    def enter_exchange(self, work: Work, exchange: Exchange) -> None:
        """From now on neighbours are answered; unless somebody has stopped the job before."""
        with self.lock:
            work.exchange = exchange
            if work.stop_reason:
                exchange.stop(work.stop_reason)

    def exchange(self, terms: str) -> Exchange | None:
        """Of the job with these terms; None if it is not ready yet."""
        with self.lock:
            if self.work is None or self.work.terms.digest != terms:
                raise InvalidInput(f"{self._member.name} is not in this job now").mark_public()
            return self.work.exchange

    def is_doing(self, terms: str) -> bool:
        with self.lock:
            return self.work is not None and self.work.terms.digest == terms

    def stop_by_member(self, attempt: str, sentence: str) -> None:
        with self.lock:
            stored = self._control_db.attempt(attempt)
            if stored is not None and stored.state in (OfferState.PENDING, OfferState.ALLOWED):
                self._control_db.move(attempt, OfferState.REFUSED, sentence)
            if self.work is not None and self.work.offer.attempt == attempt:
                self._halt(self.work, sentence)

    def stop(self, attempt: str, sentence: str) -> bool:
        """This node ends it; False if it had ended, or was never stored."""
        with self.lock:
            if self.work is not None and self.work.offer.attempt == attempt:
                self._halt(self.work, sentence)
                return True
            stored = self._control_db.attempt(attempt)
            if stored is None or stored.state in ENDED:
                return False
            self._control_db.insist(
                lambda: self._control_db.move(attempt, OfferState.FAILED, sentence)
            )
            return True

    def _halt(self, work: Work, sentence: str) -> None:
        work.stop_reason = work.stop_reason or sentence
        if not work.begun:
            self.end(work, OfferState.FAILED, sentence)
        elif work.exchange is not None:
            work.exchange.stop(sentence)

    def leave(self) -> None:
        with self.lock:
            if self.work is not None and self.work.exchange is not None:
                self.work.exchange.stop(f"{self._member.name}'s node was stopped")

    def end(self, work: Work, state: OfferState, sentence: str = "") -> None:
        with self.lock:
            if self._runtime.is_leaving and state == OfferState.FAILED and work.begun:
                return  # it goes on when the node is started again
            self._control_db.insist(lambda: self._write_end(work, state, sentence))
            if work.exchange is not None:
                work.exchange.stop(sentence or "the job has ended")
            if self.work is work:
                self.work = None

    def _write_end(self, work: Work, state: OfferState, sentence: str) -> None:
        """An offerer whose job spent budget for nothing is asked about next time."""
        job, offerer = work.terms.job, work.offer.offerer
        if state == OfferState.DONE:
            self._control_db.remove_unfinished(job)
        elif work.begun and offerer != self._member.name:
            entry = self._committed.job(job)
            if entry is not None and entry.round:
                self._control_db.add_unfinished(offerer, job)
        self._control_db.move(work.offer.attempt, state, sentence)


def _late(offerer: str, job: str, limit: str) -> str:
    return f"{offerer} offered job {job} and did not begin it {limit}"
