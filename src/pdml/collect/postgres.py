"""A collection in a PostgreSQL database (one collection, one database or schema), with the promises of `Store`.

Every writing transaction first locks the collection's only row: writers take turns, also when several services or commands
use the same database, so that freezing waits for commits and two reports never race for a token.
"""

import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

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
    no_collection,
    tally,
    tokens_used,
    totals_of,
)
from pdml.errors import InvalidInput, StorageUnavailable

_TABLES = """
CREATE TABLE pdml_collection (
    one integer PRIMARY KEY CHECK (one = 1), schema integer NOT NULL,
    study_id text NOT NULL, study_hash text NOT NULL, server text NOT NULL, width integer NOT NULL, classes integer NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'frozen')),
    frozen_hour bigint, digest text NOT NULL DEFAULT '',
    withdrawn bigint NOT NULL DEFAULT 0, invited bigint NOT NULL DEFAULT 0, invited_used bigint NOT NULL DEFAULT 0,
    probes bigint NOT NULL DEFAULT 0
);
CREATE TABLE pdml_reports (id bytea PRIMARY KEY, digest bytea, epsilon bigint, label integer, hour integer, features bytea);
ALTER TABLE pdml_reports ALTER COLUMN features SET STORAGE EXTERNAL; -- random digits do not shrink
CREATE TABLE pdml_tallies (epsilon bigint, label integer, reports bigint NOT NULL, PRIMARY KEY (epsilon, label));
CREATE TABLE pdml_invitations (hash bytea PRIMARY KEY, used boolean NOT NULL DEFAULT false);
"""
_COPY = "COPY pdml_reports (id, digest, epsilon, label, hour, features) FROM STDIN (FORMAT binary)"
_TALLY = (
    "INSERT INTO pdml_tallies SELECT * FROM unnest(%s::bigint[], %s::integer[], %s::bigint[]) "
    "ON CONFLICT (epsilon, label) DO UPDATE SET reports = pdml_tallies.reports + excluded.reports"
)
_KNOWN = "SELECT 1 FROM pdml_reports WHERE id = ANY(%b::bytea[]) LIMIT 1"
_FRESH = "SELECT count(*) FROM pdml_invitations WHERE hash = ANY(%b::bytea[]) AND NOT used"
_ERASE = "UPDATE pdml_reports SET digest = NULL, epsilon = NULL, label = NULL, hour = NULL, features = NULL WHERE id = %s"
_USE = "UPDATE pdml_invitations SET used = true WHERE hash = ANY(%b::bytea[]) AND NOT used"
_ROW = struct.Struct("!hi16si32siqiiiii")  # six fields, each with its length before it; the features' bytes follow
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL = b"\xff\xff"

_Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresStore:
    """`Store` behind a postgresql:// address."""

    def __init__(self, address: str, identity: Identity, *, create: bool = True) -> None:
        self.identity = identity
        self._address = address
        self._lock = threading.RLock()
        self._db: _Connection | None = None
        try:
            with self._guarded() as db, db.transaction():
                self._found(db, identity, create)
        except StorageUnavailable as error:
            raise InvalidInput(f"cannot use the PostgreSQL database as a collection: {error}") from error
        except BaseException:
            self.close()
            raise

    def commit(self, entries: Sequence[Entry]) -> list[Outcome]:
        with self._transaction() as (db, state):
            outcomes = self._store_all(db, entries) if state is State.OPEN and not any([entry[7] for entry in entries]) else None
            if outcomes is None:
                outcomes = [_decide(db, entry, state) for entry in entries]
            if rows := tally(entries, outcomes):
                db.execute(_TALLY, [list(column) for column in zip(*rows, strict=True)])
            if used := tokens_used(entries, outcomes):
                db.execute("UPDATE pdml_collection SET invited_used = invited_used + %s", (used,))
            return outcomes

    @staticmethod
    def _store_all(db: _Connection, entries: Sequence[Entry]) -> list[Outcome] | None:
        """The common case at full speed: every entry new and every token fresh. Otherwise None, and nothing done.

        Asked first rather than tried, which the lock makes safe: a failed COPY would leave an id in PostgreSQL's own log.
        """
        ids = {entry[0] for entry in entries}
        tokens = [entry[6] for entry in entries if entry[6]]
        if len(ids) < len(entries) or db.execute(_KNOWN, (list(ids),)).fetchone() is not None:
            return None
        if tokens and (len(set(tokens)) < len(tokens) or db.execute(_FRESH, (tokens,)).fetchone() != (len(tokens),)):
            return None
        with db.cursor().copy(_COPY) as copy:
            copy.write(_binary(entries))
        if tokens:
            db.execute(_USE, (tokens,))
        return [STORED] * len(entries)

    def probe(self) -> None:
        with self._transaction() as (db, _):
            db.execute("UPDATE pdml_collection SET probes = probes + 1")

    def totals(self) -> Totals:
        with self._guarded() as db, db.transaction():
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            row = db.execute("SELECT state, withdrawn, invited, invited_used, frozen_hour, digest FROM pdml_collection").fetchone()
            rows = db.execute("SELECT epsilon, label, reports FROM pdml_tallies").fetchall()
        assert row is not None
        return totals_of(row, {(epsilon, label): n for epsilon, label, n in rows if n})

    def invitation(self, token: bytes) -> tuple[State, bool | None]:
        with self._guarded() as db, db.transaction():
            found = db.execute("SELECT used FROM pdml_invitations WHERE hash = %b", (token,))
            row = found.fetchone()
            state = db.execute("SELECT state FROM pdml_collection").fetchone()
        assert state is not None
        return State(state[0]), None if row is None else bool(row[0])

    def invite(self, hashes: Iterable[bytes]) -> None:
        with self._transaction() as (db, state):
            if state is State.FROZEN:
                raise frozen_refuses("an invitation to it would lead nowhere")
            added = 0
            with db.cursor().copy("COPY pdml_invitations (hash) FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["bytea"])
                for each in hashes:
                    copy.write_row((each,))
                    added += 1
            db.execute("UPDATE pdml_collection SET invited = invited + %s", (added,))

    def commit_at_once(self, entries: Sequence[Entry]) -> list[Outcome] | None:
        return None

    def withdraw(self, report: bytes) -> bool:
        with self._transaction() as (db, state):
            if state is State.FROZEN:
                raise frozen_refuses("nothing can be withdrawn from it any more")
            found = db.execute("SELECT epsilon, label FROM pdml_reports WHERE id = %s", (report,)).fetchone()
            if found is None:
                raise InvalidInput(f"there is no report {report.hex()} in this collection")
            new = found[0] is not None
            if new:
                db.execute("UPDATE pdml_tallies SET reports = reports - 1 WHERE epsilon = %s AND label = %s", found)
                db.execute("UPDATE pdml_collection SET withdrawn = withdrawn + 1")
                db.execute(_ERASE, (report,))
        with self._guarded() as db:
            db.execute("VACUUM pdml_reports")  # the old row is no longer reachable, and this frees its bytes
        return new

    def set_open(self, is_open: bool) -> None:
        with self._transaction() as (db, state):
            if state is State.FROZEN:
                raise frozen_refuses("it can neither be opened nor closed")
            db.execute("UPDATE pdml_collection SET state = %s", (State.OPEN.value if is_open else State.CLOSED.value,))

    def freeze(self, hour: int) -> int:
        with self._transaction() as (db, _):
            db.execute("UPDATE pdml_collection SET state = 'frozen', frozen_hour = %s WHERE state <> 'frozen'", (hour,))
            row = db.execute("SELECT frozen_hour FROM pdml_collection").fetchone()
            assert row is not None
            return int(row[0])

    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        with self._guarded() as db, db.transaction(), db.cursor("pdml_rows", binary=True) as cursor:
            cursor.execute("SELECT features, label, epsilon FROM pdml_reports WHERE features IS NOT NULL ORDER BY id")
            while rows := cursor.fetchmany(chunk):
                yield rows

    def set_digest(self, digest: str) -> None:
        with self._transaction() as (db, _):
            db.execute("UPDATE pdml_collection SET digest = %s", (digest,))

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                with suppress(psycopg.Error):
                    self._db.close()
                self._db = None

    # Connections

    @contextmanager
    def _transaction(self) -> Iterator[tuple[_Connection, State]]:
        """A transaction that holds the collection's row, and the state it found there."""
        with self._guarded() as db, db.transaction():
            row = db.execute("SELECT state FROM pdml_collection FOR UPDATE").fetchone()
            assert row is not None
            yield db, State(row[0])

    @contextmanager
    def _guarded(self) -> Iterator[_Connection]:
        """The connection; whatever happens to it becomes `StorageUnavailable`, and the next use starts afresh."""
        with self._lock:
            try:
                if self._db is None:
                    self._db = self._connect()
                yield self._db
            except psycopg.Error as error:
                self.close()
                # The first line only: details may quote a row.
                raise StorageUnavailable((str(error).splitlines() or [type(error).__name__])[0].lower()) from None

    def _connect(self) -> _Connection:
        db: _Connection = psycopg.connect(self._address, autocommit=True, connect_timeout=10)
        try:
            db.execute("SET synchronous_commit = on")
            db.execute("SET client_min_messages = error")
            (fsync,) = db.execute("SHOW fsync").fetchone() or ("",)
            if fsync != "on":
                raise InvalidInput("the PostgreSQL server runs with fsync = off: it would forget acknowledged reports in a power cut")
        except BaseException:
            db.close()
            raise
        return db

    def _found(self, db: _Connection, asked: Identity, create: bool) -> None:
        """Check whose collection this is, or make it."""
        where = "the PostgreSQL database"
        db.execute("SELECT pg_advisory_xact_lock(1885629804)")  # "pdml": two that start at once must not both create
        known = db.execute("SELECT to_regclass('pdml_collection') IS NOT NULL").fetchone()
        if known != (True,):
            if not create:
                raise no_collection(where)
            db.execute(_TABLES)
            values = (SCHEMA, asked.study_id, asked.study_hash, asked.server, asked.width, asked.classes)
            columns = "one, schema, study_id, study_hash, server, width, classes"
            db.execute(f"INSERT INTO pdml_collection ({columns}) VALUES (1, %s, %s, %s, %s, %s, %s)", values)
            return
        row = db.execute("SELECT schema FROM pdml_collection").fetchone()
        assert row is not None
        check_schema(row[0], where)
        row = db.execute("SELECT study_id, study_hash, server, width, classes FROM pdml_collection").fetchone()
        assert row is not None
        study_id, study_hash, server, width, classes = row
        check_identity(Identity(study_id=study_id, study_hash=study_hash, server=server, width=width, classes=classes), asked, where)


def _binary(entries: Sequence[Entry]) -> bytes:
    """PostgreSQL's binary COPY format, written by hand: the library's rows take several times as long."""
    pack = _ROW.pack
    parts = [_HEAD]
    for id, digest, epsilon, label, hour, features, _, _ in entries:
        parts.append(pack(6, 16, id, 32, digest, 8, epsilon, 4, label, 4, hour, len(features)))
        parts.append(features)
    parts.append(_TAIL)
    return b"".join(parts)


def _decide(db: _Connection, entry: Entry, state: State) -> Outcome:
    """One entry by itself."""
    known = db.execute("SELECT digest, hour FROM pdml_reports WHERE id = %s", (entry.id,)).fetchone()
    if (outcome := decided(entry, state, known)) is not None:
        return outcome
    if entry.token and db.execute(_USE, ([entry.token],)).rowcount == 0:
        issued = db.execute("SELECT 1 FROM pdml_invitations WHERE hash = %s", (entry.token,)).fetchone()
        return Outcome("token_used" if issued else "token_unknown")
    db.execute("INSERT INTO pdml_reports VALUES (%s, %s, %s, %s, %s, %s)", entry[:6])
    return STORED
