"""What the operator may know: totals, never a report. Counts per minute and per problem live in
memory only.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from pdml.collector.storage.store import State

MINUTES = 60  # how far back the counts per minute go


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The state of one collection at one moment."""

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
    """What this process has counted since it started."""

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
