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
from pdml.node.daemon.local_model import Keep, LocalModelWriter
from pdml.node.daemon.nats_transport import NatsTransport
from pdml.node.job import coordinator
from pdml.node.job.admission import JobAdmission
from pdml.node.job.equivocation_reporter import EquivocationReporter
from pdml.node.job.participant import Participant
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
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.redaction import busy, goes_first, no_result, public_message
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
from pdml.node.storage.control_db import Attempt, ControlDatabase, digest_of
from pdml.node.storage.journal import FINISHED, Journal
from pdml.node.storage.node_dir import NodeDirectory
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
    contract: JobTerms
    begun: bool = False
    deadline: float = 0.0  # until when it must begin, once accepted
    exchange: Exchange | None = None
    stopped: str = ""

    @property
    def contradiction(self) -> Equivocation | None:
        """What a neighbour is proved to have done, whatever came of it since."""
        return None if self.exchange is None else self.exchange.contradiction


class NodeDaemon:
    """One node's process. `run` returns when `leave` is called, from any thread."""

    def __init__(
        self, home: NodeDirectory, source: Source, *, relay: str = "", keep: Keep | None = None
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
        self.home = NodeDirectory.open(
            home.folder
        )  # opening the journal may have changed its settings
        self.control_db = ControlDatabase(home.folder)
        self.lock = threading.RLock()
        self.work: Work | None = None
        self.admission = JobAdmission(self.home, self.study, source, self.committed)
        self.leaving = threading.Event()
        self._spoken = 0.0
        self._unwritten: list[Callable[[], object]] = []
        self._waiting: dict[str, float] = {}  # until when the offers of others may begin
        self._threads: list[threading.Thread] = []
        self.rounds: dict[str, int] = {}
        self.equivocation_reporter = EquivocationReporter(self)
        self.local_model_writer = LocalModelWriter(
            self.home, self.committed, self.admission.load_training_data, keep
        )
        self.transport = _carrier(self, relay)

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
        self.transport.start()
        self._rejoin()
        self.spawn(self.local_model_writer.keep)
        try:
            while not self.leaving.wait(_POLL):
                try:
                    self._run_commands()
                except PDMLError as error:  # a full disk, say: what was asked for waits on the desk
                    log.error("%s", error)
                    self.leaving.wait(_TELL)
        finally:
            with self.lock:
                if self.work is not None and self.work.exchange is not None:
                    self.work.exchange.stop(f"{self.name}'s node was stopped")
            self.transport.close()
            self._see_off()
            self.connection(False, "the node does not run")
            self.committed.close()
            self.journal.close()
            self.control_db.close()

    def leave(self) -> None:
        self.leaving.set()

    def connection(self, up: bool, why: str) -> None:
        """Remember whether the relay is there, and since when."""
        with contextlib.suppress(PDMLError):
            last_status, pid = self.control_db.read_status("connection") or {}, os.getpid()
            if (last_status.get("up"), last_status.get("why"), last_status.get("pid")) != (
                up,
                why,
                pid,
            ):
                same = (last_status.get("up"), last_status.get("pid")) == (up, pid)
                ends = self._ends() if up else last_status.get("ends")
                status = {
                    "up": up,
                    "why": why,
                    "pid": pid,
                    "since": last_status["since"] if same else time.time(),
                    "ends": ends,
                }
                self.control_db.write_status("connection", status)
                log.info(
                    "%s the relay%s",
                    "connected to" if up else "not connected to",
                    f": {why}" if why else "",
                )

    def _ends(self) -> float | None:
        """When the relay's certificate ends."""
        from pdml.node.crypto import tls

        certificate = self.transport.tls.peer_certificate
        return tls.ends(certificate).timestamp() if certificate else None

    def _run_commands(self) -> None:
        while self._unwritten:
            self._unwritten[0]()
            self._unwritten.pop(0)
        for wish in self.control_db.pop_commands():
            if wish.what == OFFER:
                self.spawn(coordinator.run_offer, self, wish.about, wish.content)
            elif wish.what == STOP:
                self._stop_everywhere(wish.about, f"{self.name} stopped the job")
        with self.lock:
            work = self.work
            if work is not None and not work.begun and time.monotonic() > work.deadline:
                limit = f"within {work.offer.start_timeout:g} s"
                self._end(work, states.FAILED, _late(work.offer.offerer, work.offer.job, limit))
            for attempt in [key for key, end in self._waiting.items() if time.monotonic() > end]:
                del self._waiting[attempt]  # its offerer has given it up, and may not have said so
                stored = self.control_db.attempt(attempt)
                if stored is not None and stored.state in (states.PENDING, states.ALLOWED):
                    late = _late(stored.offerer, stored.job, "in time")
                    self.control_db.move(attempt, states.FAILED, late)

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
        self._threads = [other for other in self._threads if other.is_alive()] + [thread]
        thread.start()

    def _see_off(self) -> None:
        """Nobody works on any more; what one round still computes is not waited for."""
        deadline = time.monotonic() + _PARTING
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _rejoin(self) -> None:
        """Go on with a job that an earlier life of this process had begun."""
        for stored in self.control_db.attempts():
            is_offerer = stored.offerer == self.name
            if stored.state == states.ACCEPTED or (is_offerer and stored.state == states.ALLOWED):
                sentence = f"{self.name}'s node was restarted before job {stored.job} began"
                self.control_db.move(stored.attempt, states.FAILED, sentence)
                self.spawn(self.tell_stop, stored.attempt, sentence)
            elif stored.state not in states.ENDED:
                try:
                    key = self.study.signing_keys[stored.offerer]
                    offer = Offer.read(stored.offer, stored.offerer, key)
                    contract = offer.make_job_terms(self.study)
                except PDMLError as error:
                    self.control_db.move(stored.attempt, states.FAILED, str(error))
                    continue
                if stored.state != states.BEGUN:
                    self._may_begin(offer)
                    continue
                work = Work(offer, contract, begun=True)
                with self.lock:
                    self.work = work
                self.spawn(self._do, work)
        self.spawn(coordinator.resume_start, self)

    # What members ask

    def handle(self, context: Context, content: bytes) -> bytes | None:
        """Every question gets an answer; what a member may not do is refused with one sentence."""
        kinds: Mapping[str, Callable[[Context, bytes], Answer]] = {
            OFFER: self._handle_offer,
            POSTPONE: self._handle_postpone,
            BEGIN: self._handle_begin,
            STOP: self._handle_stop,
            ASK: self._handle_ask,
            FETCH: self._handle_fetch,
            HELLO: self._handle_exchange,
            RELEASE: self._handle_exchange,
            PROOF: self._handle_proof,
        }
        try:
            if context.study != self.study.hash:
                raise InvalidInput(
                    f"{self.name} has the study {self.study.hash[:12]}..., not "
                    f"{context.study[:12]}..."
                ).mark_public()
            if context.kind not in kinds:
                raise InvalidInput(
                    f"{self.name} does not know the question {plain(context.kind, 40)!r}"
                ).mark_public()
            answer = kinds[context.kind](context, content)
        except PDMLError as error:
            log.info("refused %s of %s: %s", plain(context.kind, 40), context.sender, error)
            answer = Answer(REFUSED, public_message(error, self.name))
        return msgspec.msgpack.encode(answer)

    def _handle_offer(self, context: Context, content: bytes) -> Answer:
        offer = Offer.read(content, context.sender, self.study.signing_keys[context.sender])
        return self.consider(offer, content)

    def consider(self, offer: Offer, content: bytes) -> Answer:
        """Accepted, refused, or not decided yet."""
        with self.lock:
            work, stored = self.work, self.control_db.attempt(offer.attempt)
            if stored is not None and stored.offer != content:
                raise PeerError(f"{offer.offerer} made two offers under one name")
            if work is not None and work.offer.attempt == offer.attempt:
                return self._accepted(offer)
            if stored is not None and stored.state in states.ENDED:
                return Answer(REFUSED, stored.sentence or f"{self.name} refused job {offer.job}")
            if work is not None and not self._gives_way(work, offer, content):
                named = (self.name, work.offer.job, work.offer.offerer)
                return Answer(LATER, busy(*named, begun=work.begun))
            first = self._first_answer(offer) if stored is None else ("", "")
            try:
                contract = self.admission.check(offer)
            except PDMLError as error:
                self.remember(offer, content, states.REFUSED, public_message(error, self.name))
                raise
            if stored is None:
                stored = self.remember(offer, content, *first)
            self._may_begin(offer)
            if stored.state == states.PENDING:
                return Answer(LATER, f"{self.name}'s operator has not decided yet")
            if work is not None:
                self._postpone(work, goes_first(offer.job, offer.offerer))
            self.control_db.move(offer.attempt, states.ACCEPTED)
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
        stored = self.control_db.attempt(work.offer.attempt)
        return stored is not None and digest_of(content) < stored.digest

    def _postpone(self, work: Work, sentence: str) -> None:
        """Back to the offers that wait: it can be accepted again."""
        self.control_db.move(work.offer.attempt, states.ALLOWED, sentence)
        self.work = None

    def _first_answer(self, offer: Offer) -> tuple[str, str]:
        """By the rule; and why the operator is asked although the rule would do."""
        unfinished = self.control_db.unfinished().get(offer.offerer, [])
        if self.admission.auto_accepts(offer, unfinished=unfinished):
            return states.ALLOWED, ""
        if self.control_db.waiting(offer.offerer) >= _MOST_WAITING:
            raise InvalidInput(
                f"{_MOST_WAITING} offers of {offer.offerer} wait for {self.name}'s operator: stop "
                "one, or wait for an answer"
            ).mark_public()
        return states.PENDING, no_result(offer.offerer, unfinished) if unfinished else ""

    def _may_begin(self, offer: Offer) -> None:
        """From now on for as long as its offerer waits; own offers end by themselves."""
        if offer.offerer != self.name:
            self._waiting[offer.attempt] = time.monotonic() + offer.start_timeout

    def _accepted(self, offer: Offer) -> Answer:
        return Answer(OK, messages=[acceptance(offer, self.name, self.identity)])

    def remember(self, offer: Offer, content: bytes, state: str, sentence: str = "") -> Attempt:
        earlier = self.control_db.attempt(offer.attempt)
        if earlier is not None:
            self.control_db.move(offer.attempt, state, sentence)
        else:
            terms = {
                "attempt": offer.attempt,
                "job": plain(offer.job, 64),  # of a refused offer it may be anything
                "contract": offer.contract,
                "offerer": offer.offerer,
            }
            self.control_db.put(Attempt(**terms, offer=content, state=state, sentence=sentence))
        stored = self.control_db.attempt(offer.attempt)
        assert stored is not None
        return stored

    def _handle_postpone(self, context: Context, content: bytes) -> Answer:
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

    def _handle_begin(self, context: Context, content: bytes) -> Answer:
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
        self.control_db.move(work.offer.attempt, states.BEGUN)
        work.begun = True
        self.spawn(self._do, work)

    def _handle_stop(self, context: Context, content: bytes) -> Answer:
        stop = decoded(content, Stop, context.sender)
        sentence = f"{context.sender} ended the job: {plain(stop.sentence, 500)}"
        with self.lock:
            stored = self.control_db.attempt(stop.attempt)
            if stored is not None and stored.state in (states.PENDING, states.ALLOWED):
                self.control_db.move(stop.attempt, states.REFUSED, sentence)
            if self.work is not None and self.work.offer.attempt == stop.attempt:
                self.halt(self.work, sentence)
        return Answer(OK)

    def halt(self, work: Work, sentence: str) -> None:
        work.stopped = work.stopped or sentence
        if not work.begun:
            self._end(work, states.FAILED, sentence)
        elif work.exchange is not None:
            work.exchange.stop(sentence)

    def _handle_ask(self, context: Context, content: bytes) -> Answer:
        """How far the job of this contract is here."""
        entry = next(
            (
                job
                for job in self.committed.jobs()
                if job.contract == content.decode("ascii", "replace")
            ),
            None,
        )
        progress = Progress(
            "" if entry is None else entry.state, 0 if entry is None else entry.round
        )
        return Answer(OK, messages=[msgspec.msgpack.encode(progress)])

    def _handle_fetch(self, context: Context, content: bytes) -> Answer:
        """A piece of somebody's statement on a job, or of the proof against it, if it is here."""
        question = decoded(content, Fetch, context.sender)
        entry = self.committed.job(question.job)
        if entry is None or entry.contract != question.contract:
            raise InvalidInput(
                f"{self.name} knows no such job {plain(question.job, 64)!r}"
            ).mark_public()
        if question.proof:
            return self.equivocation_reporter.kept(entry, question.server, question.start)
        with self.lock:
            here = self.work is not None and self.work.contract.digest == question.contract
        data = self.committed.statements(entry.job).get(question.server, b"")
        if not data:
            return nothing_yet(
                self.name, entry.job, entry.round, expected=here or question.server != self.name
            )
        return piece(data, question.start)

    def _handle_exchange(self, context: Context, content: bytes) -> Answer:
        with self.lock:
            work = self.work
            if work is None or work.contract.digest != context.job:
                raise InvalidInput(f"{self.name} is not in this job now").mark_public()
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
            raise InvalidInput(f"{self.name} is in no such attempt").mark_public()
        return self.work

    # This node's own part

    def _do(self, work: Work) -> None:
        """All rounds, the report, and everybody else's; however it ends, it is written down and the
        others are told.
        """
        contract = work.contract
        try:
            entry = self.journal.job(contract.job)
            if entry is None or entry.state != FINISHED:
                self._train(work)
                self._gather(work)
            self._end(work, states.DONE, "")
            log.info("job %s is done", contract.job)
            self.local_model_writer.keep()
        except Exception as failure:
            error = work.contradiction or failure
            sentence = public_message(error, self.name)
            log.error(
                "job %s: %s",
                contract.job,
                error,
                exc_info=None if isinstance(error, PDMLError) else error,
            )
            self._end(work, states.FAILED, sentence)
            if isinstance(error, Equivocation):
                self.equivocation_reporter.accuse(contract.job, error)
            if not work.stopped and not self.leaving.is_set():
                self.tell_stop(work.offer.attempt, sentence)

    def _train(self, work: Work) -> None:
        contract = work.contract
        with threadpool_limits(1):
            party = Participant(
                contract,
                self.name,
                self.admission.load_training_data(),
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
        self, contract: JobTerms
    ) -> Callable[[str, Mapping[str, bytes], float], dict[str, Answer]]:
        def send(topic: str, messages: Mapping[str, bytes], timeout: float) -> dict[str, Answer]:
            replies = self.transport.ask(topic, messages, job=contract.digest, timeout=timeout)
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
            lambda kind, questions, timeout: self.transport.ask(kind, questions, timeout=timeout),
            name=self.name,
            limit=work.offer.round_timeout,
            check=lambda: self._check(work),
        )
        self.equivocation_reporter.compare(work.contract)
        exchange.finish()

    def _handle_proof(self, context: Context, content: bytes) -> Answer:
        proof = decoded(content, Proof, context.sender)
        entry = self.committed.job(proof.job)
        if entry is None:
            raise InvalidInput(
                f"{self.name} knows no such job {plain(proof.job, 64)!r}"
            ).mark_public()
        return self.equivocation_reporter.handle_proof(context.sender, proof, entry)

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
            self.control_db.remove_unfinished(job)
        elif work.begun and offerer != self.name:
            entry = self.committed.job(job)
            if entry is not None and entry.round:
                self.control_db.add_unfinished(offerer, job)
        self.control_db.move(work.offer.attempt, state, sentence)

    def _progress(self, contract: JobTerms, t: int, *, last: bool = False) -> None:
        """For people, now and then; what counts is in the journal."""
        self.rounds[self.name] = t
        if last or time.monotonic() - self._spoken > _TELL:
            self._spoken = time.monotonic()
            with contextlib.suppress(PDMLError):
                self.control_db.write_status(
                    "progress",
                    {"job": contract.job, "rounds": self.rounds, "of": contract.plan.rounds},
                )

    # Stopping

    def _stop_everywhere(self, attempt: str, sentence: str) -> None:
        with self.lock:
            if self.work is not None and self.work.offer.attempt == attempt:
                self.halt(self.work, sentence)
            elif (
                stored := self.control_db.attempt(attempt)
            ) is not None and stored.state not in states.ENDED:
                self.control_db.move(attempt, states.FAILED, sentence)
        self.spawn(self.tell_stop, attempt, sentence)

    def tell_stop(self, attempt: str, sentence: str) -> None:
        self.tell_others(STOP, Stop(attempt=attempt, sentence=sentence))

    def tell_others(self, kind: str, message: Stop | Postpone) -> None:
        """To everybody, as far as they can be reached within a few seconds."""
        content = msgspec.msgpack.encode(message)
        waiting, deadline = set(self.others), time.monotonic() + _ATTEMPT
        while waiting and time.monotonic() < deadline and not self.leaving.is_set():
            waiting -= self.transport.ask(
                kind, dict.fromkeys(waiting, content), timeout=_TELL
            ).keys()
            if waiting:
                time.sleep(_POLL)


def _late(offerer: str, job: str, limit: str) -> str:
    return f"{offerer} offered job {job} and did not begin it {limit}"


def _carrier(office: NodeDaemon, address: str) -> NatsTransport:
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
    return NatsTransport(
        sealer, office.identity, study, relay, handle=office.handle, changed=office.connection
    )
