"""Where a node's operator and its running process meet: a small database in the folder. Nothing
listens anywhere.

The command line writes commands and decisions; the process reads them a few times a second, and
writes what it is doing.
"""

import hashlib
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pdml.clock import Clock
from pdml.errors import InvalidInput, PDMLError
from pdml.formats import Format
from pdml.node.storage.sqlite_store import SharedDatabase

FORMAT = Format(name="control", version=1)

CONTROL = "control.db"
_MOST_ENDED = 1000  # attempts of one member that were refused, and as many that ended otherwise
_PROGRESS = 1.0  # seconds between two words about progress

log = logging.getLogger("pdml.node")


class OfferState(StrEnum):
    """What became of an offer here."""

    PENDING = "pending"  # the operator is asked
    ALLOWED = "allowed"  # by the rule or the operator; waits for its turn
    ACCEPTED = "accepted"  # signed: the node does no other job until it begins
    REFUSED = "refused"
    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"


ENDED = (OfferState.REFUSED, OfferState.DONE, OfferState.FAILED)


class CommandKind(StrEnum):
    """What an operator wants of the running node."""

    OFFER = "offer"
    STOP = "stop"


class StatusName(StrEnum):
    """What the running node says of itself."""

    CONNECTION = "connection"
    PROGRESS = "progress"
    BEGIN = "begin"  # a beginning that not everybody has acknowledged


_TABLES = """
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, attempt TEXT NOT NULL UNIQUE, job TEXT NOT NULL,
    terms TEXT NOT NULL, offerer TEXT NOT NULL, offer BLOB NOT NULL,
    state TEXT NOT NULL, sentence TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS commands (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, attempt TEXT NOT NULL, content TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS unfinished (
    offerer TEXT NOT NULL, job TEXT NOT NULL, PRIMARY KEY (offerer, job)
) STRICT;
CREATE TABLE IF NOT EXISTS status (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
"""
_COLUMNS = "attempt, job, terms, offerer, offer, state, sentence"  # the fields of `Attempt`


def digest_of(offer: bytes) -> str:
    return hashlib.sha256(offer).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One offer of a job, and what became of it here."""

    attempt: str
    job: str
    terms: str  # the digest of its `JobTerms`
    offerer: str
    offer: bytes
    state: OfferState
    sentence: str

    @property
    def digest(self) -> str:
        """Of the offer as its member signed it: no other offer has it, whatever its name."""
        return digest_of(self.offer)

    def to_dict(self) -> dict[str, str]:
        """What an operator wants to know, for JSON."""
        fields = {"job": self.job, "offered_by": self.offerer, "state": self.state}
        return fields | {"sentence": self.sentence, "digest": self.digest}


_UNDER_WAY = (OfferState.ACCEPTED, OfferState.BEGUN)


def current_attempt(attempts: Sequence[Attempt]) -> Attempt | None:
    """The job that a node is in, whatever was offered since; else what was offered last."""
    under_way = [attempt for attempt in attempts if attempt.state in _UNDER_WAY]
    return next(reversed(under_way or attempts), None)


@dataclass(frozen=True, kw_only=True)
class OperatorCommand:
    """What somebody at this machine wants: to offer a job (its terms in ``content``), or to stop
    one."""

    kind: CommandKind
    attempt: str
    content: dict[str, Any]


class ControlDatabase:
    """Open in several processes at once; every method is one transaction."""

    def __init__(self, folder: Path) -> None:
        path = folder / CONTROL
        self._unwritten: list[Callable[[], object]] = []
        try:
            self._db = SharedDatabase(path, pragmas=("journal_mode=WAL",), timeout=10)
            if why := self._db.make_tables(_TABLES, FORMAT, f"the node's control database {path}"):
                self._db.close()
                raise InvalidInput(why)
            self._db.read_error = self._read_error
        except sqlite3.Error as error:
            raise InvalidInput(
                f"the node's control database {path} cannot be used: {error}"
            ) from None

    def close(self) -> None:
        self._db.close()

    def _read_error(self, error: sqlite3.Error) -> InvalidInput:
        return InvalidInput(f"the node's control database cannot be read: {error}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._db.transaction():
                yield
        except sqlite3.Error as error:
            raise InvalidInput(f"the node's control database cannot be written: {error}") from None

    def insist(self, write: Callable[[], object]) -> None:
        """Write now, or by `flush` once there is room: whoever follows a job must learn of its
        end."""
        try:
            write()
        except PDMLError as error:
            log.error("%s", error)
            self._unwritten.append(write)

    def flush(self) -> None:
        while self._unwritten:
            self._unwritten[0]()
            self._unwritten.pop(0)

    # Attempts

    def attempt(self, attempt: str) -> Attempt | None:
        return next(iter(self._attempts("WHERE attempt = ?", attempt)), None)

    def attempts(self) -> list[Attempt]:
        """All that are remembered, oldest first."""
        return self._attempts("")

    def pending(self, offerer: str) -> int:
        query = "SELECT count(*) FROM attempts WHERE offerer = ? AND state = ?"
        return int(self._db.row(query, (offerer, OfferState.PENDING))[0])

    def _attempts(self, where: str, *values: str) -> list[Attempt]:
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM attempts {where} ORDER BY id", values)
        attempts = (dict(zip(_COLUMNS.split(", "), row, strict=True)) for row in rows)
        return [Attempt(**fields | {"state": OfferState(fields["state"])}) for fields in attempts]

    def put(self, attempt: Attempt) -> None:
        """Remember an offer; what was remembered longest ago and has ended is forgotten. No member
        makes a node forget another's offers, nor by offers that are refused those that were not."""
        with self._transaction():
            query = f"INSERT INTO attempts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
            self._db.change(query, astuple(attempt))
            marks = ", ".join("?" * len(ENDED))
            ended = (
                "SELECT id, row_number() OVER (PARTITION BY state = ? ORDER BY id DESC) AS rank "
                f"FROM attempts WHERE offerer = ? AND state IN ({marks})"
            )
            oldest = f"SELECT id FROM ({ended}) WHERE rank > {_MOST_ENDED}"
            self._db.change(
                f"DELETE FROM attempts WHERE id IN ({oldest})",
                (OfferState.REFUSED, attempt.offerer, *ENDED),
            )

    def move(self, attempt: str, state: OfferState, sentence: str = "") -> None:
        with self._transaction():
            query = "UPDATE attempts SET state = ?, sentence = ? WHERE attempt = ?"
            self._db.change(query, (state, sentence, attempt))

    def decide(self, attempt: Attempt, state: OfferState, sentence: str = "") -> bool:
        """The operator's answer to exactly this offer; False if it waits no more. Who is accepted
        begins anew: what its earlier jobs left unfinished counts no more."""
        with self._transaction():
            query = (
                "UPDATE attempts SET state = ?, sentence = ? WHERE attempt = ? AND offer = ? "
                "AND state = ?"
            )
            values = (state, sentence, attempt.attempt, attempt.offer, OfferState.PENDING)
            done = self._db.change(query, values) > 0
            if done and state == OfferState.ALLOWED:
                self._db.change("DELETE FROM unfinished WHERE offerer = ?", (attempt.offerer,))
            return done

    # Jobs that have released something and have no result

    def add_unfinished(self, offerer: str, job: str) -> None:
        """Remember who offered it, until the job is finished or an operator accepts its offerer."""
        with self._transaction():
            self._db.change("INSERT OR IGNORE INTO unfinished VALUES (?, ?)", (offerer, job))

    def remove_unfinished(self, job: str) -> None:
        """It has a result now, whoever went on with it."""
        with self._transaction():
            self._db.change("DELETE FROM unfinished WHERE job = ?", (job,))

    def unfinished(self) -> dict[str, list[str]]:
        jobs: dict[str, list[str]] = {}
        for offerer, job in self._db.rows("SELECT offerer, job FROM unfinished ORDER BY 1, 2"):
            jobs.setdefault(offerer, []).append(job)
        return jobs

    # Commands

    def push_command(self, kind: CommandKind, attempt: str, **content: Any) -> None:
        with self._transaction():
            self._db.change(
                "INSERT INTO commands (kind, attempt, content) VALUES (?, ?, ?)",
                (kind, attempt, json.dumps(content)),
            )

    def pop_commands(self) -> list[OperatorCommand]:
        """Oldest first; each is taken once."""
        if not self._db.row("SELECT 1 FROM commands LIMIT 1"):
            return []
        with self._transaction():
            rows = self._db.rows("DELETE FROM commands RETURNING id, kind, attempt, content")
        return [
            OperatorCommand(kind=CommandKind(kind), attempt=attempt, content=json.loads(content))
            for _, kind, attempt, content in sorted(rows)
        ]

    # What the running node says of itself

    def write_status(self, name: StatusName, value: Any) -> None:
        with self._transaction():
            self._db.change(
                "INSERT OR REPLACE INTO status VALUES (?, ?)", (name, json.dumps(value))
            )

    def read_status(self, name: StatusName) -> Any:
        row = self._db.row("SELECT value FROM status WHERE name = ?", (name,))
        return json.loads(row[0]) if row else None


class ProgressReport:
    """How far each member is with the job, for people, now and then; what counts is in the
    journal."""

    def __init__(self, control_db: ControlDatabase, clock: Clock) -> None:
        self._control_db, self._clock = control_db, clock
        self._rounds: dict[str, int] = {}
        self._written = 0.0

    def clear(self) -> None:
        self._rounds = {}

    def set_round(self, server: str, t: int) -> None:
        self._rounds[server] = t

    def report(self, job: str, server: str, t: int, rounds: int) -> None:
        """``server``, which is this node, has done round t of so many; the last one is written at
        once."""
        self._rounds[server] = t
        now = self._clock.monotonic()
        if t == rounds or now - self._written > _PROGRESS:
            self._written = now
            status = {"job": job, "rounds": dict(self._rounds), "of": rounds}
            with suppress(PDMLError):
                self._control_db.write_status(StatusName.PROGRESS, status)
