"""A node's memory: SQLite with synchronous=FULL, where the ledger is debited and the outgoing bytes
are stored in one transaction.

What is sent was committed before. So a node that is killed at any moment sends the same bytes
again, never fresh noise, and no release escapes the ledger. A node that starts again replays its
rounds from here: what it received, and what it sent.

Guarantees
----------
- `commit` is all or nothing and on disk when it returns: the release, its events, and what arrived
  before it. What arrived since is requested again after a crash.
- A round is committed once; another release for it is refused.
- Budgets belong to a data set: `spent` gathers the events of every job on it.
- The un-noised state (q_i - η_i/n) is stored sealed, and overwritten by `finish`.
- What neighbours have signed stays, without their vectors: so that one who said different things to
  different neighbours can be proved to have done so. The node's own statement is stored before it
  can be sent: there is only one.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pdml.accounting.events import Event, dump_event, load_event
from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import DataError, InvalidInput, JournalError
from pdml.files import open_ours
from pdml.formats import Format
from pdml.node.storage.sqlite_store import SharedDatabase

FORMAT = Format(name="journal", version=1)


class JobState(StrEnum):
    """Of a job in the journal."""

    RUNNING = "running"
    FINISHED = "finished"


RUNNING, FINISHED = JobState

_TABLES = """
CREATE TABLE jobs (
    job TEXT PRIMARY KEY, terms TEXT NOT NULL, server TEXT NOT NULL, dataset TEXT NOT NULL,
    source TEXT NOT NULL, state TEXT NOT NULL, sealed BLOB, plan TEXT NOT NULL
) STRICT;
CREATE TABLE outbox (
    job TEXT NOT NULL REFERENCES jobs, round INTEGER NOT NULL, payload BLOB NOT NULL,
    PRIMARY KEY (job, round)
) STRICT;
CREATE TABLE inbox (
    job TEXT NOT NULL REFERENCES jobs, round INTEGER NOT NULL, sender TEXT NOT NULL,
    digest TEXT NOT NULL, payload BLOB, signature BLOB NOT NULL,
    PRIMARY KEY (job, round, sender)
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, job TEXT NOT NULL REFERENCES jobs,
    round INTEGER NOT NULL, event TEXT NOT NULL
) STRICT;
CREATE TABLE peers (
    job TEXT NOT NULL REFERENCES jobs, sender TEXT NOT NULL, dataset TEXT NOT NULL,
    before INTEGER NOT NULL, PRIMARY KEY (job, sender)
) STRICT;
CREATE TABLE statements (
    job TEXT NOT NULL REFERENCES jobs, server TEXT NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (job, server)
) STRICT;
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One row of `jobs`."""

    job: str
    terms: str  # the digest of its `JobTerms`
    server: str
    dataset: str
    source: str  # of the noise
    state: JobState
    plan: str  # its study's hash and its plan as JSON; "" for a released evaluation
    round: int  # the last committed one


class Journal:
    """One node's journal; one process at a time may hold it, while others may look into it
    (`Journal.peek`)."""

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path, self._clock = path, clock
        self._lock: int | None = None
        try:
            self._lock = _acquire_lock(path, clock)
            self._db = SharedDatabase(
                path,
                pragmas=(
                    "journal_mode=WAL",
                    "synchronous=FULL",
                    "secure_delete=ON",
                    "foreign_keys=ON",
                    # A process that was killed may have committed what it had not synced: from now
                    # on it counts, so it must be on disk.
                    "wal_checkpoint",
                ),
                timeout=5,
            )
            self._prepare()
            self._db.read_error = self._read_error
        except (sqlite3.Error, OSError, JournalError, DataError) as error:
            if self._lock is not None:
                os.close(self._lock)
            if isinstance(error, (JournalError, DataError)):
                raise
            raise JournalError(
                f"the journal {path.name} cannot be used: {_reason(error)}"
            ) from error

    @classmethod
    def peek(cls, path: Path) -> "Journal":
        """The journal for reading only: what was committed last, whoever holds it."""
        journal = cls.__new__(cls)
        journal.path, journal._clock, journal._lock = path, SYSTEM_CLOCK, None
        try:
            journal._db = SharedDatabase(path, read_only=True, timeout=5)
            (version,) = journal._db.row("PRAGMA user_version")
        except (sqlite3.Error, OSError) as error:
            raise JournalError(
                f"the journal {path.name} cannot be read: {_reason(error)}"
            ) from error
        if version == 0:  # nobody may take it for one in which nothing was released
            journal._db.close()
            raise JournalError(f"the journal {path.name} holds nothing")
        if why := FORMAT.refusal(version, f"the journal {path.name}"):
            journal._db.close()
            raise JournalError(why)
        journal._db.read_error = journal._read_error
        return journal

    @staticmethod
    def holder(path: Path) -> int | None:
        """The process that has the journal open, if one has."""
        try:
            handle = os.open(_lock_of(path), os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return int(os.pread(handle, 20, 0) or b"0")
        finally:
            os.close(handle)
        return None

    def _read_error(self, error: sqlite3.Error) -> JournalError:
        return JournalError(f"the journal {self.path.name} cannot be read: {_reason(error)}")

    def _prepare(self) -> None:
        """The tables of a new journal; an existing one must be of this version."""
        try:
            with self._transaction():
                if why := self._db.make_tables(_TABLES, FORMAT, f"the journal {self.path.name}"):
                    raise JournalError(why)
        except BaseException:
            self._db.close()  # else it stays locked as long as somebody looks at the error
            raise

    def close(self) -> None:
        with suppress(sqlite3.Error):  # a full disk: what was heard is asked for again
            self._db.sync()
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """On disk when it ends, or not at all."""
        with self._wrap_errors(), self._db.transaction():
            yield

    @contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(
                f"the journal {self.path.name} cannot be written: {_reason(error)}; nothing "
                "was sent"
            ) from error

    def job(self, job: str) -> Job | None:
        names = ("job", "terms", "server", "dataset", "source", "plan", "state")
        query = f"SELECT {', '.join(names)} FROM jobs WHERE job = ?"
        row = self._db.row(query, (job,))
        if row is None:
            return None
        (last,) = self._db.row("SELECT coalesce(max(round), 0) FROM outbox WHERE job = ?", (job,))
        fields = dict(zip(names[:-1], row, strict=False))
        return Job(**fields, state=JobState(row[-1]), round=last)

    def jobs(self) -> list[Job]:
        names = [name for (name,) in self._db.rows("SELECT job FROM jobs ORDER BY rowid")]
        return [job for name in names if (job := self.job(name)) is not None]

    def begin(
        self,
        job: str,
        *,
        terms: str,
        server: str,
        dataset: str,
        source: str,
        sealed: bytes,
        plan: str,
    ) -> None:
        """A new job with its sealed state: whatever is drawn once for it is now drawn."""
        with self._transaction():
            self._insert_job(job, terms, server, dataset, source, RUNNING, sealed, plan)

    def _insert_job(self, *values: str | bytes) -> None:
        columns = "(job, terms, server, dataset, source, state, sealed, plan)"
        self._db.change(f"INSERT INTO jobs {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def release(
        self,
        job: str,
        *,
        terms: str,
        server: str,
        dataset: str,
        source: str,
        payload: bytes,
        events: Sequence[Event],
    ) -> None:
        """A job of one release, begun, debited and finished at once: there is none without its
        debit, which a later one could fail to count."""
        with self._transaction():
            self._insert_job(job, terms, server, dataset, source, FINISHED, b"", "")
            self._insert_release(job, dataset, 1, payload, events)

    def sources(self, dataset: str) -> set[str]:
        return {
            name
            for (name,) in self._db.rows(
                "SELECT DISTINCT source FROM jobs WHERE dataset = ?", (dataset,)
            )
        }

    def sealed(self, job: str) -> bytes:
        (content,) = self._db.row("SELECT sealed FROM jobs WHERE job = ?", (job,))
        if content is None:
            raise JournalError(
                f"job {job} is finished: its inner state was deleted and it cannot be continued"
            )
        return bytes(content)

    def receive(
        self, job: str, t: int, sender: str, *, digest: str, payload: bytes, signature: bytes
    ) -> None:
        """A neighbour's release of round t: on disk with this node's next one, or by `sync`."""
        columns = "(job, round, sender, digest, payload, signature)"
        values = (job, t, sender, digest, payload, signature)
        with self._wrap_errors():
            self._db.add(f"INSERT INTO inbox {columns} VALUES (?, ?, ?, ?, ?, ?)", values)

    def sync(self) -> None:
        with self._wrap_errors():
            self._db.sync()

    def commit(self, job: str, t: int, *, payload: bytes, events: Sequence[Event]) -> None:
        """Round t: what is sent, and what that spends."""
        entry = self.job(job)
        if entry is None or entry.state != RUNNING or entry.round != t - 1:
            raise JournalError(
                f"round {t} of job {job} cannot be committed: the journal stands at round "
                f"{entry and entry.round}"
            )
        with self._transaction():
            self._insert_release(job, entry.dataset, t, payload, events)

    def _insert_release(
        self, job: str, dataset: str, t: int, payload: bytes, events: Sequence[Event]
    ) -> None:
        self._db.change("INSERT INTO outbox VALUES (?, ?, ?)", (job, t, payload))
        for event in events:
            values = (dataset, job, t, dump_event(event))
            self._db.change(
                "INSERT INTO events (dataset, job, round, event) VALUES (?, ?, ?, ?)", values
            )

    def outgoing(self, job: str, t: int) -> bytes:
        return bytes(
            self._db.row("SELECT payload FROM outbox WHERE job = ? AND round = ?", (job, t))[0]
        )

    def inbox(self, job: str, t: int) -> dict[str, bytes]:
        return dict(
            self._db.rows("SELECT sender, payload FROM inbox WHERE job = ? AND round = ?", (job, t))
        )

    def digest(self, job: str, t: int, sender: str) -> str | None:
        """The hash of what ``sender`` sent in round t, if that arrived."""
        query = "SELECT digest FROM inbox WHERE job = ? AND round = ? AND sender = ?"
        row = self._db.row(query, (job, t, sender))
        return None if row is None else row[0]

    def signature(self, job: str, t: int, sender: str) -> bytes | None:
        query = "SELECT signature FROM inbox WHERE job = ? AND round = ? AND sender = ?"
        row = self._db.row(query, (job, t, sender))
        return None if row is None else bytes(row[0])

    def inbox_digests(self, job: str, sender: str) -> list[str]:
        """The hashes of what ``sender`` sent, round by round."""
        query = "SELECT digest FROM inbox WHERE job = ? AND sender = ? ORDER BY round"
        return [digest for (digest,) in self._db.rows(query, (job, sender))]

    def latest_round(self, job: str, sender: str) -> int:
        """The last round of ``sender`` that arrived here; 0 if none."""
        query = "SELECT coalesce(max(round), 0) FROM inbox WHERE job = ? AND sender = ?"
        return int(self._db.row(query, (job, sender))[0])

    def spent(self, dataset: str, *, but: str = "") -> tuple[Event, ...]:
        """Every event of a data set over all its jobs; ``but`` leaves one job out."""
        query = "SELECT event FROM events WHERE dataset = ? AND job <> ? ORDER BY id"
        return tuple(load_event(text) for (text,) in self._db.rows(query, (dataset, but)))

    def datasets(self) -> list[str]:
        return [
            name for (name,) in self._db.rows("SELECT DISTINCT dataset FROM jobs ORDER BY dataset")
        ]

    def released_datasets(self) -> list[str]:
        """Those of which something has left; of one on which a job only began nothing has."""
        query = "SELECT DISTINCT dataset FROM outbox JOIN jobs USING (job) ORDER BY dataset"
        return [str(name) for (name,) in self._db.rows(query)]

    def releases(self, dataset: str) -> int:
        query = "SELECT count(*) FROM outbox JOIN jobs USING (job) WHERE dataset = ?"
        return int(self._db.row(query, (dataset,))[0])

    def set_peer(self, job: str, sender: str, *, dataset: str, before: int) -> None:
        """In this job ``sender`` trains on ``dataset``, which had released ``before`` vectors when
        the job began. The least of its words stays: a job that is resumed may come after others."""
        with self._transaction():
            self._db.change(
                "INSERT INTO peers VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET before = iif("
                "dataset = excluded.dataset, min(before, excluded.before), excluded.before), "
                "dataset = excluded.dataset",
                (job, sender, dataset, before),
            )

    def minimum_releases(self, sender: str, dataset: str) -> int:
        """The least that ``sender`` must have released for its data set, by what it said and what
        arrived here."""
        query = """
            SELECT coalesce(max(before + received), 0)
            FROM (SELECT before, coalesce(max(round), 0) AS received
                  FROM peers LEFT JOIN inbox USING (job, sender)
                  WHERE sender = ? AND dataset = ? GROUP BY job)
        """
        return int(self._db.row(query, (sender, dataset))[0])

    def released_aliases(self, sender: str) -> list[str]:
        """The aliases of the data sets of which ``sender`` must have released something."""
        query = "SELECT DISTINCT dataset FROM peers WHERE sender = ?"
        aliases = (str(alias) for (alias,) in self._db.rows(query, (sender,)))
        return [alias for alias in aliases if self.minimum_releases(sender, alias)]

    def peer(self, job: str, sender: str) -> tuple[str, int]:
        """The data set on which ``sender`` says it trains, and its releases before the job."""
        query = "SELECT dataset, before FROM peers WHERE job = ? AND sender = ?"
        row = self._db.row(query, (job, sender))
        return ("", 0) if row is None else (str(row[0]), int(row[1]))

    def events_of(self, job: str) -> tuple[Event, ...]:
        query = "SELECT event FROM events WHERE job = ? ORDER BY id"
        return tuple(load_event(text) for (text,) in self._db.rows(query, (job,)))

    def store_statement(self, job: str, server: str, content: bytes) -> None:
        """A checked statement of ``server``, which may be this node; the first one stays."""
        insert = "INSERT OR IGNORE INTO statements VALUES (?, ?, ?)"
        with self._transaction():
            self._db.change(insert, (job, server, content))

    def statements(self, job: str) -> dict[str, bytes]:
        """The statements that are here, by server: also after the job."""
        query = "SELECT server, content FROM statements WHERE job = ?"
        return {server: bytes(content) for server, content in self._db.rows(query, (job,))}

    def covers_releases(self, dataset: str, apart_from: Set[str] | None) -> bool:
        """Whether the operator's word (`--new-participants`) names every other data set of which
        something was released."""
        return apart_from is not None and set(self.released_datasets()) - {dataset} <= apart_from

    def begins_fresh(self, dataset: str, apart_from: Set[str] | None) -> bool:
        """Whether nothing was released about a data set, but about another, without the operator's
        word that nobody is in both: only the operator can know, and says so of all that were
        released by then."""
        used = self.released_datasets()
        fresh = bool(used) and dataset not in used
        return fresh and not self.covers_releases(dataset, apart_from)

    def refuse_fresh_budget(self, name: str, dataset: str, apart_from: Set[str] | None) -> None:
        """Refuse the first release of a data set whose people may have spent a budget under
        another, whichever was imported, or had a job that only began, first."""
        if self.begins_fresh(dataset, apart_from):
            raise InvalidInput(
                f"{name} has released something about another data set, and this one would begin "
                "with a whole budget: its operator gives it again with --new-participants if "
                "nobody's record is in both, or else gives the old one, which is in the node's "
                "folder, again"
            ).mark_public()

    def finish(self, job: str) -> None:
        """The job is done: what was sealed is overwritten, vectors heard are reduced to hashes."""
        with self._transaction():
            self._db.change(
                "UPDATE jobs SET state = ?, sealed = NULL WHERE job = ?", (FINISHED, job)
            )
            self._db.change("UPDATE inbox SET payload = NULL WHERE job = ?", (job,))
        # the log held copies of what is now overwritten; somebody may be looking into it
        for _ in range(100):
            busy, *_ = self._db.row("PRAGMA wal_checkpoint(TRUNCATE)")
            if not busy:
                return
            self._clock.sleep(0.05)


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _acquire_lock(path: Path, clock: Clock) -> int:
    """A lock that ends with this process, in a file of its own: closing a database's file would
    drop SQLite's locks."""
    handle = open_ours(_lock_of(path), "the lock of the node's journal", os.O_RDWR | os.O_CREAT)
    for _ in range(10):  # whoever looks whether it is held (`holder`) holds it for an instant
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            return handle
        except OSError:
            clock.sleep(0.02)
    os.close(handle)
    raise JournalError(
        f"the journal {path.name} cannot be used: another process is using it; while "
        "`pdml node run` runs, stop it first"
    )


def _reason(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without SQLite's extended part
    locked = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return "another process is using it" if locked else str(error)
