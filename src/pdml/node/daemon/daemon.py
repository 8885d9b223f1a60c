"""A node at work: it answers members, decides about offers, and does its part of one job at a time.

offer   every member accepts by its operator's rule and its own budget, and signs that it does
postpone    its offerer lets another's offer go first: it is accepted again later
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
from dataclasses import dataclass, replace
from math import inf

import msgspec
from threadpoolctl import threadpool_limits

from pdml.errors import Equivocation, InvalidInput, PDMLError, PeerError, plain
from pdml.mechanisms.randomness import Source
from pdml.node.crypto.hpke import Context, Sealer
from pdml.node.daemon.local_model import Keep, Keeper
from pdml.node.daemon.nats_transport import Carrier
from pdml.node.job import coordinator
from pdml.node.job.admission import Judge
from pdml.node.job.equivocation_reporter import Accuser
from pdml.node.job.participant import Party
from pdml.node.job.round_exchange import (
    HELLO,
    LATER,
    OK,
    REFUSED,
    RELEASE,
    Answer,
    Exchange,
    Stopped,
    decoded_answer,
)
from pdml.node.job.statement_sync import gather, nothing_yet, piece
from pdml.node.protocol.job_offer import Offer, acceptance, check_begin
from pdml.node.protocol.job_terms import Contract
from pdml.node.protocol.redaction import busy, goes_first, no_result, told
from pdml.node.protocol.requests import (
    ASK,
    BEGIN,
    FETCH,
    OFFER,
    POSTPONE,
    PROOF,
    STOP,
    Begin,
    Fetch,
    Postpone,
    Progress,
    Proof,
    Stop,
    decoded,
)
from pdml.node.storage import control_db as states
from pdml.node.storage.control_db import Attempt, Desk, digest_of
from pdml.node.storage.journal import FINISHED, Journal
from pdml.node.storage.node_dir import Home
from pdml.study import Study

_POLL = 0.2  # seconds between two looks at the desk
_ATTEMPT = 5.0  # seconds for one answer about an offer
_AGAIN = 0.5  # before a member that was not ready is asked again
_TELL = 1.0  # seconds between two words about progress
_MOST_WAITING = 8  # offers of one member that an operator is asked about
_PARTING = 5.0  # seconds for threads to end when the node does

log = logging.getLogger("pdml.node")


@dataclass
class Work:
    """The attempt that this node is in: accepted, or begun."""

    offer: Offer
    contract: Contract
    begun: bool = False
    deadline: float = 0.0  # until when it must begin, once accepted
    exchange: Exchange | None = None
    stopped: str = ""

    @property
    def contradiction(self) -> Equivocation | None:
        """What a neighbour is proved to have done, whatever came of it since."""
        return None if self.exchange is None else self.exchange.contradiction


class Office:
    """One node's process. `run` returns when `leave` is called, from any thread."""

    def __init__(
        self, home: Home, source: Source, *, relay: str = "", keep: Keep | None = None
    ) -> None:
        """``relay``: another way to it than the study's address (HOST:PORT); its certificate must
        be the pinned one. ``keep``: writes what a job leaves to this organisation alone.
        """
        self.home, self.source = home, source
        self.study: Study = home.checked_study()
        self.identity = home.identity()
        self.journal: Journal = (
            home.journal()
        )  # for the one thread that does the job, and for its exchange
        self.committed = Journal.peek(
            self.journal.path
        )  # for all others: nothing of a round that is not on disk yet
        self.home = Home.open(home.folder)  # opening the journal may have changed its settings
        self.desk = Desk(home.folder)
        self.lock = threading.RLock()
        self.work: Work | None = None
        self.judge = Judge(self.home, self.study, source, self.committed)
        self.leaving = threading.Event()
        self._spoken = 0.0
        self._unwritten: list[Callable[[], object]] = []
        self._waiting: dict[str, float] = {}  # until when the offers of others may begin
        self._threads: list[threading.Thread] = []
        self.rounds: dict[str, int] = {}
        self.accuser = Accuser(self)
        self.keeper = Keeper(self.home, self.committed, self.judge.holdings, keep)
        self.carrier = _carrier(self, relay)

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
        self.spawn(self.keeper.keep)
        try:
            while not self.leaving.wait(_POLL):
                try:
                    self._obey()
                except PDMLError as error:  # a full disk, say: what was asked for waits on the desk
                    log.error("%s", error)
                    self.leaving.wait(_TELL)
        finally:
            with self.lock:
                if self.work is not None and self.work.exchange is not None:
                    self.work.exchange.stop(f"{self.name}'s node was stopped")
            self.carrier.close()
            self._see_off()
            self.connection(False, "the node does not run")
            self.committed.close()
            self.journal.close()
            self.desk.close()

    def leave(self) -> None:
        self.leaving.set()

    def connection(self, up: bool, why: str) -> None:
        """Remember whether the relay is there, and since when."""
        with contextlib.suppress(PDMLError):
            known, pid = self.desk.told("connection") or {}, os.getpid()
            if (known.get("up"), known.get("why"), known.get("pid")) != (up, why, pid):
                same = (known.get("up"), known.get("pid")) == (up, pid)
                ends = self._ends() if up else known.get("ends")
                told = {
                    "up": up,
                    "why": why,
                    "pid": pid,
                    "since": known["since"] if same else time.time(),
                    "ends": ends,
                }
                self.desk.tell("connection", told)
                log.info(
                    "%s the relay%s",
                    "connected to" if up else "not connected to",
                    f": {why}" if why else "",
                )

    def _ends(self) -> float | None:
        """When the relay's certificate ends."""
        from pdml.node.crypto import tls

        seen = self.carrier.tls.seen
        return tls.ends(seen).timestamp() if seen else None

    def _obey(self) -> None:
        while self._unwritten:
            self._unwritten[0]()
            self._unwritten.pop(0)
        for wish in self.desk.take_wishes():
            if wish.what == OFFER:
                self.spawn(coordinator.lead, self, wish.about, wish.content)
            elif wish.what == STOP:
                self._stop_everywhere(wish.about, f"{self.name} stopped the job")
        with self.lock:
            work = self.work
            if work is not None and not work.begun and time.monotonic() > work.deadline:
                limit = f"within {work.offer.start_timeout:g} s"
                self._end(work, states.FAILED, _late(work.offer.offerer, work.offer.job, limit))
            for attempt in [each for each, end in self._waiting.items() if time.monotonic() > end]:
                del self._waiting[attempt]  # its offerer has given it up, and may not have said so
                known = self.desk.attempt(attempt)
                if known is not None and known.state in (states.ASKED, states.ALLOWED):
                    late = _late(known.offerer, known.job, "in time")
                    self.desk.move(attempt, states.FAILED, late)

    def record(self, write: Callable[[], object]) -> None:
        """Write onto the desk now, or as soon as there is room: whoever follows a job must hear of
        its end.
        """
        try:
            write()
        except PDMLError as error:
            log.error("%s", error)
            self._unwritten.append(write)

    def spawn(self, target: Callable[..., None], *arguments: object) -> None:
        """In a thread of its own, which `run` waits for when it ends."""
        thread = threading.Thread(
            target=target, args=arguments, daemon=True, name=f"pdml-{target.__name__}"
        )
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _see_off(self) -> None:
        """Nobody works on any more; what one round still computes is not waited for."""
        deadline = time.monotonic() + _PARTING
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _rejoin(self) -> None:
        """Go on with a job that an earlier life of this process had begun."""
        for known in self.desk.attempts():
            own = known.offerer == self.name
            if known.state == states.ACCEPTED or (own and known.state == states.ALLOWED):
                sentence = f"{self.name}'s node was restarted before job {known.job} began"
                self.desk.move(known.attempt, states.FAILED, sentence)
                self.spawn(self.tell_stop, known.attempt, sentence)
            elif known.state not in states.ENDED:
                try:
                    key = self.study.signing_keys[known.offerer]
                    offer = Offer.read(known.offer, known.offerer, key)
                    contract = offer.agreed(self.study)
                except PDMLError as error:
                    self.desk.move(known.attempt, states.FAILED, str(error))
                    continue
                if known.state != states.BEGUN:
                    self._may_begin(offer)
                    continue
                work = Work(offer, contract, begun=True)
                with self.lock:
                    self.work = work
                self.spawn(self._do, work)
        self.spawn(coordinator.go_on, self)

    # What members ask

    def handle(self, context: Context, content: bytes) -> bytes | None:
        """Every question gets an answer; what a member may not do is refused with one sentence."""
        kinds: Mapping[str, Callable[[Context, bytes], Answer]] = {
            OFFER: self._offered,
            POSTPONE: self._told_to_postpone,
            BEGIN: self._told_to_begin,
            STOP: self._told_to_stop,
            ASK: self._asked,
            FETCH: self._fetched,
            HELLO: self._exchanged,
            RELEASE: self._exchanged,
            PROOF: self._shown,
        }
        try:
            if context.study != self.study.hash:
                raise InvalidInput(
                    f"{self.name} has the study {self.study.hash[:12]}..., not "
                    f"{context.study[:12]}..."
                ).for_others()
            if context.kind not in kinds:
                raise InvalidInput(
                    f"{self.name} does not know the question {plain(context.kind, 40)!r}"
                ).for_others()
            answer = kinds[context.kind](context, content)
        except PDMLError as error:
            log.info("refused %s of %s: %s", plain(context.kind, 40), context.sender, error)
            answer = Answer(REFUSED, told(error, self.name))
        return msgspec.msgpack.encode(answer)

    def _offered(self, context: Context, content: bytes) -> Answer:
        offer = Offer.read(content, context.sender, self.study.signing_keys[context.sender])
        return self.consider(offer, content)

    def consider(self, offer: Offer, content: bytes) -> Answer:
        """Accepted, refused, or not decided yet."""
        with self.lock:
            work, known = self.work, self.desk.attempt(offer.attempt)
            if known is not None and known.offer != content:
                raise PeerError(f"{offer.offerer} made two offers under one name")
            if work is not None and work.offer.attempt == offer.attempt:
                return self._accepted(offer)
            if known is not None and known.state in states.ENDED:
                return Answer(REFUSED, known.sentence or f"{self.name} refused job {offer.job}")
            if work is not None and not self._gives_way(work, offer, content):
                named = (self.name, work.offer.job, work.offer.offerer)
                return Answer(LATER, busy(*named, begun=work.begun))
            first = self._first_answer(offer) if known is None else ("", "")
            try:
                contract = self.judge.check(offer)
            except PDMLError as error:
                self.remember(offer, content, states.REFUSED, told(error, self.name))
                raise
            if known is None:
                known = self.remember(offer, content, *first)
            self._may_begin(offer)
            if known.state == states.ASKED:
                return Answer(LATER, f"{self.name}'s operator has not decided yet")
            if work is not None:
                self._postpone(work, goes_first(offer.job, offer.offerer))
            self.desk.move(offer.attempt, states.ACCEPTED)
            patience = (
                inf if offer.offerer == self.name else offer.start_timeout
            )  # its own thread gives it up
            self.work = Work(offer, contract, deadline=time.monotonic() + patience)
            return self._accepted(offer)

    def _gives_way(self, work: Work, offer: Offer, content: bytes) -> bool:
        """Whether an own offer that waits lets another member's go first. Of two offers the one
        with the smaller digest does, at every member alike: otherwise each would wait for the
        other. Nobody but its offerer may set an offer back: only it knows that it does not begin.
        """
        if work.begun or work.offer.offerer != self.name or offer.offerer == self.name:
            return False
        own = self.desk.attempt(work.offer.attempt)
        return own is not None and digest_of(content) < own.digest

    def _postpone(self, work: Work, sentence: str) -> None:
        """Back to the offers that wait: it can be accepted again."""
        self.desk.move(work.offer.attempt, states.ALLOWED, sentence)
        self.work = None

    def _first_answer(self, offer: Offer) -> tuple[str, str]:
        """By the rule; and why the operator is asked although the rule would do."""
        unfinished = self.desk.unfinished().get(offer.offerer, [])
        if self.judge.allows(offer, unfinished=unfinished):
            return states.ALLOWED, ""
        if self.desk.waiting(offer.offerer) >= _MOST_WAITING:
            raise InvalidInput(
                f"{_MOST_WAITING} offers of {offer.offerer} wait for {self.name}'s operator: stop "
                "one, or wait for an answer"
            ).for_others()
        return states.ASKED, no_result(offer.offerer, unfinished) if unfinished else ""

    def _may_begin(self, offer: Offer) -> None:
        """From now on for as long as its offerer waits; own offers end by themselves."""
        if offer.offerer != self.name:
            self._waiting[offer.attempt] = time.monotonic() + offer.start_timeout

    def _accepted(self, offer: Offer) -> Answer:
        return Answer(OK, messages=[acceptance(offer, self.name, self.identity)])

    def remember(self, offer: Offer, content: bytes, state: str, sentence: str = "") -> Attempt:
        known = self.desk.attempt(offer.attempt)
        if known is not None:
            self.desk.move(offer.attempt, state, sentence)
        else:
            terms = {
                "attempt": offer.attempt,
                "job": plain(offer.job, 64),  # of a refused offer it may be anything
                "contract": offer.contract,
                "offerer": offer.offerer,
            }
            self.desk.put(Attempt(**terms, offer=content, state=state, sentence=sentence))
        found = self.desk.attempt(offer.attempt)
        assert found is not None
        return found

    def _told_to_postpone(self, context: Context, content: bytes) -> Answer:
        attempt = decoded(content, Postpone, context.sender).attempt
        with self.lock:
            work = self.work
            if work is not None and work.offer.attempt == attempt:
                if work.offer.offerer != context.sender:
                    raise PeerError(f"{context.sender} wants to postpone another member's job")
                if work.begun:
                    raise PeerError(f"{context.sender} wants to postpone a job that has begun")
                self._postpone(work, f"{context.sender} lets another member's job go first")
        return Answer(OK)

    def _told_to_begin(self, context: Context, content: bytes) -> Answer:
        begin = decoded(content, Begin, context.sender)
        with self.lock:
            work = self.current(begin.attempt)
            if work.offer.offerer != context.sender:
                raise PeerError(f"{context.sender} wants to begin a job that it has not offered")
            self.begin(work, begin)
        return Answer(OK)

    def begin(self, work: Work, begin: Begin) -> None:
        if work.begun:
            return
        check_begin(begin, work.offer, self.study)
        self.desk.move(work.offer.attempt, states.BEGUN)
        work.begun = True
        self.spawn(self._do, work)

    def _told_to_stop(self, context: Context, content: bytes) -> Answer:
        stop = decoded(content, Stop, context.sender)
        said = f"{context.sender} ended the job: {plain(stop.sentence, 500)}"
        with self.lock:
            known = self.desk.attempt(stop.attempt)
            if known is not None and known.state in (states.ASKED, states.ALLOWED):
                self.desk.move(stop.attempt, states.REFUSED, said)
            if self.work is not None and self.work.offer.attempt == stop.attempt:
                self.halt(self.work, said)
        return Answer(OK)

    def halt(self, work: Work, sentence: str) -> None:
        work.stopped = work.stopped or sentence
        if not work.begun:
            self._end(work, states.FAILED, sentence)
        elif work.exchange is not None:
            work.exchange.stop(sentence)

    def _asked(self, context: Context, content: bytes) -> Answer:
        """How far the job of this contract is here."""
        known = next(
            (
                job
                for job in self.committed.jobs()
                if job.contract == content.decode("ascii", "replace")
            ),
            None,
        )
        progress = Progress(
            "" if known is None else known.state, 0 if known is None else known.round
        )
        return Answer(OK, messages=[msgspec.msgpack.encode(progress)])

    def _fetched(self, context: Context, content: bytes) -> Answer:
        """A piece of somebody's statement on a job, or of the proof against it, if it is here."""
        question = decoded(content, Fetch, context.sender)
        known = self.committed.job(question.job)
        if known is None or known.contract != question.contract:
            raise InvalidInput(
                f"{self.name} knows no such job {plain(question.job, 64)!r}"
            ).for_others()
        if question.proof:
            return self.accuser.kept(known, question.server, question.start)
        with self.lock:
            here = self.work is not None and self.work.contract.digest == question.contract
        data = self.committed.statements(known.job).get(question.server, b"")
        if not data:
            return nothing_yet(
                self.name, known.job, known.round, expected=here or question.server != self.name
            )
        return piece(data, question.start)

    def _exchanged(self, context: Context, content: bytes) -> Answer:
        with self.lock:
            work = self.work
            if work is None or work.contract.digest != context.job:
                raise InvalidInput(f"{self.name} is not in this job now").for_others()
            exchange = work.exchange
        if exchange is None:
            return Answer(LATER)
        return exchange.answer(context.kind, context.sender, content)

    def leads(self, offer: Offer) -> bool:
        """Whether an own offer is what this node is in, and has not given way to another's."""
        with self.lock:
            return self.work is not None and self.work.offer.attempt == offer.attempt

    def current(self, attempt: str) -> Work:
        if self.work is None or self.work.offer.attempt != attempt:
            raise InvalidInput(f"{self.name} is in no such attempt").for_others()
        return self.work

    # This node's own part

    def _do(self, work: Work) -> None:
        """All rounds, the report, and everybody else's; however it ends, it is written down and the
        others are told.
        """
        contract = work.contract
        try:
            known = self.journal.job(contract.job)
            if known is None or known.state != FINISHED:
                self._train(work)
                self._gather(work)
            self._end(work, states.DONE, "")
            log.info("job %s is done", contract.job)
            self.keeper.keep()
        except Exception as failure:
            error = work.contradiction or failure
            sentence = told(error, self.name)
            log.error(
                "job %s: %s",
                contract.job,
                error,
                exc_info=None if isinstance(error, PDMLError) else error,
            )
            self._end(work, states.FAILED, sentence)
            if isinstance(error, Equivocation):
                self.accuser.accuse(contract.job, error)
            if not work.stopped and not self.leaving.is_set():
                self.tell_stop(work.offer.attempt, sentence)

    def _train(self, work: Work) -> None:
        contract = work.contract
        with threadpool_limits(1):
            party = Party(
                contract,
                self.name,
                self.judge.holdings(),
                journal=self.journal,
                identity=self.identity,
                keys=self.study.signing_keys,
                source=self.source,
                budget=self.study.budget,
                shared=self.home.shared(self.study) if contract.masked else None,
            )
        limits = {
            "start_timeout": work.offer.start_timeout,
            "round_timeout": work.offer.round_timeout,
        }
        exchange = Exchange(
            party, self._sender(contract), meanwhile=lambda t: self._progress(contract, t), **limits
        )
        with self.lock:
            work.exchange = exchange
            if work.stopped:
                exchange.stop(work.stopped)
        exchange.run()
        self._progress(contract, party.round, last=True)
        exchange.statement()

    def _sender(
        self, contract: Contract
    ) -> Callable[[str, Mapping[str, bytes], float], dict[str, Answer]]:
        def send(topic: str, messages: Mapping[str, bytes], timeout: float) -> dict[str, Answer]:
            replies = self.carrier.ask(topic, messages, job=contract.digest, timeout=timeout)
            return {
                peer: answer
                for peer, data in replies.items()
                if (answer := decoded_answer(data)) is not None
            }

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
        self.accuser.compare(work.contract)
        exchange.finish()

    def _shown(self, context: Context, content: bytes) -> Answer:
        proof = decoded(content, Proof, context.sender)
        known = self.committed.job(proof.job)
        if known is None:
            raise InvalidInput(
                f"{self.name} knows no such job {plain(proof.job, 64)!r}"
            ).for_others()
        return self.accuser.told(context.sender, proof, known)

    def _check(self, work: Work) -> None:
        if work.contradiction is not None:
            raise work.contradiction
        if work.stopped:
            raise Stopped(work.stopped)
        if self.leaving.is_set():
            raise Stopped(f"{self.name}'s node was stopped")

    def _end(self, work: Work, state: str, sentence: str) -> None:
        with self.lock:
            if self.leaving.is_set() and state == states.FAILED and work.begun:
                return  # it goes on when the node is started again
            self.record(lambda: self._write_end(work, state, sentence))
            if work.exchange is not None:
                work.exchange.stop(sentence or "the job has ended")
            if self.work is work:
                self.work = None

    def _write_end(self, work: Work, state: str, sentence: str) -> None:
        """Of a job that spent budget for nothing, first whose it was: its next offer is asked
        about, also after a restart.
        """
        job, offerer = work.contract.job, work.offer.offerer
        if state == states.DONE:
            self.desk.remove_unfinished(job)
        elif work.begun and offerer != self.name:
            known = self.committed.job(job)
            if known is not None and known.round:
                self.desk.add_unfinished(offerer, job)
        self.desk.move(work.offer.attempt, state, sentence)

    def _progress(self, contract: Contract, t: int, *, last: bool = False) -> None:
        """For people, now and then; what counts is in the journal."""
        self.rounds[self.name] = t
        if last or time.monotonic() - self._spoken > _TELL:
            self._spoken = time.monotonic()
            with contextlib.suppress(PDMLError):
                self.desk.tell(
                    "progress",
                    {"job": contract.job, "rounds": self.rounds, "of": contract.plan.rounds},
                )

    # Stopping

    def _stop_everywhere(self, attempt: str, sentence: str) -> None:
        with self.lock:
            if self.work is not None and self.work.offer.attempt == attempt:
                self.halt(self.work, sentence)
            elif (
                known := self.desk.attempt(attempt)
            ) is not None and known.state not in states.ENDED:
                self.desk.move(attempt, states.FAILED, sentence)
        self.spawn(self.tell_stop, attempt, sentence)

    def tell_stop(self, attempt: str, sentence: str) -> None:
        self.tell_others(STOP, Stop(attempt=attempt, sentence=sentence))

    def tell_others(self, kind: str, message: Stop | Postpone) -> None:
        """To everybody, as far as they can be reached within a few seconds."""
        content = msgspec.msgpack.encode(message)
        waiting, deadline = set(self.others), time.monotonic() + _ATTEMPT
        while waiting and time.monotonic() < deadline and not self.leaving.is_set():
            waiting -= self.carrier.ask(kind, dict.fromkeys(waiting, content), timeout=_TELL).keys()
            if waiting:
                time.sleep(_POLL)


def _late(offerer: str, job: str, limit: str) -> str:
    return f"{offerer} offered job {job} and did not begin it {limit}"


def _carrier(office: Office, address: str) -> Carrier:
    study, keys = office.study, {server.name: server.sealing_key for server in office.study.servers}
    assert study.relay is not None  # `Home.join` has seen to it
    relay = replace(study.relay, address=address) if address else study.relay
    sealer = Sealer(
        office.name,
        office.identity,
        office.home.sealing(),
        signing=study.signing_keys,
        sealing=keys,
    )
    return Carrier(
        sealer, office.identity, study, relay, handle=office.handle, changed=office.connection
    )
