"""Add to events.json: events as they are written, with all their fields.

    python tests/vectors/make_events.py '{"event": "IterateReleased", "t": 1, ...}' ...

What a release has written is never changed or removed: journals and statements keep events by name.
"""

import json
import sys
from pathlib import Path

from pdml.accounting.events import decode_event, encode_event

STORED = Path(__file__).parent / "events.json"


if __name__ == "__main__":
    events = json.loads(STORED.read_text()) if STORED.exists() else []
    events += [new for new in map(json.loads, sys.argv[1:]) if new not in events]
    lines = [json.dumps(encode_event(decode_event(event))) for event in events]
    STORED.write_text("[\n" + ",\n".join(lines) + "\n]\n")
