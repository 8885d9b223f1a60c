"""A collection in one SQLite file: private, synced, shared with other processes.

WAL and synchronous=FULL, one writer: with NORMAL a commit returns before the log is synced, and a
power cut takes the acknowledged report back; tests/integration/collector/test_power_cut.py shows
both.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from pdml.clock import Clock
from pdml.collector.storage.records import CollectionId, Decision, Entry
from pdml.collector.storage.store import TABLES, Machine, NotAllNew, Store
from pdml.errors import DataError, InvalidInput, StorageUnavailable, because
from pdml.files import check_database, create_private

_WHAT = "the database"
_PATIENCE = 10  # seconds to wait for another process that is writing
_PAUSE = 0.002  # seconds between two attempts
_APPLICATION = 0x70646D6C  # "pdml", so that `file` and we recognise the database
# bytes that a healthy disk must have room for: more than a report needs, so that health fails
# first
_ROOM = 64 << 10
# rows per statement: few to prepare, and the interpreter's lock is passed on seldom
_PARTS = (256, 64, 16, 4, 1)
_TYPES = {"int": "INTEGER", "blob": "BLOB", "strict": "STRICT"}
_TABLES = (
    *(table.format(**_TYPES) for table in TABLES),
    # Apart from the reports, so that a repeated id is noticed before anything is sealed.
    "CREATE TABLE pdml_ids (id BLOB PRIMARY KEY, key INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    # In the order of arrival, because a table ordered by random ids would write a page for each.
    "CREATE TABLE pdml_reports (key INTEGER PRIMARY KEY, sealed BLOB) STRICT",
    "CREATE TABLE pdml_probe (one INTEGER PRIMARY KEY CHECK (one = 1), room BLOB) STRICT",
    f"PRAGMA application_id = {_APPLICATION}",
)
_USE = "UPDATE pdml_invitations SET used = 1 WHERE hash = ? AND used = 0"


class Busy(Exception):
    """Another process is writing, and nobody wants to wait for it."""


class SqliteStore(Store):
    """A collection in a file that only its owner can read, with its keys in a folder beside it.

    Guarantees
    ----------
    - Whatever the disk does becomes `StorageUnavailable`, and the next use starts with a new
      connection.
    - A file that was moved away or replaced by another collection's is noticed before it is used.
    """

    _db: sqlite3.Connection | None
    TABLES = _TABLES
    FIND = "SELECT key, sealed FROM pdml_ids JOIN pdml_reports USING (key) WHERE id = ?"
    # CROSS: in this order
    ROWS = (
        "SELECT key, id, sealed FROM pdml_ids CROSS JOIN pdml_reports USING (key) "
        "WHERE sealed IS NOT NULL ORDER BY id"
    )
    ERASE = (
        "UPDATE pdml_reports SET sealed = NULL WHERE key = (SELECT key FROM pdml_ids WHERE id = ?)"
    )
    PROBE = f"INSERT OR REPLACE INTO pdml_probe VALUES (1, randomblob({_ROOM}))"

    def __init__(
        self,
        path: Path,
        collection_id: CollectionId,
        *,
        keys: Path | None = None,
        machine: Machine | None = None,
        synchronous: str = "FULL",
        vfs: str = "",
    ) -> None:
        """Open, or make, the collection; anything but FULL is for showing that FULL is needed."""
        super().__init__(collection_id, str(path), machine or Machine())
        self.path = path
        self._synchronous = synchronous
        self._vfs = vfs
        self._inode = (0, 0)
        self._ring = ""
        _make_private(path)
        self._ring = self._open(keys or path.with_suffix(".keys"), create=True)

    def commit_at_once(self, entries: Sequence[Entry]) -> list[Decision] | None:
        if not self.lock.acquire(blocking=False):
            return None
        try:
            return self._store_all(entries, wait=False)
        except Busy:
            return None
        finally:
            self.lock.release()

    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        with self._connection() as db:
            cursor = db.execute(self.ROWS)
        while True:
            with self._connection():
                rows = self._opened(cursor.fetchmany(chunk))
            if not rows:
                return
            yield rows

    def _use_tokens(self, db: sqlite3.Connection, tokens: Sequence[bytes]) -> int:
        return db.executemany(_USE, [(token,) for token in tokens]).rowcount

    def _insert_new(self, db: sqlite3.Connection, entries: Sequence[Entry]) -> None:
        used = self._used(db)
        first = self._vault.keys.next(len(entries), used)
        ids = [entry[0] for entry in entries]
        if _insert(db, "pdml_ids", list(zip(ids, count(first), strict=False))) != len(ids):
            raise NotAllNew
        sealed = self._vault.seal(entries, used)
        if sealed[0][0] != first:
            raise StorageUnavailable("the keys were moved away just now")
        _insert(db, "pdml_reports", [(key, content) for key, _, content in sealed])

    def _has_tables(self, db: sqlite3.Connection) -> bool:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION and (application or tables):
            other = f"{self._where} is a database of something else, not a collection of pdml"
            raise InvalidInput(other)
        return bool(application)

    # The file and its connection

    @contextmanager
    def _transaction(self, *, wait: bool = True) -> Iterator[sqlite3.Connection]:
        with self._connection() as db:
            _begin(db, self.machine.clock, wait)
            with _ending(db):
                yield db

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as db:
            db.execute("BEGIN")
            with _ending(db):
                yield db

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self.lock:
            try:
                yield self._connected()
            except sqlite3.Error as error:
                self._disconnect()
                raise StorageUnavailable(f"{error}".lower()) from error

    def _connected(self) -> sqlite3.Connection:
        try:
            now = os.stat(self.path)
        except OSError as error:
            self._disconnect()
            raise StorageUnavailable(f"the database file is gone ({because(error)})") from error
        # moved away or restored: never write to a ghost
        if self._db is not None and (now.st_dev, now.st_ino) != self._inode:
            self._disconnect()
        if self._db is None:
            db = self._connect()
            # not the first time: another database may stand there now
            if self._ring and not self._is_ours(db):
                db.close()
                stranger = "another database stands in the place of this collection's"
                raise StorageUnavailable(stranger)
            self._inode, self._db = (now.st_dev, now.st_ino), db
        return self._db

    def _is_ours(self, db: sqlite3.Connection) -> bool:
        """Another database in the place of an open one must not get this one's reports."""
        own = self.collection_id.study_hash, self.collection_id.server, self._ring
        try:
            row = db.execute("SELECT study_hash, server, ring FROM pdml_collection").fetchone()
        except sqlite3.Error:
            return False
        return bool(row == own)

    def _connect(self) -> sqlite3.Connection:
        self._check()
        options = "mode=rw" + (f"&vfs={self._vfs}" if self._vfs else "")
        # `as_uri` escapes what a URI must not hold; mode=rw never makes a new, empty database in
        # place of a lost one.
        db = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{options}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_PATIENCE,
        )
        try:
            for pragma in (
                "trusted_schema = OFF",
                "journal_mode = WAL",
                f"synchronous = {self._synchronous}",
                "cache_size = -65536",
                "wal_autocheckpoint = 4000",
                # A process that was killed, or a sync that failed, may have left a commit that is
                # not on disk: from now on it counts.
                "wal_checkpoint",
                "secure_delete = ON",  # sealed bytes go too, where that costs nothing
                "busy_timeout = 0",  # `_begin` waits, or does not
            ):
                db.execute(f"PRAGMA {pragma}")
            self._check()  # what SQLite has made or taken over beside it
        except BaseException:
            db.close()
            raise
        return db

    def _check(self) -> None:
        """Another user may have put something in the place of it, or beside it, meanwhile."""
        try:
            check_database(self.path, _WHAT)
        except (DataError, OSError) as error:
            reason = str(error) if isinstance(error, DataError) else because(error)
            raise StorageUnavailable(reason) from error


def _begin(db: sqlite3.Connection, clock: Clock, wait: bool) -> None:
    """As soon as no other process is writing; without waiting raises `Busy`."""
    deadline = clock.monotonic() + _PATIENCE
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if not wait:
                raise Busy from None
            if clock.monotonic() > deadline:
                raise
            clock.sleep(_PAUSE)


@contextmanager
def _ending(db: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _insert(db: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, Any]]) -> int:
    """How many were new."""
    start = new = 0
    for size in _PARTS:
        while len(rows) - start >= size:
            values = [value for row in rows[start : start + size] for value in row]
            new += db.execute(_inserting(table, size), values).rowcount
            start += size
    return new


@cache
def _inserting(table: str, rows: int) -> str:
    """A known id is passed over; a key that has a report would be a mistake of ours."""
    conflict = " ON CONFLICT DO NOTHING" if table == "pdml_ids" else ""
    return f"INSERT INTO {table} VALUES {', '.join(['(?, ?)'] * rows)}{conflict}"


def _make_private(path: Path) -> None:
    """Close it to others; a new one is never readable by them."""
    try:
        create_private(path)
        check_database(path, _WHAT)
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise InvalidInput(f"cannot use {path} as a collection: {because(error)}") from error
    if stat.S_IMODE(mode) & 0o077:
        with suppress(OSError):  # a read-only disk, which a commit will say better
            os.chmod(path, 0o600)
