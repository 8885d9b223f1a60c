"""One SQLite file with one connection: private, synced, shared with other processes, and never a
ghost of itself.

FULL is what makes an acknowledgement true: with NORMAL a commit returns before the log is synced,
and a power cut takes it back (tests/collector/test_power_cut.py shows both).
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pdml.errors import DataError, InvalidInput, StorageUnavailable, because
from pdml.ownership import check_database

_WHAT = "the database"
PATIENCE = 10  # seconds to wait for another process that is writing


class Busy(Exception):
    """Another process is writing, and nobody wants to wait for it."""


class SqliteFile:
    """The connection to a file that only its owner can read.

    Guarantees
    ----------
    - Whatever the disk does becomes `StorageUnavailable`, and the next use starts with a new
      connection.
    - A file that was moved away or replaced is noticed before it is used; ``is_ours`` says whether
      the new one will do.
    """

    def __init__(
        self,
        path: Path,
        is_ours: Callable[[sqlite3.Connection], bool],
        *,
        synchronous: str = "FULL",
        vfs: str = "",
    ) -> None:
        self.path = path
        self.lock = threading.RLock()
        self._is_ours = is_ours
        self._synchronous = synchronous
        self._vfs = vfs
        self._db: sqlite3.Connection | None = None
        self._inode = (0, 0)
        _make_private(path)

    @contextmanager
    def transaction(
        self, begin: str = "BEGIN IMMEDIATE", *, wait: bool = True
    ) -> Iterator[sqlite3.Connection]:
        """Committed at the end of the block, or rolled back; without ``wait`` raises `Busy` while
        another process writes.
        """
        with self.connection() as db:
            _begin(db, begin, wait)
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        with self.lock:
            try:
                yield self._connected()
            except sqlite3.Error as error:
                self.close()
                raise StorageUnavailable(f"{error}".lower()) from error

    def close(self) -> None:
        with self.lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _connected(self) -> sqlite3.Connection:
        try:
            now = os.stat(self.path)
        except OSError as error:
            self.close()
            raise StorageUnavailable(
                f"the database file is gone ({(error.strerror or '').lower()})"
            ) from error
        # moved away or restored: never write to a ghost
        if self._db is not None and (now.st_dev, now.st_ino) != self._inode:
            self.close()
        if self._db is None:
            db = self._connect()
            # not the first time: another database may stand there now
            if self._inode != (0, 0) and not self._is_ours(db):
                db.close()
                raise StorageUnavailable(
                    "another database stands in the place of this collection's"
                )
            self._inode, self._db = (now.st_dev, now.st_ino), db
        return self._db

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
            timeout=PATIENCE,
        )
        try:
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {self._synchronous}")
            db.execute("PRAGMA cache_size = -65536")
            db.execute("PRAGMA wal_autocheckpoint = 4000")
            db.execute("PRAGMA busy_timeout = 0")  # `_begin` waits, or does not
            self._check()  # what SQLite has made or taken over beside it
        except BaseException:
            db.close()
            raise
        return db

    def _check(self) -> None:
        """Another user may have put something in the place of it, or beside it, meanwhile."""
        try:
            check_database(self.path, _WHAT)
        except DataError as error:
            raise StorageUnavailable(str(error)) from error
        except OSError as error:
            raise StorageUnavailable(because(error)) from error


def _begin(db: sqlite3.Connection, begin: str, wait: bool) -> None:
    """Begin as soon as no other process is writing; without waiting raises `Busy`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            db.execute(begin)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if not wait:
                raise Busy from None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def _make_private(path: Path) -> None:
    """An existing file that others may read is closed to them, and one that they made is refused; a
    new one is never readable by them, not even for a moment.

    An existing file is not opened: closing it again would drop the locks of another connection in
    this process (POSIX).
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        check_database(path, _WHAT)
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise InvalidInput(f"cannot use {path} as a collection: {because(error)}") from error
    if stat.S_IMODE(mode) & 0o077:
        with suppress(OSError):  # a read-only disk, which a commit will say better
            os.chmod(path, 0o600)
