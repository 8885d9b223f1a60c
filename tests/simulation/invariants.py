"""What must hold after every step of a simulated world, and at its end."""

import re
import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from nodes import finished
from scenes import NAMES, Scene
from world import Violation

from pdml.accounting import Budget, Ledger
from pdml.accounting.events import Event, IterateReleased
from pdml.errors import PDMLError
from pdml.mechanisms import masks
from pdml.node.job.job_result import JobResult
from pdml.node.protocol import wire_messages
from pdml.node.protocol.requests import RequestKind, read_answer
from pdml.node.storage.control_db import OfferState
from pdml.node.storage.journal import JobState, Journal
from pdml.node.storage.node_dir import JOURNAL

if TYPE_CHECKING:
    from world import Machine, World

# What is said of a member that breaks the protocol, or whose journal was set back.
ACCUSATIONS = re.compile(
    "two different|equivocated|was rolled back|is not finite|no honest|whose signature is not|"
    "sent something|in the name of|made two offers|has not signed|bytes, more than|"
    "trains under other terms|trains another study|sent a release of round|wants to begin|"
    "wants to postpone|has not accepted|which is none|says it stands|is proved|"
    "tells (of|another|a last|distances|what)|"
    "has released something about another data set"
)
PHASES = 4  # of a round, each with its own timeout: hello, release, its answers, statements
TIMEOUT = re.compile(r"(\w+) waited [\d.]+ s for (?:the statement of )?(.*?)(?: to send .*)?$")


class Observer:
    """Watches what nodes send and what their disks hold."""

    def __init__(self, scene: Scene, *, fresh_noise: bool) -> None:
        self.scene, self.fresh_noise = scene, fresh_noise
        self.world: World
        self.dishonest: set[str] = set()
        self.disturbed: set[str] = set()  # who may have been silent without any fault of its own
        # whose folder was restored from an old copy, with the jobs that are finished in that
        self.set_back: dict[str, set[str]] = {}
        self.violation: Violation | None = None
        self.sent: dict[tuple[str, str, int], bytes] = {}  # (member, job, round): payload
        self.statements: dict[tuple[str, str], bytes] = {}  # (member, job)
        self.begun: dict[str, set[str]] = {}  # members at which an attempt has begun
        self.since: dict[str, tuple[tuple, float]] = {}  # where members stand, and since when
        self.timeout = 0.0  # of a round
        self.states: set[int] = set()
        self.checks = 0

    def refuse(self, invariant: str, sentence: str) -> None:
        """Remember the first violation: whoever drives the world raises it, not the node in which
        it was seen.
        """
        if self.violation is None:
            self.violation = Violation(invariant, sentence)

    # While it goes on

    def asked(self, machine: "Machine", kind: str, job: str, peer: str, content: bytes) -> None:
        """``machine`` puts a request to ``peer``."""
        self.world.note("ask", machine.name, peer, kind, hash_of(content))
        if kind == RequestKind.RELEASE:
            self._release(machine, content)

    def answered(self, machine: "Machine", context, data: bytes | None) -> None:
        if data is None:
            return
        self.world.note("answer", machine.name, context.sender, context.kind, hash_of(data))
        answer = read_answer(data)
        if answer is None:
            return
        if context.kind == RequestKind.HELLO:
            for message in answer.messages[1:]:
                self._release(machine, message)

    def arrived(self, machine: "Machine", context, content: bytes) -> None:
        self.world.note("take", machine.name, context.sender, context.kind)

    def _release(self, machine: "Machine", data: bytes) -> None:
        """It leaves the machine: whatever becomes of it, the relay has it."""
        name = machine.name
        if name in self.dishonest:
            return
        vector = msgspec.msgpack.decode(data, type=wire_messages.Vector)
        key = name, vector.job, vector.round
        self.checks += 1
        if self.sent.setdefault(key, vector.payload) != vector.payload:
            self.refuse("same bytes", f"{name} sent two payloads for {key[1:]}")
        if any(file.startswith(JOURNAL) for file in machine.disk.unsynced):
            self.refuse("debit on disk", f"{name} sent round {vector.round} before it was synced")
        self._check_stored(machine, machine.daemon.committed, key)

    def _check_stored(self, machine: "Machine", journal: Journal, key: tuple) -> None:
        """The release and its debit, as another process reads them."""
        name, job, t = key
        with machine.disk.reliable():
            query = "SELECT payload FROM outbox WHERE job = ? AND round = ?"
            row = journal._db.row(query, (job, t))
            query = "SELECT count(*) FROM events WHERE job = ? AND round = ?"
            (count,) = journal._db.row(query, (job, t))
        if row is None or bytes(row[0]) != self.sent[key]:
            self.refuse("debit on disk", f"{name} sent round {t} of {job}, which is not committed")
            return
        if count != len(planned(self.scene, name, t)):
            self.refuse("debit on disk", f"{name} sent round {t} of {job} with {count} debits")

    def started(self, machine: "Machine") -> None:
        """What was sent is still there after a kill or a power cut."""
        if machine.name in self.dishonest | set(self.set_back):
            return
        for key in self.sent:
            if key[0] == machine.name:
                self._check_stored(machine, machine.daemon.committed, key)

    def restored(self, machine: "Machine", finished: set[str]) -> None:
        """From an old copy, with these jobs."""
        self.set_back[machine.name] = finished

    def failed_to_start(self, machine: "Machine", error: Exception) -> None:
        self.world.note("no start", machine.name, repr(error))
        if not (machine.disk.full or machine.disk.faults):
            self.refuse("a node starts", f"{machine.name} does not start: {error!r}")

    def ended(self, machine: "Machine") -> None:
        self.disturbed.add(machine.name)

    def unexpected(self, machine: "Machine", error: BaseException) -> None:
        """An exception that no code expects."""
        if isinstance(error, Violation) or machine.disk.dead:
            return
        self.world.note("unexpected", machine.name, type(error).__name__)
        disk = isinstance(error, (sqlite3.Error, PDMLError)) and machine.disk.faults
        if not disk:
            self.refuse("no unexpected exception", f"{machine.name}: {error!r}")

    def step(self, machine: "Machine") -> None:
        """A machine has computed."""
        daemon = machine.daemon if machine.name in self.world.nodes else None
        work = None if daemon is None else daemon.admission.work
        if work is not None and work.begun:
            self.begun.setdefault(work.offer.attempt, set()).add(machine.name)
        self._check_timeout(machine, work)
        state = [other.describe() for other in self.world.machines.values()]
        self.states.add(hash(repr(state)))

    def _check_timeout(self, machine: "Machine", work) -> None:
        """Nobody waits longer than the phases of one round may take together."""
        exchange = None if work is None else work.exchange
        stage = () if exchange is None else (work.offer.attempt, exchange.participant.round)
        stage = stage and (*stage, machine.lives)
        before, since = self.since.get(machine.name, ((), 0.0))
        now = self.world.time
        if stage != before or machine.hung_until > since:
            self.since[machine.name] = stage, now
        elif stage and now - since > PHASES * self.timeout + 20.0:
            self.refuse("within its timeout", f"{machine.name} waits for {now - since:.0f} s")

    # At the end

    def finish(self) -> None:
        """All machines are up, nobody is in a job, and nobody has an offer that has not ended."""
        for machine in self.world.nodes.values():
            if machine.name in self.dishonest:
                continue
            self._check_budget(machine)
            self._check_sentences(machine)
            self._check_evidence(machine)
            self._check_results(machine)

    def _check_budget(self, machine: "Machine") -> None:
        journal = machine.daemon.committed
        data = self.scene.data[machine.name]
        events = (data.flip(), *journal.spent(data.dataset))
        if not within(events, len(self.scene.study.classes), self.scene.study.budget):
            self.refuse("budget", f"{machine.name} has overdrawn its budget")
        if machine.name in self.set_back:
            self._check_set_back(machine)
            return
        seen = [
            event
            for name, job, t in sorted(self.sent)
            if name == machine.name
            for event in planned(self.scene, name, t)
        ]
        recorded = list(events)
        for event in seen:
            if event not in recorded:
                self.refuse("ledger", f"{machine.name}'s ledger lacks {event}")
                return
            recorded.remove(event)

    def _check_set_back(self, machine: "Machine") -> None:
        """Whoever knows of releases that a restored journal lacks does no other job with it."""
        journal, name = machine.daemon.committed, machine.name
        if not finished(journal) - self.set_back[name]:
            return
        own = journal.releases(self.scene.data[name].dataset)
        for other in self.world.nodes.values():
            query = "SELECT count(*) FROM inbox WHERE sender = ?"
            (count,) = other.daemon.committed._db.row(query, (name,))
            if count > own and other.name not in self.set_back:
                sentence = f"{name} counts {own} releases, and {other.name} has {count}"
                self.refuse("ledger", sentence)

    def _check_sentences(self, machine: "Machine") -> None:
        """Nobody honest is accused, and who is waited for was away."""
        guilty = self.dishonest | set(self.set_back)
        for attempt in machine.daemon.control_db.attempts():
            if attempt.state not in (OfferState.FAILED, OfferState.REFUSED):
                continue
            sentence = attempt.sentence
            if not sentence:
                self.refuse("one sentence", f"{machine.name}: {attempt.job} ended without one")
            if ACCUSATIONS.search(sentence) and not any(name in sentence for name in guilty):
                self.refuse("nobody honest is accused", f"{machine.name}: {sentence}")
            if "log of its node" in sentence and not self._disk_faults():
                self.refuse("one sentence", f"{machine.name}: {sentence}")
            if (match := TIMEOUT.search(sentence)) is not None:
                away = self.disturbed | guilty
                if not (away & {machine.name, *match.groups()} or any(n in sentence for n in away)):
                    self.refuse("the right party", f"{machine.name}: {sentence}")

    def _disk_faults(self) -> bool:
        return any(machine.disk.faults for machine in self.world.nodes.values())

    def _check_evidence(self, machine: "Machine") -> None:
        for path in machine.folder.glob("evidence/*/*.evidence"):
            if path.stem not in self.dishonest | set(self.set_back):
                self.refuse("nobody honest is accused", f"{machine.name} has {path.name}")

    def _check_results(self, machine: "Machine") -> None:
        """A finished job has a result without a flaw, which is the local engine's."""
        journal = machine.daemon.committed
        for job in journal.jobs():
            if job.state != JobState.FINISHED:
                continue
            try:
                signed = JobResult.load(machine.directory, job.job)
                problems = _problems(signed)
            except PDMLError as error:
                self.refuse("a result verifies", f"{machine.name}: {job.job}: {error}")
                continue
            if problems and not self.dishonest:
                self.refuse("a result verifies", f"{machine.name}: {job.job}: {problems}")
            if any(flaw.kind == "mismatch" and machine.name in flaw.servers for flaw in problems):
                sentence = f"{machine.name} has {job.job}, though it was sent something else"
                self.refuse("a deceiver is proved", sentence)
            if not (self.fresh_noise or self.dishonest or problems):
                self._check_bits(machine, signed)

    def _check_bits(self, machine: "Machine", signed) -> None:
        terms, expected = signed.terms, self.scene.expected
        released = {name: one.vector(terms) for name, one in signed.statements.items()}
        if terms.masked:
            rows = {name: row[0].view(np.uint64) for name, row in released.items()}
            same = np.array_equal(masks.total(rows, NAMES), expected.sum(axis=0))
        else:
            last = np.array([released[name] for name in NAMES])
            same = np.array_equal(last.reshape(expected.shape), expected)
        if not same:
            self.refuse("bit for bit", f"{machine.name}: {terms.job} is not the local engine's")


def hash_of(content: bytes) -> str:
    return wire_messages.hash_of(content)[:16]


@cache
def planned(scene: Scene, name: str, t: int) -> tuple[Event, ...]:
    """What round t costs, by the plan."""
    events = scene.study.plan.events(scene.data[name].server.spec)
    return tuple(e for e in events if (e.t if isinstance(e, IterateReleased) else 1) == t)


@cache
def within(events: Sequence[Event], classes: int, budget: Budget) -> bool:
    return Ledger((events,), classes=classes).keeps(budget)


_found: dict[tuple[str, tuple[bytes, ...]], Sequence] = {}


def _problems(signed) -> Sequence:
    """What is wrong with a result; of the same statements the same."""
    key = signed.terms.digest, tuple(signed.signed.values())
    if key not in _found:
        _found[key] = signed.problems
    return _found[key]
