"""Decides on reports: rules first, then the store, then one answer for each; and what is counted.
Knows nothing of HTTP but the status.

Counts per minute and per problem live in memory only.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from pdml.clock import Clock
from pdml.collector.intake.report_rules import Refusal, Rules
from pdml.collector.intake.writer import Overloaded, Writer
from pdml.collector.storage.records import STORED, Decision, Entry, Outcome, State
from pdml.errors import StorageUnavailable
from pdml.study.messages import Problem, Receipt, problem

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
    state: State
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


class Intake:
    """Accepts reports for one collection."""

    def __init__(
        self, rules: Rules, server: str, writer: Writer, counters: Counters, clock: Clock
    ) -> None:
        self.rules = rules
        self._server = server
        self._writer = writer
        self._counters = counters
        self._clock = clock

    async def accept(self, lines: Sequence[bytes]) -> list[tuple[Answer, bool]]:
        """One answer per report in the same order, and whether it is newly stored. Whatever
        happens, none goes unanswered.
        """
        now = self._clock.now()
        results = self.rules.read(lines, now)
        entries = [result for result in results if type(result) is Entry]
        detail = ""
        decisions: list[Decision] = []
        if entries:
            try:
                decisions = await self._writer.commit(entries)
            except (Overloaded, StorageUnavailable) as error:
                decisions = [Decision(Outcome.UNAVAILABLE)] * len(entries)
                detail = _OVERLOADED if isinstance(error, Overloaded) else ""
        stored = decisions.count(STORED)
        if stored:
            self._counters.store(stored, now)
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
                self._counters.problems[answer.code] += 1
            elif not is_new:
                self._counters.replayed += 1
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
        return Receipt(entry[10], self.rules.study_hash, self._server, digest, hour_text(hour))


@lru_cache(maxsize=64)
def hour_text(hour: int) -> str:
    """Hours since 1970 as 2026-03-01T14Z."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%HZ")
