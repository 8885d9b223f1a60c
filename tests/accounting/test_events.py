"""Events are for ever: journals and statements keep them by name, and every one that was ever
written must be read with the meaning it had.
"""

import dataclasses
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from pdml.accounting import event_codec, events
from pdml.accounting.events import Event
from pdml.node.protocol.signed_statement import Events
from pdml.node.storage.journal import Journal

STORED = json.loads((Path(__file__).parents[1] / "vectors" / "events.json").read_text())
RULE = (
    "Journals keep events by name: nothing is removed or renamed, and no meaning changes; what is "
    "new needs a field with a default, or an event of its own. Add it to tests/vectors/events.json:"
    "\n    python tests/vectors/make_events.py "
)


@pytest.mark.parametrize("entry", STORED, ids=lambda entry: entry["written"]["event"])
def test_every_event_ever_written_is_read_as_it_was(entry):
    text = json.dumps(entry["written"])
    event = event_codec.loads(text)
    assert event_codec.encode_event(event) == entry["read"], (
        f"{text} means something else now.\n{RULE}"
    )
    assert event_codec.loads(event_codec.dumps(event)) == event


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_and_field_stands_in_the_fixture(kind):
    fields = {field.name for field in dataclasses.fields(kind)}
    said = [each["written"] for each in STORED if each["written"]["event"] == kind.__name__]
    stored = set().union(*said) - {"event"}
    sample = json.dumps({"event": kind.__name__} | dict.fromkeys(sorted(fields), "..."))
    assert fields == stored, f"{sorted(fields ^ stored)} of {kind.__name__}.\n{RULE}'{sample}'"


def test_every_class_of_events_is_read_and_counted():
    declared = {
        name
        for name, kind in vars(events).items()
        if dataclasses.is_dataclass(kind) and kind.__module__ == events.__name__
    }
    known = {kind.__name__ for kind in get_args(Event)}
    assert declared == known == {each["written"]["event"] for each in STORED}, RULE


def test_a_journal_and_a_statement_take_every_event(tmp_path):
    path = tmp_path / "journal.db"
    terms = {"terms": "t", "server": "s", "source": "simulated", "sealed": b"", "plan": ""}
    with closing(Journal(path)) as journal:
        journal.begin("job", dataset="set", **terms)
    with closing(sqlite3.connect(path)) as db:  # as another version has written them
        for entry in STORED:
            values = ("set", "job", json.dumps(entry["written"]))
            db.execute(
                "INSERT INTO events (dataset, job, round, event) VALUES (?, ?, 1, ?)", values
            )
        db.commit()
    with closing(Journal(path)) as journal:
        assert [event_codec.encode_event(e) for e in journal.spent("set")] == [
            e["read"] for e in STORED
        ]
    packed = msgspec.msgpack.encode([entry["written"] for entry in STORED])
    told = msgspec.msgpack.decode(packed, type=Events)
    assert [event_codec.encode_event(event_codec.decode_event(e)) for e in told] == [
        e["read"] for e in STORED
    ]
