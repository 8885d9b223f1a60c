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


def test_of_several_hellos_in_one_job_the_least_number_of_releases_stays(tmp_path):
    """A job may be resumed after others; its first words are what a statement cannot fall short
    of.
    """
    with closing(Journal(tmp_path / "alice.db")) as journal:
        entry = dict.fromkeys(("terms", "server", "dataset", "source", "plan"), "x")
        journal.begin("job", **entry, sealed=b"")
        for before, kept in ((2, 2), (5, 2), (1, 1)):
            journal.set_peer("job", "bob", dataset="his", before=before)
            assert journal.peer("job", "bob") == ("his", kept)
        journal.set_peer("job", "bob", dataset="another", before=7)
        assert journal.peer("job", "bob") == ("another", 7)


def test_a_journal_that_cannot_be_read_is_an_error_of_ours(tmp_path):
    """Nobody who ends a job or answers a member expects SQLite's."""
    journal = Journal(tmp_path / "alice.db")
    peek = Journal.peek(tmp_path / "alice.db")
    journal.close()
    peek.close()
    for closed in (journal, peek):
        with pytest.raises(JournalError, match=r"the journal alice.db cannot be read: "):
            closed.job("job")
