"""What a collection keeps, and what every store promises about it; `sqlite` and `postgres` keep it.

A database holds one collection: the reports of one study at one server, sealed, while their keys
lie in a folder (`keys`). docs/guide/collect.md tells each row's life.
"""

import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from pdml.errors import DataError, InvalidInput
from pdml.formats import Format

# Raised with every change of the tables.
FORMAT = Format(name="collection", version=5)

Tallies = Mapping[tuple[int, int], int]  # (ε in millionths, reported class): reports


class State(StrEnum):
    """A collection's life: open <-> closed -> frozen; and from each of them to erased."""

    OPEN = "open"
    CLOSED = "closed"
    FROZEN = "frozen"
    ERASED = "erased"  # all reports, at the end of their retention


@dataclass(frozen=True, kw_only=True)
class CollectionId:
    """Whose reports these are: fixed when the database is made, and checked whenever it is
    opened.
    """

    study_id: str
    study_hash: str
    server: str
    width: int  # d, entries of a report's features
    classes: int  # K
    epsilons: int  # on the menu

    @property
    def cells(self) -> int:
        """Of the totals: (ε, reported class)."""
        return self.classes * self.epsilons


COLUMNS = ", ".join(field.name for field in fields(CollectionId))


class Entry(NamedTuple):
    """A report that obeys every rule, on its way into the store."""

    id: bytes  # 16: `rules.hash_id` of the report's, as it is kept
    # SHA-256 of the report's bytes, for its receipt; never kept: it could confirm a guess, and find
    # the invitation
    digest: bytes
    epsilon: int  # millionths
    label: int
    hour: int  # hours since 1970: the only time that is kept
    features: bytes  # d little-endian float32
    token: bytes  # SHA-256 of the invitation; empty without one
    closed_reason: str = ""  # problem code if the study's opening times refuse new reports now
    consent: bytes = b""  # 48: SHA-256 of the text, then its version; empty where there is none
    mac: bytes = bytes(32)  # HMAC-SHA256 of the report's bytes under its nonce, which is not kept
    report: str = ""  # the report's id, for its answer; never kept


class Content(NamedTuple):
    """What a stored report says, and the hour it came."""

    epsilon: int
    label: int
    hour: int
    features: bytes
    consent: bytes = b""
    mac: bytes = bytes(32)


# of the number of a key, a report's id, and its sealed bytes
Opened = Callable[[int, bytes, bytes], Content]


class Decision(NamedTuple):
    """What became of an entry: "stored", "replayed" (with the hour of the first time), or a
    problem's code.
    """

    code: str
    hour: int = 0


STORED = Decision("stored")
CONFLICT = Decision("id_conflict")


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What a store can tell without touching a report."""

    state: State
    tallies: Tallies
    withdrawn: int
    conflicts: int  # reports that came under an id that was taken, and did not repeat it
    invitations: int
    invitations_used: int
    frozen_hour: int | None
    erased_hour: int | None
    latest_hour: int  # at which the collection was used; 0 if its study has no retention
    digest: str  # of the exported data set; empty before

    @property
    def reports(self) -> int:
        return sum(self.tallies.values())


class Store(Protocol):
    """One collection.

    Guarantees
    ----------
    - What a method has returned from survives a crash and a power cut.
    - `commit` decides all entries in one transaction: an id is stored once, a token is used once,
      whoever else is writing.
    - Once frozen, a collection never changes again, but for being erased.
    """

    collection_id: CollectionId

    def commit(self, entries: Sequence[Entry]) -> list[Decision]:
        """Store or refuse each entry, in order; raises `StorageUnavailable` if nothing is
        certain.
        """

    def commit_at_once(self, entries: Sequence[Entry]) -> list[Decision] | None:
        """`commit` if it needs to wait for nothing but this machine's disk; otherwise None, and
        nothing done.
        """

    def probe(self) -> None:
        """Prove that a commit reaches the disk now, or raise `StorageUnavailable`."""

    def totals(self) -> Totals: ...

    def invitation(self, token: bytes) -> tuple[State, bool | None]:
        """The state, and whether the invitation of this hash was used (None: unknown)."""

    def invite(self, hashes: Iterable[bytes]) -> None:
        """Add invitations by the SHA-256 of their tokens."""

    def withdraw(self, report: bytes) -> bool:
        """Destroy a report's key and erase it but for its id, which stays refused; False if it
        already was.

        Raises `NoSuchReport`, or `Ended` for a report in a frozen collection. After
        `StorageUnavailable` it is to be done again.
        """

    def erase(self, hour: int) -> int:
        """Withdraw every report that is left, also of a frozen collection, which takes nothing
        more; how many there were. After `StorageUnavailable` it is to be done again.
        """

    def observe(self, hour: int, *, jump: int) -> int:
        """Raise the latest hour to ``hour``, by at most ``jump`` unless it is the first; the latest
        hour now.
        """

    def set_latest_hour(self, hour: int) -> None:
        """Set the latest hour, also to an earlier one: a person has confirmed the date."""

    def set_open(self, is_open: bool) -> None:
        """Close, or open again; a frozen collection refuses both."""

    def freeze(self, hour: int) -> int:
        """Freeze for good; the hour of the first time."""

    def rows(self, chunk: int) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        """(features, label, ε) in the order of the ids, which are random: the order tells nothing
        of the time.
        """

    def set_digest(self, digest: str) -> None:
        """Remember what was exported; another digest later means that the database was altered."""

    def close(self) -> None: ...


class RingRecord(NamedTuple):
    """What stands in a database: the name of its ring of keys, and whether that has none yet."""

    ring: str
    fresh: bool


def check_collection(identity: Sequence[Any], expected: CollectionId, where: str) -> None:
    """Refuse a database that belongs to another contract; ``identity`` is its `COLUMNS`."""
    stored = CollectionId(**dict(zip(COLUMNS.split(", "), identity, strict=True)))
    if stored.study_hash != expected.study_hash:
        raise InvalidInput(
            f"{where} holds reports of study {stored.study_id!r} with hash "
            f"{stored.study_hash[:12]}, not of {expected.study_id!r} with "
            f"hash {expected.study_hash[:12]}: a changed study is another contract and needs "
            "its own database"
        )
    if stored.server != expected.server:
        raise InvalidInput(
            f"{where} is the collection of server {stored.server!r}, not of {expected.server!r}"
        )


def check_schema(version: int, where: str) -> None:
    """Refuse tables this program does not know."""
    if why := FORMAT.refusal(version, where):
        raise InvalidInput(why)


class Ended(InvalidInput):
    """A collection is frozen or erased, and refuses a change; ``state`` says which."""

    def __init__(self, state: State, what: str) -> None:
        self.state = state
        why = "its data set has been handed over or is about to be"
        why = "its reports were kept until the end of their retention" if state == "erased" else why
        super().__init__(f"the collection is {state}, so {what}: {why}")


class NoSuchReport(InvalidInput):
    """No report of this id was ever stored here."""

    def __init__(self) -> None:
        super().__init__("there is no report with this id in this collection")


def require_there(state: State) -> None:
    """Raise `Ended` if there is nothing left to hand over."""
    if state is State.ERASED:
        raise Ended(state, "there is nothing to freeze")


def require_changeable(state: State, what: str) -> None:
    """Raise `Ended` in a collection that takes no changes; ``what``: what is not to be."""
    if state in (State.FROZEN, State.ERASED):
        raise Ended(state, what)


def no_collection(where: str) -> InvalidInput:
    return InvalidInput(
        f"there is no collection in {where}: `pdml collect serve` and `pdml collect invite` "
        "make one"
    )


def decide_by_id(
    entry: Entry, state: State, stored: Sequence[Any] | None, opened: Opened
) -> Decision | None:
    """What became of an entry by its id and the times; None: it is new and in time, so that its
    token decides.

    ``stored`` is (key, sealed) of the report with this id. It comes first: whoever repeats a report
    gets the first answer, whatever has happened since. A repetition has the same bytes, nonce and
    token included, and only its device knows those: everybody else gets one answer, whatever they
    guess and whether or not the report was withdrawn.
    """
    if stored is not None:
        key, sealed = stored
        if sealed is None:
            return CONFLICT
        try:
            content = opened(key, entry.id, sealed)
        except DataError:
            # its key is lost: no promise about this report can be repeated, and the others go on
            return Decision("storage_unavailable")
        same = hmac.compare_digest(content.mac, entry.mac)
        return Decision("replayed", content.hour) if same else CONFLICT
    code = refusal_code(state, entry.closed_reason)
    return Decision(code) if code else None


def refusal_code(state: State, barred: str) -> str:
    """Why nothing new is taken now, as a code; empty if it is. ``barred`` is what the rules say."""
    if state is State.FROZEN:
        return "frozen"
    if state is State.ERASED:
        return "closed"
    return barred or ("" if state is State.OPEN else "closed")


def stored_of(entries: Sequence[Entry], outcomes: Sequence[Decision]) -> list[Entry]:
    """Those that are stored now."""
    return [entry for entry, outcome in zip(entries, outcomes, strict=True) if outcome is STORED]


def counted(tallies: Tallies, stored: Sequence[Entry]) -> Tallies:
    """The tallies with what was stored now."""
    counts = Counter(tallies)
    counts.update([(entry[2], entry[3]) for entry in stored])
    return counts


def without(tallies: Tallies, content: Content) -> Tallies:
    """The tallies without one report."""
    key = (content.epsilon, content.label)
    return {**tallies, key: tallies[key] - 1}


def totals_of(row: Sequence[Any], tallies: Tallies) -> Totals:
    """The row (state, withdrawn, conflicts, invited, invited_used, frozen_hour, erased_hour,
    latest_hour, digest) of a collection, and its tallies.
    """
    state, withdrawn, conflicts, invited, used, hour, erased, latest, digest = row
    return Totals(
        state=State(state),
        tallies={key: n for key, n in sorted(tallies.items()) if n},
        withdrawn=withdrawn,
        conflicts=conflicts,
        invitations=invited,
        invitations_used=used,
        frozen_hour=hour,
        erased_hour=erased,
        latest_hour=latest,
        digest=digest,
    )
