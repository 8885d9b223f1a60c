"""Mistakes in the protocol, planted one at a time: schedules must find each.

.venv/bin/python tests/simulation/mistakes.py             after how many seeds each is found
.venv/bin/python tests/simulation/mistakes.py rollback    those whose names contain a word
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]

from schedule import draw, execute

from pdml.accounting.events import encode_event
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
    return [
        (Journal, "latest_round", lambda self, job, sender: 0),
        (Journal, "minimum_releases", lambda self, sender, dataset: 0),
        (Journal, "digest", lambda self, job, t, sender: None),
    ]


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


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for owner, attribute, value in MISTAKES[name]():
            stack.enter_context(mock.patch.object(owner, attribute, value))
        yield


def seeds_until_found(name: str, most: int = MOST_SEEDS) -> tuple[int, str]:
    """How many seeds it takes, and what is seen; 0 if it is not found."""
    with planted(name):
        for seed in range(most):
            violation = execute(draw(seed)).violation
            if violation is not None:
                return seed + 1, str(violation)
    return 0, ""


def main() -> int:
    words = sys.argv[1:]
    missed = 0
    for name in MISTAKES:
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
