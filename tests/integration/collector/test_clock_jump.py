"""A machine's date is believed up to a week after the latest use; beyond, nothing is erased."""

import asyncio
import logging

import pytest
from collecting import AGREED, NOW, TRIAL, Clock, entry, report
from conversation import OPERATOR, assert_problem, send, talk

from pdml.collector.collection import Collection
from pdml.collector.intake.report_rules import collection_id
from pdml.collector.storage.records import CollectionState, NoSuchReport
from pdml.collector.storage.retention import WEEK, ClockJump, keep_retention
from pdml.collector.storage.store import Machine
from pdml.errors import StorageUnavailable

ALICE = collection_id(AGREED, "alice")
END = AGREED.notice.retention.timestamp()
HOUR = 3600
YEAR = 365 * 24 * HOUR


@pytest.fixture
def used(open_store):
    """A collection with a report, in use until half a year before the end."""
    store = open_store(ALICE)
    assert keep_retention(AGREED, store, END - YEAR / 2) is None
    store.commit([entry(contract=AGREED)])
    return store


def believed(store, now):
    try:
        keep_retention(AGREED, store, now)
    except ClockJump:
        return False
    return True


def test_the_latest_hour_rises_and_never_falls(store):
    assert store.observe(1000, jump=5) == 1000  # the first is taken as it is
    assert store.observe(1005, jump=5) == 1005
    assert store.observe(1011, jump=5) == 1005
    assert store.observe(3, jump=5) == 1005
    assert store.totals().latest_hour == 1005
    store.set_latest_hour(7)  # but by a person's word
    assert store.totals().latest_hour == 7


def test_the_latest_hour_survives_opening_it_again(open_store):
    open_store().observe(1000, jump=5)
    other = open_store()
    assert other.observe(2000, jump=5) == 1000
    assert other.observe(1004, jump=5) == 1004 == open_store().observe(1, jump=5)


@pytest.mark.parametrize("late", [0, 1, YEAR, 30 * YEAR])
def test_a_jump_past_the_end_erases_nothing_however_often(used, late):
    for _ in range(3):
        with pytest.raises(ClockJump, match="1 report would be erased") as caught:
            keep_retention(AGREED, used, END + late)
        assert caught.value.over
    totals = used.totals()
    assert (totals.state, totals.reports) == (CollectionState.OPEN, 1)
    assert totals.latest_hour == (END - YEAR / 2) // HOUR


def test_a_week_to_the_hour_is_believed(used):
    latest = int(END // HOUR) - WEEK
    used.set_latest_hour(latest - 1)
    assert not believed(used, END)
    used.set_latest_hour(latest)
    assert keep_retention(AGREED, used, END) == 1
    assert used.totals().state is CollectionState.ERASED


def test_a_pause_is_confirmed_only_where_the_end_is_near(used):
    far = END - (WEEK + 1) * HOUR
    assert not believed(used, far + HOUR)
    assert believed(used, far)
    assert used.totals().latest_hour == far // HOUR


def test_no_single_wrong_date_and_the_next_one_erase(used):
    """Wherever a wrong date lands: the date a year after it is refused."""
    for wrong in (END - 9 * 24 * HOUR, END - 8 * 24 * HOUR, END - 3 * 24 * HOUR, END + YEAR):
        believed(used, wrong)
        assert not believed(used, wrong + YEAR)
        assert used.totals().reports == 1


def test_a_clock_that_runs_backwards_changes_nothing(used):
    assert keep_retention(AGREED, used, NOW - 30 * YEAR) is None
    assert used.totals().latest_hour == (END - YEAR / 2) // HOUR
    assert not believed(used, END)


def test_what_cannot_be_noted_stops_nobody_before_the_end(used, monkeypatch):
    def full(hour, *, jump):
        raise StorageUnavailable("no room")

    monkeypatch.setattr(used, "observe", full)
    assert keep_retention(AGREED, used, END - 1) is None
    with pytest.raises(StorageUnavailable):
        keep_retention(AGREED, used, END)
    assert used.totals().reports == 1


def test_without_retention_no_date_is_noted(open_store):
    store = open_store()
    assert keep_retention(TRIAL, store, 1e12) is None and store.totals().latest_hour == 0


def test_what_is_erased_needs_no_confirmation(used):
    used.erase(7)
    assert keep_retention(AGREED, used, END + YEAR) == 0
    assert keep_retention(AGREED, used, END - HOUR) is None


# In a collection


@pytest.fixture
def opened(open_store, used, tmp_path):
    """The collection as the commands open it, at a date."""

    def opening(now):
        place = {"database": open_store.address, "keys": tmp_path / "reports.keys"}
        return Collection(AGREED, "alice", machine=Machine(clock=Clock(now)), **place)

    return opening


def test_what_waits_for_the_date_and_what_does_not(opened, tmp_path):
    with opened(END + YEAR) as collection:
        assert "547 days" in str(collection.clock_jump)
        for refused in (
            collection.purge,
            lambda: collection.purge(due=True),
            lambda: collection.export(tmp_path / "data"),
            lambda: collection.invite(1, tmp_path / "tokens.csv"),
        ):
            with pytest.raises(ClockJump):
                refused()
        assert not (tmp_path / "tokens.csv").exists()
        with pytest.raises(NoSuchReport):
            collection.withdraw("0" * 32)  # people's wishes do not wait
        collection.set_open(False)
        summary = collection.status().to_dict()
        assert (summary["reports"], summary["state"]) == (1, "closed")
        assert summary["clock_jump"] == str(collection.clock_jump)
        assert collection.purge(early=True) == 1


def test_a_clock_that_jumps_while_the_collection_is_open(opened, open_store, used, tmp_path):
    clock = Clock()
    clock.time = END - YEAR / 2
    place = {"database": open_store.address, "keys": tmp_path / "reports.keys"}
    with Collection(AGREED, "alice", machine=Machine(clock=clock), **place) as collection:
        clock.time = END + YEAR
        for refused in (collection.purge, lambda: collection.export(tmp_path / "data")):
            with pytest.raises(ClockJump):
                refused()
        assert collection.status().totals.reports == 1
        clock.time = END - YEAR / 2  # it was a mistake, which nobody need confirm
        assert collection.purge(due=True) == 0
        assert collection.status().clock_jump is None


def test_a_confirmed_date_erases_what_is_due(opened):
    with opened(END + YEAR) as collection:
        collection.confirm_clock()
        assert collection.clock_jump is None
        assert collection.status().totals.state is CollectionState.ERASED


def test_a_date_confirmed_before_the_end_erases_then(opened):
    with opened(END - HOUR) as collection:
        assert not collection.clock_jump.over
        assert "1 report will not be erased then unless" in str(collection.clock_jump)
        assert collection.purge(due=True) == 0
        collection.confirm_clock()
        assert collection.status().totals.reports == 1
    with opened(END) as collection:
        assert collection.status().totals.state is CollectionState.ERASED


def test_confirming_the_right_date_takes_a_wrong_one_back(opened):
    with opened(END - 10 * 24 * HOUR) as collection:  # wrong, and believed
        assert collection.clock_jump is None
    with opened(NOW) as collection:
        collection.confirm_clock()
        assert collection.status().totals.latest_hour == NOW // HOUR


# In a running service


def test_a_running_service_waits_for_a_confirmation(used, monkeypatch, caplog):
    monkeypatch.setattr("pdml.collector.intake.service._LOOK", 0.01)
    clock, asking = Clock(), {"authorization": f"Bearer {OPERATOR}"}
    used.set_latest_hour(int(NOW // HOUR))

    async def conversation(client):
        assert (await send(client, report(AGREED))).status_code == 201
        clock.time = END + YEAR
        while not caplog.records:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert used.totals().reports == 2
        assert_problem(await send(client, report(AGREED)), "closed")
        figures = (await client.get("/operator.json", headers=asking)).json()
        assert figures["clock_jump"] == caplog.messages[0]
        used.set_latest_hour(int(clock.time // HOUR))  # as `pdml collect clock --confirm` does
        while used.totals().state is not CollectionState.ERASED:
            await asyncio.sleep(0.01)

    with caplog.at_level(logging.ERROR, "pdml.collector"):
        talk(used, conversation, study=AGREED, clock=clock)
    assert len(caplog.messages) == 1  # once an hour, not at every look
    assert "2 reports would be erased, and nothing was" in caplog.messages[0]


def test_a_running_service_notes_the_hour(used, monkeypatch):
    monkeypatch.setattr("pdml.collector.intake.service._LOOK", 0.01)
    clock = Clock()
    used.set_latest_hour(int(NOW // HOUR))

    async def conversation(client):
        clock.time += 6 * 24 * HOUR
        while used.totals().latest_hour != clock.time // HOUR:
            await asyncio.sleep(0.01)

    talk(used, conversation, study=AGREED, clock=clock)
