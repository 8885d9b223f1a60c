"""Decides on reports: rules first, then the store, then one answer for each. Knows nothing of HTTP
but the status.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from pdml.collector.intake.collection_summary import Counters
from pdml.collector.intake.report_rules import Clock, Refusal, Rules
from pdml.collector.intake.writer import Overloaded, Writer
from pdml.collector.storage.store import STORED, Decision, Entry
from pdml.errors import StorageUnavailable
from pdml.study.messages import Problem, Receipt, problem

_DETAILS = {  # what the store found, in a sentence
    "id_conflict": "a report with this id was stored or withdrawn before, and this is not the same",
    "overloaded": "the service has more to do than it can now",
}
_CODES = {"overloaded": "storage_unavailable"}


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

    async def accept(self, lines: Sequence[bytes]) -> list[tuple[Receipt | Problem, bool]]:
        """One answer per report in the same order, and whether it is newly stored. Whatever
        happens, no line goes unanswered.
        """
        now = self._clock()
        read = self.rules.read(lines, now)
        entries = [entry for entry in read if type(entry) is Entry]
        outcomes = await self._commit(entries) if entries else []
        stored = outcomes.count(STORED)
        everything = stored == len(read)  # nearly always
        answers = self._receipts(entries) if everything else self._answers(read, outcomes)
        if stored:
            self._counters.store(stored, now)
        return answers

    def _receipts(self, entries: Sequence[Entry]) -> list[tuple[Receipt | Problem, bool]]:
        study, server = self.rules.study_hash, self._server
        return [
            (Receipt(entry[10], study, server, entry[1].hex(), hour_text(entry[4])), True)
            for entry in entries
        ]

    def _answers(
        self, read: Sequence[Entry | Refusal], outcomes: Sequence[Decision]
    ) -> list[tuple[Receipt | Problem, bool]]:
        """Whatever each line's fate; what is not newly stored is counted here."""
        fates = iter(outcomes)
        answers = [
            self._answer(entry, next(fates) if type(entry) is Entry else None) for entry in read
        ]
        for answer, new in answers:
            if type(answer) is Problem:
                self._counters.problems[answer.code] += 1
            elif not new:
                self._counters.replayed += 1
        return answers

    async def _commit(self, entries: Sequence[Entry]) -> list[Decision]:
        try:
            return await self._writer.commit(entries)
        except Overloaded:
            return [Decision("overloaded")] * len(entries)
        except StorageUnavailable:
            return [Decision("storage_unavailable")] * len(entries)

    def _answer(
        self, entry: Entry | Refusal, outcome: Decision | None
    ) -> tuple[Receipt | Problem, bool]:
        if outcome is None:
            return problem(*entry), False
        assert type(entry) is Entry
        code, hour = outcome
        if code == "stored" or code == "replayed":
            stored = code == "stored"
            when = hour_text(entry.hour if stored else hour)
            return Receipt(
                entry.report, self.rules.study_hash, self._server, entry.digest.hex(), when
            ), stored
        return problem(_CODES.get(code, code), _DETAILS.get(code, ""), entry.report), False


@lru_cache(maxsize=64)
def hour_text(hour: int) -> str:
    """Hours since 1970 as 2026-03-01T14Z."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%HZ")
