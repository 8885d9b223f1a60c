"""A node inside FLARE's client: one process per job, started by FLARE, with this organisation's own kit and data."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, Timer
from typing import Any

import msgspec
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from threadpoolctl import threadpool_limits

from pdml.errors import JournalError, PDMLError
from pdml.files import atomic_write
from pdml.node import wire
from pdml.node.exchange import HELLO, LATER, RELEASE, Answer, Exchange, Send
from pdml.node.flare import report
from pdml.node.flare.site import NODE, Site, noise
from pdml.node.flare.terms import Terms
from pdml.node.flare.topics import BYTES, FINISH, PROGRESS, SENTENCE, STOP, TRAIN
from pdml.node.journal import FINISHED, Journal
from pdml.node.party import Party
from pdml.node.sentences import told

_LOCKED = "another process is using it"
_ANSWER = 6  # messages that one answer may hold: a hello and the rounds by which neighbours can be apart
_LINGER = 20.0  # seconds that a job's process may take to exit after its end
_LONGEST = 86_400.0  # seconds that whoever submits a job may let a node wait
_EVERY = 1.0  # seconds between two words about progress


class PDMLExecutor(Executor):  # type: ignore[misc]  # nvflare has no types
    """Two tasks: `TRAIN` does all rounds and returns the signed report; `FINISH`, sent once every node has reported, deletes the
    inner state. Whatever goes wrong becomes one sentence in the task's result."""

    def __init__(self, terms: dict[str, Any], resume: bool = False, start_timeout: float = 300.0, round_timeout: float = 120.0) -> None:
        super().__init__()
        self._terms, self._resume = terms, resume
        self._start_timeout, self._round_timeout = min(start_timeout, _LONGEST), min(round_timeout, _LONGEST)
        self._begun = False
        self._exchange: Exchange | None = None
        self._journal: Journal | None = None
        self._opening = Lock()
        self._stop = ""
        self._spoken = 0.0
        self._threads = ThreadPoolExecutor(16)

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            engine = fl_ctx.get_engine()
            for topic in (HELLO, RELEASE):
                engine.register_aux_message_handler(topic=topic, message_handle_func=self._hear)
            engine.register_aux_message_handler(topic=STOP, message_handle_func=self._told_to_stop)
        elif event_type in (EventType.ABORT_TASK, EventType.END_RUN):
            self._end("the job was stopped")
        if event_type == EventType.END_RUN:
            self._threads.shutdown(wait=False, cancel_futures=True)
            # FLARE 2.9.0 was seen to close its connections after a relay's restart and not to exit; nothing is left to do here.
            last_resort = Timer(_LINGER, os._exit, (0,))
            last_resort.daemon = True
            last_resort.start()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        try:
            if task_name == TRAIN:
                return _reply({BYTES: self._train(fl_ctx)})
            if task_name == FINISH:
                return self._finish()
        except Exception as error:
            self.log_exception(fl_ctx, "the job ended here")  # in full, for the operator alone
            return self._failed(told(error, fl_ctx.get_identity_name()), fl_ctx)
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _failed(self, sentence: str, fl_ctx: FLContext) -> Shareable:
        self.log_error(fl_ctx, sentence)
        return _reply({SENTENCE: sentence}, ReturnCode.EXECUTION_EXCEPTION)

    # The job

    def _train(self, fl_ctx: FLContext) -> bytes:
        with self._opening:  # FLARE takes a task from anybody in the job, as often as it comes
            if self._begun:
                raise JournalError("this process has begun the job already").for_others()
            self._begun = True
        site = Site.open(fl_ctx.get_engine().get_workspace().get_root_dir())
        site.must_be(NODE)
        study = site.study()
        contract = Terms.read(self._terms).contract(study)
        results = site.path("results")
        results.mkdir(mode=0o700, exist_ok=True)
        stored = results / f"{contract.job}.json"
        journal = self._journal = self._open_journal(site)
        known = journal.job(contract.job)
        if known is not None and not self._resume:
            known_as = f"{site.name} knows job {contract.job} already"
            again = "resume it, or give the job another name"
            raise JournalError(f"{known_as}: {again}").for_others()
        if known is not None and known.state == FINISHED and known.contract == contract.digest and stored.exists():
            return stored.read_bytes()  # all nodes were done: an earlier submission was cut off while it finished
        with threadpool_limits(1):
            party = Party(
                contract,
                site.name,
                site.holdings(),
                journal=journal,
                identity=site.identity(),
                keys=site.config.keys,
                source=noise(),
                budget=study.budget,
            )
        exchange = self._new_exchange(party, self._sender(fl_ctx), lambda t: self._progress(site, party, t, fl_ctx))
        with self._opening:
            self._exchange = exchange
            if self._stop:
                exchange.stop(self._stop)
        try:
            exchange.run()
        except BaseException:
            exchange.stop("the job has ended at this node")  # no message touches the journal any more
            journal.close()  # the job may be resumed before this process is gone
            raise
        self._progress(site, party, party.round, fl_ctx, last=True)
        content = report.sign(
            report.Report(
                contract=contract.digest,
                server=site.name,
                records=party.holdings.server.records,
                epsilon=party.holdings.server.epsilon,
                released=party.released.tolist(),
                apart=party.apart(),
                label_epsilon=party.holdings.label_epsilon,
                earlier=report.lines(party.earlier),
                source=party.ledger.source,
                labels=party.holdings.labels,
            ),
            site.identity(),
        )
        atomic_write(stored, content)
        return content

    def _new_exchange(self, party: Party, send: Send, meanwhile: Callable[[int], None]) -> Exchange:
        return Exchange(party, send, start_timeout=self._start_timeout, round_timeout=self._round_timeout, meanwhile=meanwhile)

    def _open_journal(self, site: Site) -> Journal:
        """An earlier job process of this node may take a moment to die."""
        deadline = time.monotonic() + self._start_timeout / 2
        while True:
            try:
                return site.journal()
            except JournalError as error:
                if _LOCKED not in str(error) or time.monotonic() > deadline or self._stop:
                    raise
            time.sleep(0.5)

    def _finish(self) -> Shareable:
        if self._exchange is not None:
            self._exchange.party.finish()
            self._exchange.stop("the job has ended")
        if self._journal is not None:
            self._journal.close()  # whatever becomes of this process, the next job can begin
        return make_reply(ReturnCode.OK)

    def _end(self, sentence: str) -> None:
        with self._opening:
            self._stop = self._stop or sentence
            exchange = self._exchange
        if exchange is not None:
            exchange.stop(sentence)

    # Messages

    def _hear(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        with self._opening:
            exchange = self._exchange
        if exchange is None:
            return _reply({BYTES: msgspec.msgpack.encode(Answer(LATER))})
        peer, data = request.get_peer_prop(ReservedKey.IDENTITY_NAME, ""), request.get(BYTES)
        answer = exchange.answer(topic, str(peer), data if isinstance(data, bytes) else b"")
        return _reply({BYTES: msgspec.msgpack.encode(answer)})

    def _told_to_stop(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Any participant can send this, so nothing that it says is repeated."""
        self._end(f"{fl_ctx.get_identity_name()} was told to stop")
        return make_reply(ReturnCode.OK)

    def _sender(self, fl_ctx: FLContext) -> Send:
        """``secure=True``: encrypted for the neighbour's certificate, so that the relay carries what it cannot read."""
        engine = fl_ctx.get_engine()

        def send_one(topic: str, peer: str, data: bytes, timeout: float) -> Answer | None:
            request = _shareable({BYTES: data})
            replies = engine.send_aux_request(
                targets=[peer], topic=topic, request=request, timeout=timeout, fl_ctx=fl_ctx, optional=True, secure=True
            )
            reply = replies.get(peer)
            content = reply.get(BYTES) if reply is not None and reply.get_return_code() == ReturnCode.OK else None
            if self._exchange is None or not isinstance(content, bytes):
                return None
            if len(content) > _ANSWER * wire.most_bytes(self._exchange.party.contract):
                return None
            try:
                return msgspec.msgpack.decode(content, type=Answer)
            except msgspec.DecodeError:
                return None

        def send(topic: str, messages: Mapping[str, bytes], timeout: float) -> dict[str, Answer]:
            # Not the engine's own multicast: in 2.9.0 it fails with every call that may time out.
            sent = {peer: self._threads.submit(send_one, topic, peer, data, timeout) for peer, data in messages.items()}
            return {peer: answer for peer, future in sent.items() if (answer := future.result()) is not None}

        return send

    def _progress(self, site: Site, party: Party, t: int, fl_ctx: FLContext, *, last: bool = False) -> None:
        """For people: a file in the kit, because the journal is locked while a job runs, and a word to the relay."""
        if not last and time.monotonic() - self._spoken < _EVERY:
            return
        self._spoken = time.monotonic()
        told = {"job": party.contract.job, "round": t, "rounds": party.contract.plan.rounds}
        with contextlib.suppress(PDMLError):
            atomic_write(site.path("progress.json"), json.dumps(told) + "\n")
        fl_ctx.get_engine().send_aux_request(
            targets=None, topic=PROGRESS, request=_shareable({"round": t}), timeout=0.0, fl_ctx=fl_ctx, optional=True
        )


def _shareable(values: Mapping[str, Any]) -> Shareable:
    made = Shareable()
    made.update(values)
    return made


def _reply(values: Mapping[str, Any], code: str = ReturnCode.OK) -> Shareable:
    reply = make_reply(code)
    reply.update(values)
    return reply
