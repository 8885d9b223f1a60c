"""A collection in a PostgreSQL database (one collection, one database or schema).

Every writing transaction first locks the collection's only row: writers take turns, also when
several services or commands use the same database, so that freezing waits for commits and two
reports never race for a token.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from pdml.collector.storage.records import CollectionId, Entry
from pdml.collector.storage.store import TABLES, Machine, NotAllNew, Store
from pdml.errors import InvalidInput, StorageUnavailable

_Connection = psycopg.Connection[tuple[Any, ...]]
_TYPES = {"int": "bigint", "blob": "bytea", "strict": ""}
_TABLES = (
    *(table.format(**_TYPES) for table in TABLES),
    "CREATE TABLE pdml_reports (key bigint NOT NULL, id bytea PRIMARY KEY, sealed bytea)",
    # random digits do not compress
    "ALTER TABLE pdml_reports ALTER COLUMN sealed SET STORAGE EXTERNAL",
    "CREATE TABLE pdml_probe (one bigint PRIMARY KEY CHECK (one = 1), count bigint)",
)
_KNOWN = "SELECT 1 FROM pdml_reports WHERE id = ANY(?::bytea[]) LIMIT 1"
_USE = "UPDATE pdml_invitations SET used = 1 WHERE hash = ANY(?::bytea[]) AND used = 0"
_COPY = "COPY pdml_reports (key, id, sealed) FROM STDIN (FORMAT binary)"
# three fields, each with its length before it; the sealed bytes follow
_ROW = struct.Struct("!hiqi16si")
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL = b"\xff\xff"


class _Statements:
    """A connection that takes statements as SQLite writes them."""

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        return self.connection.execute(_translated(statement), values, binary=True)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self.connection.cursor().executemany(_translated(statement), rows)


class PostgresStore(Store):
    """A collection behind a postgresql:// address, with its keys in a folder of this machine."""

    _db: _Connection | None
    TABLES = _TABLES
    LOCK = f"{Store.LOCK} FOR UPDATE"
    FIND = "SELECT key, sealed FROM pdml_reports WHERE id = ?"
    ROWS = "SELECT key, id, sealed FROM pdml_reports WHERE sealed IS NOT NULL ORDER BY id"
    ERASE = "UPDATE pdml_reports SET sealed = NULL WHERE id = ?"
    PROBE = (
        "INSERT INTO pdml_probe VALUES (1, 1) "
        "ON CONFLICT (one) DO UPDATE SET count = pdml_probe.count + 1"
    )

    def __init__(
        self,
        address: str,
        collection_id: CollectionId,
        *,
        keys: Path,
        create: bool = True,
        machine: Machine | None = None,
    ) -> None:
        super().__init__(collection_id, "the PostgreSQL database", machine or Machine())
        self._address = address
        self._open(keys, create=create)

    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        with self._reading() as db, self._streamed(db) as cursor:
            while rows := cursor.fetchmany(chunk):
                yield self._opened(rows)

    def _all_rows(self, db: _Statements) -> Iterable[Sequence[Any]]:
        with self._streamed(db) as cursor:
            yield from cursor

    @contextmanager
    def _streamed(self, db: _Statements) -> Iterator[Any]:
        """All reports, a part at a time instead of all in memory."""
        with db.connection.cursor("pdml_rows", binary=True) as cursor:
            cursor.execute(self.ROWS)
            yield cursor

    def _use_tokens(self, db: _Statements, tokens: Sequence[bytes]) -> int:
        return db.execute(_USE, (tokens,)).rowcount

    def _insert_new(self, db: _Statements, entries: Sequence[Entry]) -> None:
        """Asked first rather than tried: a failed COPY would leave an id in PostgreSQL's own log.
        Its binary format by hand: the library's rows take several times as long."""
        ids = list({entry[0] for entry in entries})
        if len(ids) < len(entries) or db.execute(_KNOWN, (ids,)).fetchone() is not None:
            raise NotAllNew
        parts = [_HEAD]
        for key, id, sealed in self._vault.seal(entries, self._used(db)):
            parts += [_ROW.pack(3, 8, key, 16, id, len(sealed)), sealed]
        with db.connection.cursor().copy(_COPY) as copying:
            copying.write(b"".join([*parts, _TAIL]))

    def _has_tables(self, db: _Statements) -> bool:
        # "pdml": two that start at once must not both create
        db.execute("SELECT pg_advisory_xact_lock(1885629804)")
        exists = db.execute("SELECT to_regclass('pdml_collection') IS NOT NULL").fetchone()
        return exists == (True,)

    @contextmanager
    def _transaction(self, *, wait: bool = True) -> Iterator[_Statements]:
        with self.lock:
            try:
                if self._db is None:
                    self._db = self._connect()
                with self._db.transaction():
                    yield _Statements(self._db)
            except psycopg.Error as error:
                self._disconnect()
                first = (str(error).splitlines() or [type(error).__name__])[0]  # others may quote
                raise StorageUnavailable(first.lower()) from None

    def _reading(self) -> Any:
        return self._transaction()

    def _connect(self) -> _Connection:
        db: _Connection = psycopg.connect(self._address, autocommit=True, connect_timeout=10)
        try:
            db.execute("SET synchronous_commit = on")
            db.execute("SET client_min_messages = error")
            (fsync,) = db.execute("SHOW fsync").fetchone() or ("",)
            if fsync != "on":
                why = "it would forget acknowledged reports in a power cut"
                raise InvalidInput(f"the PostgreSQL server runs with fsync = off: {why}")
        except BaseException:
            db.close()
            raise
        return db


@cache
def _translated(statement: str) -> str:
    return statement.replace("?", "%s")
