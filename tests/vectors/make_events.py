"""Add to events.json: every event that was ever written, as it was written and as it is read.

    python tests/vectors/make_events.py '{"event": "IterateReleased", "t": 1, ...}' ...

Each argument is one event with all its fields. What stands there is never changed or removed:
journals and statements keep events by name. A field that came later is added to how the older ones
are read; its default must mean what leaving it out has always meant.
"""

import json
import sys
from pathlib import Path

from pdml.accounting import event_codec

STORED = Path(__file__).parent / "events.json"


def extended(entries: list[dict], texts: list[str]) -> list[dict]:
    """The entries with the fields that events have now, and new ones for ``texts``."""
    written = [entry["written"] for entry in entries]
    written += [new for text in texts if (new := json.loads(text)) not in written]
    now = [
        {"written": each, "read": event_codec.encode_event(event_codec.decode_event(each))}
        for each in written
    ]
    for before, after in zip(entries, now, strict=False):
        if {**after["read"], **before["read"]} != after["read"]:
            raise SystemExit(f"{before['written']} was read as {before['read']} before")
    return now


if __name__ == "__main__":
    entries = json.loads(STORED.read_text()) if STORED.exists() else []
    lines = [json.dumps(entry) for entry in extended(entries, sys.argv[1:])]
    STORED.write_text("[\n" + ",\n".join(lines) + "\n]\n")
