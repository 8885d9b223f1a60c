"""A world in one thread: machines with simulated clocks, disks and a simulated network, whose
processes compute step by step in the order of one queue.
"""

import asyncio
import contextlib
import hashlib
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from caches import remembering
from clocks import SimulatedClock
from disks import Disk, Disks
from network import Network
from scenes import seeded_entropy

if TYPE_CHECKING:
    from invariants import Observer
    from nodes import Node

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

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Life:
    """One process of a machine, until it ends."""

    def __init__(self) -> None:
        self.is_over = False
        self.running = 0  # activities
        self.watched: list[tuple[Any, Callable[[], None]]] = []  # events, and what follows them


class Machine:
    """Its folder and disk stay; processes come and go."""

    def __init__(self, world: "World", name: str, folder: Path) -> None:
        self.world, self.name, self.folder = world, name, folder
        self.clock, self.disk = Clock(world), Disk(folder, world.random)
        self.life, self.lives = Life(), 0
        self.hung_until = 0.0
        self.old_copies: list[dict[str, bytes]] = []
        self.is_up = self.is_leaving = False
        world.machines[name] = self
        _DISKS.by_folder[str(folder)] = self.disk

    def begin(self) -> None:
        """Open what the process works with, and let it work."""
        raise NotImplementedError

    def drop(self) -> None:
        """Give back what a process that has ended held open."""
        raise NotImplementedError

    def describe(self) -> tuple:
        """Where it stands: what tells one state of the world from another."""
        raise NotImplementedError

    def software(self) -> contextlib.AbstractContextManager:
        """Within it, what is loaded is what this machine has installed."""
        return contextlib.nullcontext()

    @property
    def is_hung(self) -> bool:
        return self.hung_until > self.world.time

    def start(self) -> None:
        """A new process, unless one runs. It may end at once, say because its disk fails."""
        if self.is_up:
            return
        world = self.world
        world.note("start", self.name)
        self.disk.start()
        self.lives, self.hung_until = self.lives + 1, 0.0
        self.life, self.is_up, self.is_leaving = Life(), True, False
        with world.acting(self):
            try:
                self.begin()
            except Exception as error:
                world.observer.failed_to_start(self, error)
                self._end_process()

    def kill(self) -> None:
        """SIGKILL: what was written stays, on disk or not."""
        if self.is_up:
            self.disk.kill()
            self._stop("kill")

    def cut_power(self) -> None:
        if self.is_up:
            self.disk.cut_power()
            self._stop("power cut")

    def _stop(self, why: str) -> None:
        self.world.note(why, self.name)
        self._end_process()

    def after_step(self) -> None:
        """The disk may have ended the process meanwhile."""
        if self.disk.dead and self.is_up:
            self._stop("end in a write")

    def remember(self) -> None:
        """What is so when a copy is made, for whoever judges what comes of it."""
        raise NotImplementedError

    def save_copy(self) -> None:
        """The operator copies its disk between two steps of its process."""
        self.remember()
        self.old_copies.append(self.disk.copy())

    def restore_copy(self) -> None:
        """The newest copy takes the place of what there is by now."""
        self.kill()
        self.disk.restore(self.old_copies[-1])
        self.start()

    def broken(self, error: BaseException) -> None:
        """The main activity has ended by an error: a service manager starts it again."""
        self.disk.kill()
        self._stop("broken")
        self.world.later(2.0, self.start)

    def _end_process(self) -> None:
        """Nothing of it goes on; its disk is what it was at that moment."""
        self.disk.kill()
        self.life.is_over, self.is_up = True, False
        self.drop()
        self.disk.restore()
        self.world.observer.ended(self)
        if self.world.restart and not self.world.is_closed:
            self.world.later(self.world.restart, self.start)


class _Log(logging.Handler):
    """What processes log as mistakes: an exception that is none of theirs."""

    def __init__(self, world: "World") -> None:
        super().__init__(logging.ERROR)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None and self.world.actor is not None:
            self.world.observer.unexpected(self.world.actor, record.exc_info[1])


class World:
    """All machines, one queue, and whoever watches."""

    def __init__(self, observer: "Observer", *, seed: int) -> None:
        self.random, self.time, self.observer = Random(f"world {seed}"), 0.0, observer
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.history = hashlib.sha256()
        self.events: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.actor: Machine | None = None
        self.is_closed = False
        self.restart = 0.0  # seconds after which a process that ended is started again; 0: never
        self.network = Network(self)
        observer.world = self
        self.machines: dict[str, Machine] = {}
        self.nodes: dict[str, Node] = {}

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
            with machine.software():
                yield
        finally:
            self.actor = before
        machine.after_step()
        self.observer.step(machine)

    def close(self) -> None:
        self.is_closed = True
        for machine in self.machines.values():
            machine.kill()
            _DISKS.by_folder.pop(str(machine.folder), None)


@contextlib.contextmanager
def simulated_world(observer: "Observer", *, seed: int) -> Iterator[World]:
    """A world whose randomness, disks and logs are this process's while it lasts."""
    with _DISKS.in_use(), seeded_entropy(seed), remembering():
        world = World(observer, seed=seed)
        logger, handler = logging.getLogger("pdml"), _Log(world)
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
