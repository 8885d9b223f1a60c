"""A collection in a PostgreSQL database (one collection, one database or schema), with the promises
of `Store`.

Every writing transaction first locks the collection's only row: writers take turns, also when
several services or commands use the same database, so that freezing waits for commits and two
reports never race for a token.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg

from pdml.collector.storage import postgres_schema
from pdml.collector.storage.postgres_schema import Connection
from pdml.collector.storage.report_keys import KeyDestroyed, KeyRing
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

_STATE = "CASE WHEN erased_hour IS NULL THEN state ELSE 'erased' END"
_STATE_AND_TALLIES = f"SELECT {_STATE}, tallies_key, tallies FROM pdml_collection FOR UPDATE"
_TOTALS = (
    f"SELECT {_STATE}, withdrawn, conflicts, invited, invited_used, frozen_hour, erased_hour, "
    "latest_hour, digest, tallies_key, tallies FROM pdml_collection"
)
_REPORT_BY_ID = "SELECT key, sealed FROM pdml_reports WHERE id = %s"
_ROWS = "SELECT key, id, sealed FROM pdml_reports WHERE sealed IS NOT NULL"
_ANY = "SELECT 1 FROM pdml_reports WHERE id = ANY(%b::bytea[]) LIMIT 1"
_FRESH = "SELECT count(*) FROM pdml_invitations WHERE hash = ANY(%b::bytea[]) AND NOT used"
_USE = "UPDATE pdml_invitations SET used = true WHERE hash = ANY(%b::bytea[]) AND NOT used"
_LATEST = "SELECT latest_hour FROM pdml_collection"
_OBSERVE = (
    "UPDATE pdml_collection SET latest_hour = %(hour)s WHERE latest_hour < %(hour)s "
    "AND (latest_hour = 0 OR %(hour)s - latest_hour <= %(jump)s)"
)
_COUNT = (
    "UPDATE pdml_collection SET tallies_key = %s, tallies = %s, invited_used = invited_used + %s"
)
_WITHDRAWN = "UPDATE pdml_collection SET withdrawn = withdrawn + 1, tallies_key = %s, tallies = %s"
_ERASE = "UPDATE pdml_reports SET sealed = NULL WHERE id = %s"
_DOOM_ALL = "INSERT INTO pdml_doomed SELECT key FROM pdml_reports WHERE sealed IS NOT NULL"
_ERASE_ALL = "UPDATE pdml_reports SET sealed = NULL WHERE sealed IS NOT NULL"
_ERASED = "UPDATE pdml_collection SET erased_hour = %s, tallies_key = %s, tallies = %s"


class PostgresStore:
    """`Store` behind a postgresql:// address, with its keys in a folder of this machine."""

    def __init__(
        self, address: str, collection_id: CollectionId, *, keys: Path, create: bool = True
    ) -> None:
        self.collection_id = collection_id
        self._address = address
        self._lock = threading.RLock()
        self._db: Connection | None = None
        try:
            with self._guarded() as db, db.transaction():
                record = postgres_schema.open_or_create(db, collection_id, create=create)
            with self._transaction():  # one at a time, where several start at once
                ring = KeyRing(keys, record.ring, fresh=record.fresh)
                self._vault = Vault(ring, cells=collection_id.cells)
            self._destroy_doomed()
        except StorageUnavailable as error:
            self.close()
            raise InvalidInput(
                f"cannot use the PostgreSQL database as a collection: {error}"
            ) from error
        except BaseException:
            self.close()
            raise

    def commit(self, entries: Sequence[Entry]) -> list[Decision]:
        with self._sealing() as (db, state, sealed_tallies):
            tallied = self._tallied(db, state, sealed_tallies)
            outcomes = (
                self._store_all(db, entries)
                if state is State.OPEN and not any([entry[7] for entry in entries])
                else None
            )
            if outcomes is None:
                outcomes = [self._decide(db, entry, state) for entry in entries]
            if stored := stored_of(entries, outcomes):
                self._count(db, *tallied, stored)
            if conflicts := outcomes.count(CONFLICT):
                db.execute("UPDATE pdml_collection SET conflicts = conflicts + %s", (conflicts,))
            return outcomes

    def _store_all(self, db: Connection, entries: Sequence[Entry]) -> list[Decision] | None:
        """The common case at full speed: every entry new and every token fresh. Otherwise None, and
        nothing done.

        Asked first rather than tried, which the lock makes safe: a failed COPY would leave an id in
        PostgreSQL's own log.
        """
        ids = {entry[0] for entry in entries}
        tokens = [entry[6] for entry in entries if entry[6]]
        if len(ids) < len(entries) or db.execute(_ANY, (list(ids),)).fetchone() is not None:
            return None
        if tokens and (
            len(set(tokens)) < len(tokens)
            or db.execute(_FRESH, (tokens,)).fetchone() != (len(tokens),)
        ):
            return None
        postgres_schema.copy(db, self._vault.seal(entries, partial(postgres_schema.used, db)))
        if tokens:
            db.execute(_USE, (tokens,))
        return [STORED] * len(entries)

    def _decide(self, db: Connection, entry: Entry, state: State) -> Decision:
        """One entry by itself."""
        stored = db.execute(_REPORT_BY_ID, (entry.id,)).fetchone()
        if (outcome := decide_by_id(entry, state, stored, self._vault.open)) is not None:
            return outcome
        if entry.token and db.execute(_USE, ([entry.token],)).rowcount == 0:
            issued = db.execute(
                "SELECT 1 FROM pdml_invitations WHERE hash = %s", (entry.token,)
            ).fetchone()
            return Decision("token_used" if issued else "token_unknown")
        postgres_schema.copy(db, self._vault.seal([entry], partial(postgres_schema.used, db)))
        return STORED

    def _count(
        self,
        db: Connection,
        tallies: Tallies,
        sealed_tallies: SealedTallies,
        stored: Sequence[Entry],
    ) -> None:
        """Keep the totals in step with the reports, in the same transaction."""
        now = self._vault.seal_tallies(
            counted(tallies, stored), sealed_tallies, partial(postgres_schema.used, db)
        )
        db.execute(_COUNT, (*now, sum([1 for entry in stored if entry[6]])))

    def _tallied(
        self, db: Connection, state: State, sealed_tallies: SealedTallies
    ) -> tuple[Tallies, SealedTallies]:
        """The totals as they are held, before anything is stored.

        In a database from before a withdrawal they are counted anew, and the withdrawal happens to
        it now.
        """
        try:
            return self._vault.tallies(sealed_tallies), sealed_tallies
        except KeyDestroyed:
            with db.cursor("pdml_all", binary=True) as rows:
                rows.execute(_ROWS)
                tallies, gone = self._vault.recount(rows, frozen=state is State.FROZEN)
        db.execute(
            "UPDATE pdml_reports SET sealed = NULL WHERE key = ANY(%s)", ([key for (key,) in gone],)
        )
        db.execute("UPDATE pdml_collection SET withdrawn = withdrawn + %s", (len(gone),))
        return tallies, SealedTallies(None, None)

    def probe(self) -> None:
        with self._sealing() as (db, _, _):
            db.execute("UPDATE pdml_collection SET probes = probes + 1")
            self._vault.keys.probe(partial(postgres_schema.used, db))

    def totals(self) -> Totals:
        with self._guarded() as db:
            row = db.execute(_TOTALS).fetchone()
            assert row is not None
            # by a withdrawal just now, or before this database was restored
            with suppress(KeyDestroyed):
                return totals_of(row[:9], self._vault.tallies(SealedTallies(*row[9:])))
        with self._sealing() as (db, state, sealed_tallies):
            self._count(db, *self._tallied(db, state, sealed_tallies), [])
        return self.totals()

    def invitation(self, token: bytes) -> tuple[State, bool | None]:
        with self._guarded() as db, db.transaction():
            cursor = db.execute("SELECT used FROM pdml_invitations WHERE hash = %b", (token,))
            row = cursor.fetchone()
            state = db.execute(f"SELECT {_STATE} FROM pdml_collection").fetchone()
        assert state is not None
        return State(state[0]), None if row is None else bool(row[0])

    def invite(self, hashes: Iterable[bytes]) -> None:
        with self._transaction() as (db, state, _):
            require_changeable(state, "an invitation to it would lead nowhere")
            added = 0
            with db.cursor().copy(
                "COPY pdml_invitations (hash) FROM STDIN (FORMAT binary)"
            ) as copy:
                copy.set_types(["bytea"])
                for token_hash in hashes:
                    copy.write_row((token_hash,))
                    added += 1
            db.execute("UPDATE pdml_collection SET invited = invited + %s", (added,))

    def commit_at_once(self, entries: Sequence[Entry]) -> list[Decision] | None:
        return None

    def withdraw(self, report: bytes) -> bool:
        with self._sealing() as (db, state, sealed_tallies):
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
                used = partial(postgres_schema.used, db)
                now = self._vault.seal_tallies(
                    without(tallies, content), sealed_tallies, used, anew=True
                )
                doomed = [key] if sealed_tallies.key is None else [key, sealed_tallies.key]
                db.execute("INSERT INTO pdml_doomed SELECT unnest(%s::bigint[])", (doomed,))
                db.execute(_WITHDRAWN, now)
                db.execute(_ERASE, (report,))
        self._destroy_doomed()
        return sealed is not None

    def erase(self, hour: int) -> int:
        with self._sealing() as (db, state, sealed_tallies):
            erased = 0
            if state is not State.ERASED:
                used = partial(postgres_schema.used, db)
                now = self._vault.seal_tallies({}, sealed_tallies, used, anew=True)
                db.execute(_DOOM_ALL)
                if sealed_tallies.key is not None:
                    db.execute("INSERT INTO pdml_doomed VALUES (%s)", (sealed_tallies.key,))
                erased = db.execute(_ERASE_ALL).rowcount
                db.execute(_ERASED, (hour, *now))
        self._destroy_doomed()
        return erased

    def _destroy_doomed(self) -> None:
        """What a transaction has given up; also what a withdrawal left that was cut short."""
        with self._transaction() as (db, _, _):
            doomed = [key for (key,) in db.execute("SELECT key FROM pdml_doomed")]
            if doomed:
                self._vault.keys.destroy(doomed)
                db.execute("DELETE FROM pdml_doomed")

    def observe(self, hour: int, *, jump: int) -> int:
        with self._guarded() as db:
            row = db.execute(_LATEST).fetchone()
        if row is not None and row[0] < hour:
            with self._transaction() as (db, _, _):
                db.execute(_OBSERVE, {"hour": hour, "jump": jump})
                row = db.execute(_LATEST).fetchone()
        assert row is not None
        return int(row[0])

    def set_latest_hour(self, hour: int) -> None:
        with self._transaction() as (db, _, _):
            db.execute("UPDATE pdml_collection SET latest_hour = %s", (hour,))

    def set_open(self, is_open: bool) -> None:
        with self._transaction() as (db, state, _):
            require_changeable(state, "it can neither be opened nor closed")
            db.execute(
                "UPDATE pdml_collection SET state = %s",
                (State.OPEN.value if is_open else State.CLOSED.value,),
            )

    def freeze(self, hour: int) -> int:
        with self._transaction() as (db, state, _):
            require_there(state)
            db.execute(
                "UPDATE pdml_collection SET state = 'frozen', frozen_hour = %s WHERE state "
                "<> 'frozen'",
                (hour,),
            )
            row = db.execute("SELECT frozen_hour FROM pdml_collection").fetchone()
            assert row is not None
            return int(row[0])

    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        with self._guarded() as db, db.transaction(), db.cursor("pdml_rows", binary=True) as cursor:
            cursor.execute(f"{_ROWS} ORDER BY id")
            while rows := cursor.fetchmany(chunk):
                opened = [self._vault.open(*row) for row in rows]
                yield [(content.features, content.label, content.epsilon) for content in opened]

    def set_digest(self, digest: str) -> None:
        with self._transaction() as (db, _, _):
            db.execute("UPDATE pdml_collection SET digest = %s", (digest,))

    def close(self) -> None:
        with self._lock:
            self._disconnect()
            if vault := vars(self).get("_vault"):
                vault.keys.close()

    # Connections

    @contextmanager
    def _sealing(self) -> Iterator[tuple[Connection, State, SealedTallies]]:
        """A transaction that may seal."""
        with self._lock, self._vault.settling(), self._transaction() as transaction:
            yield transaction

    @contextmanager
    def _transaction(self) -> Iterator[tuple[Connection, State, SealedTallies]]:
        """A transaction that holds the collection's row, and the state and the totals it found
        there.
        """
        with self._guarded() as db, db.transaction():
            row = db.execute(_STATE_AND_TALLIES, binary=True).fetchone()
            assert row is not None
            yield db, State(row[0]), SealedTallies(row[1], row[2])

    @contextmanager
    def _guarded(self) -> Iterator[Connection]:
        """The connection; whatever happens to it becomes `StorageUnavailable`, and the next use
        starts afresh.
        """
        with self._lock:
            try:
                if self._db is None:
                    self._db = self._connect()
                yield self._db
            except psycopg.Error as error:
                self._disconnect()
                # The first line only: details may quote a row.
                raise StorageUnavailable(
                    (str(error).splitlines() or [type(error).__name__])[0].lower()
                ) from None

    def _disconnect(self) -> None:
        if self._db is not None:
            with suppress(psycopg.Error):
                self._db.close()
            self._db = None

    def _connect(self) -> Connection:
        db: Connection = psycopg.connect(self._address, autocommit=True, connect_timeout=10)
        try:
            db.execute("SET synchronous_commit = on")
            db.execute("SET client_min_messages = error")
            (fsync,) = db.execute("SHOW fsync").fetchone() or ("",)
            if fsync != "on":
                raise InvalidInput(
                    "the PostgreSQL server runs with fsync = off: it would forget "
                    "acknowledged reports in a power cut"
                )
        except BaseException:
            db.close()
            raise
        return db
