"""A collection in one SQLite file: WAL, synchronous=FULL, one writer."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

from pdml.collector.storage import sqlite_schema
from pdml.collector.storage.report_keys import KeyDestroyed, KeyRing
from pdml.collector.storage.sqlite_file import Busy, SqliteFile
from pdml.collector.storage.store import (
    CONFLICT,
    STORED,
    CollectionId,
    Decision,
    Ended,
    Entry,
    NoSuchReport,
    State,
    Tallies,
    Totals,
    counted,
    decide_by_id,
    require_changeable,
    require_there,
    stored_of,
    totals_of,
    without,
)
from pdml.collector.storage.vault import SealedTallies, Vault
from pdml.errors import InvalidInput, StorageUnavailable

# bytes that a healthy disk must have room for: more than a report needs, so that health fails
# first
_ROOM = 64 << 10
# rows per statement: few to prepare, and the interpreter's lock is passed on seldom
_PARTS = (256, 64, 16, 4, 1)
_STATE = "CASE WHEN erased_hour IS NULL THEN state ELSE 'erased' END"
_STATE_AND_TALLIES = f"SELECT {_STATE}, tallies_key, tallies FROM collection"
_TOTALS = (
    f"SELECT {_STATE}, withdrawn, conflicts, invited, invited_used, frozen_hour, erased_hour, "
    "latest_hour, digest, tallies_key, tallies FROM collection"
)
_REPORT_BY_ID = "SELECT key, sealed FROM ids LEFT JOIN reports USING (key) WHERE id = ?"
# CROSS: in this order
_ROWS = "SELECT key, id, sealed FROM ids CROSS JOIN reports USING (key) ORDER BY id"
_USE = "UPDATE invitations SET used = 1 WHERE hash = ? AND used = 0"
_LATEST = "SELECT latest_hour FROM collection"
_OBSERVE = (
    "UPDATE collection SET latest_hour = :hour WHERE latest_hour < :hour "
    "AND (latest_hour = 0 OR :hour - latest_hour <= :jump)"
)
_COUNT = "UPDATE collection SET tallies_key = ?, tallies = ?, invited_used = invited_used + ?"


class _NotAll(Exception):
    """The entries need a closer look, one by one."""


class SqliteStore:
    """`Store` in a file that only its owner can read, with its keys in a folder beside it."""

    def __init__(
        self,
        path: Path,
        collection_id: CollectionId,
        *,
        keys: Path | None = None,
        synchronous: str = "FULL",
        vfs: str = "",
    ) -> None:
        """Open, or make, the collection at ``path``, with its keys beside it unless ``keys`` says
        where.

        Anything but FULL is for showing that FULL is needed.
        """
        self.collection_id = collection_id
        self._ring: str | None = None
        self._file = SqliteFile(path, self._is_ours, synchronous=synchronous, vfs=vfs)
        try:
            with self._file.transaction() as db:
                record = sqlite_schema.open_or_create(db, collection_id, str(path))
            with self._file.transaction():  # one at a time, where several start at once
                self._vault = Vault(
                    KeyRing(keys or path.with_suffix(".keys"), record.ring, fresh=record.fresh),
                    cells=collection_id.cells,
                )
            self._ring = record.ring
            self._destroy_doomed()
        except StorageUnavailable as error:
            self.close()
            raise InvalidInput(f"cannot use {path} as a collection: {error}") from error
        except BaseException:
            self.close()
            raise

    def commit_at_once(self, entries: Sequence[Entry]) -> list[Decision] | None:
        if not self._file.lock.acquire(blocking=False):
            return None
        try:
            return self._store_all(entries, wait=False)
        except Busy:
            return None
        finally:
            self._file.lock.release()

    def commit(self, entries: Sequence[Entry]) -> list[Decision]:
        outcomes = self._store_all(entries)
        if outcomes is not None:
            return outcomes
        with self._sealing() as db:
            state, sealed_tallies = _read_state_and_tallies(db)
            tallied = self._tallied(db, state, sealed_tallies)
            outcomes = [self._decide(db, entry, state) for entry in entries]
            if stored := stored_of(entries, outcomes):
                self._count(db, *tallied, stored)
            if conflicts := outcomes.count(CONFLICT):
                db.execute("UPDATE collection SET conflicts = conflicts + ?", (conflicts,))
            return outcomes

    def _store_all(self, entries: Sequence[Entry], *, wait: bool = True) -> list[Decision] | None:
        """The common case at full speed: open, every entry new and in time, every token fresh.
        Otherwise None, and nothing done.

        Asked before anything is sealed: a key that sealed something for nothing is lost.
        """
        ids = [entry[0] for entry in entries]
        if any([entry[7] for entry in entries]):  # barred
            return None
        tokens = [(entry[6],) for entry in entries if entry[6]]
        with suppress(_NotAll), self._sealing(wait=wait) as db:
            state, sealed_tallies = _read_state_and_tallies(db)
            if state is not State.OPEN or (
                tokens and db.executemany(_USE, tokens).rowcount != len(tokens)
            ):
                raise _NotAll
            tallied = self._tallied(db, state, sealed_tallies)
            used = partial(sqlite_schema.used, db)
            first = self._vault.keys.next(len(entries), used)
            # one is known
            if _insert(db, "ids", list(zip(ids, count(first), strict=False))) != len(ids):
                raise _NotAll
            sealed = self._vault.seal(entries, used)
            if sealed[0][0] != first:
                raise StorageUnavailable("the keys were moved away just now")
            _insert(db, "reports", [(key, content) for key, _, content in sealed])
            self._count(db, *tallied, entries)
            return [STORED] * len(entries)
        return None

    def _decide(self, db: sqlite3.Connection, entry: Entry, state: State) -> Decision:
        """One entry by itself."""
        stored = db.execute(_REPORT_BY_ID, (entry.id,)).fetchone()
        if (outcome := decide_by_id(entry, state, stored, self._vault.open)) is not None:
            return outcome
        if entry.token and db.execute(_USE, (entry.token,)).rowcount == 0:
            issued = db.execute(
                "SELECT 1 FROM invitations WHERE hash = ?", (entry.token,)
            ).fetchone()
            return Decision("token_used" if issued else "token_unknown")
        ((key, id, sealed),) = self._vault.seal([entry], partial(sqlite_schema.used, db))
        _insert(db, "ids", [(id, key)])
        _insert(db, "reports", [(key, sealed)])
        return STORED

    def _count(
        self,
        db: sqlite3.Connection,
        tallies: Tallies,
        sealed_tallies: SealedTallies,
        stored: Sequence[Entry],
    ) -> None:
        """Keep the totals in step with the reports, in the same transaction."""
        now = self._vault.seal_tallies(
            counted(tallies, stored), sealed_tallies, partial(sqlite_schema.used, db)
        )
        db.execute(_COUNT, (*now, sum([1 for entry in stored if entry[6]])))

    def _tallied(
        self, db: sqlite3.Connection, state: State, sealed_tallies: SealedTallies
    ) -> tuple[Tallies, SealedTallies]:
        """The totals as they are held, before anything is stored.

        In a database from before a withdrawal they are counted anew, and the withdrawal happens to
        it now.
        """
        try:
            return self._vault.tallies(sealed_tallies), sealed_tallies
        except KeyDestroyed:
            tallies, gone = self._vault.recount(db.execute(_ROWS), frozen=state is State.FROZEN)
        db.executemany("DELETE FROM reports WHERE key = ?", gone)
        db.execute("UPDATE collection SET withdrawn = withdrawn + ?", (len(gone),))
        return tallies, SealedTallies(None, None)

    def probe(self) -> None:
        with self._sealing() as db:
            db.execute("INSERT OR REPLACE INTO probe VALUES (1, randomblob(?))", (_ROOM,))
            self._vault.keys.probe(partial(sqlite_schema.used, db))

    def totals(self) -> Totals:
        with self._file.connection() as db:
            row = db.execute(_TOTALS).fetchone()
            # by a withdrawal just now, or before this database was restored
            with suppress(KeyDestroyed):
                return totals_of(row[:9], self._vault.tallies(SealedTallies(*row[9:])))
        with self._sealing() as db:
            state, sealed_tallies = _read_state_and_tallies(db)
            self._count(db, *self._tallied(db, state, sealed_tallies), [])
        return self.totals()

    def invitation(self, token: bytes) -> tuple[State, bool | None]:
        with self._file.transaction("BEGIN") as db:
            row = db.execute("SELECT used FROM invitations WHERE hash = ?", (token,)).fetchone()
            return _read_state_and_tallies(db)[0], None if row is None else bool(row[0])

    def invite(self, hashes: Iterable[bytes]) -> None:
        with self._file.transaction() as db:
            require_changeable(
                _read_state_and_tallies(db)[0], "an invitation to it would lead nowhere"
            )
            added = db.executemany(
                "INSERT INTO invitations (hash) VALUES (?)",
                ((token_hash,) for token_hash in hashes),
            ).rowcount
            db.execute("UPDATE collection SET invited = invited + ?", (added,))

    def withdraw(self, report: bytes) -> bool:
        with self._sealing() as db:
            # the sealed bytes go too, where that costs nothing
            db.execute("PRAGMA secure_delete = ON")
            state, sealed_tallies = _read_state_and_tallies(db)
            # first: it finishes the withdrawals that a restored database has forgotten
            tallied = None if state is State.FROZEN else self._tallied(db, state, sealed_tallies)
            row = db.execute(_REPORT_BY_ID, (report,)).fetchone()
            if row is None:
                raise NoSuchReport
            key, sealed = row
            if sealed is not None:
                if tallied is None:
                    raise Ended(state, "nothing can be withdrawn from it any more")
                tallies, sealed_tallies = tallied
                content = self._vault.open(key, report, sealed)
                now = self._vault.seal_tallies(
                    without(tallies, content),
                    sealed_tallies,
                    partial(sqlite_schema.used, db),
                    anew=True,
                )
                db.executemany(
                    "INSERT INTO doomed VALUES (?)",
                    [(key,)] if sealed_tallies.key is None else [(key,), (sealed_tallies.key,)],
                )
                db.execute(
                    "UPDATE collection SET withdrawn = withdrawn + 1, tallies_key = ?, tallies = ?",
                    now,
                )
                db.execute("DELETE FROM reports WHERE key = ?", (key,))
        self._destroy_doomed()
        return sealed is not None

    def erase(self, hour: int) -> int:
        with self._sealing() as db:
            db.execute("PRAGMA secure_delete = ON")
            state, sealed_tallies = _read_state_and_tallies(db)
            erased = 0
            if state is not State.ERASED:
                used = partial(sqlite_schema.used, db)
                now = self._vault.seal_tallies({}, sealed_tallies, used, anew=True)
                db.execute("INSERT INTO doomed SELECT key FROM reports")
                if sealed_tallies.key is not None:
                    db.execute("INSERT INTO doomed VALUES (?)", (sealed_tallies.key,))
                erased = db.execute("DELETE FROM reports").rowcount
                db.execute(
                    "UPDATE collection SET erased_hour = ?, tallies_key = ?, tallies = ?",
                    (hour, *now),
                )
        self._destroy_doomed()
        return erased

    def _destroy_doomed(self) -> None:
        """What a transaction has given up; also what a withdrawal left that was cut short."""
        with self._file.transaction() as db:
            doomed = [key for (key,) in db.execute("SELECT key FROM doomed")]
            if doomed:
                self._vault.keys.destroy(doomed)
                db.execute("DELETE FROM doomed")

    def observe(self, hour: int, *, jump: int) -> int:
        with self._file.connection() as db:
            (latest,) = db.execute(_LATEST).fetchone()
        if latest < hour:
            with self._file.transaction() as db:
                db.execute(_OBSERVE, {"hour": hour, "jump": jump})
                (latest,) = db.execute(_LATEST).fetchone()
        return int(latest)

    def set_latest_hour(self, hour: int) -> None:
        with self._file.transaction() as db:
            db.execute("UPDATE collection SET latest_hour = ?", (hour,))

    def set_open(self, is_open: bool) -> None:
        with self._file.transaction() as db:
            require_changeable(
                _read_state_and_tallies(db)[0], "it can neither be opened nor closed"
            )
            db.execute(
                "UPDATE collection SET state = ?", (State.OPEN if is_open else State.CLOSED,)
            )

    def freeze(self, hour: int) -> int:
        with self._file.transaction() as db:
            require_there(_read_state_and_tallies(db)[0])
            db.execute(
                "UPDATE collection SET state = 'frozen', frozen_hour = ? WHERE state <> 'frozen'",
                (hour,),
            )
            (first,) = db.execute("SELECT frozen_hour FROM collection").fetchone()
            return int(first)

    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        with self._file.connection() as db:
            cursor = db.execute(_ROWS)
        while True:
            with self._file.connection():
                rows = cursor.fetchmany(chunk)
                opened = [self._vault.open(*row) for row in rows]
            if not rows:
                return
            yield [(content.features, content.label, content.epsilon) for content in opened]

    def set_digest(self, digest: str) -> None:
        with self._file.transaction() as db:
            db.execute("UPDATE collection SET digest = ?", (digest,))

    def close(self) -> None:
        self._file.close()
        if vault := vars(self).get("_vault"):
            vault.keys.close()

    @contextmanager
    def _sealing(self, *, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that may seal."""
        with self._file.lock, self._vault.settling(), self._file.transaction(wait=wait) as db:
            yield db

    def _is_ours(self, db: sqlite3.Connection) -> bool:
        """Whoever puts another database in the place of an open one must not get this collection's
        reports.
        """
        try:
            identity = db.execute("SELECT study_hash, server, ring FROM collection").fetchone()
        except sqlite3.Error:
            return False
        return bool(
            identity == (self.collection_id.study_hash, self.collection_id.server, self._ring)
        )


def _read_state_and_tallies(db: sqlite3.Connection) -> tuple[State, SealedTallies]:
    state, key, tallies = db.execute(_STATE_AND_TALLIES).fetchone()
    return State(state), SealedTallies(key, tallies)


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
    conflict = " ON CONFLICT DO NOTHING" if table == "ids" else ""
    return f"INSERT INTO {table} VALUES {', '.join(['(?, ?)'] * rows)}{conflict}"
