"""What training gets: every report that counts, in an order that tells nothing, always the same
bytes.
"""

import contextlib
import importlib
import sqlite3
import tracemalloc

import numpy as np
import psycopg
import pytest
from collecting import TRIAL, entry, mark_of, marked, report

from pdml.collector.collection import export
from pdml.collector.storage.records import CollectionState
from pdml.errors import DataError, InvalidInput
from pdml.study.frozen_dataset import open_frozen

HOUR = 494_444  # 2026-05-28T20Z


def fill(store, count=50):
    entries = [
        entry(report(features=marked(i), label=i % 3, epsilon=TRIAL.epsilon_micro[i % 2]))
        for i in range(count)
    ]
    store.commit(entries)
    return entries


def test_every_report_that_counts_in_the_order_of_ids(store, tmp_path):
    entries = fill(store)
    store.withdraw(entries[7].id)
    manifest = export(store, tmp_path / "data", hour=HOUR, min_records=3)
    data = open_frozen(tmp_path / "data", study_hash=TRIAL.hash)
    expected = [
        each for each in sorted(entries, key=lambda each: each.id) if each is not entries[7]
    ]
    assert [mark_of(row) for row in data.features] == [
        mark_of(np.frombuffer(each.features, dtype="<f4")) for each in expected
    ]
    assert data.labels.tolist() == [each.label for each in expected] and data.epsilons.tolist() == [
        each.epsilon for each in expected
    ]
    assert (manifest.records, manifest.server, manifest.frozen_at) == (
        49,
        "alice",
        "2026-05-28T20Z",
    )
    assert (
        store.totals().state is CollectionState.FROZEN and store.totals().digest == manifest.digest
    )


def test_what_devices_sent_was_randomised_there(store, tmp_path):
    fill(store)
    assert export(store, tmp_path / "data", hour=HOUR, min_records=3).randomised_by == "devices"


def test_exporting_again_gives_the_same_bytes(store, tmp_path):
    fill(store)
    first = export(store, tmp_path / "a", hour=HOUR, min_records=3)
    again = export(store, tmp_path / "b", hour=HOUR + 100, min_records=3)
    assert first == again and first.digest == again.digest
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_too_few_reports_are_not_frozen(store, tmp_path):
    fill(store, 2)
    with pytest.raises(DataError, match="holds 2 reports and the study asks for at least 3"):
        export(store, tmp_path / "data", hour=HOUR, min_records=3)
    assert store.totals().state is CollectionState.OPEN and not (tmp_path / "data").exists()


def test_a_folder_that_exists_freezes_nothing(store, tmp_path):
    fill(store, 5)
    (tmp_path / "data").mkdir()
    with pytest.raises(InvalidInput, match="exists already"):
        export(store, tmp_path / "data", hour=HOUR, min_records=3)
    assert store.totals().state is CollectionState.OPEN


def test_an_altered_database_is_noticed(open_store, tmp_path):
    """A report that is missing, one that was put in another's place, and a collection put in the
    place of the exported one.
    """
    store = open_store()
    entries = fill(store)
    export(store, tmp_path / "a", hour=HOUR, min_records=3)
    alter(open_store, "UPDATE {} SET id = {} WHERE id = {}", bytes(16), entries[3].id)
    with pytest.raises(DataError, match="does not fit its key: the database was altered"):
        export(store, tmp_path / "b", hour=HOUR, min_records=3)
    alter(open_store, "DELETE FROM {} WHERE id = {}", bytes(16))
    with pytest.raises(DataError, match="counts 50 reports but holds 49"):
        export(store, tmp_path / "b", hour=HOUR, min_records=3)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "a",
        "reports.keys",
    ]


def test_another_digest_than_the_first_is_refused(store, tmp_path):
    fill(store)
    store.freeze(HOUR)
    store.set_digest("0" * 64)
    with pytest.raises(DataError, match="altered after it was frozen"):
        export(store, tmp_path / "b", hour=HOUR, min_records=3)
    assert not (tmp_path / "b").exists()


def alter(open_store, statement, *values):
    if open_store.kind == "sqlite":
        with contextlib.closing(sqlite3.connect(open_store.address, isolation_level=None)) as db:
            assert db.execute(statement.format("pdml_ids", *"??"), values).rowcount == 1
    else:
        with psycopg.connect(open_store.address, autocommit=True) as db:
            assert db.execute(statement.format("pdml_reports", "%s", "%s"), values).rowcount == 1


def test_memory_does_not_grow_with_the_reports(open_store, tmp_path, monkeypatch):
    """With chunks of 100 rows, ten times the reports take the memory of one chunk, not of all."""
    monkeypatch.setattr(
        importlib.import_module("pdml.collector.collection"),
        "_CHUNK_BYTES",
        100 * 4 * TRIAL.width,
    )
    store = open_store()
    base = entry()
    peaks = []
    for number, count in enumerate((1_000, 9_000)):
        store.commit(
            [
                base._replace(id=number.to_bytes(8, "big") + i.to_bytes(8, "big"))
                for i in range(count)
            ]
        )
        tracemalloc.start()
        rows = sum(len(chunk) for chunk in store.rows(100))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert rows == 10_000 and peaks[1] < 2 * peaks[0]
    assert export(store, tmp_path / "data", hour=HOUR, min_records=3).records == 10_000
