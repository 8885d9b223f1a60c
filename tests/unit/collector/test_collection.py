"""A collection as a Python user holds it."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from example_study import STUDY

from pdml.collector.collection import Collection
from pdml.collector.intake.report_rules import collection_id
from pdml.collector.storage import open_store
from pdml.errors import DataError, InvalidInput, UntrainableStudy


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return Collection(STUDY, "alice", database=str(tmp_path / "reports.db"), create=True)


def test_a_new_collection_is_open_and_empty(collection: Collection) -> None:
    with collection:
        summary = collection.status().to_dict()
    assert (summary["state"], summary["reports"], summary["by_epsilon"]) == ("open", 0, {})
    assert summary["frozen_at"] is None and summary["digest"] is None


def test_which_server_it_is_must_be_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="several servers"):
        Collection(STUDY, database=str(tmp_path / "reports.db"), create=True)
    with pytest.raises(InvalidInput, match="no server 'eve'"):
        Collection(STUDY, "eve", database=str(tmp_path / "reports.db"), create=True)
    assert not list(tmp_path.iterdir())


def test_nobody_is_asked_under_a_study_that_never_ends(tmp_path: Path) -> None:
    endless = replace(STUDY, budget=None)
    with pytest.raises(UntrainableStudy):
        Collection(endless, "alice", database=str(tmp_path / "reports.db"), create=True)
    assert not list(tmp_path.iterdir())


def test_nothing_is_frozen_under_such_a_study_either(tmp_path: Path) -> None:
    """A database that an earlier version has made."""
    endless, database = replace(STUDY, budget=None), str(tmp_path / "reports.db")
    open_store(database, collection_id(endless, "alice"), create=True).close()
    with Collection(endless, "alice", database=database) as collection:
        with pytest.raises(UntrainableStudy):
            collection.export(tmp_path / "data", force_small=True)
        assert collection.status().totals.state == "open" and not (tmp_path / "data").exists()


def test_invitations_are_a_private_file_and_hashes(collection: Collection, tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    with collection:
        collection.invite(3, file)
        with pytest.raises(InvalidInput, match="exists already"):
            collection.invite(1, file)
        assert collection.status().totals.invitations == 3
    lines = file.read_text().splitlines()
    assert lines[0] == "token,link" and len(set(lines)) == 4
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_links_that_lead_nowhere_are_not_left_behind(
    collection: Collection, tmp_path: Path
) -> None:
    with collection:
        collection.store.freeze(500_000)
        with pytest.raises(InvalidInput, match="frozen"):
            collection.invite(1, tmp_path / "tokens.csv")
    assert not (tmp_path / "tokens.csv").exists()


@pytest.mark.parametrize("report", ["xyz", "0" * 31, "A" * 32, "0" * 32 + "\n"])
def test_what_is_no_receipt_s_id_is_refused(collection: Collection, report: str) -> None:
    with collection, pytest.raises(InvalidInput, match="32 lower-case hex digits"):
        collection.withdraw(report)


def test_too_few_reports_are_not_frozen(collection: Collection, tmp_path: Path) -> None:
    with collection:
        with pytest.raises(DataError, match="holds 0 reports"):
            collection.export(tmp_path / "data")
        assert collection.status().totals.state == "open"


def test_there_must_be_a_collection_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no collection"):
        Collection(STUDY, "alice", database=str(tmp_path / "none.db"))
