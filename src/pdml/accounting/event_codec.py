"""Events as plain values and back, to the last bit: what a journal keeps and a statement tells."""

import json
from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

import msgspec

from pdml.accounting import events
from pdml.accounting.events import Event
from pdml.accounting.kinds import EventKind
from pdml.errors import DataError
from pdml.formats import decode

CLOSE = 1e-9
_KINDS: Mapping[str, type[Event]] = {kind: getattr(events, kind) for kind in EventKind}


def encode_event(event: Event) -> dict[str, Any]:
    """The fields of an event, and its kind."""
    fields = event.__dataclass_fields__  # `asdict` would copy every number
    values = {name: getattr(event, name) for name in fields}
    lists = {name: _listed(value) for name, value in values.items() if isinstance(value, tuple)}
    return {"event": type(event).__name__, **values, **lists}


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def decode_event(values: Mapping[str, Any]) -> Event:
    """The inverse of `encode_event`, for values that somebody else may have written."""
    kind = _KINDS.get(str(values.get("event")))
    fields = {name: value for name, value in values.items() if name != "event"}
    try:
        if kind is None or fields.keys() - kind.__dataclass_fields__.keys():
            raise ValueError("its kind or a field is unknown")
        event = msgspec.convert(fields, kind)
        parts = (item for value in vars(event).values() for item in _parts(value))
        numbers = [part for part in parts if isinstance(part, (int, float))]
        if not all(value >= 0 for value in numbers):
            raise ValueError("its numbers must be at least 0")
    except (ValueError, OverflowError) as error:
        raise _refused(repr(values), error) from None
    return event


def _parts(value: Any) -> list[Any]:
    return (
        [part for item in value for part in _parts(item)] if isinstance(value, tuple) else [value]
    )


def dumps(event: Event) -> str:
    """One line of JSON; Python writes floats so that they read back exactly, and infinity as
    Infinity.
    """
    return json.dumps(encode_event(event), sort_keys=True)


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
    return decode_event(values)


def _refused(text: str, why: object) -> DataError:
    kinds = ", ".join(_KINDS)
    return DataError(f"an event of the ledger must be one of {kinds}, got {text[:80]!r} ({why})")


def describe_difference(claims: Sequence[Event], planned: Sequence[Event]) -> str:
    """The first event that is not the planned one, in words."""
    if len(claims) != len(planned):
        return f"{len(claims)} events, the plan has {len(planned)}"
    for number, (claim, other) in enumerate(zip(claims, planned, strict=True), start=1):
        claim_fields, plan_fields = encode_event(claim), encode_event(other)
        if claim_fields.get("encoding") == "":
            plan_fields["encoding"] = ""
        same = type(claim) is type(other) and all(
            map(_close, claim_fields.values(), plan_fields.values())
        )
        if not same:
            return f"event {number} is {claim}, the plan has {other}"
    return ""


def _close(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return isclose(value, other, rel_tol=CLOSE, abs_tol=0.0)
    return bool(value == other)
