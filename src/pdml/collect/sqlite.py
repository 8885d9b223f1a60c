"""A collection in one SQLite file: WAL, synchronous=FULL, one writer."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from pdml.collect.sqlite_file import Busy, SqliteFile
from pdml.collect.store import (
    SCHEMA,
    STORED,
    Entry,
    Identity,
    Outcome,
    State,
    Totals,
    check_identity,
    check_schema,
    decided,
    frozen_refuses,
    tally,
    tokens_used,
    totals_of,
)
from pdml.errors import InvalidInput, StorageUnavailable

_APPLICATION = 0x70646D6C  # "pdml", so that `file` and we recognise the database
_TABLES = """
CREATE TABLE collection (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    study_id TEXT NOT NULL, study_hash TEXT NOT NULL, server TEXT NOT NULL, width INTEGER NOT NULL, classes INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'frozen')),
    frozen_hour INTEGER, digest TEXT NOT NULL DEFAULT '',
    withdrawn INTEGER NOT NULL DEFAULT 0, invited INTEGER NOT NULL DEFAULT 0, invited_used INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE probe (one INTEGER PRIMARY KEY CHECK (one = 1), room BLOB NOT NULL) STRICT;
-- Withdrawn: all but the id is NULL. Rows keep the order of arrival because a table ordered by random ids would write a page for each.
CREATE TABLE reports (
    row INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, digest BLOB, epsilon INTEGER, label INTEGER, hour INTEGER, features BLOB
) STRICT;
CREATE TABLE tallies (epsilon INTEGER NOT NULL, label INTEGER NOT NULL, reports INTEGER NOT NULL, PRIMARY KEY (epsilon, label)) STRICT;
-- No link to the report: who knows whose token it was must not find the report by it.
CREATE TABLE invitations (hash BLOB PRIMARY KEY, used INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
"""
_ROOM = 64 << 10  # bytes that a healthy disk must have room for: more than a report needs, so that health fails first
_PARTS = (256, 64, 16, 4, 1)  # rows per statement: few statements to prepare, and the interpreter's lock is passed on seldom
_USE = "UPDATE invitations SET used = 1 WHERE hash = ? AND used = 0"
_ERASE = "UPDATE reports SET digest = NULL, epsilon = NULL, label = NULL, hour = NULL, features = NULL WHERE id = ?"
_TALLY = "INSERT INTO tallies VALUES {} ON CONFLICT DO UPDATE SET reports = reports + excluded.reports"


class _NotAll(Exception):
    """The entries need a closer look, one by one."""


class SqliteStore:
    """`Store` in a file that only its owner can read."""

    def __init__(self, path: Path, identity: Identity, *, synchronous: str = "FULL", vfs: str = "") -> None:
        """Open, or make, the collection at ``path``; anything but FULL is for showing that FULL is needed."""
        self.identity = identity
        self._file = SqliteFile(path, self._is_ours, synchronous=synchronous, vfs=vfs)
        try:
            with self._file.transaction() as db:
                self._found(db, identity)
        except StorageUnavailable as error:
            raise InvalidInput(f"cannot use {path} as a collection: {error}") from error
        except BaseException:
            self.close()
            raise

    def commit_at_once(self, entries: Sequence[Entry]) -> list[Outcome] | None:
        if not self._file.lock.acquire(blocking=False):
            return None
        try:
            return self._store_all(entries, wait=False)
        except Busy:
            return None
        finally:
            self._file.lock.release()

    def commit(self, entries: Sequence[Entry]) -> list[Outcome]:
        outcomes = self._store_all(entries)
        if outcomes is not None:
            return outcomes
        with self._file.transaction() as db:
            state = _state(db)
            outcomes = [_decide(db, entry, state) for entry in entries]
            _count(db, entries, outcomes)
            return outcomes

    def _store_all(self, entries: Sequence[Entry], *, wait: bool = True) -> list[Outcome] | None:
        """The common case at full speed: open, every entry new and in time, every token fresh. Otherwise None, and nothing done."""
        if any([entry[7] for entry in entries]):  # barred
            return None
        outcomes = [STORED] * len(entries)
        with suppress(_NotAll), self._file.transaction(wait=wait) as db:
            stored = 0
            for part in _parts(entries):
                values = [value for entry in part for value in entry[:6]]
                stored += db.execute(_insert(len(part)), values).rowcount
            tokens = [(entry[6],) for entry in entries if entry[6]]
            fresh = db.executemany(_USE, tokens).rowcount if tokens else 0
            if stored != len(entries) or fresh != len(tokens):
                raise _NotAll
            _count(db, entries, outcomes)
            return outcomes
        return None

    def probe(self) -> None:
        with self._file.transaction() as db:
            db.execute("INSERT OR REPLACE INTO probe VALUES (1, randomblob(?))", (_ROOM,))

    def totals(self) -> Totals:
        with self._file.transaction("BEGIN") as db:
            row = db.execute("SELECT state, withdrawn, invited, invited_used, frozen_hour, digest FROM collection").fetchone()
            tallies = {(epsilon, label): n for epsilon, label, n in db.execute("SELECT epsilon, label, reports FROM tallies") if n}
        return totals_of(row, tallies)

    def invitation(self, token: bytes) -> tuple[State, bool | None]:
        with self._file.transaction("BEGIN") as db:
            row = db.execute("SELECT used FROM invitations WHERE hash = ?", (token,)).fetchone()
            return _state(db), None if row is None else bool(row[0])

    def invite(self, hashes: Iterable[bytes]) -> None:
        with self._file.transaction() as db:
            if _state(db) is State.FROZEN:
                raise frozen_refuses("an invitation to it would lead nowhere")
            added = db.executemany("INSERT INTO invitations (hash) VALUES (?)", ((each,) for each in hashes)).rowcount
            db.execute("UPDATE collection SET invited = invited + ?", (added,))

    def withdraw(self, report: bytes) -> bool:
        with self._file.transaction() as db:
            db.execute("PRAGMA secure_delete = ON")  # what was there is overwritten, not only unlinked
            if _state(db) is State.FROZEN:
                raise frozen_refuses("nothing can be withdrawn from it any more")
            found = db.execute("SELECT epsilon, label FROM reports WHERE id = ?", (report,)).fetchone()
            if found is None:
                raise InvalidInput(f"there is no report {report.hex()} in this collection")
            new = found[0] is not None
            if new:
                db.execute("UPDATE tallies SET reports = reports - 1 WHERE epsilon = ? AND label = ?", found)
                db.execute("UPDATE collection SET withdrawn = withdrawn + 1")
                db.execute(_ERASE, (report,))
        if not self._file.empty_log():  # which holds the page as it was
            raise StorageUnavailable(
                "the report is withdrawn, but the database's log still holds its bytes because another program is reading it: "
                "withdraw it again when that has ended"
            )
        return new

    def set_open(self, is_open: bool) -> None:
        with self._file.transaction() as db:
            if _state(db) is State.FROZEN:
                raise frozen_refuses("it can neither be opened nor closed")
            db.execute("UPDATE collection SET state = ?", (State.OPEN if is_open else State.CLOSED,))

    def freeze(self, hour: int) -> int:
        with self._file.transaction() as db:
            db.execute("UPDATE collection SET state = 'frozen', frozen_hour = ? WHERE state <> 'frozen'", (hour,))
            (first,) = db.execute("SELECT frozen_hour FROM collection").fetchone()
            return int(first)

    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        with self._file.connection() as db:
            cursor = db.execute("SELECT features, label, epsilon FROM reports INDEXED BY sqlite_autoindex_reports_1 ORDER BY id")
        while True:
            with self._file.connection():
                rows = cursor.fetchmany(chunk)
            if not rows:
                return
            if kept := [row for row in rows if row[0] is not None]:
                yield kept

    def set_digest(self, digest: str) -> None:
        with self._file.transaction() as db:
            db.execute("UPDATE collection SET digest = ?", (digest,))

    def close(self) -> None:
        self._file.close()

    def _is_ours(self, db: sqlite3.Connection) -> bool:
        """Whoever puts another database in the place of an open one must not get this collection's reports."""
        try:
            found = db.execute("SELECT study_hash, server FROM collection").fetchone()
        except sqlite3.Error:
            return False
        return bool(found == (self.identity.study_hash, self.identity.server))

    def _found(self, db: sqlite3.Connection, asked: Identity) -> None:
        """Check whose collection this is, or make it in an empty file."""
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        if application == 0 and schema == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            for statement in _TABLES.split(";\n"):
                if statement.strip():
                    db.execute(statement)
            values = (asked.study_id, asked.study_hash, asked.server, asked.width, asked.classes)
            db.execute("INSERT INTO collection (one, study_id, study_hash, server, width, classes) VALUES (1, ?, ?, ?, ?, ?)", values)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")
            return
        if application != _APPLICATION:
            raise InvalidInput(f"{self._file.path} is a database of something else, not a collection of pdml")
        check_schema(schema, str(self._file.path))
        study_id, study_hash, server, width, classes = db.execute(
            "SELECT study_id, study_hash, server, width, classes FROM collection"
        ).fetchone()
        found = Identity(study_id=study_id, study_hash=study_hash, server=server, width=width, classes=classes)
        check_identity(found, asked, str(self._file.path))


def _state(db: sqlite3.Connection) -> State:
    return State(db.execute("SELECT state FROM collection").fetchone()[0])


def _decide(db: sqlite3.Connection, entry: Entry, state: State) -> Outcome:
    """One entry by itself."""
    known = db.execute("SELECT digest, hour FROM reports WHERE id = ?", (entry.id,)).fetchone()
    if (outcome := decided(entry, state, known)) is not None:
        return outcome
    if entry.token and db.execute(_USE, (entry.token,)).rowcount == 0:
        issued = db.execute("SELECT 1 FROM invitations WHERE hash = ?", (entry.token,)).fetchone()
        return Outcome("token_used" if issued else "token_unknown")
    db.execute(_insert(1), entry[:6])
    return STORED


@cache
def _insert(rows: int) -> str:
    """Insert so many rows while the collection is open."""
    return (
        "INSERT INTO reports (id, digest, epsilon, label, hour, features) "
        f"SELECT * FROM (VALUES {', '.join(['(?, ?, ?, ?, ?, ?)'] * rows)}) WHERE (SELECT state FROM collection) = 'open' "
        "ON CONFLICT DO NOTHING"
    )


def _parts(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    start = 0
    for size in _PARTS:
        while len(entries) - start >= size:
            yield entries[start : start + size]
            start += size


def _count(db: sqlite3.Connection, entries: Sequence[Entry], outcomes: Sequence[Outcome]) -> None:
    """Keep the totals in step with the reports, in the same transaction."""
    if rows := tally(entries, outcomes):
        db.execute(_TALLY.format(", ".join(["(?, ?, ?)"] * len(rows))), [value for row in rows for value in row])
    if used := tokens_used(entries, outcomes):
        db.execute("UPDATE collection SET invited_used = invited_used + ?", (used,))
