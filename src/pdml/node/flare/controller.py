"""The job at FLARE's server: it starts the nodes, gathers their signed reports and says how far they are.

It sees the contract's public terms, round numbers and the reports; the vectors between nodes pass through encrypted.
"""

import base64
import json
from pathlib import Path
from threading import Lock
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from pdml.errors import plain
from pdml.node.flare.topics import BYTES, FINISH, PROGRESS, RESULT, SENTENCE, STOP, TRAIN

_STOPPING = 5.0  # seconds in which nodes are told that the job has ended
_FINISHING = 60.0


class PDMLController(Controller):  # type: ignore[misc]  # nvflare has no types
    """`TRAIN` at every node, then `FINISH`; the first node that cannot go on ends the job for all, with its sentence."""

    def __init__(self, servers: list[str], rounds: int, timeout: float) -> None:
        """``timeout``: seconds that the whole job may take."""
        super().__init__()
        self._servers, self._plan, self._timeout = servers, rounds, timeout
        self._lock = Lock()
        self._rounds = dict.fromkeys(servers, 0)
        self._reports: dict[str, bytes] = {}
        self._failures: dict[str, str] = {}

    def start_controller(self, fl_ctx: FLContext) -> None:
        engine = fl_ctx.get_engine()
        engine.register_aux_message_handler(topic=PROGRESS, message_handle_func=self._heard_progress)
        engine.register_app_command(PROGRESS, self._tell_progress)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        pass

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        pass

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        everybody = len(self._servers)
        task = Task(name=TRAIN, data=Shareable(), timeout=int(self._timeout), result_received_cb=self._took)
        self.broadcast_and_wait(task=task, targets=self._servers, min_responses=everybody, fl_ctx=fl_ctx, abort_signal=abort_signal)
        sentence = self._verdict(bool(abort_signal.triggered), fl_ctx)
        self._write(fl_ctx, sentence)
        if sentence:
            self._stop_nodes(fl_ctx)
            self.system_panic(sentence, fl_ctx)
            return
        done = Task(name=FINISH, data=Shareable(), timeout=int(_FINISHING))
        self.broadcast_and_wait(task=done, targets=self._servers, min_responses=everybody, fl_ctx=fl_ctx, abort_signal=abort_signal)

    def _took(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        name, result = client_task.client.name, client_task.result
        data = result.get(BYTES) if result.get_return_code() == ReturnCode.OK else None
        with self._lock:
            if isinstance(data, bytes):
                self._reports[name] = data
                self._rounds[name] = self._plan
            else:
                said = plain(str(result.get(SENTENCE) or f"{name} ended with {result.get_return_code()}"))
                self._failures[name] = said if said.startswith(name) else f"{name} says: {said}"
                first = len(self._failures) == 1
        if not isinstance(data, bytes) and first:
            self._stop_nodes(fl_ctx)
            self.cancel_task(client_task.task, fl_ctx=fl_ctx)

    def _verdict(self, aborted: bool, fl_ctx: FLContext) -> str:
        """Why there is no result; "" if there is one."""
        with self._lock:
            if self._failures:
                return next(iter(self._failures.values()))
            missing = [name for name in self._servers if name not in self._reports]
        if not missing:
            return ""
        if not aborted:
            return f"no report came from {', '.join(missing)}"
        # FLARE ends a job as well when a node's process dies: a roll call tells that from somebody's wish.
        fl_ctx.set_prop(ReservedKey.RUN_ABORT_SIGNAL, Signal(), private=True, sticky=True)  # the triggered one would cut it short
        there = self._stop_nodes(fl_ctx)
        silent = ", ".join(name for name in self._servers if name not in there)
        if not there:
            return f"the job was stopped, or a process was killed, before it had begun at {silent}"
        return f"the job's process at {silent} does not answer: it was killed, or cut off" if silent else "the job was stopped"

    def _stop_nodes(self, fl_ctx: FLContext) -> set[str]:
        """Tell every node that the job ends; who answered."""
        replies = fl_ctx.get_engine().send_aux_request(
            targets=self._servers, topic=STOP, request=Shareable(), timeout=_STOPPING, fl_ctx=fl_ctx, optional=True
        )
        return {name for name, reply in replies.items() if reply.get_return_code() == ReturnCode.OK}

    def _write(self, fl_ctx: FLContext, sentence: str) -> None:
        """In the job's folder, which the admin downloads."""
        reports = {name: base64.b64encode(data).decode() for name, data in self._reports.items()}
        folder = fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id())
        Path(folder, RESULT).write_text(json.dumps({"failure": sentence, "rounds": self._rounds, "reports": reports}))

    def _heard_progress(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        name, told = request.get_peer_prop(ReservedKey.IDENTITY_NAME, ""), request.get("round")
        with self._lock:
            if name in self._rounds and isinstance(told, int):
                self._rounds[name] = min(max(told, self._rounds[name]), self._plan)
        return make_reply(ReturnCode.OK)

    def _tell_progress(self, *_: Any, **__: Any) -> dict[str, Any]:
        with self._lock:
            return {"rounds": dict(self._rounds), "plan": self._plan, "failures": dict(self._failures)}
