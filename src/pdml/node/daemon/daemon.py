"""A node at work: its parts, its main loop, its answers, and `pdml node run` as a function."""

import contextlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isinf
from pathlib import Path
from types import FrameType

import msgspec

from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import InvalidInput, PDMLError, because, plain
from pdml.mechanisms.randomness import Secure, Simulated, Source
from pdml.node.crypto.hpke import Context
from pdml.node.daemon.job_runner import JobRunner, LocalModels, WriteLocalModel
from pdml.node.job.activity import Runtime, Steps, Tasks, ThreadTasks, Transport, drive
from pdml.node.job.admission import AdmissionRule, JobAdmission, Member, Work
from pdml.node.job.coordinator import Coordinator, tell_stop
from pdml.node.job.equivocation_reporter import EquivocationReporter
from pdml.node.job.job_result import write_local_model
from pdml.node.job.statements import nothing_yet, piece
from pdml.node.operator.status import NodeStatus, read_status
from pdml.node.protocol.redaction import public_message
from pdml.node.protocol.requests import (
    LATER,
    OK,
    REFUSED,
    Begin,
    Fetch,
    Offer,
    PeerAnswer,
    Postpone,
    Progress,
    Proof,
    RequestKind,
    Stop,
    read_request,
)
from pdml.node.storage.control_db import (
    ENDED,
    Attempt,
    CommandKind,
    ControlDatabase,
    OfferState,
    ProgressReport,
    StatusName,
)
from pdml.node.storage.journal import Job, Journal
from pdml.node.storage.node_dir import NodeDirectory

_POLL = 0.2  # seconds between two looks at the operator's commands
_AFTER_ERROR = 1.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PARTING = 5.0  # seconds for activities to end when the node does

log = logging.getLogger("pdml.node")


class NodeDaemon:
    """One node's process; `run` returns when `leave` is called, from any thread. Everything it
    touches is an argument: a simulation hands in its own, and drives `serve` itself."""

    def __init__(
        self,
        directory: NodeDirectory,
        source: Source,
        transport: Transport,
        *,
        clock: Clock,
        tasks: Tasks | None = None,
        write_local_model: WriteLocalModel = write_local_model,
    ) -> None:
        study = directory.checked_study()
        self.member = Member(name=directory.name, study=study, identity=directory.identity())
        self.journal = directory.journal(clock)
        # for all but the one activity that does the job
        self.committed = Journal.peek(self.journal.path)
        self.directory = NodeDirectory.open(directory.folder)  # the journal may have changed it
        self.control_db = ControlDatabase(directory.folder)
        self.transport = transport
        tasks = tasks or ThreadTasks(transport, clock)
        self.runtime = Runtime(clock=clock, tasks=tasks, leaving=threading.Event())
        rule = AdmissionRule(self.member, self.directory, self.committed, source.name)
        progress = ProgressReport(self.control_db, clock)
        self.local_models = LocalModels(
            self.directory, self.committed, rule.load_training_data, write_local_model
        )
        self.admission = JobAdmission(
            self.member,
            rule,
            control_db=self.control_db,
            committed=self.committed,
            runtime=self.runtime,
        )
        reporter = EquivocationReporter(self.member, self.directory, self.committed, self.runtime)
        self.job_runner = JobRunner(
            self.member,
            self.directory,
            admission=self.admission,
            rule=rule,
            journal=self.journal,
            source=source,
            reporter=reporter,
            progress=progress,
            local_models=self.local_models,
            runtime=self.runtime,
        )
        self.coordinator = Coordinator(
            self.member,
            self.admission,
            control_db=self.control_db,
            progress=progress,
            start_job=self.job_runner.start,
            runtime=self.runtime,
        )
        self.handlers = Handlers(
            self.member, self.admission, reporter, self.committed, start_job=self.job_runner.start
        )

    def run(self) -> None:
        try:
            drive(self.serve(), self.transport, self.runtime.clock)
        finally:
            self.close()

    def serve(self) -> Steps[None]:
        """The main activity: connect, go on with what was begun, and obey the operator."""
        self._write_connection(False, "connecting")
        self.transport.start(self.handlers.handle, self._write_connection)
        for attempt in self.control_db.attempts():
            self._recover(attempt)
        self.runtime.tasks.spawn(self.coordinator.resume_start())
        self.runtime.tasks.spawn(self.local_models.write_as_step())
        while not self.runtime.is_leaving:
            yield self.runtime.pause(_POLL)
            try:
                self._obey()
            except PDMLError as error:  # a full disk, say: the commands wait
                log.error("%s", error)
                yield self.runtime.pause(_AFTER_ERROR)

    def leave(self) -> None:
        self.runtime.leaving.set()

    def close(self) -> None:
        """After `serve`. What one round still computes is not waited for."""
        self.runtime.leaving.set()
        self.admission.leave()
        self.transport.close()
        self.runtime.tasks.join(_PARTING)
        self._write_connection(False, "the node does not run")
        self.committed.close()
        self.journal.close()
        self.control_db.close()

    def _obey(self) -> None:
        self.control_db.flush()
        for command in self.control_db.pop_commands():
            if command.kind == CommandKind.OFFER:
                steps = self.coordinator.run_offer(command.attempt, command.content)
            else:
                steps = self.coordinator.stop(command.attempt)
            self.runtime.tasks.spawn(steps)
        self.admission.expire()

    def _recover(self, stored: Attempt) -> None:
        """Go on with a job that an earlier life of this process had begun."""
        name, study = self.member.name, self.member.study
        was_allowed = stored.state == OfferState.ALLOWED and stored.offerer == name
        if stored.state == OfferState.ACCEPTED or was_allowed:
            sentence = f"{name}'s node was restarted before job {stored.job} began"
            self.control_db.move(stored.attempt, OfferState.FAILED, sentence)
            self.runtime.tasks.spawn(tell_stop(self.member, stored.attempt, sentence, self.runtime))
        elif stored.state not in ENDED:
            try:
                offer = Offer.stored(stored.offer)
                work = Work(offer, offer.make_job_terms(study), begun=True)
            except PDMLError as error:
                self.control_db.move(stored.attempt, OfferState.FAILED, str(error))
                return
            if stored.state == OfferState.BEGUN:
                self.admission.resume(work)
                self.job_runner.start(work)
            else:
                self.admission.expect_start(offer)

    def _write_connection(self, up: bool, why: str) -> None:
        with contextlib.suppress(PDMLError):
            last = self.control_db.read_status(StatusName.CONNECTION) or {}
            pid = os.getpid()
            if (last.get("up"), last.get("why"), last.get("pid")) == (up, why, pid):
                return
            same = (last.get("up"), last.get("pid")) == (up, pid)
            ends = self.transport.certificate_end() if up else last.get("ends")
            since = last["since"] if same else self.runtime.clock.now()
            status = {"up": up, "why": why, "pid": pid, "since": since, "ends": ends}
            self.control_db.write_status(StatusName.CONNECTION, status)
            where = "connected to" if up else "not connected to"
            log.info("%s the relay%s", where, f": {why}" if why else "")


Handler = Callable[[Context, bytes], PeerAnswer]


class Handlers:
    """Every request gets an answer; what a member may not do is refused with one sentence.

    offer      every member accepts by its operator's rule and its own budget, and signs it
    postpone   its offerer lets another's offer go first: it is accepted again later
    begin      with everybody's signature: nothing is released for a job that somebody refuses
    hello, release   the rounds, between neighbours (`Exchange`)
    fetch      everybody's signed statement, so that every member has the same result
    progress   how far this node is          stop   any member may end the job, for its own reason
    proof      a member signed two different things
    """

    def __init__(
        self,
        member: Member,
        admission: JobAdmission,
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
            answer = PeerAnswer(REFUSED, public_message(error, name))
        return msgspec.msgpack.encode(answer)

    def _offer(self, context: Context, content: bytes) -> PeerAnswer:
        key = self._member.study.signing_keys[context.sender]
        return self._admission.consider(Offer.read(content, context.sender, key), content)

    def _postpone(self, context: Context, content: bytes) -> PeerAnswer:
        request = read_request(content, Postpone, context.sender)
        self._admission.postpone(request.attempt, context.sender)
        return PeerAnswer(OK)

    def _begin(self, context: Context, content: bytes) -> PeerAnswer:
        begin = read_request(content, Begin, context.sender)
        work = self._admission.begin(begin, context.sender)
        if work is not None:
            self._start_job(work)
        return PeerAnswer(OK)

    def _stop(self, context: Context, content: bytes) -> PeerAnswer:
        stop = read_request(content, Stop, context.sender)
        sentence = f"{context.sender} ended the job: {plain(stop.sentence, 500)}"
        self._admission.stop_by_member(stop.attempt, sentence)
        return PeerAnswer(OK)

    def _progress(self, context: Context, content: bytes) -> PeerAnswer:
        digest = content.decode("ascii", "replace")
        entry = next((job for job in self._committed.jobs() if job.terms == digest), None)
        state, t = ("", 0) if entry is None else (entry.state, entry.round)
        return PeerAnswer(OK, messages=[msgspec.msgpack.encode(Progress(state, t))])

    def _fetch(self, context: Context, content: bytes) -> PeerAnswer:
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

    def _proof(self, context: Context, content: bytes) -> PeerAnswer:
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

    def _exchange(self, context: Context, content: bytes) -> PeerAnswer:
        exchange = self._admission.exchange(context.job)
        if exchange is None:
            return PeerAnswer(LATER)
        return exchange.answer(context.kind, context.sender, content)


def run(
    folder: Path,
    *,
    relay: str = "",
    metrics: str = "",
    simulated_noise: int | None = None,
    verbose: bool = False,
    write_local_model: WriteLocalModel = write_local_model,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Parameters
    ----------
    folder : Path
        As `NodeDirectory.create` made it, with a study.
    relay : str
        HOST:PORT of another way to the relay than the study's address, a leaf node, say.
    metrics : str
        127.0.0.1:PORT for figures in Prometheus' format; "" for none.
    simulated_noise : int or None
        The seed of repeatable noise, for tests; None takes the operating system's entropy.
    verbose : bool
        Log what is dropped, too.
    write_local_model : callable, optional
        Another way to write the organisation's own model, for tests.
    """
    from pdml.node.daemon.nats_transport import NatsTransport  # a simulation needs no relay

    _log(verbose)
    source = Secure() if simulated_noise is None else Simulated(simulated_noise)
    directory = NodeDirectory.open(folder)
    transport = NatsTransport.of_node(directory, SYSTEM_CLOCK, relay=relay)
    daemon = NodeDaemon(
        directory, source, transport, clock=SYSTEM_CLOCK, write_local_model=write_local_model
    )
    metrics_server = MetricsServer(folder, metrics) if metrics else None

    if threading.current_thread() is threading.main_thread():
        leave_on_signal(daemon)
    try:
        if metrics_server is not None:
            metrics_server.start()
        daemon.run()
    finally:
        if metrics_server is not None:
            metrics_server.close()


def leave_on_signal(daemon: NodeDaemon) -> None:
    """A handler interrupts the main thread, also where it holds a lock: it may only queue."""
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def handler(number: int, frame: FrameType | None) -> None:
        signals.put(number)

    def wait() -> None:
        signals.get()
        daemon.leave()

    threading.Thread(target=wait, daemon=True, name="pdml-signals").start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _log(verbose: bool) -> None:
    """Sentences on stderr, where service managers look; no payload is ever logged."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("pdml.node")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
    for library in ("nats", "asyncio"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


class MetricsServer:
    """A page of figures about the node in ``folder``, at an address of this machine."""

    def __init__(self, folder: Path, address: str) -> None:
        host, _, port = address.rpartition(":")
        if host.strip("[]") not in _LOOPBACK or not port.isdecimal() or not 0 <= int(port) < 65536:
            raise InvalidInput(
                f"metrics must be 127.0.0.1:PORT, got {address!r}: figures are for this machine"
            )

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                content = metrics_text(read_status(NodeDirectory.open(folder))).encode()
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.end_headers()
                self.wfile.write(content if self.path == "/metrics" else b"")

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
        except OSError as error:
            raise InvalidInput(f"metrics cannot be shown at {address}: {because(error)}") from None
        self.port = self._server.server_address[1]

    def start(self) -> None:
        threading.Thread(
            target=self._server.serve_forever, daemon=True, name="pdml-metrics"
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def metrics_text(status: NodeStatus) -> str:
    current = next((dataset for dataset in status.datasets if dataset.current), None)
    next_job = current.next_job if current else None
    figures: dict[str, float | None] = {
        "pdml_node_connected": float(status.connected),
        "pdml_node_connection_since_seconds": status.connection.get("since"),
        "pdml_node_certificate_ends_seconds": status.connection.get("ends"),
        "pdml_node_round": float(status.jobs[-1].round) if status.jobs else 0.0,
        "pdml_node_released_total": float(current.releases) if current else 0.0,
        "pdml_node_last_safe_round": None if next_job is None else float(next_job),
    }
    lines = [f"{name} {value:g}" for name, value in figures.items() if value is not None]
    for row in current.ledger.rows() if current else ():
        labels = f'adversary="{row.adversary}",data="{row.data}"'
        epsilon = "+Inf" if isinf(row.epsilon) else f"{row.epsilon:.6g}"
        lines.append(f"pdml_node_spent_epsilon{{{labels}}} {epsilon}")
    return "\n".join(lines) + "\n"
