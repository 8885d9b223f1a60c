"""docs/node-data-model.md names every table, column and state of a node's databases, and no other."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pdml.node.storage.control_db import (
    CONTROL,
    CommandKind,
    ControlDatabase,
    OfferState,
    StatusName,
)
from pdml.node.storage.journal import JobState, Journal

PAGE = (Path(__file__).parents[3] / "docs" / "node-data-model.md").read_text()
_, JOURNAL, CONTROL_DATABASE = re.split(r"^## ", PAGE, flags=re.M)


def tables(section):
    """Each table's part of a section."""
    parts = re.split(r"^### `(\w+)`\n", section, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows(part, head):
    """The first cells of the table that begins with ``head``."""
    body = re.search(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", part, flags=re.M)
    return re.findall(r"^\| `(\w+)`", body[1], flags=re.M) if body else []


def schema(path):
    with closing(sqlite3.connect(path)) as db:
        names = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in names
        }


@pytest.mark.parametrize("section", [JOURNAL, CONTROL_DATABASE], ids=["journal", "control"])
def test_every_table_and_column_is_described_and_no_other(tmp_path, section):
    if section is JOURNAL:
        Journal(path := tmp_path / "journal.db").close()
    else:
        ControlDatabase(tmp_path).close()
        path = tmp_path / CONTROL
    described = {name: rows(part, "column") for name, part in tables(section).items()}
    assert described == schema(path)


@pytest.mark.parametrize("section", [JOURNAL, CONTROL_DATABASE], ids=["journal", "control"])
def test_the_life_of_rows_names_every_table(section):
    head = re.search(r"^\| when \|(.*)\n", section, flags=re.M)[1]
    assert re.findall(r"`(\w+)`", head) == list(tables(section))


def test_every_state_is_described_and_no_other():
    jobs, attempts = tables(JOURNAL)["jobs"], tables(CONTROL_DATABASE)["attempts"]
    assert rows(jobs, "state") == list(JobState)
    assert sorted(rows(attempts, "state")) == sorted(OfferState)
    for part, names in (("commands", CommandKind), ("status", StatusName)):
        (cell,) = re.findall(
            r"^\| `(?:kind|name)` \| (.*) \|$", tables(CONTROL_DATABASE)[part], flags=re.M
        )
        assert re.findall(r"`(\w+)`", cell) == list(names)
