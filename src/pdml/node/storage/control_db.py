"""Where a node's operator and its running process meet: a small database in the folder. Nothing
listens anywhere.

The command line writes wishes and decisions; the process reads them a few times a second, and
writes what it is doing.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdml.errors import InvalidInput
from pdml.formats import Format
from pdml.node.storage.sqlite_store import Store

FORMAT = Format(name="desk", version=1)

DESK = "desk.db"
PENDING, ALLOWED, ACCEPTED, REFUSED, BEGUN, DONE, FAILED = (
    "asked",
    "allowed",
    "accepted",
    "refused",
    "begun",
    "done",
    "failed",
)
ENDED = (REFUSED, DONE, FAILED)
_KEPT = 1000  # attempts of one member that were refused, and as many that have ended otherwise

_TABLES = """
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, attempt TEXT NOT NULL UNIQUE, job TEXT NOT NULL,
    contract TEXT NOT NULL, offerer TEXT NOT NULL, offer BLOB NOT NULL,
    state TEXT NOT NULL, sentence TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS wishes (
    id INTEGER PRIMARY KEY, what TEXT NOT NULL, about TEXT NOT NULL, content TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS unfinished (
    offerer TEXT NOT NULL, job TEXT NOT NULL, PRIMARY KEY (offerer, job)
) STRICT;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
"""


def digest_of(offer: bytes) -> str:
    """sha256 of an offer as its member signed it."""
    return hashlib.sha256(offer).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One offer of a job, and what became of it here."""

    attempt: str
    job: str
    contract: str
    offerer: str
    offer: bytes
    state: str
    sentence: str

    @property
    def digest(self) -> str:
        """Of the offer as its member signed it: no other offer has it, whatever its name."""
        return digest_of(self.offer)

    def to_dict(self) -> dict[str, str]:
        """What an operator wants to know, for JSON."""
        fields = {"job": self.job, "offered_by": self.offerer, "state": self.state}
        return fields | {"sentence": self.sentence, "digest": self.digest}


def current_attempt(attempts: Sequence[Attempt]) -> Attempt | None:
    """The job that a node is in, whatever was offered since; else what was offered last."""
    under_way = [attempt for attempt in attempts if attempt.state in (ACCEPTED, BEGUN)]
    return next(reversed(under_way or attempts), None)


@dataclass(frozen=True, kw_only=True)
class OperatorCommand:
    """What somebody at this machine wants: to offer a job (its terms in ``content``), or to stop
    one.
    """

    what: str
    about: str
    content: dict[str, Any]


class ControlDatabase:
    """Open in several processes at once; every method is one transaction."""

    def __init__(self, folder: Path) -> None:
        path = folder / DESK
        try:
            self._db = Store(path, pragmas=("journal_mode=WAL",), timeout=10)
            (version,) = self._db.row("PRAGMA user_version")
            if why := FORMAT.refusal(version or 1, f"the node's desk {path}"):
                self._db.close()
                raise InvalidInput(why)
            for statement in _TABLES.split(";\n"):
                self._db.change(statement)
            if not version:  # new, or of the time before the number was written
                self._db.change(f"PRAGMA user_version = {FORMAT.version}")
        except sqlite3.Error as error:
            raise InvalidInput(f"the node's desk {path} cannot be used: {error}") from None

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._db.transaction():
                yield
        except sqlite3.Error as error:
            raise InvalidInput(f"the node's desk cannot be written: {error}") from None

    # Attempts

    def attempt(self, attempt: str) -> Attempt | None:
        return next(iter(self._attempts("WHERE attempt = ?", attempt)), None)

    def attempts(self) -> list[Attempt]:
        """All that are remembered, oldest first."""
        return self._attempts("")

    def waiting(self, offerer: str) -> int:
        """How many offers of a member the operator is asked about."""
        query = "SELECT count(*) FROM attempts WHERE offerer = ? AND state = ?"
        return int(self._db.row(query, (offerer, PENDING))[0])

    def _attempts(self, where: str, *values: str) -> list[Attempt]:
        columns = "attempt, job, contract, offerer, offer, state, sentence"
        rows = self._db.rows(f"SELECT {columns} FROM attempts {where} ORDER BY id", values)
        return [Attempt(**dict(zip(columns.split(", "), row, strict=True))) for row in rows]

    def put(self, attempt: Attempt) -> None:
        """Remember an offer; what was remembered longest ago and has ended is forgotten. No member
        makes a node forget another's offers, nor by offers that are refused those that were not.
        """
        with self._transaction():
            values = (
                attempt.attempt,
                attempt.job,
                attempt.contract,
                attempt.offerer,
                attempt.offer,
                attempt.state,
                attempt.sentence,
            )
            query = (
                "INSERT INTO attempts (attempt, job, contract, offerer, offer, state, "
                "sentence) VALUES (?, ?, ?, ?, ?, ?, ?)"
            )
            self._db.change(query, values)
            marks = ", ".join("?" * len(ENDED))
            ended = (
                "SELECT id, row_number() OVER (PARTITION BY state = ? ORDER BY id DESC) AS place "
                f"FROM attempts WHERE offerer = ? AND state IN ({marks})"
            )
            oldest = f"SELECT id FROM ({ended}) WHERE place > {_KEPT}"
            self._db.change(
                f"DELETE FROM attempts WHERE id IN ({oldest})",
                (REFUSED, attempt.offerer, *ENDED),
            )

    def move(self, attempt: str, state: str, sentence: str = "") -> None:
        """Another state."""
        with self._transaction():
            query = "UPDATE attempts SET state = ?, sentence = ? WHERE attempt = ?"
            self._db.change(query, (state, sentence, attempt))

    def decide(self, attempt: Attempt, state: str, sentence: str = "") -> bool:
        """The operator's answer to exactly this offer; False if it waits no more. Who is accepted
        begins anew: what its earlier jobs left unfinished is held against it no more.
        """
        with self._transaction():
            query = (
                "UPDATE attempts SET state = ?, sentence = ? WHERE attempt = ? AND offer = ? "
                "AND state = ?"
            )
            values = (state, sentence, attempt.attempt, attempt.offer, PENDING)
            done = self._db.change(query, values) > 0
            if done and state == ALLOWED:
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
        """The jobs that count against members, by their offerers."""
        jobs: dict[str, list[str]] = {}
        for offerer, job in self._db.rows("SELECT offerer, job FROM unfinished ORDER BY 1, 2"):
            jobs.setdefault(offerer, []).append(job)
        return jobs

    # Wishes

    def push_command(self, what: str, about: str, **content: Any) -> None:
        with self._transaction():
            self._db.change(
                "INSERT INTO wishes (what, about, content) VALUES (?, ?, ?)",
                (what, about, json.dumps(content)),
            )

    def pop_commands(self) -> list[OperatorCommand]:
        """What is wished for; each is taken once."""
        if not self._db.row("SELECT 1 FROM wishes LIMIT 1"):
            return []
        with self._transaction():
            rows = self._db.rows("DELETE FROM wishes RETURNING id, what, about, content")
        return [
            OperatorCommand(what=what, about=about, content=json.loads(content))
            for _, what, about, content in sorted(rows)
        ]

    # Facts

    def write_status(self, name: str, value: Any) -> None:
        with self._transaction():
            self._db.change("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def read_status(self, name: str) -> Any:
        row = self._db.row("SELECT value FROM facts WHERE name = ?", (name,))
        return json.loads(row[0]) if row else None
