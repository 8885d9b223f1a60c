"""A collection in one SQLite file: WAL, synchronous=FULL, one writer.

FULL is what makes an acknowledgement true: with NORMAL a commit returns before the log is synced, and a power cut takes it
back (tests/collect/test_power_cut.py shows both).
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

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
_PATIENCE = 10  # seconds to wait for another process that is writing
_ROOM = 64 << 10  # bytes that a healthy disk must have room for: more than a report needs, so that health fails first
_PARTS = (256, 64, 16, 4, 1)  # rows per statement: few statements to prepare, and the interpreter's lock is passed on seldom
_USE = "UPDATE invitations SET used = 1 WHERE hash = ? AND used = 0"
_ERASE = "UPDATE reports SET digest = NULL, epsilon = NULL, label = NULL, hour = NULL, features = NULL WHERE id = ?"
_TALLY = "INSERT INTO tallies VALUES {} ON CONFLICT DO UPDATE SET reports = reports + excluded.reports"


class _NotAll(Exception):
    """The entries need a closer look, one by one."""


class _Busy(Exception):
    """Another process is writing, and nobody wants to wait for it."""


class SqliteStore:
    """`Store` in a file that only its owner can read."""

    def __init__(self, path: Path, identity: Identity, *, synchronous: str = "FULL", vfs: str = "") -> None:
        """Open, or make, the collection at ``path``; anything but FULL is for showing that FULL is needed."""
        self.identity = identity
        self._path = path
        self._synchronous = synchronous
        self._vfs = vfs
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._inode = (0, 0)
        _make_private(path)
        try:
            with self._transaction() as db:
                self._found(db, identity)
        except StorageUnavailable as error:
            raise InvalidInput(f"cannot use {path} as a collection: {error}") from error
        except BaseException:
            self.close()
            raise

    def commit_at_once(self, entries: Sequence[Entry]) -> list[Outcome] | None:
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._store_all(entries, wait=False)
        except _Busy:
            return None
        finally:
            self._lock.release()

    def commit(self, entries: Sequence[Entry]) -> list[Outcome]:
        outcomes = self._store_all(entries)
        if outcomes is not None:
            return outcomes
        with self._transaction() as db:
            state = _state(db)
            outcomes = [_decide(db, entry, state) for entry in entries]
            _count(db, entries, outcomes)
            return outcomes

    def _store_all(self, entries: Sequence[Entry], *, wait: bool = True) -> list[Outcome] | None:
        """The common case at full speed: open, every entry new and in time, every token fresh. Otherwise None, and nothing done."""
        if any([entry[7] for entry in entries]):  # barred
            return None
        outcomes = [STORED] * len(entries)
        with suppress(_NotAll), self._transaction(wait=wait) as db:
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
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO probe VALUES (1, randomblob(?))", (_ROOM,))

    def totals(self) -> Totals:
        with self._transaction("BEGIN") as db:
            row = db.execute("SELECT state, withdrawn, invited, invited_used, frozen_hour, digest FROM collection").fetchone()
            tallies = {(epsilon, label): n for epsilon, label, n in db.execute("SELECT epsilon, label, reports FROM tallies") if n}
        return totals_of(row, tallies)

    def invite(self, hashes: Iterable[bytes]) -> None:
        with self._transaction() as db:
            if _state(db) is State.FROZEN:
                raise frozen_refuses("an invitation to it would lead nowhere")
            added = db.executemany("INSERT INTO invitations (hash) VALUES (?)", ((each,) for each in hashes)).rowcount
            db.execute("UPDATE collection SET invited = invited + ?", (added,))

    def withdraw(self, report: bytes) -> bool:
        with self._transaction() as db:
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
        with self._guarded() as db:
            db.execute(f"PRAGMA busy_timeout = {1000 * _PATIENCE}")
            (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # the log still holds the page as it was
            db.execute("PRAGMA busy_timeout = 0")
        if busy:
            raise StorageUnavailable(
                "the report is withdrawn, but the database's log still holds its bytes because another program is reading it: "
                "withdraw it again when that has ended"
            )
        return new

    def set_open(self, is_open: bool) -> None:
        with self._transaction() as db:
            if _state(db) is State.FROZEN:
                raise frozen_refuses("it can neither be opened nor closed")
            db.execute("UPDATE collection SET state = ?", (State.OPEN if is_open else State.CLOSED,))

    def freeze(self, hour: int) -> int:
        with self._transaction() as db:
            db.execute("UPDATE collection SET state = 'frozen', frozen_hour = ? WHERE state <> 'frozen'", (hour,))
            (first,) = db.execute("SELECT frozen_hour FROM collection").fetchone()
            return int(first)

    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        with self._guarded() as db:
            cursor = db.execute("SELECT features, label, epsilon FROM reports INDEXED BY sqlite_autoindex_reports_1 ORDER BY id")
        while True:
            with self._guarded():
                rows = cursor.fetchmany(chunk)
            if not rows:
                return
            if kept := [row for row in rows if row[0] is not None]:
                yield kept

    def set_digest(self, digest: str) -> None:
        with self._transaction() as db:
            db.execute("UPDATE collection SET digest = ?", (digest,))

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    # Connections

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE", *, wait: bool = True) -> Iterator[sqlite3.Connection]:
        with self._guarded() as db:
            _begin(db, begin, wait)
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        """The connection; whatever the disk does to it becomes `StorageUnavailable`, and the next use starts afresh."""
        with self._lock:
            try:
                yield self._connected()
            except sqlite3.Error as error:
                self.close()
                raise StorageUnavailable(f"{error}".lower()) from error

    def _connected(self) -> sqlite3.Connection:
        try:
            now = os.stat(self._path)
        except OSError as error:
            self.close()
            raise StorageUnavailable(f"the database file is gone ({(error.strerror or '').lower()})") from error
        if self._db is not None and (now.st_dev, now.st_ino) != self._inode:  # moved away or restored: never write to a ghost
            self.close()
        if self._db is None:
            db = self._connect()
            if self._inode != (0, 0):  # not the first time: another collection may stand there now
                _check_same(db, self.identity)
            self._inode, self._db = (now.st_dev, now.st_ino), db
        return self._db

    def _connect(self) -> sqlite3.Connection:
        options = "mode=rw" + (f"&vfs={self._vfs}" if self._vfs else "")
        # `as_uri` escapes what a URI must not hold; mode=rw never makes a new, empty database in place of a lost one.
        db = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?{options}", uri=True, isolation_level=None, check_same_thread=False, timeout=_PATIENCE
        )
        try:
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {self._synchronous}")
            db.execute("PRAGMA cache_size = -65536")
            db.execute("PRAGMA wal_autocheckpoint = 4000")
            db.execute("PRAGMA busy_timeout = 0")  # `_begin` waits, or does not
        except BaseException:
            db.close()
            raise
        return db

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
            raise InvalidInput(f"{self._path} is a database of something else, not a collection of pdml")
        check_schema(schema, str(self._path))
        study_id, study_hash, server, width, classes = db.execute(
            "SELECT study_id, study_hash, server, width, classes FROM collection"
        ).fetchone()
        found = Identity(study_id=study_id, study_hash=study_hash, server=server, width=width, classes=classes)
        check_identity(found, asked, str(self._path))


def _begin(db: sqlite3.Connection, begin: str, wait: bool) -> None:
    """Begin as soon as no other process is writing; without waiting raises `_Busy`."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            db.execute(begin)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if not wait:
                raise _Busy from None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def _check_same(db: sqlite3.Connection, asked: Identity) -> None:
    """Whoever puts another database in the place of an open one must not get this collection's reports."""
    try:
        found = db.execute("SELECT study_hash, server FROM collection").fetchone()
    except sqlite3.Error:
        found = None
    if found != (asked.study_hash, asked.server):
        db.close()
        raise StorageUnavailable("another database stands in the place of this collection's")


def _state(db: sqlite3.Connection) -> State:
    return State(db.execute("SELECT state FROM collection").fetchone()[0])


def _decide(db: sqlite3.Connection, entry: Entry, state: State) -> Outcome:
    """One entry by itself. The id comes first: whoever repeats a report gets the first answer, whatever has happened since."""
    known = db.execute("SELECT digest, hour FROM reports WHERE id = ?", (entry.id,)).fetchone()
    if known is not None:
        digest, hour = known
        return Outcome("withdrawn") if digest is None else Outcome("replayed", hour) if digest == entry.digest else Outcome("id_conflict")
    if state is not State.OPEN or entry.barred:
        return Outcome("frozen" if state is State.FROZEN else entry.barred or "closed")
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


def _make_private(path: Path) -> None:
    """An existing file that others may read is closed to them; a new one is never readable by them, not even for a moment.

    An existing file is not opened: closing it again would drop the locks of another connection in this process (POSIX).
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return
    except FileExistsError:
        pass
    except OSError as error:
        raise InvalidInput(f"cannot use {path} as a collection: {(error.strerror or str(error)).lower()}") from error
    try:
        found = os.stat(path)
    except OSError as error:  # a link that leads nowhere
        raise InvalidInput(f"cannot use {path} as a collection: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInput(f"cannot use {path} as a collection: it is not a file")
    if stat.S_IMODE(found.st_mode) & 0o077:
        with suppress(OSError):  # a read-only disk, which a commit will say better
            os.chmod(path, 0o600)
