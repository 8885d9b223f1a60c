"""The end of retention: every report is erased as if it had been withdrawn, by a command, by
whoever opens the collection, and by the running service.
"""

import asyncio
import secrets
from dataclasses import replace

import pytest
from collecting import AGREED, NOW, TRIAL, Clock, entry, opens, report, slots
from conversation import assert_problem, send, talk
from test_withdrawal import Raw

from pdml.collector.collection import Collection, export
from pdml.collector.intake.report_rules import Rules, collection_id
from pdml.collector.storage.records import STORED, CollectionState, Ended
from pdml.collector.storage.store import Machine
from pdml.errors import InvalidInput, StorageUnavailable

ALICE = collection_id(AGREED, "alice")
END = AGREED.notice.retention.timestamp()
DAY = 86_400


def entries(count):
    return [
        entry(label=i % 3)._replace(id=secrets.token_bytes(16), features=secrets.token_bytes(200))
        for i in range(count)
    ]


@pytest.mark.parametrize("frozen", [False, True])
def test_no_key_opens_what_was_erased_and_no_file_holds_it(open_store, tmp_path, frozen):
    store, raw, some = open_store(), Raw(open_store, tmp_path), entries(40)
    assert store.commit(some) == [STORED] * 40
    assert store.withdraw(some[0].id)
    rows, totals = raw.rows()
    sealed = {id: content for id, (_, content) in rows.items() if content is not None}
    keys = [store._vault.keys.read(rows[id][0]) for id in sealed]
    keys.append(store._vault.keys.read(totals))
    assert len(sealed) == 39
    assert all(opens(raw.slots(), id, content) == 1 for id, content in sealed.items())
    if frozen:
        store.freeze(1)
    assert store.erase(7) == 39 and store.erase(8) == 0
    left, files = raw.slots(), b"".join(raw.files())
    assert not any(opens(left, id, content) for id, content in sealed.items())
    assert not any(key in files for key in keys)
    assert all(each.id in files for each in some)  # the numbers stay, so that they stay refused
    found = store.totals()
    assert (found.state, found.reports, found.tallies) == (CollectionState.ERASED, 0, {})
    assert (found.withdrawn, found.erased_hour) == (1, 7)
    assert list(store.rows(10)) == []


def test_an_erased_collection_takes_and_gives_nothing(open_store, tmp_path):
    store, (known, new) = open_store(), entries(2)
    store.commit([known])
    store.erase(7)
    assert [each.code for each in store.commit([known, new])] == ["id_conflict", "closed"]
    refused = [
        lambda: store.invite([b"1" * 32]),
        lambda: store.set_open(True),
        lambda: store.freeze(8),
    ]
    for change in refused:
        with pytest.raises(Ended, match="the collection is erased") as caught:
            change()
        assert caught.value.state is CollectionState.ERASED
    with pytest.raises(InvalidInput):
        export(store, tmp_path / "data", hour=8, min_records=0)
    assert not (tmp_path / "data").exists()
    assert open_store().totals().state is CollectionState.ERASED  # also after it was opened again


def test_an_empty_collection_can_be_erased(open_store):
    store = open_store()
    assert store.erase(7) == 0 and store.totals().state is CollectionState.ERASED


def test_what_was_cut_short_is_finished_when_it_is_opened(open_store, tmp_path, monkeypatch):
    store, some = open_store(), entries(5)
    store.commit(some)
    rows, _ = Raw(open_store, tmp_path).rows()
    monkeypatch.setattr(type(store), "_destroy_doomed", lambda self: None)  # the power fails here
    store.erase(7)
    monkeypatch.undo()
    open_store()
    left = slots(tmp_path / "reports.keys")
    assert not any(opens(left, id, content) for id, (_, content) in rows.items())


# When


def collection(path, now, **options):
    return Collection(
        AGREED, "alice", database=str(path / "r.db"), machine=Machine(clock=Clock(now)), **options
    )


def filled(path):
    with collection(path, NOW, create=True) as made:
        some = [entry(contract=AGREED)._replace(id=secrets.token_bytes(16)) for _ in range(3)]
        made.store.commit(some)


def test_before_its_time_only_whoever_says_so_erases(tmp_path):
    filled(tmp_path)
    with collection(tmp_path, END - 1) as early:
        with pytest.raises(InvalidInput, match="until 2036-01-01 00:00 UTC") as caught:
            early.purge()
        assert caught.value.setting == "early" and early.status().totals.reports == 3
        assert early.purge(due=True) == 0 and early.status().totals.reports == 3
        with pytest.raises(InvalidInput, match="due must be left out with early"):
            early.purge(early=True, due=True)
        assert early.purge(early=True) == 3
        assert early.status().to_dict()["erased_at"] == "2035-12-31T23Z"


def test_whoever_opens_it_afterwards_finds_it_erased(tmp_path):
    filled(tmp_path)
    for days in (8, 1):  # in use until then
        collection(tmp_path, END - days * DAY).store.close()
    with collection(tmp_path, END) as late:
        summary = late.status().to_dict()
        assert (summary["state"], summary["reports"], summary["erased_at"]) == (
            "erased",
            0,
            "2036-01-01T00Z",
        )
        assert late.purge() == late.purge(due=True) == 0  # which may run every night
        with pytest.raises(Ended, match="nothing to freeze"):
            late.export(tmp_path / "data")


def test_a_study_without_retention_is_erased_by_command_alone(tmp_path):
    place = {"database": str(tmp_path / "r.db"), "machine": Machine(clock=Clock(1e12))}
    with Collection(TRIAL, "alice", create=True, **place) as made:
        made.store.commit(entries(2))
        with pytest.raises(InvalidInput, match="has no retention"):
            made.purge()
        assert made.purge(early=True) == 2


@pytest.mark.parametrize("trouble", [False, True])
def test_a_running_service_erases_when_the_time_has_come(open_store, monkeypatch, trouble):
    monkeypatch.setattr("pdml.collector.intake.service._LOOK", 0.01)
    store, clock = open_store(ALICE), Clock()
    if trouble:  # a disk that is full at first
        erase, tries = store.erase, iter([StorageUnavailable("no room")])

        def failing(hour):
            for error in tries:
                raise error
            return erase(hour)

        monkeypatch.setattr(store, "erase", failing)

    async def conversation(client):
        assert (await send(client, report(AGREED))).status_code == 201
        await asyncio.sleep(0.05)
        assert store.totals().reports == 1
        store.set_latest_hour(int(END // 3600) - 1)  # it ran until then
        clock.time = END
        refused = await send(client, report(AGREED))
        while store.totals().state is not CollectionState.ERASED:
            await asyncio.sleep(0.01)
        return refused

    assert_problem(talk(store, conversation, study=AGREED, clock=clock), "closed")


def test_reports_are_taken_until_then_and_no_longer():
    rules = Rules.of(replace(AGREED, closes=None), require_tokens=False)
    assert rules.closed_reason(END - 1) is None and rules.closed_reason(END) == "closed"
