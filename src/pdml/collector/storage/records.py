"""What a collection keeps of reports, what becomes of each, and why a change is refused."""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from pdml.errors import DataError, InvalidInput
from pdml.formats import Format

# Raised with every change of the tables.
FORMAT = Format(name="collection", version=1)

Tallies = Mapping[tuple[int, int], int]  # (ε in millionths, reported class): reports


class CollectionState(StrEnum):
    """A collection's life: open <-> closed -> frozen; and from each of them to erased."""

    OPEN = "open"
    CLOSED = "closed"
    FROZEN = "frozen"
    ERASED = "erased"  # all reports, at the end of their retention


class Outcome(StrEnum):
    """What becomes of a report that obeys the rules; but for the first two a problem's code."""

    STORED = "stored"
    REPLAYED = "replayed"
    ID_CONFLICT = "id_conflict"
    TOKEN_MISSING = "token_missing"
    TOKEN_UNKNOWN = "token_unknown"
    TOKEN_USED = "token_used"
    TOO_EARLY = "too_early"
    CLOSED = "closed"
    FROZEN = "frozen"
    UNAVAILABLE = "storage_unavailable"


@dataclass(frozen=True, kw_only=True)
class CollectionId:
    """Whose reports these are: fixed when the database is made, checked when it is opened."""

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
    closed_reason: Outcome | None = None  # why the study's rules refuse new reports now
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


class Decision(NamedTuple):
    """What became of an entry; of a repetition with the hour of the first time."""

    code: Outcome
    hour: int = 0


STORED, CONFLICT = Decision(Outcome.STORED), Decision(Outcome.ID_CONFLICT)


@lru_cache(maxsize=64)
def hour_text(hour: int | None) -> str:
    """Hours since 1970 as 2026-03-01T14Z."""
    return "" if hour is None else f"{datetime.fromtimestamp(hour * 3600, UTC):%Y-%m-%dT%HZ}"


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What a store can tell without touching a report."""

    state: CollectionState
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


class Ended(InvalidInput):
    """A collection is frozen or erased, and refuses a change; ``state`` says which."""

    def __init__(self, state: CollectionState, what: str) -> None:
        self.state = state
        why = "its data set has been handed over or is about to be"
        if state is CollectionState.ERASED:
            why = "its reports were kept until the end of their retention"
        super().__init__(f"the collection is {state}, so {what}: {why}")


class NoSuchReport(InvalidInput):
    """No report of this id was ever stored here."""

    def __init__(self) -> None:
        super().__init__("there is no report with this id in this collection")


def require_there(state: CollectionState) -> None:
    """Raise `Ended` if there is nothing left to hand over."""
    if state is CollectionState.ERASED:
        raise Ended(state, "there is nothing to freeze")


def require_changeable(state: CollectionState, what: str) -> None:
    """Raise `Ended` in a collection that takes no changes; ``what``: what is not to be."""
    if state in (CollectionState.FROZEN, CollectionState.ERASED):
        raise Ended(state, what)


def no_collection(where: str) -> InvalidInput:
    makers = "`pdml collect serve` and `pdml collect invite` make one"
    return InvalidInput(f"there is no collection in {where}: {makers}")


def check_identity(version: int, identity: Sequence[Any], own: CollectionId, where: str) -> None:
    """Refuse unknown tables, or a database of another study or server."""
    if why := FORMAT.refusal(version, where):
        raise InvalidInput(why)
    stored = CollectionId(**dict(zip(COLUMNS.split(", "), identity, strict=True)))
    if stored.study_hash != own.study_hash:
        other = f"{stored.study_id!r} with hash {stored.study_hash[:12]}"
        this = f"{own.study_id!r} with hash {own.study_hash[:12]}"
        why = f"{where} holds reports of study {other}, not of {this}"
        raise InvalidInput(f"{why}: a changed study needs its own database")
    if stored.server != own.server:
        why = f"{where} is the collection of server {stored.server!r}, not of {own.server!r}"
        raise InvalidInput(why)


def decide_by_id(
    entry: Entry,
    state: CollectionState,
    stored: Sequence[Any] | None,
    open_report: Callable[[int, bytes, bytes], Content],
) -> Decision | None:
    """What became of an entry by its id and the times; None: new and in time, its token decides.

    ``stored`` is (key, sealed) of the report with this id. It comes first: whoever repeats a report
    to the byte, nonce and token included, gets the first answer. Only its device knows those:
    everybody else gets one answer, whatever they guess and whether or not it was withdrawn.
    """
    if stored is not None:
        key, sealed = stored
        if sealed is None:
            return CONFLICT
        try:
            content = open_report(key, entry.id, sealed)
        except DataError:
            # its key is lost: no promise about this report can be repeated, and the others go on
            return Decision(Outcome.UNAVAILABLE)
        same = hmac.compare_digest(content.mac, entry.mac)
        return Decision(Outcome.REPLAYED, content.hour) if same else CONFLICT
    reason = refusal_reason(state, entry.closed_reason)
    return Decision(reason) if reason else None


def refusal_reason(state: CollectionState, closed_reason: Outcome | None) -> Outcome | None:
    """Why nothing new is taken now; ``closed_reason`` is what the rules say."""
    if state is CollectionState.FROZEN:
        return Outcome.FROZEN
    if state is CollectionState.ERASED:
        return Outcome.CLOSED
    return closed_reason or (None if state is CollectionState.OPEN else Outcome.CLOSED)
