"""Events as plain values and back, to the last bit: what a journal keeps and a statement tells."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from pdml.accounting.events import Event, IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.errors import DataError

_KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in (LabelFlipped, ObjectiveNoised, IterateReleased)}


def plain(event: Event) -> dict[str, Any]:
    """The fields of an event, and its kind.

    Parameters
    ----------
    event : Event
        Of any kind that the ledger knows.

    Returns
    -------
    dict
        Texts and numbers only, infinity among them.
    """
    fields = event.__dataclass_fields__  # `asdict` would copy every number
    return {"event": type(event).__name__, **{name: getattr(event, name) for name in fields}}


def event_of(values: Mapping[str, Any]) -> Event:
    """The inverse of `plain`, for values that somebody else may have written.

    Parameters
    ----------
    values : mapping
        As `plain` returns them.

    Returns
    -------
    Event
        Equal to the one that was written.

    Raises
    ------
    DataError
        For an unknown kind, whose release would go uncounted; for fields that are missing, unknown
        or of another type; and for numbers that no event has: negative ones and NaN.
    """
    kind = _KINDS.get(str(values.get("event")))
    fields = {name: value for name, value in values.items() if name != "event"}
    try:
        if kind is None or fields.keys() - kind.__dataclass_fields__.keys():
            raise ValueError("its kind or a field is unknown")
        event = msgspec.convert(fields, kind)
        numbers = [value for value in vars(event).values() if isinstance(value, (int, float))]
        if not all(value >= 0 for value in numbers):
            raise ValueError("its numbers must be at least 0")
    except (ValueError, OverflowError) as error:
        raise _refused(repr(values), error) from None
    return event


def dumps(event: Event) -> str:
    """One line of JSON; Python writes floats so that they read back exactly, and infinity as Infinity."""
    return json.dumps(plain(event), sort_keys=True)


def loads(text: str) -> Event:
    """The inverse; an event of an unknown kind is refused, for whatever it released would go uncounted."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise _refused(text, error) from None
    if not isinstance(values, dict):
        raise _refused(text, "it is no table")
    return event_of(values)


def _refused(shown: str, why: object) -> DataError:
    kinds = ", ".join(_KINDS)
    return DataError(f"an event of the ledger must be one of {kinds}, got {shown[:80]!r} ({why})")
