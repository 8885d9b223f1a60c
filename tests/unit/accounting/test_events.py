"""Events as plain values: read back to the bit with every field, and nothing else is read."""

import dataclasses
import json
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from math import inf, nan
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import Ledger, events
from pdml.accounting.events import (
    Event,
    IterateReleased,
    LabelFlipped,
    ObjectiveNoised,
    decode_event,
    describe_difference,
    dump_event,
    encode_event,
    load_event,
    merge_iterates,
)
from pdml.errors import DataError
from pdml.node.protocol.signed_statement import Events
from pdml.node.storage.journal import Journal

STORED = json.loads((Path(__file__).parents[2] / "vectors" / "events.json").read_text())
RULE = (
    "Journals keep events by name. Add it to tests/vectors/events.json:"
    "\n    python tests/vectors/make_events.py "
)
by_kind = pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["event"])
AMOUNTS = st.floats(0, allow_infinity=True)
RELEASES = st.builds(
    IterateReleased,
    t=st.integers(1, 99),
    stddev=AMOUNTS,
    label_sensitivity=AMOUNTS,
    record_sensitivity=AMOUNTS,
    solver_slack=st.none() | AMOUNTS,
)
NOISED = ObjectiveNoised(kind="none", bound=0.0, stddev=0.0, size=3, n_servers=2, label_shift=1.0)


@given(RELEASES | st.builds(LabelFlipped, epsilon=AMOUNTS) | st.just(NOISED))
def test_an_event_reads_back_as_it_was(event):
    assert decode_event(encode_event(event)) == event == load_event(dump_event(event))
    assert list(encode_event(event)) == ["event", *asdict(event)]


@pytest.mark.parametrize(
    "changes",
    [
        {"event": "Rumour"},
        {"event": None},
        {"event": ["LabelFlipped"]},
        {"stddev": "0.5"},
        {"stddev": True},
        {"stddev": -1.0},
        {"stddev": nan},
        {"stddev": None},
        {"t": 1.5},
        {"t": -1},
        {"colour": 1.0},
        {"stddev": 10**400},
    ],
)
def test_what_is_no_event_is_refused(changes):
    good = {"t": 1, "stddev": 1.0, "label_sensitivity": 1.0, "record_sensitivity": 1.0}
    good = encode_event(IterateReleased(**good))
    with pytest.raises(DataError, match="an event of the ledger must be one of"):
        decode_event(good | changes)


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"LabelFlipped"', "{", "[" * 100_000])
def test_what_is_no_table_is_refused(text):
    with pytest.raises(DataError):
        load_event(text)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 5), st.floats(0, 5)), min_size=1))
def test_the_sum_of_a_training_spends_what_its_rounds_spend(rounds):
    """T adaptive Gaussians are one with μ² = Σ (D/σ)²."""
    events = [
        IterateReleased(t=t, stddev=sigma, label_sensitivity=label, record_sensitivity=record)
        for t, (sigma, label, record) in enumerate(rounds, start=1)
    ]
    noised = replace(NOISED, kind="uniform_box", bound=1.0, label_shift=0.01)
    flip = LabelFlipped(epsilon=1.0)
    summed = merge_iterates([noised, *events])
    assert len(summed) == 2 and summed[0] is noised
    apart, together = Ledger(((flip, noised, *events),)), Ledger(((flip, *summed),))
    for data in ("label", "features"):
        expected = apart.row(data, "other servers").epsilon
        assert together.row(data, "other servers").epsilon == pytest.approx(expected, rel=1e-8)
    twice = merge_iterates(summed)
    assert twice[1].record_sensitivity == pytest.approx(summed[1].record_sensitivity, rel=1e-12)


def test_nothing_sums_to_nothing_and_no_noise_to_no_protection():
    assert merge_iterates([]) == () and merge_iterates([NOISED]) == (NOISED,)
    bare = IterateReleased(t=1, stddev=0.0, label_sensitivity=1.0, record_sensitivity=1.0)
    (one,) = merge_iterates([bare])
    assert one.record_sensitivity == inf == one.label_sensitivity


def test_a_difference_beyond_the_last_bits_is_told():
    one = IterateReleased(t=1, stddev=0.5, label_sensitivity=inf, record_sensitivity=2.0)
    nearly = replace(one, stddev=0.5 * (1 + 1e-12))
    assert describe_difference([one, NOISED], [nearly, NOISED]) == ""
    for other in (replace(one, stddev=0.5 * (1 + 1e-6)), replace(one, t=2), NOISED):
        assert describe_difference([one], [other]).startswith("event 1 is IterateReleased(t=1")
    assert describe_difference([one], [replace(one, solver_slack=0.0)]) != ""
    assert describe_difference([one], []) == "1 events, the plan has 0"


@by_kind
def test_every_stored_event_is_read_as_it_was(stored):
    text = json.dumps(stored)
    event = load_event(text)
    assert encode_event(event) == stored, f"{text} means something else now.\n{RULE}"
    assert load_event(dump_event(event)) == event


@by_kind
def test_an_event_without_one_of_its_fields_is_refused(stored):
    for name in stored:
        with pytest.raises(DataError, match="its kind is unknown, or its fields are others"):
            decode_event({key: value for key, value in stored.items() if key != name})


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_stands_in_the_fixture(kind):
    fields = {field.name for field in dataclasses.fields(kind)}
    stored = [set(each) - {"event"} for each in STORED if each["event"] == kind.__name__]
    sample = json.dumps({"event": kind.__name__} | dict.fromkeys(sorted(fields), "..."))
    assert stored and all(fields == each for each in stored), f"{RULE}'{sample}'"


def test_every_class_of_events_is_read_and_counted():
    declared = {
        name
        for name, kind in vars(events).items()
        if dataclasses.is_dataclass(kind)
        and kind.__module__ == events.__name__
        and kind is not events.EventGroups
    }
    kinds = {kind.__name__ for kind in get_args(Event)}
    assert declared == kinds == {each["event"] for each in STORED}, RULE


def test_a_journal_and_a_statement_take_every_event(tmp_path):
    path = tmp_path / "journal.db"
    terms = {"terms": "t", "server": "s", "source": "simulated", "sealed": b"", "plan": ""}
    with closing(Journal(path)) as journal:
        journal.begin("job", dataset="set", **terms)
    with closing(sqlite3.connect(path)) as db:
        for stored in STORED:
            values = ("set", "job", json.dumps(stored))
            db.execute(
                "INSERT INTO events (dataset, job, round, event) VALUES (?, ?, 1, ?)", values
            )
        db.commit()
    with closing(Journal(path)) as journal:
        assert [encode_event(event) for event in journal.spent("set")] == STORED
    received = msgspec.msgpack.decode(msgspec.msgpack.encode(STORED), type=Events)
    assert [encode_event(decode_event(event)) for event in received] == STORED
