"""Events as plain values and back, to the last bit: what a journal keeps and a statement tells."""

import json
from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any, get_args

import msgspec

from pdml.accounting.events import Event
from pdml.errors import DataError
from pdml.formats import decode

CLOSE = 1e-9
_KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def plain(event: Event) -> dict[str, Any]:
    """The fields of an event, and its kind.

    Parameters
    ----------
    event : Event
        Of any kind that the ledger knows.

    Returns
    -------
    dict
        Texts, numbers (infinity among them) and lists of numbers only.
    """
    fields = event.__dataclass_fields__  # `asdict` would copy every number
    values = {name: getattr(event, name) for name in fields}
    lists = {name: _listed(value) for name, value in values.items() if isinstance(value, tuple)}
    return {"event": type(event).__name__, **values, **lists}


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


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
        parts = (each for value in vars(event).values() for each in _parts(value))
        numbers = [part for part in parts if isinstance(part, (int, float))]
        if not all(value >= 0 for value in numbers):
            raise ValueError("its numbers must be at least 0")
    except (ValueError, OverflowError) as error:
        raise _refused(repr(values), error) from None
    return event


def _parts(value: Any) -> list[Any]:
    return (
        [part for each in value for part in _parts(each)] if isinstance(value, tuple) else [value]
    )


def dumps(event: Event) -> str:
    """One line of JSON; Python writes floats so that they read back exactly, and infinity as
    Infinity.
    """
    return json.dumps(plain(event), sort_keys=True)


def loads(text: str) -> Event:
    """The inverse; an event of an unknown kind is refused, for whatever it released would go
    uncounted.
    """
    try:
        values = decode(text, by=json.loads)  # which reads Infinity
    except msgspec.DecodeError as error:
        raise _refused(text, error) from None
    if not isinstance(values, dict):
        raise _refused(text, "it is no table")
    return event_of(values)


def _refused(shown: str, why: object) -> DataError:
    kinds = ", ".join(_KINDS)
    return DataError(f"an event of the ledger must be one of {kinds}, got {shown[:80]!r} ({why})")


def difference(told: Sequence[Event], planned: Sequence[Event]) -> str:
    """The first event that is not the planned one, in words.

    Parameters
    ----------
    told : sequence of Event
        What somebody says was spent.
    planned : sequence of Event
        What a plan spends.

    Returns
    -------
    str
        "" if there is none: machines may differ in the last bits of a logarithm, and in no more.
        An encoding that is not told passes, as it counts for no less.
    """
    if len(told) != len(planned):
        return f"{len(told)} events, the plan has {len(planned)}"
    for number, (one, other) in enumerate(zip(told, planned, strict=True), start=1):
        said, known = plain(one), plain(other)
        if said.get("encoding") == "":
            known["encoding"] = ""
        same = type(one) is type(other) and all(map(_close, said.values(), known.values()))
        if not same:
            return f"event {number} is {one}, the plan has {other}"
    return ""


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=CLOSE, abs_tol=0.0)
    return bool(one == other)
