"""A node at work: it answers members, decides about offers, and does its part of one job at a time.

offer   every member accepts by its operator's rule and its own budget, and signs that it does
begin   with everybody's signature, so that nobody releases anything for a job that somebody refuses
hello, release     the rounds, between neighbours (`exchange`)
fetch   everybody's signed statement, so that every member has the same result
ask     how far the others are          stop    any member may end the job, for its own reason
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from threadpoolctl import threadpool_limits

from pdml.accounting import Budget
from pdml.errors import BudgetExceeded, DataError, InvalidInput, JournalError, PDMLError, PeerError, plain
from pdml.mechanisms.randomness import Source
from pdml.node import desk as states
from pdml.node import holdings
from pdml.node.carrier import Carrier
from pdml.node.contract import Contract
from pdml.node.desk import Attempt, Desk
from pdml.node.exchange import HELLO, LATER, OK, REFUSED, RELEASE, Answer, Exchange, Stopped, decoded_answer
from pdml.node.gathering import FETCH, Fetch, gather, nothing_yet, piece
from pdml.node.home import BY_STUDY, Home
from pdml.node.journal import FINISHED, Journal
from pdml.node.offers import Begin, Offer, Stop, acceptance, check_begin
from pdml.node.party import Holdings, Party, check_budget
from pdml.node.sealing import Context, Sealer
from pdml.study import Study
from pdml.train.plan import TrainingPlan

OFFER, BEGIN, STOP, ASK = "offer", "begin", "stop", "ask"

_POLL = 0.2  # seconds between two looks at the desk
_ATTEMPT = 5.0  # seconds for one answer about an offer
_AGAIN = 0.5  # before a member that was not ready is asked again
_TELL = 1.0  # seconds between two words about progress

log = logging.getLogger("pdml.node")

T = TypeVar("T")


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a member is with a job."""

    state: str
    round: int


@dataclass
class Work:
    """The attempt that this node is in: accepted, or begun."""

    offer: Offer
    contract: Contract
    begun: bool = False
    deadline: float = 0.0  # until when it must begin, once accepted
    exchange: Exchange | None = None
    stopped: str = ""


class Office:
    """One node's process. `run` returns when `leave` is called, from any thread."""

    def __init__(self, home: Home, source: Source, *, start_carrier: Callable[["Office"], Carrier] | None = None) -> None:
        self.home, self.source = home, source
        self.study: Study = home.checked_study()
        self.identity = home.identity()
        self.journal: Journal = home.journal()  # for the one thread that does the job, and for its exchange
        self.committed = Journal.peek(self.journal.path)  # for all others: nothing of a round that is not on disk yet
        self.home = Home.open(home.folder)  # opening the journal may have changed its settings
        self.desk = Desk(home.folder)
        self._lock = threading.RLock()
        self._work: Work | None = None
        self._held: tuple[str, Holdings] | None = None
        self._leaving = threading.Event()
        self._spoken = 0.0
        self.rounds: dict[str, int] = {}
        self.carrier = (start_carrier or _carrier)(self)

    @property
    def name(self) -> str:
        return self.home.name

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(server.name for server in self.study.servers)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if name != self.name)

    # The process

    def run(self) -> None:
        """Answer, work and obey until `leave`."""
        self.connection(False, "connecting")
        self.carrier.start()
        self._rejoin()
        try:
            while not self._leaving.wait(_POLL):
                self._obey()
        finally:
            with self._lock:
                if self._work is not None and self._work.exchange is not None:
                    self._work.exchange.stop(f"{self.name}'s node was stopped")
            self.carrier.close()
            self.connection(False, "the node does not run")
            self.committed.close()
            self.journal.close()
            self.desk.close()

    def leave(self) -> None:
        self._leaving.set()

    def connection(self, up: bool, why: str) -> None:
        """Remember whether the relay is there, and since when."""
        with contextlib.suppress(PDMLError):
            known, pid = self.desk.told("connection") or {}, os.getpid()
            if (known.get("up"), known.get("why"), known.get("pid")) != (up, why, pid):
                same = (known.get("up"), known.get("pid")) == (up, pid)
                ends = self._ends() if up else known.get("ends")
                told = {"up": up, "why": why, "pid": pid, "since": known["since"] if same else time.time(), "ends": ends}
                self.desk.tell("connection", told)
                log.info("%s the relay%s", "connected to" if up else "not connected to", f": {why}" if why else "")

    def _ends(self) -> float | None:
        """When the relay's certificate ends."""
        from pdml.node import tls

        seen = self.carrier.tls.seen
        return tls.ends(seen).timestamp() if seen else None

    def _obey(self) -> None:
        for wish in self.desk.take_wishes():
            if wish.what == OFFER:
                self._spawn(self._lead, wish.about, wish.content)
            elif wish.what == STOP:
                self._stop_everywhere(wish.about, f"{self.name} stopped the job")
        with self._lock:
            work = self._work
            if work is not None and not work.begun and time.monotonic() > work.deadline:
                self._end(work, states.FAILED, f"job {work.offer.job} was accepted and did not begin in time")

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True, name=f"pdml-{target.__name__}").start()

    def _rejoin(self) -> None:
        """Go on with a job that an earlier life of this process had begun."""
        for known in self.desk.attempts():
            if known.state == states.BEGUN:
                try:
                    offer = Offer.read(known.offer, known.offerer, self.study.signing_keys[known.offerer])
                    work = Work(offer, offer.agreed(self.study), begun=True)
                except PDMLError as error:
                    self.desk.move(known.attempt, states.FAILED, str(error))
                    continue
                with self._lock:
                    self._work = work
                self._spawn(self._do, work)
            elif known.state == states.ACCEPTED:
                self.desk.move(known.attempt, states.FAILED, "the node was restarted before the job began")

    # What members ask

    def handle(self, context: Context, content: bytes) -> bytes | None:
        """Every question gets an answer; what a member may not do is refused with one sentence."""
        kinds: Mapping[str, Callable[[Context, bytes], Answer]] = {
            OFFER: self._offered, BEGIN: self._told_to_begin, STOP: self._told_to_stop, ASK: self._asked, FETCH: self._fetched,
            HELLO: self._exchanged, RELEASE: self._exchanged,
        }  # fmt: skip
        try:
            if context.study != self.study.hash:
                raise InvalidInput(f"{self.name} has the study {self.study.hash[:12]}..., not {context.study[:12]}...")
            if context.kind not in kinds:
                raise InvalidInput(f"{self.name} does not know the question {plain(context.kind, 40)!r}")
            answer = kinds[context.kind](context, content)
        except PDMLError as error:
            answer = Answer(REFUSED, told(error, self.name))
        return msgspec.msgpack.encode(answer)

    def _offered(self, context: Context, content: bytes) -> Answer:
        offer = Offer.read(content, context.sender, self.study.signing_keys[context.sender])
        return self._consider(offer, content)

    def _consider(self, offer: Offer, content: bytes) -> Answer:
        """Accepted, refused, or not decided yet."""
        with self._lock:
            work, known = self._work, self.desk.attempt(offer.attempt)
            if known is not None and known.offer != content:
                raise PeerError(f"{offer.offerer} made two offers under one name")
            if work is not None and work.offer.attempt == offer.attempt:
                return self._accepted(offer)
            if known is not None and known.state in states.ENDED:
                return Answer(REFUSED, known.sentence or f"{self.name} refused job {offer.job}")
            if work is not None:
                raise InvalidInput(f"{self.name} is busy with job {work.offer.job}")
            try:
                contract = offer.agreed(self.study)
                self._affordable(offer, contract)
            except PDMLError as error:
                self._remember(offer, content, states.REFUSED, told(error, self.name))
                raise
            if known is None:
                known = self._remember(offer, content, states.ALLOWED if self._by_rule(offer) else states.ASKED)
            if known.state == states.ASKED:
                return Answer(LATER, f"{self.name}'s operator has not decided yet")
            self.desk.move(offer.attempt, states.ACCEPTED)
            self._work = Work(offer, contract, deadline=time.monotonic() + offer.start_timeout)
            return self._accepted(offer)

    def _accepted(self, offer: Offer) -> Answer:
        return Answer(OK, messages=[acceptance(offer, self.name, self.identity)])

    def _by_rule(self, offer: Offer) -> bool:
        """Whether nobody needs to be asked: own offers, jobs that were accepted before, and the study's plan by the rule."""
        known = self.committed.job(offer.job)
        again = known is not None and known.contract == offer.contract
        rule = Home.open(self.home.folder).config.accept
        return offer.offerer == self.name or again or (rule == BY_STUDY and bool(self.study.plan))

    def _remember(self, offer: Offer, content: bytes, state: str, sentence: str = "") -> Attempt:
        known = self.desk.attempt(offer.attempt)
        if known is not None:
            self.desk.move(offer.attempt, state, sentence)
        else:
            terms = {"attempt": offer.attempt, "job": offer.job, "contract": offer.contract, "offerer": offer.offerer}
            self.desk.put(Attempt(**terms, offer=content, state=state, sentence=sentence))
        found = self.desk.attempt(offer.attempt)
        assert found is not None
        return found

    def _affordable(self, offer: Offer, contract: Contract) -> None:
        """Before anybody releases anything: records, budget, noise, and whether the job is new or to be continued."""
        known = self.committed.job(offer.job)
        if known is not None and known.contract != offer.contract:
            raise JournalError(f"job {offer.job} is in {self.name}'s journal with another contract: give the job another name")
        if known is not None and not offer.resume:
            raise JournalError(f"{self.name} knows job {offer.job} already: resume it, or give the job another name")
        if known is not None and known.state == FINISHED:
            return
        held = self._holdings()
        if others := self.committed.sources(held.dataset) - {self.source.name}:
            raise JournalError(
                f"the data set of {self.name} was used with {others.pop()} noise before: one ledger cannot hold that and {self.source.name}"
            )
        check_budget(contract, self.name, held, journal=self.committed, budget=self.study.budget or Budget())

    def _holdings(self) -> Holdings:
        """The records; read once for each data set."""
        home = Home.open(self.home.folder)
        if self._held is None or self._held[0] != home.config.data:
            self._held = home.config.data, home.holdings()
        return self._held[1]

    def _told_to_begin(self, context: Context, content: bytes) -> Answer:
        begin = _decoded(content, Begin, context.sender)
        with self._lock:
            work = self._current(begin.attempt)
            if work.offer.offerer != context.sender:
                raise PeerError(f"{context.sender} wants to begin a job that it has not offered")
            self._begin(work, begin)
        return Answer(OK)

    def _begin(self, work: Work, begin: Begin) -> None:
        if work.begun:
            return
        check_begin(begin, work.offer, self.study)
        self.desk.move(work.offer.attempt, states.BEGUN)
        work.begun = True
        self._spawn(self._do, work)

    def _told_to_stop(self, context: Context, content: bytes) -> Answer:
        stop = _decoded(content, Stop, context.sender)
        said = f"{context.sender} ended the job: {plain(stop.sentence, 500)}"
        with self._lock:
            known = self.desk.attempt(stop.attempt)
            if known is not None and known.state in (states.ASKED, states.ALLOWED):
                self.desk.move(stop.attempt, states.REFUSED, said)
            if self._work is not None and self._work.offer.attempt == stop.attempt:
                self._halt(self._work, said)
        return Answer(OK)

    def _halt(self, work: Work, sentence: str) -> None:
        work.stopped = work.stopped or sentence
        if not work.begun:
            self._end(work, states.FAILED, sentence)
        elif work.exchange is not None:
            work.exchange.stop(sentence)

    def _asked(self, context: Context, content: bytes) -> Answer:
        """How far the job of this contract is here."""
        known = next((job for job in self.committed.jobs() if job.contract == content.decode("ascii", "replace")), None)
        progress = Progress("" if known is None else known.state, 0 if known is None else known.round)
        return Answer(OK, messages=[msgspec.msgpack.encode(progress)])

    def _fetched(self, context: Context, content: bytes) -> Answer:
        """A piece of somebody's statement on a job, if it is here."""
        question = _decoded(content, Fetch, context.sender)
        known = self.committed.job(question.job)
        if known is None or known.contract != question.contract:
            raise InvalidInput(f"{self.name} knows no such job {plain(question.job, 64)!r}")
        with self._lock:
            here = self._work is not None and self._work.contract.digest == question.contract
        data = self.committed.statements(known.job).get(question.server, b"")
        if not data:
            return nothing_yet(self.name, known.job, known.round, expected=here or question.server != self.name)
        return piece(data, question.start)

    def _exchanged(self, context: Context, content: bytes) -> Answer:
        with self._lock:
            work = self._work
            if work is None or work.contract.digest != context.job:
                raise InvalidInput(f"{self.name} is not in this job now")
            exchange = work.exchange
        if exchange is None:
            return Answer(LATER)
        return exchange.answer(context.kind, context.sender, content)

    def _current(self, attempt: str) -> Work:
        if self._work is None or self._work.offer.attempt != attempt:
            raise InvalidInput(f"{self.name} is in no such attempt")
        return self._work

    # This node's own part

    def _do(self, work: Work) -> None:
        """All rounds, the report, and everybody else's; however it ends, it is written down and the others are told."""
        contract = work.contract
        try:
            known = self.journal.job(contract.job)
            if known is None or known.state != FINISHED:
                self._train(work)
                self._gather(work)
            self._end(work, states.DONE, "")
            log.info("job %s is done", contract.job)
        except Exception as error:
            sentence = told(error, self.name)
            if not isinstance(error, PDMLError):
                log.exception("job %s failed", contract.job)
            log.error("job %s: %s", contract.job, sentence)
            self._end(work, states.FAILED, sentence)
            if not work.stopped and not self._leaving.is_set():
                self._tell_stop(work.offer.attempt, sentence)

    def _train(self, work: Work) -> None:
        contract = work.contract
        with threadpool_limits(1):
            party = Party(
                contract,
                self.name,
                self._holdings(),
                journal=self.journal,
                identity=self.identity,
                keys=self.study.signing_keys,
                source=self.source,
                budget=self.study.budget,
            )
        limits = {"start_timeout": work.offer.start_timeout, "round_timeout": work.offer.round_timeout}
        exchange = Exchange(party, self._sender(contract), meanwhile=lambda t: self._progress(contract, t), **limits)
        with self._lock:
            work.exchange = exchange
            if work.stopped:
                exchange.stop(work.stopped)
        exchange.run()
        self._progress(contract, party.round, last=True)
        exchange.statement()

    def _sender(self, contract: Contract) -> Callable[[str, Mapping[str, bytes], float], dict[str, Answer]]:
        def send(topic: str, messages: Mapping[str, bytes], timeout: float) -> dict[str, Answer]:
            replies = self.carrier.ask(topic, messages, job=contract.digest, timeout=timeout)
            return {peer: answer for peer, data in replies.items() if (answer := decoded_answer(data)) is not None}

        return send

    def _gather(self, work: Work) -> None:
        """Everybody's statement; then nobody needs this node's inner state any more."""
        exchange = work.exchange
        assert exchange is not None
        gather(
            work.contract,
            self.others,
            exchange,
            lambda kind, questions, timeout: self.carrier.ask(kind, questions, timeout=timeout),
            name=self.name,
            limit=work.offer.round_timeout,
            check=lambda: self._check(work),
        )
        exchange.finish()

    def _check(self, work: Work) -> None:
        if work.stopped:
            raise Stopped(work.stopped)
        if self._leaving.is_set():
            raise Stopped(f"{self.name}'s node was stopped")

    def _end(self, work: Work, state: str, sentence: str) -> None:
        with self._lock:
            if self._leaving.is_set() and state == states.FAILED and work.begun:
                return  # it goes on when the node is started again
            with contextlib.suppress(PDMLError):
                self.desk.move(work.offer.attempt, state, sentence)
            if work.exchange is not None:
                work.exchange.stop(sentence or "the job has ended")
            if self._work is work:
                self._work = None

    def _progress(self, contract: Contract, t: int, *, last: bool = False) -> None:
        """For people, now and then; what counts is in the journal."""
        self.rounds[self.name] = t
        if last or time.monotonic() - self._spoken > _TELL:
            self._spoken = time.monotonic()
            with contextlib.suppress(PDMLError):
                self.desk.tell("progress", {"job": contract.job, "rounds": self.rounds, "of": contract.plan.rounds})

    # A job that this node offers

    def _lead(self, attempt: str, terms: dict[str, object]) -> None:
        try:
            plan = TrainingPlan.from_dict(dict(terms.pop("plan")))  # type: ignore[call-overload]
            contract = holdings.agreed(self.study, plan, str(terms.pop("job")))
            offer = Offer.of(contract, attempt=attempt, offerer=self.name, **terms)
        except (PDMLError, TypeError) as error:
            self.desk.put(
                Attempt(attempt=attempt, job="", contract="", offerer=self.name, offer=b"", state=states.FAILED, sentence=str(error))
            )
            return
        try:
            self.rounds = {}
            accepted = self._gather_acceptances(offer)
            with self._lock:
                work = self._current(attempt)
                begin = Begin(attempt=attempt, accepted=accepted)
                self._begin(work, begin)
            self._spread(BEGIN, msgspec.msgpack.encode(begin), time.monotonic() + offer.start_timeout)
        except PDMLError as error:
            sentence = told(error, self.name)
            with self._lock:
                if self._work is not None and self._work.offer.attempt == attempt:
                    self._halt(self._work, sentence)
                elif (known := self.desk.attempt(attempt)) is None or known.state not in states.ENDED:
                    self._remember(offer, offer.signed(self.identity), states.FAILED, sentence)
            self._tell_stop(attempt, sentence)
            return
        self._follow(work)

    def _gather_acceptances(self, offer: Offer) -> dict[str, bytes]:
        content, deadline = offer.signed(self.identity), time.monotonic() + offer.start_timeout
        own = self._consider(offer, content)
        accepted, waiting = {self.name: own.messages[0]}, dict.fromkeys(self.others, "it does not answer")
        while waiting:
            known = self.desk.attempt(offer.attempt)
            if known is None or known.state in states.ENDED:
                raise Stopped((known and known.sentence) or "the offer was withdrawn")
            replies = self.carrier.ask(OFFER, dict.fromkeys(waiting, content), timeout=_ATTEMPT)
            for name, data in replies.items():
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
                reasons = "; ".join(f"{name}: {why}" for name, why in sorted(waiting.items()))
                raise PeerError(
                    f"job {offer.job} was not accepted by all within {offer.start_timeout:g} s ({reasons}); nothing was released"
                )
            if waiting:
                time.sleep(_AGAIN)
        return accepted

    def _spread(self, kind: str, content: bytes, deadline: float) -> None:
        """To everybody, until everybody has it or the job is over."""
        waiting = set(self.others)
        while waiting and time.monotonic() < deadline and self._work is not None:
            for name, data in self.carrier.ask(kind, dict.fromkeys(waiting, content), timeout=_ATTEMPT).items():
                answer = decoded_answer(data)
                if answer is not None and answer.state == REFUSED:
                    raise PeerError(f"{name} does not begin: {plain(answer.sentence)}")
                waiting.discard(name)
            if waiting:
                time.sleep(_AGAIN)

    def _follow(self, work: Work) -> None:
        """Ask the others how far they are, as long as the job lasts here."""
        contract = work.contract
        while self._work is work and not self._leaving.is_set():
            replies = self.carrier.ask(ASK, dict.fromkeys(self.others, contract.digest.encode()), timeout=_TELL)
            for name, data in replies.items():
                if (answer := decoded_answer(data)) is not None and answer.messages:
                    with contextlib.suppress(PeerError):
                        told_round = _decoded(answer.messages[0], Progress, name).round
                        self.rounds[name] = max(0, min(told_round, contract.plan.rounds))
            time.sleep(_TELL / 2)

    def _stop_everywhere(self, attempt: str, sentence: str) -> None:
        with self._lock:
            if self._work is not None and self._work.offer.attempt == attempt:
                self._halt(self._work, sentence)
            elif (known := self.desk.attempt(attempt)) is not None and known.state not in states.ENDED:
                self.desk.move(attempt, states.FAILED, sentence)
        self._spawn(self._tell_stop, attempt, sentence)

    def _tell_stop(self, attempt: str, sentence: str) -> None:
        content = msgspec.msgpack.encode(Stop(attempt=attempt, sentence=sentence))
        with contextlib.suppress(PDMLError):
            self.carrier.ask(STOP, dict.fromkeys(self.others, content), timeout=_ATTEMPT)


def told(error: Exception, name: str) -> str:
    """One sentence for other organisations, which tells nothing about anybody's record."""
    if isinstance(error, (PeerError, Stopped)):
        return str(error)
    if isinstance(error, (JournalError, BudgetExceeded)) or (isinstance(error, InvalidInput) and not isinstance(error, DataError)):
        return str(error) if name in str(error) else f"{name}: {error}"
    return f"{name} failed with {type(error).__name__}: see the log of its node"


def _carrier(office: Office) -> Carrier:
    study, keys = office.study, {server.name: server.sealing_key for server in office.study.servers}
    assert study.relay is not None  # `Home.join` has seen to it
    sealer = Sealer(office.name, office.identity, office.home.sealing(), signing=study.signing_keys, sealing=keys)
    return Carrier(sealer, office.identity, study, study.relay, handle=office.handle, changed=office.connection)


def _decoded(data: bytes, kind: type[T], sender: str) -> T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (ValueError, RecursionError):
        raise PeerError(f"{sender} sent something that cannot be read") from None
