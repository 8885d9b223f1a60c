"""Clocks that stand still until somebody sleeps."""

from typing import Any

START = 1_780_000_000.0  # seconds since 1970


class SimulatedClock:
    """Goes on by sleeping alone; its date may jump."""

    def __init__(self) -> None:
        self.time, self.jumped, self.sleeps = 0.0, 0.0, 0

    def now(self) -> float:
        return START + self.time + self.jumped

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time, self.sleeps = self.time + seconds, self.sleeps + 1

    def wait(self, event: Any, timeout: float) -> bool:
        if not event.is_set():
            self.sleep(timeout)
        return bool(event.is_set())

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)
