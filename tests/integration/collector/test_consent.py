"""What people agreed to: checked against the study, kept sealed with each report, and exported
nowhere.
"""

import json
import secrets

import pytest
from collecting import AGREED, TRIAL, alter, entry, report
from conversation import assert_problem, send, talk

from pdml.collector.collection import export
from pdml.collector.intake.report_rules import collection_id
from pdml.collector.storage.records import STORED

ALICE = collection_id(AGREED, "alice")
NOTHING = {"consent": "", "consent_version": ""}
OTHERS = [
    NOTHING,
    {"consent": "ab" * 32},
    {"consent_version": "2026-04"},
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_report_carries_the_studys_own_consent(open_store, other):
    store = open_store(ALICE)

    async def conversation(client):
        assert_problem(await send(client, report(AGREED, **other)), "wrong_consent")
        return await send(client, report(AGREED))

    assert talk(store, conversation, study=AGREED).status_code == 201
    assert store.totals().reports == 1


def test_where_a_study_asks_for_none_a_report_carries_none(open_store):
    store, agreed = open_store(), AGREED.consent

    async def conversation(client):
        more = {"consent": agreed.digest, "consent_version": agreed.version}
        assert_problem(await send(client, report(**more)), "wrong_consent")
        return await send(client, report())

    assert talk(store, conversation).status_code == 201


def test_hash_and_version_are_kept_with_the_report_and_sealed(open_store, tmp_path):
    store = open_store(ALICE)
    entries = [entry(contract=AGREED)._replace(id=secrets.token_bytes(16)) for _ in range(3)]
    assert store.commit(entries) == [STORED] * 3
    agreed = bytes.fromhex(AGREED.consent.digest) + b"2026-03".ljust(16, b"\0")
    for each in entries:
        with store._reading() as db:
            key, sealed = db.execute(store.FIND, (each.id,)).fetchone()
        content = store._vault.open(key, each.id, sealed)
        assert content.consent == each.consent == agreed
        assert (content.epsilon, content.features) == (each.epsilon, each.features)
        assert agreed not in sealed
    (again,) = store.commit([entries[0]])
    assert again.code == "replayed"
    (other,) = store.commit([alter(entries[0], consent=b"")])
    assert other.code == "id_conflict"
    manifest = export(store, tmp_path / "data", hour=1, min_records=1)
    found = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir())
    assert manifest.records == 3 and AGREED.consent.digest.encode() not in found
    assert agreed not in found


def test_a_collection_of_both_kinds_counts_and_exports_alike(open_store, tmp_path):
    """Reports from before there was consent are shorter, and are read as they are."""
    store = open_store()
    entries = [entry()._replace(id=secrets.token_bytes(16)) for _ in range(4)]
    entries[1::2] = [each._replace(consent=b"\1" * 48) for each in entries[1::2]]
    assert store.commit(entries) == [STORED] * 4
    rows = [row for chunk in store.rows(3) for row in chunk]
    assert sorted(rows) == sorted((e.features, e.label, e.epsilon) for e in entries)
    assert store.withdraw(entries[1].id) and store.withdraw(entries[0].id)
    assert store.totals().tallies == {(TRIAL.epsilon_micro[0], 0): 2}


def test_the_api_says_which_consent_it_asks_for(sqlite):
    async def conversation(client):
        return (await client.get("/openapi.json")).json()

    summary = json.dumps(talk(sqlite, conversation))
    assert AGREED.consent.digest not in summary and '"consent"' in summary
