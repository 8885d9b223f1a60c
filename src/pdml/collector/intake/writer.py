"""Group commit: whatever has queued up is stored in one transaction, then everybody waiting is
answered. A commit costs one sync of the disk, whether it holds one report or a thousand.

The event loop collects and hands over once per turn; a thread commits. Waking it for every report
would have both fight for the interpreter's lock. A small group for a store that answers at once is
committed on the loop itself: that costs less than handing it over.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pdml.clock import Clock
from pdml.collector.storage.records import Decision, Entry
from pdml.collector.storage.store import Store
from pdml.errors import StorageUnavailable

_log = logging.getLogger("pdml.collector")
_LARGEST_GROUP = 4_000  # reports in a transaction: keeps the wait of the last one short
_SMALL_GROUP = 256  # reports that the loop itself may commit
# seconds: a commit that took longer was none for the loop, so that the next one is the thread's
_AT_ONCE = 0.01


class Overloaded(Exception):
    """The queue is full; nothing was taken."""


_Commit = Callable[[Sequence[Entry]], list[Decision] | None]
_Job = tuple[Sequence[Entry], "asyncio.Future[list[Decision]]"]
_Result = tuple[list[Decision] | Exception | None, float]  # and the seconds it took


class Writer:
    """The only caller of `Store.commit` in this process, one at a time, on the event loop."""

    def __init__(self, store: Store, *, capacity: int, clock: Clock) -> None:
        self._store = store
        self._capacity = capacity
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[_Job] = deque()  # taken, not yet handed over
        self._executor = ThreadPoolExecutor(1, "pdml-collect-writer")
        self._is_busy = False  # committing, or about to hand over
        self._last = 0.0  # seconds the last commit took
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_stopping = False
        self.queued = 0  # reports taken and not yet answered
        self.commits = 0
        self.commit_seconds = 0.0

    async def commit(self, entries: Sequence[Entry]) -> list[Decision]:
        """Once they are durable. Raises `Overloaded` or `StorageUnavailable`."""
        if self._is_stopping or self.queued + len(entries) > self._capacity:
            raise Overloaded
        future: asyncio.Future[list[Decision]] = self._loop.create_future()
        self.queued += len(entries)
        self._jobs.append((entries, future))
        self._idle.clear()
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._hand_over)  # after the other requests of this turn
        return await future

    async def stop(self) -> None:
        """Finish what was taken, take nothing more."""
        self._is_stopping = True
        await self._idle.wait()
        self._executor.shutdown()

    def _hand_over(self) -> None:
        """Commit everything that waits, up to a group's size."""
        group: list[_Job] = []
        size = 0
        while self._jobs and (not group or size + len(self._jobs[0][0]) <= _LARGEST_GROUP):
            job = self._jobs.popleft()
            group.append(job)
            size += len(job[0])
        if not group:
            self._is_busy = False
            self._idle.set()
            return
        if size <= _SMALL_GROUP and self._last < _AT_ONCE:
            result = self._commit(group, self._store.commit_at_once)
            if result[0] is not None:
                self._deliver(group, result)
                return
        running = self._loop.run_in_executor(
            self._executor, self._commit, group, self._store.commit
        )
        running.add_done_callback(lambda done: self._deliver(group, done.result()))

    def _commit(self, group: list[_Job], commit: _Commit) -> _Result:
        """Whatever goes wrong, nobody is acknowledged, and the service lives on."""
        entries = [entry for job, _ in group for entry in job]
        start = self._clock.monotonic()
        result: list[Decision] | Exception | None
        try:
            result = commit(entries)
        except Exception as error:
            result = error
            if isinstance(error, StorageUnavailable):
                _log.error("the store cannot commit: %s", error)
            else:  # a mistake of ours
                _log.error("the writer failed with %s", type(error).__name__)
        return result, self._clock.monotonic() - start

    def _deliver(self, group: list[_Job], outcome: _Result) -> None:
        result, self._last = outcome
        assert result is not None
        self.commits += 1
        self.commit_seconds += self._last
        start = 0
        for entries, future in group:
            end = start + len(entries)
            if not future.done():  # else its client has gone; the report is stored all the same
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result[start:end])
            start = end
        self.queued -= start
        # behind the answers, which are not to wait for the next group
        self._loop.call_soon(self._hand_over)
