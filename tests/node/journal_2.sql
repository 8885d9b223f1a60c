-- The journal as format 2 had it: tests/node/test_journal.py migrates one.
CREATE TABLE jobs (
    job TEXT PRIMARY KEY, contract TEXT NOT NULL, server TEXT NOT NULL, dataset TEXT NOT NULL, source TEXT NOT NULL,
    state TEXT NOT NULL, sealed BLOB
) STRICT;
CREATE TABLE outbox (job TEXT NOT NULL REFERENCES jobs, round INTEGER NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (job, round)) STRICT;
CREATE TABLE inbox (
    job TEXT NOT NULL REFERENCES jobs, round INTEGER NOT NULL, sender TEXT NOT NULL, digest TEXT NOT NULL, payload BLOB,
    PRIMARY KEY (job, round, sender)
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, job TEXT NOT NULL REFERENCES jobs, round INTEGER NOT NULL, event TEXT NOT NULL
) STRICT;
CREATE TABLE peers (
    job TEXT NOT NULL REFERENCES jobs, sender TEXT NOT NULL, dataset TEXT NOT NULL, before INTEGER NOT NULL, PRIMARY KEY (job, sender)
) STRICT;
PRAGMA user_version = 2;
