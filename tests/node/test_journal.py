"""A journal of another version is refused, whole and unchanged; a new one is made all or nothing."""

import sqlite3
from contextlib import closing

import pytest

from pdml.errors import JournalError
from pdml.node.storage.journal import FORMAT, Journal


@pytest.mark.parametrize("opened", [Journal, Journal.peek])
@pytest.mark.parametrize("version", [FORMAT.version + 1, 99])
def test_a_journal_of_another_version_is_refused_and_unchanged(tmp_path, opened, version):
    path = tmp_path / "alice.db"
    Journal(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(JournalError, match=f"version {version} of the format 'journal'"):
        opened(path)
    assert path.read_bytes() == before


def test_a_journal_whose_tables_cannot_be_made_stays_as_it_was(tmp_path):
    path = tmp_path / "alice.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE statements (x)")  # the last step fails
    path.chmod(0o600)
    with pytest.raises(JournalError, match="cannot be written"):
        Journal(path)
    with closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert tables == [("statements",)]
