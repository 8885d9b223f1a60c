"""Collections as the first pdml wrote them, with reports in the clear."""

import contextlib
import sqlite3

import psycopg

SQLITE = """
CREATE TABLE collection (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    study_id TEXT NOT NULL, study_hash TEXT NOT NULL, server TEXT NOT NULL, width INTEGER NOT NULL, classes INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'frozen')),
    frozen_hour INTEGER, digest TEXT NOT NULL DEFAULT '',
    withdrawn INTEGER NOT NULL DEFAULT 0, invited INTEGER NOT NULL DEFAULT 0, invited_used INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE probe (one INTEGER PRIMARY KEY CHECK (one = 1), room BLOB NOT NULL) STRICT;
CREATE TABLE reports (
    row INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, digest BLOB, epsilon INTEGER, label INTEGER, hour INTEGER, features BLOB
) STRICT;
CREATE TABLE tallies (epsilon INTEGER NOT NULL, label INTEGER NOT NULL, reports INTEGER NOT NULL, PRIMARY KEY (epsilon, label)) STRICT;
CREATE TABLE invitations (hash BLOB PRIMARY KEY, used INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1885629804;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""
POSTGRES = """
CREATE TABLE pdml_collection (
    one integer PRIMARY KEY CHECK (one = 1), schema integer NOT NULL DEFAULT 1,
    study_id text NOT NULL, study_hash text NOT NULL, server text NOT NULL, width integer NOT NULL, classes integer NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'frozen')),
    frozen_hour bigint, digest text NOT NULL DEFAULT '',
    withdrawn bigint NOT NULL DEFAULT 0, invited bigint NOT NULL DEFAULT 0, invited_used bigint NOT NULL DEFAULT 0,
    probes bigint NOT NULL DEFAULT 0
);
CREATE TABLE pdml_reports (id bytea PRIMARY KEY, digest bytea, epsilon bigint, label integer, hour integer, features bytea);
ALTER TABLE pdml_reports ALTER COLUMN features SET STORAGE EXTERNAL;
CREATE TABLE pdml_tallies (epsilon bigint, label integer, reports bigint NOT NULL, PRIMARY KEY (epsilon, label));
CREATE TABLE pdml_invitations (hash bytea PRIMARY KEY, used boolean NOT NULL DEFAULT false);
"""


def write(address, who, entries, *, withdrawn, tokens):
    """A collection of ``entries``, of which the first ``withdrawn`` are; every token is used but
    the last.
    """
    whose = (
        who.study_id,
        who.study_hash,
        who.server,
        who.width,
        who.classes,
        withdrawn,
        len(tokens),
        len(tokens) - 1,
    )
    rows = [
        (each.id, *((None,) * 5 if i < withdrawn else each[1:6])) for i, each in enumerate(entries)
    ]
    counts = {}
    for each in entries[withdrawn:]:
        counts[each.epsilon, each.label] = counts.get((each.epsilon, each.label), 0) + 1
    tallies = [(*key, n) for key, n in counts.items()]
    invitations = [(token, i < len(tokens) - 1) for i, token in enumerate(tokens)]
    columns = "one, study_id, study_hash, server, width, classes, withdrawn, invited, invited_used"
    statements = (
        (f"INSERT INTO {{}}collection ({columns}) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)", [whose]),
        (
            "INSERT INTO {}reports (id, digest, epsilon, label, hour, features) VALUES (?, "
            "?, ?, ?, ?, ?)",
            rows,
        ),
        ("INSERT INTO {}tallies VALUES (?, ?, ?)", tallies),
        ("INSERT INTO {}invitations VALUES (?, ?)", invitations),
    )
    if "://" in address:
        with psycopg.connect(address) as db:
            db.execute(POSTGRES)
            for statement, values in statements:
                db.cursor().executemany(statement.format("pdml_").replace("?", "%s"), values)
        return
    with contextlib.closing(sqlite3.connect(address)) as db:
        db.executescript(SQLITE)
        for statement, values in statements:
            db.executemany(statement.format(""), values)
        db.commit()
