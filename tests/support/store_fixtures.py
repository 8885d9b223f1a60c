"""Stores for the tests: SQLite files, and databases of one real PostgreSQL per run of pytest."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from collecting import TRIAL
from disk import Disk
from postgres_process import postgres_binaries, postgres_server

from pdml.collector.intake.report_rules import collection_id
from pdml.collector.storage.postgres import PostgresStore
from pdml.collector.storage.sqlite import SqliteStore


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a running PostgreSQL, with {} for the database."""
    if postgres_binaries() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs PostgreSQL: install the Debian package postgresql")
        pytest.skip("needs PostgreSQL (Debian package postgresql)")
    folder = Path(
        tempfile.mkdtemp(prefix="pdml-pg-")
    )  # a short path: a socket's name has at most 107 characters
    try:
        with postgres_server(folder) as address:
            yield address
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_database(postgres: str) -> str:
    """A new, empty database."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres.format("postgres"), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
    return postgres.format(name)


@pytest.fixture
def disk(request):
    disk = Disk(f"disk-{request.node.name}".replace("[", "-").replace("]", ""))
    yield disk
    disk.close()


@pytest.fixture
def sqlite(tmp_path):
    store = SqliteStore(tmp_path / "collection.db", collection_id(TRIAL, "alice"))
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request, tmp_path):
    """A function that opens the same collection, again and again; all are closed at the end."""
    opened = []
    address = request.getfixturevalue("postgres_database") if request.param == "postgres" else ""

    def opening(who=None, **options):
        who = who or collection_id(TRIAL, "alice")
        options = {"keys": tmp_path / "reports.keys", **options}
        store = (
            PostgresStore(address, who, **options)
            if address
            else SqliteStore(tmp_path / "reports.db", who, **options)
        )
        opened.append(store)
        return store

    opening.kind = request.param
    opening.address = address or str(tmp_path / "reports.db")
    yield opening
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()
