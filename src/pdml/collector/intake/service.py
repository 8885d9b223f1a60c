"""One running collection: rules decide on reports first, then the store, then each is answered;
and what is counted of them. Knows nothing of HTTP but the status.

Group commit: whatever has queued up is stored in one transaction, then everybody waiting is
answered. A commit costs one sync of the disk, whether it holds one report or a thousand. The event
loop collects and hands over once per turn; a thread commits. Waking it for every report would have
both fight for the interpreter's lock. A small group for a store that answers at once is committed
on the loop itself: that costs less than handing it over.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.collector.http.guard import Attempts, Guard
from pdml.collector.intake.report_rules import Refusal, Rules, hash_id, hash_token
from pdml.collector.storage.records import (
    STORED,
    CollectionState,
    Decision,
    Ended,
    Entry,
    NoSuchReport,
    Outcome,
    hour_text,
    refusal_reason,
)
from pdml.collector.storage.retention import ClockJump, keep_retention
from pdml.collector.storage.store import Store
from pdml.errors import DataError, StorageUnavailable
from pdml.study import Study
from pdml.study.messages import Admission, Problem, Receipt, Withdrawn, problem, report_id

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
        size = sum(len(entries) for entries, _ in group)
        assert isinstance(result, Exception) or len(result) == size, "an answer for each report"
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


MINUTES = 60  # how far back the counts per minute go
Answer = Receipt | Problem
_CONFLICT = "a report with this id was stored or withdrawn before, and this is not the same"
_OVERLOADED = "the service has more to do than it can now"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the operator may know of one collection at one moment: totals, never a report."""

    study_id: str
    study_hash: str
    server: str
    state: CollectionState
    in_window: bool  # between the study's opening and closing times
    reports: int
    withdrawn: int
    conflicts: int  # reports under an id that was taken, which did not repeat it
    invitations: int
    invitations_used: int
    require_tokens: bool
    # stored reports of the last 60 minutes, oldest first; the last one is running
    per_minute: tuple[int, ...]
    per_epsilon: Mapping[int, int]  # millionths: reports
    per_class: tuple[int, ...]  # reported class index: reports
    per_epsilon_and_class: Mapping[int, tuple[int, ...]]  # what the de-biased estimate needs
    problems: Mapping[str, int]  # code: how often since the start
    replayed: int  # reports sent again and answered as the first time, since the start
    uptime: float  # seconds
    taken_at: float  # seconds since 1970
    clock_jump: str = ""  # why the machine's date is not believed


class Counters:
    """What this process has counted since it started, in memory only."""

    def __init__(self, now: float) -> None:
        self.started = now
        self.stored = 0
        self.replayed = 0
        self.problems: Counter[str] = Counter()
        self._minutes: deque[list[int]] = deque(maxlen=MINUTES)  # [minute, reports]

    def store(self, count: int, now: float) -> None:
        self.stored += count
        minute = int(now // 60)
        if not self._minutes or self._minutes[-1][0] < minute:
            self._minutes.append([minute, 0])
        self._minutes[-1][1] += count

    def per_minute(self, now: float) -> tuple[int, ...]:
        last = int(now // 60)
        counts = {minute: count for minute, count in self._minutes}
        return tuple(counts.get(minute, 0) for minute in range(last - MINUTES + 1, last + 1))


_T = TypeVar("_T")
_LOOK = 60.0  # seconds between two looks at the clock, and whether the retention has ended
# seconds for which a proof of health is good: asking often must not cost a sync each
_HEALTH_LASTS = 1.0

Render = Callable[[Summary], str]


class Service:
    """Everything the routes share. Between `start` and `stop` it takes reports."""

    def __init__(
        self,
        study: Study,
        server: str,
        store: Store,
        *,
        clock: Clock = SYSTEM_CLOCK,
        require_tokens: bool = True,
        capacity: int = 50_000,
        attempts: Attempts | None = None,
        guard: Guard | None = None,
    ) -> None:
        """``guard`` is the one that `serve` has; ``capacity`` bounds the reports that wait."""
        self.study = study
        self.server = server
        self.clock = clock
        self.rules = Rules.of(study, require_tokens=require_tokens)
        self.counters = Counters(clock.now())
        self.attempts = attempts or Attempts(clock=clock)
        self.writer: Writer
        self.guard = guard or Guard()
        self._store = store
        self._capacity = capacity
        self._health: tuple[float, str] = (-1.0, "")  # until when, and why the store cannot commit
        self._probing = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self._clock_jump = ""  # why the machine's date is not believed

    async def start(self) -> None:
        self.writer = Writer(self._store, capacity=self._capacity, clock=self.clock)
        if self.study.notice is not None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep_retention())

    async def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self.writer.stop()
        self._store.close()

    async def run(self, function: Callable[[], _T]) -> _T:
        """Wait for something without holding up the loop."""
        return await asyncio.get_running_loop().run_in_executor(None, function)

    async def _keep_retention(self) -> None:
        """Erase all reports when their retention ends; what fails is tried again."""
        warned = -1  # the hour
        while True:
            now = self.clock.now()
            try:
                erased = await self.run(partial(keep_retention, self.study, self._store, now))
                self._clock_jump = ""
                if erased is not None:
                    _log.info("the retention has ended: %d reports were erased", erased)
                    return
            except ClockJump as jump:
                self._clock_jump = str(jump)
                if warned != now // 3600:
                    warned = int(now // 3600)
                    _log.error("%s", jump)
            except StorageUnavailable as error:
                _log.error("the retention has ended, but nothing can be erased: %s", error)
            except DataError as error:  # a key of the totals is lost
                _log.error("the retention cannot be looked after: %s", error)
            await self.clock.sleep_async(_LOOK)

    async def accept(self, lines: Sequence[bytes]) -> list[tuple[Answer, bool]]:
        """One answer per report in the same order, and whether it is newly stored. Whatever
        happens, none goes unanswered."""
        now = self.clock.now()
        results = self.rules.read(lines, now)
        entries = [result for result in results if type(result) is Entry]
        detail = ""
        decisions: list[Decision] = []
        if entries:
            try:
                decisions = await self.writer.commit(entries)
            except (Overloaded, StorageUnavailable) as error:
                decisions = [Decision(Outcome.UNAVAILABLE)] * len(entries)
                detail = _OVERLOADED if isinstance(error, Overloaded) else ""
        stored = decisions.count(STORED)
        if stored:
            self.counters.store(stored, now)
        if stored == len(results):  # nearly always
            return [(self._receipt(entry, entry.hour), True) for entry in entries]
        remaining = iter(decisions)
        answers = [
            (problem(*result), False)
            if type(result) is Refusal
            else self._answer(result, next(remaining), detail)  # type: ignore[arg-type]
            for result in results
        ]
        for answer, is_new in answers:
            if type(answer) is Problem:
                self.counters.problems[answer.code] += 1
            elif not is_new:
                self.counters.replayed += 1
        return answers

    def _answer(self, entry: Entry, decision: Decision, detail: str) -> tuple[Answer, bool]:
        if decision is STORED:
            return self._receipt(entry, entry.hour), True
        if decision.code is Outcome.REPLAYED:
            return self._receipt(entry, decision.hour), False
        detail = _CONFLICT if decision.code is Outcome.ID_CONFLICT else detail
        return problem(decision.code.value, detail, entry.report), False

    def _receipt(self, entry: Entry, hour: int) -> Receipt:
        digest = entry[1].hex()
        return Receipt(entry[10], self.rules.study_hash, self.server, digest, hour_text(hour))

    async def storage_error(self) -> str:
        """Why the store cannot commit now; empty if it can, as a real commit has just shown."""
        async with self._probing:
            if self.clock.monotonic() >= self._health[0]:
                try:
                    await self.run(self._store.probe)
                    reason = ""
                except StorageUnavailable as error:
                    reason = str(error)
                self._health = (self.clock.monotonic() + _HEALTH_LASTS, reason)
            return self._health[1]

    async def admit(self, token: str) -> Admission | Problem:
        """Whether a report with this token would be taken now. Raises `StorageUnavailable`."""
        state, used = await self.run(partial(self._store.invitation, hash_token(token)))
        is_missing = self.rules.require_tokens and not token
        reason = self.rules.closed_reason(self.clock.now())
        reason = refusal_reason(state, reason or (Outcome.TOKEN_MISSING if is_missing else None))
        if token and not reason and used is not False:
            reason = Outcome.TOKEN_UNKNOWN if used is None else Outcome.TOKEN_USED
        return self._refuse(problem(reason.value)) if reason else Admission(self.rules.study_hash)

    async def withdraw(self, code: str) -> Withdrawn | Problem:
        """Erase the report of this code unless it is frozen. Raises `StorageUnavailable`."""
        id = report_id(code)
        try:
            is_new = await self.run(partial(self._store.withdraw, hash_id(id)))
        except NoSuchReport:
            return self._refuse(problem("withdrawal_unknown"))
        except Ended:
            detail = "the report is part of a data set that is complete"
            return self._refuse(problem("frozen", detail, id))
        return Withdrawn(id, self.rules.study_hash, self.server, not is_new)

    def _refuse(self, answer: Problem) -> Problem:
        self.counters.problems[answer.code] += 1
        return answer

    def problems(self) -> dict[str, int]:
        """What was refused since the start, by code: reports, requests and connections."""
        return dict(sorted((self.counters.problems + self.guard.problems).items()))

    async def summary(self) -> Summary:
        """Raises `StorageUnavailable`."""
        totals = await self.run(self._store.totals)
        now = self.clock.now()
        menu = sorted(self.rules.menu)
        grid = {
            epsilon: tuple(
                totals.tallies.get((epsilon, label), 0) for label in range(self.rules.classes)
            )
            for epsilon in menu
        }
        return Summary(
            study_id=self.study.id,
            study_hash=self.study.hash,
            server=self.server,
            state=totals.state,
            in_window=self.rules.opens <= now < self.rules.closes,
            reports=totals.reports,
            withdrawn=totals.withdrawn,
            conflicts=totals.conflicts,
            invitations=totals.invitations,
            invitations_used=totals.invitations_used,
            require_tokens=self.rules.require_tokens,
            per_minute=self.counters.per_minute(now),
            per_epsilon={epsilon: sum(counts) for epsilon, counts in grid.items()},
            per_class=tuple(map(sum, zip(*grid.values(), strict=True))),
            per_epsilon_and_class=grid,
            problems=self.problems(),
            replayed=self.counters.replayed,
            uptime=now - self.counters.started,
            taken_at=now,
            clock_jump=self._clock_jump,
        )
