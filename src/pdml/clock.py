"""Time as an argument: no party calls the machine's clock itself, so that a test or a simulation
can hand in another one.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Waitable(Protocol):
    """A `threading.Event`, or a `threading.Condition` whose lock is held."""

    def wait(self, timeout: float | None = None) -> bool: ...


class Clock(Protocol):
    """What a party knows of time, and how it lets time pass."""

    def now(self) -> float:
        """Seconds since 1970: for people and for dates. It may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment: for deadlines and durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass in this thread."""
        ...

    def wait(self, event: Waitable, timeout: float) -> bool:
        """Whether ``event`` came within ``timeout`` seconds."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Let ``seconds`` pass in this task, while the loop goes on."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: Waitable, timeout: float) -> bool:
        return event.wait(timeout)

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()


def today(clock: Clock) -> str:
    """The day in UTC, as 2030-01-31."""
    return datetime.fromtimestamp(clock.now(), UTC).date().isoformat()
