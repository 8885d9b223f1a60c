"""Mistakes in the protocol and in the collection, planted one at a time: schedules must find each.

.venv/bin/python tests/simulation/mistakes.py             after how many seeds each is found
.venv/bin/python tests/simulation/mistakes.py rollback    those whose names contain a word
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]

from disks import SimulatedKeyDisk
from schedule import draw, execute

from pdml.accounting.events import encode_event
from pdml.collector.intake import service
from pdml.collector.intake.report_rules import Rules
from pdml.collector.intake.service import Writer
from pdml.collector.storage import records, retention
from pdml.collector.storage.records import STORED, CollectionState, Outcome
from pdml.collector.storage.sqlite import SqliteStore
from pdml.collector.storage.store import Store
from pdml.node.job import participant
from pdml.node.job.admission import JobAdmission
from pdml.node.job.equivocation_reporter import EquivocationReporter
from pdml.node.job.participant import Participant
from pdml.node.job.round_exchange import Exchange
from pdml.node.storage.control_db import ControlDatabase, OfferState
from pdml.node.storage.journal import Journal
from pdml.node.storage.sqlite_store import SharedDatabase

MOST_SEEDS = 1000
Change = tuple[object, str, Callable]


def _send_before_commit() -> list[Change]:
    def commit(self: Journal, job: str, t: int, *, payload: bytes, events: list) -> None:
        dataset = self.job(job).dataset
        self._db.add("INSERT INTO outbox VALUES (?, ?, ?)", (job, t, payload))
        query = "INSERT INTO events (dataset, job, round, event) VALUES (?, ?, ?, ?)"
        for event in events:
            self._db.add(query, (dataset, job, t, json.dumps(encode_event(event))))

    return [(Journal, "commit", commit)]


def _journal_without_fsync() -> list[Change]:
    opened = SharedDatabase.__init__

    def init(self: SharedDatabase, path: Path, *, pragmas=(), **options) -> None:
        lax = tuple(one.replace("synchronous=FULL", "synchronous=OFF") for one in pragmas)
        opened(self, path, pragmas=lax, **options)

    return [(SharedDatabase, "__init__", init)]


def _fresh_noise_on_resume() -> list[Change]:
    opened = Participant._open

    def reopen(self: Participant):
        node, state = opened(self)
        job, t = self.terms.job, int(state.t)
        if t:
            before = node.start()
            messages = self._in_order(self._journal.inbox(job, 0))
            if t == 1:
                state, released = node.step(before, messages)
                payload = participant.wire_messages.encode_vector(released, self.terms.dtype)
                query = "UPDATE outbox SET payload = ? WHERE job = ? AND round = 1"
                self._journal._db.change(query, (payload, job))
        return node, state

    return [(Participant, "_open", reopen)]


def _budget_unchecked() -> list[Change]:
    return [(participant, "check_budget", lambda *arguments, **options: None)]


def _beginning_forgotten() -> list[Change]:
    moved = ControlDatabase.move

    def move(self: ControlDatabase, attempt: str, state: OfferState, sentence: str = "") -> None:
        if state != OfferState.BEGUN:
            moved(self, attempt, state, sentence)

    return [(ControlDatabase, "move", move)]


def _one_debit_for_all_rounds() -> list[Change]:
    committed = Journal.commit

    def commit(self: Journal, job: str, t: int, *, payload: bytes, events: list) -> None:
        committed(self, job, t, payload=payload, events=events if t == 1 else [])

    return [(Journal, "commit", commit)]


def _statements_not_compared() -> list[Change]:
    return [(EquivocationReporter, "compare", lambda self, terms: None)]


def _rollback_unnoticed() -> list[Change]:
    welcomed = Participant.welcome
    blind = {"latest_round": 0, "minimum_releases": 0, "digest": None}

    def welcome(self: Participant, peer: str, data: bytes) -> bool:
        with contextlib.ExitStack() as stack:
            for name, nothing in blind.items():
                patch = mock.patch.object(Journal, name, lambda *_, nothing=nothing: nothing)
                stack.enter_context(patch)
            return welcomed(self, peer, data)

    return [(Participant, "welcome", welcome)]


def _begun_twice() -> list[Change]:
    begin = JobAdmission.begin

    def again(self: JobAdmission, request, sender: str):
        work = begin(self, request, sender)
        return self.work if work is None else work

    return [(JobAdmission, "begin", again)]


def _no_deadline() -> list[Change]:
    checked = Exchange._check

    def check(self: Exchange, deadline=None, *arguments, **options) -> None:
        checked(self, None, *arguments, **options)

    return [(Exchange, "_check", check)]


def _nothing_sent_again() -> list[Change]:
    return [(Participant, "resend", lambda self, peer: [])]


# Of the collection


def _acknowledged_before_commit() -> list[Change]:
    committed = Writer.commit

    async def commit(self: Writer, entries: list) -> list:
        asyncio.get_running_loop().create_task(committed(self, entries))
        return [STORED] * len(entries)

    return [(Writer, "commit", commit)]


def _collection_without_fsync() -> list[Change]:
    opened = SqliteStore.__init__

    def init(self: SqliteStore, *arguments, **options) -> None:
        opened(self, *arguments, **options, synchronous="OFF")

    return [(SqliteStore, "__init__", init)]


def _keys_without_fsync() -> list[Change]:
    return [(SimulatedKeyDisk, "sync", lambda self, handle: None)]


def _counted_twice() -> list[Change]:
    decided = SqliteStore._decide

    def decide(self: SqliteStore, db, entry, state):
        decision = decided(self, db, entry, state)
        if decision.code is Outcome.REPLAYED:
            self._insert_new(db, [entry._replace(id=os.urandom(16))])
            return STORED
        return decision

    return [(SqliteStore, "_decide", decide)]


def _withdrawn_exported() -> list[Change]:
    return [(SqliteStore, "ERASE", "SELECT ?")]


def _keys_of_withdrawn_kept() -> list[Change]:
    return [(Store, "_destroy_doomed", lambda self: None)]


def _withdrawal_only_promised() -> list[Change]:
    return [(Store, "withdraw", lambda self, report: True)]


def _frozen_takes_reports() -> list[Change]:
    refused = records.refusal_reason

    def refusal(state: CollectionState, closed_reason: Outcome | None) -> Outcome | None:
        return None if state is CollectionState.FROZEN else refused(state, closed_reason)

    return [(records, "refusal_reason", refusal)]


def _exported_without_freezing() -> list[Change]:
    return [(Store, "freeze", lambda self, hour: hour)]


def _never_closes() -> list[Change]:
    return [(Rules, "closed_reason", lambda self, now: None)]


def _invitation_used_again() -> list[Change]:
    return [(SqliteStore, "_use_tokens", lambda self, db, tokens: len(tokens))]


def _any_date_believed() -> list[Change]:
    return [(retention, "WEEK", 1 << 40)]


def _never_erased() -> list[Change]:
    return [(service, "keep_retention", lambda *arguments: None)]


MISTAKES: dict[str, Callable[[], list[Change]]] = {
    "send before commit": _send_before_commit,
    "journal without fsync": _journal_without_fsync,
    "fresh noise on resume": _fresh_noise_on_resume,
    "budget unchecked": _budget_unchecked,
    "beginning forgotten": _beginning_forgotten,
    "one debit for all rounds": _one_debit_for_all_rounds,
    "statements not compared": _statements_not_compared,
    "rollback unnoticed": _rollback_unnoticed,
    "begun twice": _begun_twice,
    "no deadline": _no_deadline,
    "nothing sent again": _nothing_sent_again,
}
COLLECTION = {
    "acknowledged before commit": _acknowledged_before_commit,
    "collection without fsync": _collection_without_fsync,
    "keys without fsync": _keys_without_fsync,
    "counted twice": _counted_twice,
    "withdrawn exported": _withdrawn_exported,
    "keys of what is withdrawn kept": _keys_of_withdrawn_kept,
    "withdrawal only promised": _withdrawal_only_promised,
    "frozen takes reports": _frozen_takes_reports,
    "exported without freezing": _exported_without_freezing,
    "never closes": _never_closes,
    "invitation used again": _invitation_used_again,
    "any date believed": _any_date_believed,
    "never erased": _never_erased,
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for owner, attribute, value in (MISTAKES | COLLECTION)[name]():
            stack.enter_context(mock.patch.object(owner, attribute, value))
        yield


def seeds_until_found(name: str, most: int = MOST_SEEDS) -> tuple[int, str]:
    """How many seeds it takes, and what is seen; 0 if it is not found. Schedules without the party
    that makes the mistake pass by themselves.
    """
    with planted(name):
        for seed in range(most):
            schedule = draw(seed)
            concerned = schedule.collects if name in COLLECTION else schedule.method
            violation = execute(schedule).violation if concerned else None
            if violation is not None:
                return seed + 1, str(violation)
    return 0, ""


def main() -> int:
    words = sys.argv[1:]
    missed = 0
    for name in MISTAKES | COLLECTION:
        if words and not any(word in name for word in words):
            continue
        began = time.process_time()
        seeds, sentence = seeds_until_found(name)
        missed += not seeds
        spent = time.process_time() - began
        print(f"{name}: {seeds or 'NOT FOUND'} ({spent:.1f} s) {sentence[:160]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
