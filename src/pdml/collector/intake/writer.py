"""Group commit: one thread stores whatever has queued up in one transaction, then everybody waiting
is answered.

A commit costs one sync of the disk whether it holds one report or a thousand, so that the busier
the service is, the cheaper each report becomes. The queue is bounded: beyond it the service says
"later" instead of growing.

The event loop collects and hands over once per turn; the thread only commits. Waking it for every
report would have both fight for the interpreter's lock. A small group for a store that answers at
once (a file on a fast disk) is committed on the loop itself: that costs less than handing it over,
and by the time it is done the next group has arrived.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from pdml.collector.storage.store import Decision, Entry, Store
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


class Writer:
    """The only caller of `Store.commit` in this process, one commit at a time. Made and used on the
    event loop.
    """

    def __init__(self, store: Store, *, capacity: int = 50_000) -> None:
        self._store = store
        self._capacity = capacity
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[_Job] = deque()  # taken, not yet handed over
        # to the thread: at most one at a time; an empty one ends it
        self._groups: SimpleQueue[list[_Job]] = SimpleQueue()
        self._busy = False
        self._last = 0.0  # seconds the last commit took
        self._summoned = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self.queued = 0  # reports taken and not yet answered
        self.commits = 0
        self.commit_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="pdml-collect-writer", daemon=True)
        self._thread.start()

    async def commit(self, entries: Sequence[Entry]) -> list[Decision]:
        """The entries' outcomes once they are durable. Raises `Overloaded` or
        `StorageUnavailable`.
        """
        if self._stopping or self.queued + len(entries) > self._capacity:
            raise Overloaded
        future: asyncio.Future[list[Decision]] = self._loop.create_future()
        self.queued += len(entries)
        self._jobs.append((entries, future))
        self._idle.clear()
        if not self._busy and not self._summoned:
            self._summoned = True
            self._loop.call_soon(self._hand_over)  # after the other requests of this turn
        return await future

    async def stop(self) -> None:
        """Finish what was taken, take nothing more."""
        self._stopping = True
        await self._idle.wait()
        self._groups.put([])
        await asyncio.to_thread(self._thread.join)

    def _hand_over(self) -> None:
        """Give the thread everything that waits, up to a group's size."""
        self._summoned = False
        if self._busy:
            return
        group: list[_Job] = []
        size = 0
        while self._jobs and (not group or size + len(self._jobs[0][0]) <= _LARGEST_GROUP):
            job = self._jobs.popleft()
            group.append(job)
            size += len(job[0])
        if not group:
            self._idle.set()
            return
        self._busy = True
        if size <= _SMALL_GROUP and self._last < _AT_ONCE:
            result, seconds = self._commit(group, self._store.commit_at_once)
            if result is not None:
                self._deliver(group, result, seconds)
                return
        self._groups.put(group)

    def _run(self) -> None:
        while group := self._groups.get():
            result, seconds = self._commit(group, self._store.commit)
            self._loop.call_soon_threadsafe(self._deliver, group, result, seconds)

    def _commit(
        self, group: list[_Job], commit: _Commit
    ) -> tuple[list[Decision] | Exception | None, float]:
        """What came of all entries, and the seconds it took."""
        entries = [entry for job, _ in group for entry in job]
        start = time.perf_counter()
        result: list[Decision] | Exception | None
        try:
            result = commit(entries)
        except StorageUnavailable as error:
            _log.error("the store cannot commit: %s", error)
            result = error
        except (
            Exception
        ) as error:  # a mistake of ours: nobody is acknowledged, and the service lives on
            _log.error("the writer failed with %s", type(error).__name__)
            result = error
        return result, time.perf_counter() - start

    def _deliver(
        self, group: list[_Job], result: list[Decision] | Exception | None, seconds: float
    ) -> None:
        assert result is not None
        self._busy = False
        self._last = seconds
        self.commits += 1
        self.commit_seconds += seconds
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
        self._summoned = True
        # behind the answers, which are not to wait for the next group
        self._loop.call_soon(self._hand_over)
