"""One SQLite file that threads of a node share. Everything passes one lock: closing it within
another thread's statement crashes the process, and a transaction belongs to one thread."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pdml.files import check_database, create_private
from pdml.formats import Format

_WHAT = "the node's database"
Values = Sequence[str | int | bytes]


class SharedDatabase:
    """An open database. Its methods raise `sqlite3.Error`, where they read what ``read_error``
    makes of it; after `close` all of them do."""

    def __init__(
        self, path: Path, *, pragmas: Sequence[str] = (), read_only: bool = False, timeout: float
    ) -> None:
        if not read_only:
            create_private(path)
        check_database(path, _WHAT)
        uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
        self._lock = threading.RLock()
        self.read_error: Callable[[sqlite3.Error], Exception] | None = None
        self._db = sqlite3.connect(
            uri, uri=True, isolation_level=None, timeout=timeout, check_same_thread=False
        )
        for pragma in pragmas:
            self.rows(f"PRAGMA {pragma}")
        try:
            check_database(path, _WHAT)  # with what SQLite has made or taken over beside it
        except BaseException:
            self.close()
            raise

    def make_tables(self, tables: str, format: Format, what: str) -> str:
        """The tables of a new database; why an existing one cannot be used, by its version."""
        (version,) = self.row("PRAGMA user_version")
        if version:
            return format.refusal(version, what)
        for statement in tables.split(";\n"):
            self.change(statement)
        self.change(f"PRAGMA user_version = {format.version}")
        return ""

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        with self._reading() as db:
            return db.execute(query, values).fetchall()

    def row(self, query: str, values: Values = ()) -> Any:
        with self._reading() as db:
            return db.execute(query, values).fetchone()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                if self.read_error is None:
                    raise
                raise self.read_error(error) from error

    def change(self, query: str, values: Values = ()) -> int:
        with self._lock:
            return self._db.execute(query, values).rowcount

    def add(self, query: str, values: Values) -> None:
        """A change that reaches the disk with the next transaction, or by `sync`."""
        with self._lock:
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(query, values)

    def sync(self) -> None:
        with self._lock:
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """On disk when it ends, with what was added before, or not at all; other threads wait."""
        with self._lock:
            try:
                if not self._db.in_transaction:
                    self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # of two errors the first one is raised
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        with self._lock:
            self._db.close()
