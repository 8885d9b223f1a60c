"""One collection in a database: what every store promises, and how SQLite and PostgreSQL keep it
alike. Reports lie there sealed, their keys in a folder. Rows: docs/reference/collector.md."""

import os
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.collector.storage.records import (
    COLUMNS,
    CONFLICT,
    FORMAT,
    STORED,
    CollectionId,
    CollectionState,
    Decision,
    Ended,
    Entry,
    NoSuchReport,
    Outcome,
    Tallies,
    Totals,
    check_identity,
    decide_by_id,
    no_collection,
    require_changeable,
    require_there,
)
from pdml.collector.storage.report_keys import KeyDestroyed, KeyDisk, KeyRing, SealedTallies, Vault
from pdml.errors import InvalidInput, StorageUnavailable

# What executes statements inside a transaction, with a ? for each value.
Database = Any

_STATE = "CASE WHEN erased_hour IS NULL THEN state ELSE 'erased' END"
# of `Totals`
_COUNTS = (
    *("withdrawn", "conflicts", "invitations", "invitations_used"),
    *("frozen_hour", "erased_hour", "latest_hour", "digest"),
)
_TOTALS = f"SELECT {_STATE}, tallies_key, tallies, {', '.join(_COUNTS)} FROM pdml_collection"
_LATEST = "SELECT latest_hour FROM pdml_collection"
_OBSERVE = (
    "UPDATE pdml_collection SET latest_hour = ? WHERE latest_hour < ? "
    "AND (latest_hour = 0 OR ? - latest_hour <= ?)"
)
_COUNT = (
    "UPDATE pdml_collection SET tallies_key = ?, tallies = ?, "
    "invitations_used = invitations_used + ?"
)
_WITHDRAWN = "UPDATE pdml_collection SET withdrawn = withdrawn + 1, tallies_key = ?, tallies = ?"
_ERASED = "UPDATE pdml_collection SET erased_hour = ?, tallies_key = ?, tallies = ?"
_ERASE_ALL = "UPDATE pdml_reports SET sealed = NULL WHERE sealed IS NOT NULL"
_DOOM = "INSERT INTO pdml_doomed VALUES (?)"
_DOOM_ALL = "INSERT INTO pdml_doomed SELECT key FROM pdml_reports WHERE sealed IS NOT NULL"
_USED = "SELECT key FROM pdml_reports WHERE key BETWEEN ? AND ? AND sealed IS NOT NULL"
_FREEZE = "UPDATE pdml_collection SET state = 'frozen', frozen_hour = ? WHERE state <> 'frozen'"

# {int}, {blob}: the engine's types; {strict}: what it adds to a table
TABLES = (
    """CREATE TABLE pdml_collection (
    one {int} PRIMARY KEY CHECK (one = 1), schema {int} NOT NULL,
    study_id TEXT NOT NULL, study_hash TEXT NOT NULL, server TEXT NOT NULL,
    width {int} NOT NULL, classes {int} NOT NULL, epsilons {int} NOT NULL,
    ring TEXT NOT NULL, tallies_key {int}, tallies {blob},
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'frozen')),
    frozen_hour {int}, erased_hour {int}, latest_hour {int} NOT NULL DEFAULT 0,
    digest TEXT NOT NULL DEFAULT '',
    withdrawn {int} NOT NULL DEFAULT 0, conflicts {int} NOT NULL DEFAULT 0,
    invitations {int} NOT NULL DEFAULT 0, invitations_used {int} NOT NULL DEFAULT 0
) {strict}""",
    # No link to the report: who knows whose token it was must not find the report by it.
    "CREATE TABLE pdml_invitations (hash {blob} PRIMARY KEY, used {int} NOT NULL DEFAULT 0) "
    "{strict}",
    # Keys of what was withdrawn, from the transaction that says so until they are destroyed.
    "CREATE TABLE pdml_doomed (key {int} PRIMARY KEY) {strict}",
)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a store takes of the machine it runs on: time, randomness, and the disk of its keys."""

    clock: Clock = SYSTEM_CLOCK
    entropy: Callable[[int], bytes] = os.urandom
    disk: KeyDisk = field(default_factory=KeyDisk)


class NotAllNew(Exception):
    """The entries need a closer look, one by one."""


class Store(ABC):
    """One collection.

    Guarantees
    ----------
    - What a method has returned from survives a crash and a power cut.
    - `commit` decides all in one transaction: an id is stored once, a token used once, whoever
      else is writing.
    - Once frozen, a collection never changes again, but for being erased.
    """

    # Statements in which the engines differ.
    TABLES: ClassVar[tuple[str, ...]]
    LOCK: ClassVar[str] = f"SELECT {_STATE}, tallies_key, tallies FROM pdml_collection"
    FIND: ClassVar[str]  # (key, sealed) of a report by its id
    ROWS: ClassVar[str]  # (key, id, sealed) of all that are left, by id
    ERASE: ClassVar[str]  # a report by its id, which stays
    PROBE: ClassVar[str]  # changes nothing that counts

    def __init__(self, collection_id: CollectionId, where: str, machine: Machine) -> None:
        self.collection_id = collection_id
        self.machine = machine
        self.lock = threading.RLock()
        self._where = where
        self._vault: Vault
        self._db: Any = None  # the engine's connection

    def _open(self, keys: Path, *, create: bool) -> str:
        """Check whose collection this is, or make it; and open its keys. The name of their ring."""
        try:
            with self._transaction() as db:
                ring, is_fresh = self._open_tables(db, create)
            with self._changing():  # one at a time, where several start at once
                opened = KeyRing(
                    keys, ring, fresh=is_fresh, entropy=self.machine.entropy, disk=self.machine.disk
                )
                self._vault = Vault(opened, cells=self.collection_id.cells)
            self._destroy_doomed()
            return ring
        except StorageUnavailable as error:
            self.close()
            raise InvalidInput(f"cannot use {self._where} as a collection: {error}") from error
        except BaseException:
            self.close()
            raise

    def _open_tables(self, db: Database, create: bool) -> tuple[str, bool]:
        if not self._has_tables(db):
            if not create:
                raise no_collection(self._where)
            for statement in self.TABLES:
                db.execute(statement)
            ring = self.machine.entropy(16).hex()
            db.execute(
                f"INSERT INTO pdml_collection (one, schema, {COLUMNS}, ring) "
                "VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
                (FORMAT.version, *astuple(self.collection_id), ring),
            )
        row = f"SELECT ring, tallies_key, schema, {COLUMNS} FROM pdml_collection"
        ring, key, version, *identity = db.execute(row).fetchone()
        check_identity(version, identity, self.collection_id, self._where)
        return ring, key is None

    def commit(self, entries: Sequence[Entry]) -> list[Decision]:
        """Store or refuse each entry, in order; `StorageUnavailable` if nothing is certain."""
        decisions = self._store_all(entries)
        if decisions is not None:
            return decisions
        with self._sealing() as (db, state, sealed_tallies):
            tallies = self._tallies(db, state, sealed_tallies)
            decisions = [self._decide(db, entry, state) for entry in entries]
            if stored := [e for e, d in zip(entries, decisions, strict=True) if d is STORED]:
                self._count(db, *tallies, stored)
            if conflicts := decisions.count(CONFLICT):
                db.execute("UPDATE pdml_collection SET conflicts = conflicts + ?", (conflicts,))
            return decisions

    def commit_at_once(self, entries: Sequence[Entry]) -> list[Decision] | None:
        """`commit` if it waits for this machine's disk alone; otherwise None, nothing done."""
        return None

    def _store_all(self, entries: Sequence[Entry], *, wait: bool = True) -> list[Decision] | None:
        """The common case at full speed: all new, in time, tokens fresh. Otherwise None."""
        if any([entry[7] for entry in entries]):  # closed_reason
            return None
        tokens = [entry[6] for entry in entries if entry[6]]
        with suppress(NotAllNew), self._sealing(wait=wait) as (db, state, sealed_tallies):
            if state is not CollectionState.OPEN or (
                tokens and self._use_tokens(db, tokens) != len(tokens)
            ):
                raise NotAllNew
            tallies = self._tallies(db, state, sealed_tallies)
            self._insert_new(db, entries)
            self._count(db, *tallies, entries)
            return [STORED] * len(entries)
        return None

    def _decide(self, db: Database, entry: Entry, state: CollectionState) -> Decision:
        stored = db.execute(self.FIND, (entry.id,)).fetchone()
        if (decision := decide_by_id(entry, state, stored, self._vault.open)) is not None:
            return decision
        if entry.token and self._use_tokens(db, [entry.token]) == 0:
            issued = self._is_used(db, entry.token) is not None
            return Decision(Outcome.TOKEN_USED if issued else Outcome.TOKEN_UNKNOWN)
        self._insert_new(db, [entry])
        return STORED

    def _count(
        self, db: Database, tallies: Tallies, sealed_tallies: SealedTallies, stored: Sequence[Entry]
    ) -> None:
        """Keep the totals in step with the reports, in the same transaction."""
        counts = Counter(tallies)
        counts.update([(entry[2], entry[3]) for entry in stored])
        now = self._vault.seal_tallies(counts, sealed_tallies, self._used(db))
        db.execute(_COUNT, (*now, sum([1 for entry in stored if entry[6]])))

    def _tallies(
        self, db: Database, state: CollectionState, sealed_tallies: SealedTallies
    ) -> tuple[Tallies, SealedTallies]:
        """The totals before anything is stored. In a database from before a withdrawal they are
        counted anew, and the withdrawal happens to it now."""
        try:
            return self._vault.tallies(sealed_tallies), sealed_tallies
        except KeyDestroyed:
            tallies, gone = self._vault.recount(
                self._all_rows(db), frozen=state is CollectionState.FROZEN
            )
        db.executemany(self.ERASE, gone)
        db.execute("UPDATE pdml_collection SET withdrawn = withdrawn + ?", (len(gone),))
        return tallies, SealedTallies(None, None)

    def probe(self) -> None:
        """Prove that a commit reaches the disk now, or raise `StorageUnavailable`."""
        with self._sealing() as (db, _, _):
            db.execute(self.PROBE)
            self._vault.keys.probe(self._used(db))

    def totals(self) -> Totals:
        with self._reading() as db:
            state, key, sealed, *row = db.execute(_TOTALS).fetchone()
            # by a withdrawal just now, or before this database was restored
            with suppress(KeyDestroyed):
                tallies = self._vault.tallies(SealedTallies(key, sealed))
                cells = {cell: count for cell, count in sorted(tallies.items()) if count}
                counts = dict(zip(_COUNTS, row, strict=True))
                return Totals(state=CollectionState(state), tallies=cells, **counts)
        with self._sealing() as (db, now, sealed_tallies):
            self._count(db, *self._tallies(db, now, sealed_tallies), [])
        return self.totals()

    def invitation(self, token: bytes) -> tuple[CollectionState, bool | None]:
        """The state, and whether the invitation of this hash was used (None: unknown)."""
        with self._reading() as db:
            (state,) = db.execute(f"SELECT {_STATE} FROM pdml_collection").fetchone()
            return CollectionState(state), self._is_used(db, token)

    def _is_used(self, db: Database, token: bytes) -> bool | None:
        row = db.execute("SELECT used FROM pdml_invitations WHERE hash = ?", (token,)).fetchone()
        return None if row is None else bool(row[0])

    def invite(self, hashes: Iterable[bytes]) -> None:
        """Add invitations by the SHA-256 of their tokens."""
        with self._changing() as (db, state, _):
            require_changeable(state, "an invitation to it would lead nowhere")
            rows = [(token,) for token in hashes]
            db.executemany("INSERT INTO pdml_invitations (hash) VALUES (?)", rows)
            db.execute("UPDATE pdml_collection SET invitations = invitations + ?", (len(rows),))

    def withdraw(self, report: bytes) -> bool:
        """Destroy a report's key and erase it but for its id; False if it already was. Raises
        `NoSuchReport`, or `Ended` where it is frozen. To be repeated after `StorageUnavailable`."""
        with self._sealing() as (db, state, sealed_tallies):
            # first: it finishes the withdrawals that a restored database has forgotten
            is_frozen = state is CollectionState.FROZEN
            current = None if is_frozen else self._tallies(db, state, sealed_tallies)
            row = db.execute(self.FIND, (report,)).fetchone()
            if row is None:
                raise NoSuchReport
            key, sealed = row
            if sealed is not None:
                if current is None:
                    raise Ended(state, "nothing can be withdrawn from it any more")
                tallies, sealed_tallies = current
                content = self._vault.open(key, report, sealed)
                cell = content.epsilon, content.label
                fewer = {**tallies, cell: tallies[cell] - 1}
                now = self._vault.seal_tallies(fewer, sealed_tallies, self._used(db), anew=True)
                self._doom_tallies(db, sealed_tallies)
                db.execute(_DOOM, (key,))
                db.execute(_WITHDRAWN, now)
                db.execute(self.ERASE, (report,))
        self._destroy_doomed()
        return sealed is not None

    def erase(self, hour: int) -> int:
        """Withdraw every report that is left, also of a frozen collection; how many there were. To
        be repeated after `StorageUnavailable`."""
        with self._sealing() as (db, state, sealed_tallies):
            erased = 0
            if state is not CollectionState.ERASED:
                now = self._vault.seal_tallies({}, sealed_tallies, self._used(db), anew=True)
                self._doom_tallies(db, sealed_tallies)
                db.execute(_DOOM_ALL)
                erased = db.execute(_ERASE_ALL).rowcount
                db.execute(_ERASED, (hour, *now))
        self._destroy_doomed()
        return erased

    def _doom_tallies(self, db: Database, sealed_tallies: SealedTallies) -> None:
        """What totals were sealed with goes too: two of them would tell their difference."""
        if sealed_tallies.key is not None:
            db.execute(_DOOM, (sealed_tallies.key,))

    def _destroy_doomed(self) -> None:
        """What a transaction has given up; also what a withdrawal left that was cut short."""
        with self._changing() as (db, _, _):
            doomed = [key for (key,) in db.execute("SELECT key FROM pdml_doomed").fetchall()]
            if doomed:
                self._vault.keys.destroy(doomed)
                db.execute("DELETE FROM pdml_doomed")

    def observe(self, hour: int, *, jump: int) -> int:
        """Raise the latest hour to ``hour``, by at most ``jump`` unless it is the first."""
        with self._reading() as db:
            (latest,) = db.execute(_LATEST).fetchone()
        if latest < hour:
            with self._changing() as (db, _, _):
                db.execute(_OBSERVE, (hour, hour, hour, jump))
                (latest,) = db.execute(_LATEST).fetchone()
        return int(latest)

    def set_latest_hour(self, hour: int) -> None:
        """Set the latest hour, also to an earlier one: a person has confirmed the date."""
        with self._changing() as (db, _, _):
            db.execute("UPDATE pdml_collection SET latest_hour = ?", (hour,))

    def set_open(self, is_open: bool) -> None:
        """Close, or open again; a frozen collection refuses both."""
        with self._changing() as (db, state, _):
            require_changeable(state, "it can neither be opened nor closed")
            state = CollectionState.OPEN if is_open else CollectionState.CLOSED
            db.execute("UPDATE pdml_collection SET state = ?", (state.value,))

    def freeze(self, hour: int) -> int:
        """Freeze for good; the hour of the first time."""
        with self._changing() as (db, state, _):
            require_there(state)
            db.execute(_FREEZE, (hour,))
            (first,) = db.execute("SELECT frozen_hour FROM pdml_collection").fetchone()
            return int(first)

    def set_digest(self, digest: str) -> None:
        """Remember what was exported; another digest later means that the database was altered."""
        with self._changing() as (db, _, _):
            db.execute("UPDATE pdml_collection SET digest = ?", (digest,))

    @abstractmethod
    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        """(features, label, ε) by id, which is random: the order tells nothing of the time."""

    def _opened(self, rows: Iterable[Sequence[Any]]) -> list[tuple[bytes, int, int]]:
        contents = [self._vault.open(*row) for row in rows]
        return [(content.features, content.label, content.epsilon) for content in contents]

    def close(self) -> None:
        with self.lock:
            self._disconnect()
            if vault := vars(self).get("_vault"):
                vault.keys.close()

    def _disconnect(self) -> None:
        if self._db is not None:
            with suppress(Exception):
                self._db.close()
            self._db = None

    # Transactions

    @contextmanager
    def _sealing(
        self, *, wait: bool = True
    ) -> Iterator[tuple[Database, CollectionState, SealedTallies]]:
        """A transaction that may seal."""
        with self.lock:
            self._vault.keys.begin()
            with self._changing(wait=wait) as transaction:
                yield transaction
            self._vault.keys.commit()

    @contextmanager
    def _changing(
        self, *, wait: bool = True
    ) -> Iterator[tuple[Database, CollectionState, SealedTallies]]:
        """A transaction that nobody else writes beside, and the state and the totals it found."""
        with self._transaction(wait=wait) as db:
            state, key, sealed = db.execute(self.LOCK).fetchone()
            yield db, CollectionState(state), SealedTallies(key, sealed)

    def _used(self, db: Database) -> Callable[[int, int], set[int]]:
        return partial(_used_keys, db)

    # What an engine does its own way

    @abstractmethod
    def _transaction(self, *, wait: bool = True) -> AbstractContextManager[Database]:
        """A transaction for writing; whatever the engine does becomes `StorageUnavailable`."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Database]:
        """One moment of the database."""

    @abstractmethod
    def _has_tables(self, db: Database) -> bool: ...

    @abstractmethod
    def _use_tokens(self, db: Database, tokens: Sequence[bytes]) -> int:
        """How many of them were fresh, and are used now."""

    @abstractmethod
    def _insert_new(self, db: Database, entries: Sequence[Entry]) -> None:
        """Raises `NotAllNew` before anything is sealed: a key that sealed for nothing is lost."""

    def _all_rows(self, db: Database) -> Iterable[Sequence[Any]]:
        return db.execute(self.ROWS)  # type: ignore[no-any-return]


def _used_keys(db: Database, first: int, last: int) -> set[int]:
    keys = db.execute(_USED, (first, last)).fetchall()
    keys += db.execute("SELECT tallies_key FROM pdml_collection").fetchall()
    return {key for (key,) in keys if key is not None}
