"""Events as plain JSON values and back: what a journal keeps, to the last bit of every number."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pdml.accounting.events import Event, IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.errors import DataError

_KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in (LabelFlipped, ObjectiveNoised, IterateReleased)}


def dumps(event: Event) -> str:
    """One line of JSON; Python writes floats so that they read back exactly, and infinity as Infinity."""
    return json.dumps({"event": type(event).__name__, **asdict(event)}, sort_keys=True)


def loads(text: str) -> Event:
    """The inverse; an event of an unknown kind is refused, for whatever it released would go uncounted."""
    try:
        values: dict[str, Any] = json.loads(text)
        return _KINDS[values.pop("event")](**values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"an event of the ledger must be one of {', '.join(_KINDS)}, got {text[:80]!r} ({error})") from None
