"""The tables of a collection in SQLite: making and checking them."""

import secrets
import sqlite3
from dataclasses import astuple

from pdml.collector.storage.store import (
    COLUMNS,
    FORMAT,
    CollectionId,
    RingRecord,
    check_collection,
    check_schema,
)
from pdml.errors import InvalidInput

_APPLICATION = 0x70646D6C  # "pdml", so that `file` and we recognise the database
_IDS = "CREATE TABLE ids (id BLOB PRIMARY KEY, key INTEGER NOT NULL) STRICT, WITHOUT ROWID"
_REPORTS = "CREATE TABLE {} (key INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT"
_DOOMED = "CREATE TABLE doomed (key INTEGER PRIMARY KEY) STRICT"
_TABLES = (
    """CREATE TABLE collection (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    study_id TEXT NOT NULL, study_hash TEXT NOT NULL, server TEXT NOT NULL, width INTEGER NOT NULL, classes INTEGER NOT NULL,
    epsilons INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'frozen')),
    frozen_hour INTEGER, digest TEXT NOT NULL DEFAULT '',
    withdrawn INTEGER NOT NULL DEFAULT 0, conflicts INTEGER NOT NULL DEFAULT 0, invited INTEGER NOT NULL DEFAULT 0, invited_used INTEGER NOT NULL DEFAULT 0,
    ring TEXT NOT NULL DEFAULT '', tallies_key INTEGER, tallies BLOB, erased_hour INTEGER,
    latest_hour INTEGER NOT NULL DEFAULT 0
) STRICT""",
    "CREATE TABLE probe (one INTEGER PRIMARY KEY CHECK (one = 1), room BLOB NOT NULL) STRICT",
    # Apart from the reports, so that a repeated id is noticed before anything is sealed; and it
    # stays when a report is withdrawn.
    _IDS,
    # In the order of arrival, because a table ordered by random ids would write a page for each.
    _REPORTS.format("reports"),
    # Keys of what was withdrawn, from the transaction that says so until they are destroyed.
    _DOOMED,
    # No link to the report: who knows whose token it was must not find the report by it.
    "CREATE TABLE invitations (hash BLOB PRIMARY KEY, used INTEGER NOT NULL DEFAULT 0) "
    "STRICT, WITHOUT ROWID",
)


def open_or_create(db: sqlite3.Connection, expected: CollectionId, where: str) -> RingRecord:
    """Check whose collection this is, or make it in an empty file; in the caller's transaction."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == schema == tables == 0:
        for statement in _TABLES:
            db.execute(statement)
        values, columns = (*astuple(expected), secrets.token_hex(16)), f"one, {COLUMNS}, ring"
        db.execute(f"INSERT INTO collection ({columns}) VALUES (1, ?, ?, ?, ?, ?, ?, ?)", values)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {FORMAT.version}")
        return open_or_create(db, expected, where)
    if application != _APPLICATION:
        raise InvalidInput(f"{where} is a database of something else, not a collection of pdml")
    check_schema(schema, where)
    check_collection(db.execute(f"SELECT {COLUMNS} FROM collection").fetchone(), expected, where)
    ring, key = db.execute("SELECT ring, tallies_key FROM collection").fetchone()
    return RingRecord(ring, key is None)


def used(db: sqlite3.Connection, first: int, last: int) -> set[int]:
    """The keys in this range under which something is stored."""
    rows = db.execute("SELECT key FROM reports WHERE key BETWEEN ? AND ?", (first, last)).fetchall()
    return {key for (key,) in rows} | {
        key for (key,) in db.execute("SELECT tallies_key FROM collection") if key is not None
    }
