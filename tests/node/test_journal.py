"""A journal of an older format is brought up to date, and a job that began in it goes on."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from consortium import NAMES, PLAN, Consortium

from pdml.errors import JournalError
from pdml.node.protocol import equivocation
from pdml.node.protocol.signed_statement import open_statement
from pdml.node.storage.journal import FORMAT, Journal

FORMAT_2 = (Path(__file__).parent / "journal_2.sql").read_text()


def put_back(path):
    """The same rows in a journal of format 2, as far as it has columns for them."""
    old = path.with_suffix(".old")
    with sqlite3.connect(old) as db:
        db.executescript(FORMAT_2)
        db.execute("ATTACH ? AS new", (str(path),))
        tables = db.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            columns = ", ".join(row[1] for row in db.execute(f"PRAGMA main.table_info({table})"))
            db.execute(f"INSERT INTO main.{table} SELECT {columns} FROM new.{table}")
    db.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    old.rename(path)


def put_all_back(consortium):
    consortium.close()
    for name in NAMES:
        put_back(consortium.folder / f"{name}.db")


@pytest.fixture
def consortium(tmp_path):
    made = Consortium(tmp_path)
    yield made
    made.close()


def columns(path):
    with sqlite3.connect(path) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        found = {name: db.execute(f"PRAGMA table_info({name})").fetchall() for (name,) in names}
        (version,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return found, version


def test_a_job_that_began_in_an_older_format_ends_with_the_same_bits(consortium):
    consortium.run(until=5)
    spent = consortium.journals["alice"].spent("data of alice")
    sent = [consortium.party("alice").message("bob", t) for t in range(1, 6)]
    put_all_back(consortium)
    assert [consortium.party("alice").message("bob", t) for t in range(1, 6)] == sent
    assert consortium.journals["alice"].spent("data of alice") == spent
    np.testing.assert_array_equal(consortium.run(), consortium.by_local_engine())
    for name in NAMES:
        said = consortium.party(name).statement()
        open_statement(said, consortium.contract, name, consortium.keys)
    journal = consortium.journals["alice"]
    assert equivocation.kept(journal, "job-1", 4, "bob") is None  # nobody kept the signature then
    assert equivocation.kept(journal, "job-1", 12, "bob") is not None


def test_a_journal_brought_up_to_date_has_the_tables_of_a_new_one(consortium, tmp_path):
    consortium.run(until=2)
    put_all_back(consortium)
    consortium.party("alice")
    consortium.close()
    Journal(tmp_path / "new.db").close()
    old, new = columns(tmp_path / "alice.db"), columns(tmp_path / "new.db")
    assert old[1] == new[1] == FORMAT.version

    def named(tables):
        return {table: {row[1:] for row in rows} for table, rows in tables.items()}

    assert named(old[0]) == named(new[0])


def test_an_upgrade_is_all_or_nothing(consortium, tmp_path):
    consortium.run(until=2)
    put_all_back(consortium)
    with sqlite3.connect(tmp_path / "alice.db") as db:
        db.execute("CREATE TABLE statements (x)")  # the last step fails
    db.close()
    with pytest.raises(JournalError, match="cannot be written"):
        Journal(tmp_path / "alice.db")
    tables, version = columns(tmp_path / "alice.db")
    assert version == 2 and "signature" not in {row[1] for row in tables["inbox"]}


def test_earlier_jobs_of_an_older_format_are_told_if_their_plan_is_this_one(consortium, tmp_path):
    """Format 2 did not keep plans: the digest tells whether it was the same."""
    consortium.run(until=5)
    put_all_back(consortium)
    again = Consortium(tmp_path, job="job-2")
    again.run()
    said = open_statement(again.party("bob").statement(), again.contract, "bob", again.keys)
    assert [(job.job, job.rounds) for job in said.earlier] == [("job-1", 5)]
    again.close()
    other = Consortium(tmp_path, job="job-3", plan=replace(PLAN, penalty=0.2))
    with pytest.raises(JournalError, match="does not hold the plan of job job-1"):
        other.party("bob")
    other.close()
