"""The tables of a collection in PostgreSQL: making and checking them."""

import secrets
import struct
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import psycopg

from pdml.collector.storage.store import (
    COLUMNS,
    FORMAT,
    CollectionId,
    RingRecord,
    check_collection,
    check_schema,
    no_collection,
)

Connection = psycopg.Connection[tuple[Any, ...]]
_WHERE = "the PostgreSQL database"
_REPORTS = """
CREATE TABLE {0} (key bigint NOT NULL, id bytea PRIMARY KEY, sealed bytea);
ALTER TABLE {0} ALTER COLUMN sealed SET STORAGE EXTERNAL; -- random digits do not shrink
"""
_DOOMED = "CREATE TABLE pdml_doomed (key bigint PRIMARY KEY);"
_TABLES = (
    """
CREATE TABLE pdml_collection (
    one integer PRIMARY KEY CHECK (one = 1), schema integer NOT NULL,
    study_id text NOT NULL, study_hash text NOT NULL, server text NOT NULL, width integer NOT NULL, classes integer NOT NULL,
    epsilons integer NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'frozen')),
    frozen_hour bigint, digest text NOT NULL DEFAULT '',
    withdrawn bigint NOT NULL DEFAULT 0, conflicts bigint NOT NULL DEFAULT 0, invited bigint NOT NULL DEFAULT 0, invited_used bigint NOT NULL DEFAULT 0,
    probes bigint NOT NULL DEFAULT 0,
    ring text NOT NULL DEFAULT '', tallies_key bigint, tallies bytea, erased_hour bigint,
    latest_hour bigint NOT NULL DEFAULT 0
);
CREATE TABLE pdml_invitations (hash bytea PRIMARY KEY, used boolean NOT NULL DEFAULT false);
"""
    + _REPORTS.format("pdml_reports")
    + _DOOMED
)
_COPY = "COPY {} (key, id, sealed) FROM STDIN (FORMAT binary)"
# three fields, each with its length before it; the sealed bytes follow
_ROW = struct.Struct("!hiqi16si")
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL = b"\xff\xff"


def open_or_create(db: Connection, expected: CollectionId, *, create: bool) -> RingRecord:
    """Check whose collection this is, or make it; in the caller's transaction."""
    # "pdml": two that start at once must not both create
    db.execute("SELECT pg_advisory_xact_lock(1885629804)")
    exists = db.execute("SELECT to_regclass('pdml_collection') IS NOT NULL").fetchone()
    if exists != (True,):
        if not create:
            raise no_collection(_WHERE)
        db.execute(_TABLES)
        values = (FORMAT.version, *astuple(expected), secrets.token_hex(16))
        into = f"pdml_collection (one, schema, {COLUMNS}, ring)"
        db.execute(f"INSERT INTO {into} VALUES (1, %s, %s, %s, %s, %s, %s, %s, %s)", values)
    schema, *identity = _fetch_row(db, f"SELECT schema, {COLUMNS} FROM pdml_collection")
    check_schema(schema, _WHERE)
    check_collection(identity, expected, _WHERE)
    ring, key = _fetch_row(db, "SELECT ring, tallies_key FROM pdml_collection")
    return RingRecord(ring, key is None)


def used(db: Connection, first: int, last: int) -> set[int]:
    """The keys in this range under which something is stored."""
    rows = db.execute(
        "SELECT key FROM pdml_reports WHERE key BETWEEN %s AND %s AND sealed IS NOT NULL",
        (first, last),
    ).fetchall()
    return {key for (key,) in rows} | {
        key for (key,) in db.execute("SELECT tallies_key FROM pdml_collection") if key is not None
    }


def copy(
    db: Connection, rows: Sequence[tuple[int, bytes, bytes]], table: str = "pdml_reports"
) -> None:
    """Add (key, id, sealed) in PostgreSQL's binary format, written by hand: the library's rows take
    several times as long.
    """
    pack = _ROW.pack
    parts = [_HEAD]
    for key, id, sealed in rows:
        parts.append(pack(3, 8, key, 16, id, len(sealed)))
        parts.append(sealed)
    parts.append(_TAIL)
    with db.cursor().copy(_COPY.format(table)) as copying:
        copying.write(b"".join(parts))


def _fetch_row(db: Connection, query: str) -> tuple[Any, ...]:
    row = db.execute(query).fetchone()
    assert row is not None
    return row
