"""Events as plain values: read back to the bit, and nothing else is read."""

import json
from dataclasses import asdict, replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import Ledger, event_codec, event_groups
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.errors import DataError

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
    assert (
        event_codec.decode_event(event_codec.encode_event(event))
        == event
        == event_codec.loads(event_codec.dumps(event))
    )
    assert list(event_codec.encode_event(event)) == ["event", *asdict(event)]


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
    good = event_codec.encode_event(IterateReleased(**good))
    with pytest.raises(DataError, match="an event of the ledger must be one of"):
        event_codec.decode_event(good | changes)
    with pytest.raises(DataError):
        event_codec.loads(json.dumps({key: value for key, value in good.items() if key != "t"}))


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"LabelFlipped"', "{", "[" * 100_000])
def test_what_is_no_table_is_refused(text):
    with pytest.raises(DataError):
        event_codec.loads(text)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 5), st.floats(0, 5)), min_size=1))
def test_the_sum_of_a_training_spends_what_its_rounds_spend(rounds):
    """T adaptive Gaussians are one with μ² = Σ (D/σ)²."""
    events = [
        IterateReleased(t=t, stddev=sigma, label_sensitivity=label, record_sensitivity=record)
        for t, (sigma, label, record) in enumerate(rounds, start=1)
    ]
    noised = replace(NOISED, kind="uniform_box", bound=1.0, label_shift=0.01)
    flip = LabelFlipped(epsilon=1.0)
    summed = event_groups.merge_iterates([noised, *events])
    assert len(summed) == 2 and summed[0] is noised
    apart, together = Ledger(((flip, noised, *events),)), Ledger(((flip, *summed),))
    for data in ("label", "features"):
        expected = apart.row(data, "other servers").epsilon
        assert together.row(data, "other servers").epsilon == pytest.approx(expected, rel=1e-8)
    twice = event_groups.merge_iterates(summed)
    assert twice[1].record_sensitivity == pytest.approx(summed[1].record_sensitivity, rel=1e-12)


def test_nothing_sums_to_nothing_and_no_noise_to_no_protection():
    assert event_groups.merge_iterates([]) == () and event_groups.merge_iterates([NOISED]) == (
        NOISED,
    )
    bare = IterateReleased(t=1, stddev=0.0, label_sensitivity=1.0, record_sensitivity=1.0)
    (one,) = event_groups.merge_iterates([bare])
    assert one.record_sensitivity == inf == one.label_sensitivity


def test_a_difference_beyond_the_last_bits_is_told():
    one = IterateReleased(t=1, stddev=0.5, label_sensitivity=inf, record_sensitivity=2.0)
    nearly = replace(one, stddev=0.5 * (1 + 1e-12))
    assert event_codec.describe_difference([one, NOISED], [nearly, NOISED]) == ""
    for other in (replace(one, stddev=0.5 * (1 + 1e-6)), replace(one, t=2), NOISED):
        assert event_codec.describe_difference([one], [other]).startswith(
            "event 1 is IterateReleased(t=1"
        )
    assert event_codec.describe_difference([one], [replace(one, solver_slack=0.0)]) != ""
    assert event_codec.describe_difference([one], []) == "1 events, the plan has 0"
