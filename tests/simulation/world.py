"""A consortium in one thread: real node daemons on simulated clocks, disks and a simulated network,
resumed step by step in the order of one queue.
"""

import contextlib
import hashlib
import heapq
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from caches import remembering
from clocks import SimulatedClock
from disks import Disk, Disks
from network import Network, Transport
from scenes import seeded_entropy

from pdml.mechanisms.randomness import Simulated
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.job.activity import Ask
from pdml.node.storage.node_dir import NodeDirectory

if TYPE_CHECKING:
    from invariants import Observer

PARTING = 5.0  # seconds that a node's activities have when it ends
_DISKS = Disks()  # for ever: SQLite keeps pointers into it


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, sentence: str) -> None:
        super().__init__(f"{invariant}: {sentence}")
        self.invariant, self.sentence = invariant, sentence


class Clock(SimulatedClock):
    """One machine's: it goes with the world's."""

    def __init__(self, world: "World") -> None:
        self.world = world
        super().__init__()

    @property
    def time(self) -> float:
        return self.world.time

    @time.setter
    def time(self, time: float) -> None:
        self.world.time = max(self.world.time, time)


class Life:
    """One process of a machine: its activities, until it ends."""

    def __init__(self) -> None:
        self.is_over = False
        self.running = 0  # activities
        self.watched: list[tuple[Any, Callable[[], None]]] = []  # events, and what follows them


class Machine:
    """One organisation's: its folder and disk stay; processes come and go."""

    def __init__(self, world: "World", name: str, folder: Path) -> None:
        self.world, self.name, self.folder = world, name, folder
        self.clock, self.disk = Clock(world), Disk(folder, world.random)
        self.directory = NodeDirectory.open(folder)
        self.daemon: NodeDaemon | None = None
        self.transport: Transport | None = None
        self.life, self.lives = Life(), 0
        self.hung_until = 0.0
        self.is_silent = False
        self.bend: Callable[[str, str, Mapping[str, bytes]], Mapping[str, bytes]] | None = None
        self.old_copies: list[dict[str, bytes]] = []
        self.is_leaving = False

    @property
    def is_up(self) -> bool:
        return self.daemon is not None

    @property
    def is_hung(self) -> bool:
        return self.hung_until > self.world.time

    def start(self) -> None:
        """A new process, unless one runs. It may end at once, say because its disk fails."""
        if self.is_up:
            return
        world = self.world
        world.note("start", self.name)
        self.disk.power_on()
        self.lives += 1
        self.life, self.is_leaving = Life(), False
        self.directory = NodeDirectory.open(self.folder)
        with world.acting(self):
            try:
                self.transport = Transport(world, self)
                self.daemon = NodeDaemon(
                    self.directory,
                    world.source(self),
                    self.transport,
                    clock=self.clock,
                    tasks=Tasks(self),
                    write_local_model=world.write_local_model,
                )
                world.observer.started(self)
                world.spawn(self, self.daemon.serve(), main=True)
            except Exception as error:
                world.observer.failed_to_start(self, error)
                self._end_process()

    def kill(self) -> None:
        """SIGKILL: what was written stays."""
        if self.is_up:
            self.world.note("kill", self.name)
            self.disk.kill()
            self._end_process()

    def cut_power(self) -> None:
        if self.is_up:
            self.world.note("power cut", self.name)
            self.disk.cut_power()
            self._end_process()

    def leave(self) -> None:
        """SIGTERM."""
        if self.is_up and not self.is_leaving:
            self.world.note("leave", self.name)
            self.is_leaving = True
            self.daemon.leave()

    def after_step(self) -> None:
        """Resume whoever waits for what has come; the power may have been cut meanwhile."""
        if self.disk.dead:
            if self.is_up:
                self.world.note("power cut", self.name)
                self._end_process()
            return
        watched = self.life.watched
        for entry in [entry for entry in watched if entry[0].is_set()]:
            watched.remove(entry)
            self.world.later(0.0, entry[1])

    def main_ended(self) -> None:
        """`serve` has returned: the others have a few seconds to end."""
        self.is_leaving = True
        self.daemon.runtime.leaving.set()
        self.daemon.admission.leave()
        self.transport.close()
        life = self.life
        self.world.later(PARTING, lambda: self._part(life))

    def activity_ended(self) -> None:
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
        if self.disk.dead:
            self.disk.restore()

    def broken(self, error: BaseException) -> None:
        """The main activity has ended by an error: a service manager starts it again."""
        self.world.note("broken", self.name)
        self.disk.kill()
        self._end_process()
        self.world.later(2.0, self.start)

    def _end_process(self) -> None:
        """Nothing of it goes on; its disk is what it was at that moment."""
        self.disk.kill()
        self.life.is_over = True
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
        self.disk.restore()
        self.world.observer.ended(self)
        if self.world.restart and not self.world.is_closed:
            self.world.later(self.world.restart, self.start)


class Tasks:
    """The activities of one process."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def spawn(self, steps: Any) -> None:
        self.machine.world.spawn(self.machine, steps)

    def join(self, seconds: float) -> None:
        pass


class _Log(logging.Handler):
    """What nodes log as mistakes: an exception that is none of theirs."""

    def __init__(self, world: "World") -> None:
        super().__init__(logging.ERROR)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None and self.world.actor is not None:
            self.world.observer.unexpected(self.world.actor, record.exc_info[1])


class World:
    """All machines, one queue, and whoever watches."""

    def __init__(
        self,
        folder: Path,
        names: tuple[str, ...],
        observer: "Observer",
        *,
        seed: int,
        noise: int,
        fresh_noise: bool = False,
    ) -> None:
        """``fresh_noise``: another one in every life of a node, as in deployments; else always the
        one of the local engine.
        """
        self.random, self.time, self.observer = Random(f"world {seed}"), 0.0, observer
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._noise, self._fresh_noise = noise, fresh_noise
        self.history = hashlib.sha256()
        self.events: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.actor: Machine | None = None
        self.is_closed = False
        self.restart = 0.0  # seconds after which a process that ended is started again; 0: never
        self.network = Network(self)
        observer.world = self
        self.machines = {name: Machine(self, name, folder / name) for name in names}
        for machine in self.machines.values():
            _DISKS.by_folder[str(machine.folder)] = machine.disk

    def write_local_model(self, directory: NodeDirectory, job: str, data: Any) -> None:
        """Not what schedules are about."""

    def source(self, machine: Machine) -> Simulated:
        if not self._fresh_noise:
            return Simulated(self._noise)
        return Simulated(int.from_bytes(f"{machine.name} {machine.lives}".encode(), "big"))

    def note(self, kind: str, *details: object) -> None:
        """Into the history, which the same seed repeats."""
        self.events[kind] += 1
        line = f"{self.time:.6f} {kind} {' '.join(map(str, details))}\n"
        self.history.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    # The queue

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (time, self._count, action))

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.time + seconds, action)

    def run_until(self, time: float, ended: Callable[[], bool] = lambda: False) -> bool:
        """Everything up to ``time``; True as soon as ``ended``."""
        while self._queue and self._queue[0][0] <= time:
            due, _, action = heapq.heappop(self._queue)
            self.time = max(self.time, due)
            action()
            if ended():
                return True
        self.time = max(self.time, time)
        return ended()

    @contextlib.contextmanager
    def acting(self, machine: Machine) -> Iterator[None]:
        """Within it ``machine`` computes."""
        before, self.actor = self.actor, machine
        try:
            yield
        finally:
            self.actor = before
        machine.after_step()
        self.observer.step(machine)

    # Activities

    def spawn(self, machine: Machine, steps: Any, *, main: bool = False) -> None:
        life = machine.life
        life.running += 1
        self.later(0.0, lambda: self._resume(machine, life, steps, None, main))

    def _resume(self, machine: Machine, life: Life, steps: Any, value: Any, main: bool) -> None:
        if life.is_over:
            return
        if machine.is_hung:
            again = machine.hung_until
            self.at(again, lambda: self._resume(machine, life, steps, value, main))
            return
        with self.acting(machine):
            try:
                step = next(steps) if value is None else steps.send(value)
            except StopIteration:
                life.running -= 1
                if main:
                    machine.main_ended()
                machine.activity_ended()
                return
            except Exception as error:
                life.running -= 1
                if machine.disk.dead:
                    return
                self.observer.unexpected(machine, error)
                if main:
                    machine.broken(error)
                return
            if machine.disk.dead:
                return
            self._take(machine, life, steps, step, main)

    def _take(self, machine: Machine, life: Life, steps: Any, step: Any, main: bool) -> None:
        resumed = False

        def resume(value: Any) -> None:
            nonlocal resumed
            if not resumed:
                resumed = True
                self._resume(machine, life, steps, value, main)

        if isinstance(step, Ask):
            machine.transport.begin(step.kind, step.messages, step.job, step.timeout, resume)
            return
        if step.event is not None:
            entry = (step.event, lambda: resume({}))
            life.watched.append(entry)

            def late() -> None:
                if entry in life.watched:
                    life.watched.remove(entry)
                resume({})

            self.later(step.seconds, late)
        else:
            self.later(step.seconds, lambda: resume({}))

    def close(self) -> None:
        self.is_closed = True
        for machine in self.machines.values():
            machine.kill()
            _DISKS.by_folder.pop(str(machine.folder), None)


@contextlib.contextmanager
def simulated_world(*arguments: Any, **options: Any) -> Iterator[World]:
    """A world whose randomness, disks and logs are this process's while it lasts."""
    seed = options["seed"]
    with _DISKS.in_use(), seeded_entropy(seed), remembering():
        world = World(*arguments, **options)
        logger, handler = logging.getLogger("pdml.node"), _Log(world)
        before = logger.propagate, logger.level
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.ERROR)
        try:
            yield world
        finally:
            world.close()
            logger.removeHandler(handler)
            logger.propagate, logger.level = before
