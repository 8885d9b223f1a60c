"""What a node's work waits for, as values: activities are generators of steps, driven by threads
over the real transport and clock, or by a simulation in one thread."""

import threading
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pdml.clock import Clock, Waitable
from pdml.node.crypto.hpke import Context

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Put a request to several members at once; with a timeout of 0 nobody answers."""

    kind: str
    messages: Mapping[str, bytes]
    timeout: float
    job: str = ""  # the digest of the terms it is about


@dataclass(frozen=True)
class Wait:
    """Let time pass, until ``event`` at most."""

    seconds: float
    event: Waitable | None = None


Step = Ask | Wait
Replies = Mapping[str, bytes]
"""By member; who is missing did not answer in time. Empty after a `Wait`."""
Steps = Generator[Step, Replies, T]

Handle = Callable[[Context, bytes], bytes | None]
"""Answer a request, in any thread; None leaves it without an answer."""
ConnectionChanged = Callable[[bool, str], None]
"""The connection is there or not, and why."""


class Transport(Protocol):
    """How a node reaches the other members: `NatsTransport`, or a simulated one."""

    def start(self, handle: Handle, changed: ConnectionChanged) -> None: ...

    def ask(
        self, kind: str, messages: Mapping[str, bytes], *, job: str = "", timeout: float
    ) -> Replies: ...

    def certificate_end(self) -> float | None:
        """When the relay's certificate ends, in seconds since 1970, if that is known."""
        ...

    def close(self) -> None: ...


class Tasks(Protocol):
    """Where activities run side by side."""

    def spawn(self, steps: Steps[None]) -> None: ...

    def join(self, seconds: float) -> None:
        """Wait for those that are still running, so long at most."""
        ...


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What every part of a node's process shares: its clock, its activities, and its end."""

    clock: Clock
    tasks: Tasks
    leaving: threading.Event

    @property
    def is_leaving(self) -> bool:
        return self.leaving.is_set()

    def pause(self, seconds: float) -> Wait:
        """A wait that the end of the process cuts short."""
        return Wait(seconds, self.leaving)


def drive(steps: Steps[T], transport: Transport, clock: Clock) -> T:
    try:
        step = next(steps)
        while True:
            replies: Replies = {}
            if isinstance(step, Ask):
                replies = transport.ask(
                    step.kind, step.messages, job=step.job, timeout=step.timeout
                )
            elif step.event is None:
                clock.sleep(step.seconds)
            else:
                clock.wait(step.event, step.seconds)
            step = steps.send(replies)
    except StopIteration as end:
        value: T = end.value
        return value


class ThreadTasks:
    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport, self._clock = transport, clock
        self._threads: list[threading.Thread] = []

    def spawn(self, steps: Steps[None]) -> None:
        name = f"pdml-{getattr(steps, '__name__', 'task')}"
        arguments = (steps, self._transport, self._clock)
        thread = threading.Thread(target=drive, args=arguments, daemon=True, name=name)
        self._threads = [other for other in self._threads if other.is_alive()] + [thread]
        thread.start()

    def join(self, seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))


def ask_all(
    kind: str,
    content: bytes,
    members: Collection[str],
    *,
    clock: Clock,
    limit: float,
    timeout: float,
    pause: Wait,
    accept: Callable[[str, bytes], bool] = lambda name, data: True,
    goes_on: Callable[[], bool] = lambda: True,
) -> Steps[set[str]]:
    """Ask until ``accept`` takes an answer of every member, for ``limit`` seconds; returns the
    others."""
    missing, deadline = set(members), clock.monotonic() + limit
    while missing and goes_on():
        messages = dict.fromkeys(sorted(missing), content)
        replies = yield Ask(kind=kind, messages=messages, timeout=timeout)
        missing -= {name for name, data in replies.items() if accept(name, data)}
        if clock.monotonic() > deadline:
            break
        if missing:
            yield pause
    return missing
