"""A person takes a report back: with the code of their device, until the data set is frozen."""

import json
import secrets

import pytest
from collecting import TRIAL, Slept, report
from conversation import JSON, assert_problem, send, talk

from pdml.collector.http.guard import Attempts
from pdml.collector.intake.report_rules import hash_id
from pdml.collector.storage.records import CollectionState
from pdml.study.messages import report_id

CODE = "5e" * 16
ID = report_id(CODE)


async def take_back(client, code=CODE):
    body = json.dumps({"code": code})
    return await client.post("/v1/withdrawals", content=body, headers=JSON)


def test_the_code_of_the_device_erases_the_report(open_store):
    store = open_store()

    async def conversation(client):
        assert (await send(client, report(id=ID))).status_code == 201
        assert (await send(client, report())).status_code == 201
        done = [await take_back(client) for _ in range(2)]
        return done, await send(client, report(id=ID))

    done, again = talk(store, conversation)
    for answer, before in zip(done, (False, True), strict=True):
        assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
        summary = {"id": ID, "study": TRIAL.hash, "server": "alice"}
        assert answer.json() == {**summary, "before": before}
    assert_problem(again, "id_conflict")  # it does not come back
    assert (store.totals().reports, store.totals().withdrawn) == (1, 1)
    assert store.withdraw(hash_id(ID)) is False


def test_nothing_but_the_code_does(sqlite):
    """Not the report's number, which stands on every receipt, nor the code of another one."""

    async def conversation(client):
        line = report(id=ID)
        await send(client, line)
        tried = [ID, secrets.token_hex(16), ID[::-1], "ab", CODE.upper()]
        return [await take_back(client, code) for code in tried]

    for answer in talk(sqlite, conversation):
        assert_problem(answer, "withdrawal_unknown")
    assert (sqlite.totals().reports, sqlite.totals().withdrawn) == (1, 0)


@pytest.mark.parametrize(
    "state", [CollectionState.CLOSED, CollectionState.FROZEN, CollectionState.ERASED]
)
def test_until_the_data_set_is_frozen(open_store, state):
    store, early = open_store(), "6e" * 16

    async def conversation(client):
        for line in (report(id=ID), report(id=report_id(early))):
            await send(client, line)
        await take_back(client, early)
        if state is CollectionState.CLOSED:
            store.set_open(False)
        elif state is CollectionState.FROZEN:
            store.freeze(1)
        else:
            store.erase(1)
        return [await take_back(client, code) for code in (CODE, early, "7e" * 16)]

    answer, before, unknown = talk(store, conversation)
    assert before.json()["before"] is True  # what was erased stays erased, and is told so
    assert_problem(unknown, "withdrawal_unknown")
    if state is CollectionState.FROZEN:
        assert_problem(answer, "frozen")
        assert store.totals().reports == 1
    else:
        assert answer.json()["before"] is (state is CollectionState.ERASED)
        assert store.totals().reports == 0


def test_whoever_tries_codes_is_slowed_down(sqlite):
    clock = Slept()
    attempts = Attempts(per_minute=3, clock=clock)

    async def conversation(client):
        await send(client, report(id=ID))
        for _ in range(5):
            assert_problem(await take_back(client, secrets.token_hex(16)), "withdrawal_unknown")
        return await take_back(client)

    assert talk(sqlite, conversation, attempts=attempts).status_code == 200
    assert (
        attempts.counted == 5 and len(clock.slept) == attempts.slowed == 2
    )  # the good one never waits


@pytest.mark.parametrize("body", [b"", b"[]", b'{"code": 1}', b'{"id": "' + b"5e" * 16 + b'"}'])
def test_what_is_no_withdrawal_is_malformed(sqlite, body):
    async def conversation(client):
        return await client.post("/v1/withdrawals", content=body, headers=JSON)

    assert_problem(talk(sqlite, conversation), "malformed")
