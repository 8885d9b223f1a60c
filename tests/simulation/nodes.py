"""Nodes in a simulated world: real daemons, whose activities are resumed step by step."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from network import Transport
from world import Life, Machine, World

from pdml.mechanisms.randomness import Simulated
from pdml.node.crypto import hpke
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.job.activity import Ask
from pdml.node.protocol import wire_messages
from pdml.node.storage.journal import JobState, Journal
from pdml.node.storage.node_dir import JOURNAL, NodeDirectory
from pdml.study import Study

# Those whose version is written when a message is: of an offer and a statement it stands in the
# type, and tests/integration/node/test_two_versions.py raises it.
WIRE = {one.name: one for one in (wire_messages.FORMAT, hpke.FORMAT)}
PARTING = 5.0  # seconds that a node's activities have when it ends


class Node(Machine):
    """One member's."""

    def __init__(
        self, world: World, name: str, folder: Path, *, noise: int, fresh_noise: bool
    ) -> None:
        """``fresh_noise``: another one in every life, as in deployments; else always the one of the
        local engine.
        """
        super().__init__(world, name, folder)
        world.nodes[name] = self
        self._noise, self._fresh_noise = noise, fresh_noise
        self.directory = NodeDirectory.open(folder)
        self.daemon: NodeDaemon | None = None
        self.transport: Transport | None = None
        self.is_silent = False
        self.finished: list[set[str]] = []  # the jobs that are, in each of the old copies
        self.newer: set[str] = set()  # formats of which it writes the next version, and reads both
        self.bend: Callable[[str, str, Mapping[str, bytes]], Mapping[str, bytes]] | None = None

    def begin(self) -> None:
        self.directory = NodeDirectory.open(self.folder)
        self.transport = Transport(self.world, self)
        self.daemon = NodeDaemon(
            self.directory,
            self._source(),
            self.transport,
            clock=self.clock,
            tasks=Tasks(self),
            write_local_model=lambda directory, job, data: None,  # not what schedules are about
        )
        self.world.observer.started(self)
        self._spawn(self.daemon.serve(), main=True)

    def _source(self) -> Simulated:
        if not self._fresh_noise:
            return Simulated(self._noise)
        return Simulated(int.from_bytes(f"{self.name} {self.lives}".encode(), "big"))

    @contextlib.contextmanager
    def software(self) -> Iterator[None]:
        for name in self.newer:
            object.__setattr__(WIRE[name], "version", 2)
        try:
            yield
        finally:
            for name in self.newer:
                object.__setattr__(WIRE[name], "version", 1)

    def install(self, newer: set[str]) -> None:
        """Another pdml: its next process speaks as that one does."""
        if newer != self.newer:
            self._change(lambda: setattr(self, "newer", newer))

    def join(self, studies: list[Study], text: str) -> None:
        """Adopt the last revision of the study, as its operator does while the node stands still."""
        study = studies[-1]
        if self.directory.study().hash != study.hash:
            directory = self.directory
            self._change(lambda: directory.join(study, text, before=tuple(studies[:-1])))

    def _change(self, change: Callable[[], object]) -> None:
        was_up = self.is_up
        self.kill()
        change()
        if was_up:
            self.start()

    def drop(self) -> None:
        daemon, self.daemon = self.daemon, None
        if self.transport is not None:
            transport, self.transport = self.transport, None
            transport.is_connected, transport.waiting = False, {}
        if daemon is not None:
            for store in (daemon.journal, daemon.committed, daemon.control_db):
                with contextlib.suppress(Exception):
                    store._db.close()
            if daemon.journal._lock is not None:
                os.close(daemon.journal._lock)
                daemon.journal._lock = None

    def describe(self) -> tuple:
        work = None if self.daemon is None else self.daemon.admission.work
        exchange = None if work is None else work.exchange
        return (
            self.daemon is not None,
            work and (work.begun, work.offer.job),
            exchange and (exchange.participant.round, exchange._awaited),
        )

    def remember(self) -> None:
        path = self.directory.path(JOURNAL)
        with self.disk.reliable(), closing(Journal.peek(path)) as journal:
            self.finished.append(finished(journal))

    def restore_copy(self) -> None:
        self.world.observer.restored(self, self.finished[-1])
        super().restore_copy()

    def leave(self) -> None:
        """SIGTERM."""
        if self.is_up and not self.is_leaving:
            self.world.note("leave", self.name)
            self.is_leaving = True
            self.daemon.leave()

    def after_step(self) -> None:
        """Resume whoever waits for what has come."""
        super().after_step()
        watched = self.life.watched
        for entry in [entry for entry in watched if entry[0].is_set()]:
            watched.remove(entry)
            self.world.later(0.0, entry[1])

    def _main_ended(self) -> None:
        """`serve` has returned: the others have a few seconds to end."""
        self.is_leaving = True
        self.daemon.runtime.leaving.set()
        self.daemon.admission.leave()
        self.transport.close()
        life = self.life
        self.world.later(PARTING, lambda: self._part(life))

    def _activity_ended(self) -> None:
        if self.is_leaving and self.life.running == 0:
            self._part(self.life)

    def _part(self, life: Life) -> None:
        if life.is_over:
            return
        daemon, life.is_over = self.daemon, True
        daemon.close()
        self.world.note("left", self.name)
        self.world.observer.ended(self)
        self.daemon = self.transport = None
        self.is_up = False
        if self.disk.dead:
            self.disk.restore()

    # Activities

    def _spawn(self, steps: Any, *, main: bool = False) -> None:
        life = self.life
        life.running += 1
        self.world.later(0.0, lambda: self._resume(life, steps, None, main))

    def _resume(self, life: Life, steps: Any, value: Any, main: bool) -> None:
        if life.is_over:
            return
        if self.is_hung:
            self.world.at(self.hung_until, lambda: self._resume(life, steps, value, main))
            return
        with self.world.acting(self):
            try:
                step = next(steps) if value is None else steps.send(value)
            except StopIteration:
                life.running -= 1
                if main:
                    self._main_ended()
                self._activity_ended()
                return
            except Exception as error:
                life.running -= 1
                if self.disk.dead:
                    return
                self.world.observer.unexpected(self, error)
                if main:
                    self.broken(error)
                return
            if self.disk.dead:
                return
            self._take(life, steps, step, main)

    def _take(self, life: Life, steps: Any, step: Any, main: bool) -> None:
        resumed = False

        def resume(value: Any) -> None:
            nonlocal resumed
            if not resumed:
                resumed = True
                self._resume(life, steps, value, main)

        if isinstance(step, Ask):
            self.transport.begin(step.kind, step.messages, step.job, step.timeout, resume)
            return
        if step.event is not None:
            entry = (step.event, lambda: resume({}))
            life.watched.append(entry)

            def late() -> None:
                if entry in life.watched:
                    life.watched.remove(entry)
                resume({})

            self.world.later(step.seconds, late)
        else:
            self.world.later(step.seconds, lambda: resume({}))


def finished(journal: Journal) -> set[str]:
    return {job.job for job in journal.jobs() if job.state == JobState.FINISHED}


class Tasks:
    """The activities of one process."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def spawn(self, steps: Any) -> None:
        self._node._spawn(steps)

    def join(self, seconds: float) -> None:
        pass
