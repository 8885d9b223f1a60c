"""Disks that fill up, fail, turn read-only or disappear: never a false acknowledgement, and no
hands needed afterwards.
"""

import contextlib
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import psycopg
import pytest
from collecting import TRIAL, Process, alter, entry, report
from conversation import JSON, NDJSON
from disk import FULL, IOERR, READONLY

from pdml.collector.intake.report_rules import collection_id, hash_id
from pdml.collector.storage.postgres import PostgresStore
from pdml.collector.storage.records import FORMAT, STORED
from pdml.collector.storage.sqlite import SqliteStore
from pdml.errors import InvalidInput, StorageUnavailable

ALICE = collection_id(TRIAL, "alice")


@pytest.mark.parametrize("code", [FULL, IOERR, READONLY])
def test_whichever_operation_fails_nothing_is_half_done(disk, tmp_path, code):
    """Fail the first operation of a commit, then the second, and so on until none is left to
    fail.
    """
    store = SqliteStore(tmp_path / "reports.db", ALICE, vfs=disk.name)
    store.commit([entry()])
    held = 1
    for k in range(200):
        count = 0

        def fails(operation, file, k=k):
            nonlocal count
            count += 1
            return code if count > k else 0

        disk.fails = fails
        group = [entry() for _ in range(3)]
        try:
            outcomes = store.commit(group)
        except StorageUnavailable:
            outcomes = None
        disk.fails = lambda operation, file: 0
        assert [outcome.code for outcome in store.commit(group)] in (
            ["stored"] * 3,
            ["replayed"] * 3,
        )
        held += 3
        assert store.totals().reports == held == sum(len(chunk) for chunk in store.rows(1000))
        if outcomes is not None:
            assert outcomes == [STORED] * 3
            break
    else:
        pytest.fail("a commit never came through")
    assert k >= 3  # pages and a sync at least
    store.close()


def send(url: str, line: bytes) -> httpx.Response:
    return httpx.post(f"{url}/v1/reports", content=line, headers=JSON)


def fill_and_recover(service: Process, give_room) -> None:
    """Send until the disk is full; then give room and see it recover by itself, with everything
    acknowledged still there.
    """
    acknowledged, refused = [], []

    def note(lines, answers):
        for line, result in zip(lines, answers, strict=True):
            assert (b'"digest"' in result) != (b'"storage_unavailable"' in result)
            (acknowledged if b'"digest"' in result else refused).append(line)

    with httpx.Client(base_url=service.url) as client:
        in_a_row, size, deadline = 0, 200, time.monotonic() + 300
        while in_a_row < 5 and time.monotonic() < deadline:
            lines = [report() for _ in range(size)]
            note(
                lines,
                client.post(
                    "/v1/batches", content=b"\n".join(lines), headers=NDJSON
                ).content.splitlines(),
            )
            full = bool(refused) and refused[-1] == lines[-1]
            # Folding the log back into the file may make a little room again: go on until not even
            # one report fits.
            in_a_row = in_a_row + 1 if full and size == 1 else 0
            size = max(1, size // 4) if full else min(200, 2 * size)
        single = client.post("/v1/reports", content=refused[0], headers=JSON)
        assert single.status_code == 503 and single.headers["retry-after"]
        time.sleep(1.1)  # for as long, health is not looked at again
        assert client.get("/healthz").status_code == 503
        give_room()
        time.sleep(1.1)
        assert client.get("/healthz").status_code == 200
        assert client.post("/v1/reports", content=refused[0], headers=JSON).status_code == 201
        answers = client.post("/v1/batches", content=b"\n".join(acknowledged[-50:]), headers=NDJSON)
        assert answers.content.count(b'"digest"') == min(50, len(acknowledged))
    assert service.stop() == 0
    assert acknowledged
    with contextlib.closing(sqlite3.connect(service.database)) as db:
        ids = {
            row[0] for row in db.execute("SELECT id FROM pdml_ids JOIN pdml_reports USING (key)")
        }
    sent = {
        hash_id(line.partition(b'"id":"')[2][:32].decode()) for line in (*acknowledged, refused[0])
    }
    assert ids == sent


def test_a_limit_on_the_file_s_size_is_survived(tmp_path):
    with Process(tmp_path, "--open") as service:
        _, hard = resource.prlimit(service.child.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.child.pid, resource.RLIMIT_FSIZE, (400_000, hard))
        fill_and_recover(
            service,
            lambda: resource.prlimit(service.child.pid, resource.RLIMIT_FSIZE, (hard, hard)),
        )


def test_a_full_disk_is_survived(tmp_path):
    place = Path(
        tempfile.mkdtemp(prefix="pdml-small-")
    )  # not below tmp_path, which pytest must be able to remove
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(place)], capture_output=True
        ).returncode
    ):
        place.rmdir()
        pytest.skip("needs the right to mount a small file system")
    try:
        (place / "ballast").write_bytes(bytes(300_000))
        with Process(tmp_path, "--open", database=str(place / "reports.db")) as service:
            fill_and_recover(service, (place / "ballast").unlink)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


def test_a_lost_file_is_never_replaced_by_an_empty_one(tmp_path):
    path = tmp_path / "reports.db"
    store = SqliteStore(path, ALICE)
    kept, other = entry(), entry()
    store.commit([kept])
    for each in tmp_path.iterdir():
        each.rename(each.with_name("away-" + each.name))
    for attempt in (lambda: store.commit([other]), store.probe):
        with pytest.raises(StorageUnavailable, match="gone"):
            attempt()
    assert list(tmp_path.glob("reports*")) == []
    for each in list(tmp_path.iterdir()):
        each.rename(each.with_name(each.name.removeprefix("away-")))
    assert [outcome.code for outcome in store.commit([kept, other])] == ["replayed", "stored"]
    store.close()


def test_a_restored_file_is_noticed(tmp_path):
    """Writing on to the old file, which has no name any more, would lose everything from then
    on.
    """
    path = tmp_path / "reports.db"
    store = SqliteStore(path, ALICE)
    store.commit([entry()])
    with (
        contextlib.closing(sqlite3.connect(path)) as db,
        contextlib.closing(sqlite3.connect(tmp_path / "copy")) as copy,
    ):
        db.backup(copy)
    for name in ("reports.db-wal", "reports.db-shm"):
        (tmp_path / name).unlink()
    os.replace(tmp_path / "copy", path)
    assert store.commit([entry()]) == [STORED]
    store.close()
    again = SqliteStore(path, ALICE)
    assert again.totals().reports == 2 == sum(len(chunk) for chunk in again.rows(10))
    again.close()


def test_only_the_owner_can_read_the_files(tmp_path):
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "reports.db", ALICE)
        store.commit([entry()])
    finally:
        os.umask(before)

    def modes():
        return {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in (*tmp_path.iterdir(), tmp_path / "reports.keys" / "0.keys")
        }

    databases = {"reports.db": 0o600, "reports.db-wal": 0o600, "reports.db-shm": 0o600}
    assert modes() == {**databases, "reports.keys": 0o700, "0.keys": 0o600}
    store.close()
    for name, mode in (("reports.db", 0o644), ("reports.keys", 0o755)):
        (tmp_path / name).chmod(mode)
    SqliteStore(tmp_path / "reports.db", ALICE).close()
    assert modes() == {"reports.db": 0o600, "reports.keys": 0o700, "0.keys": 0o600}


@pytest.mark.parametrize(
    "content",
    [
        b"not a database, but long enough to look like something" * 50,
        b"SQLite format 3\0" + b"\xff" * 5000,
    ],
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "reports.db").write_bytes(content)
    with pytest.raises(InvalidInput, match="as a collection"):
        SqliteStore(tmp_path / "reports.db", ALICE)


def test_other_databases_and_newer_ones_are_refused(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE people (name)")
    with pytest.raises(InvalidInput, match="something else"):
        SqliteStore(tmp_path / "other.db", ALICE)
    SqliteStore(tmp_path / "newer.db", ALICE).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "newer.db")) as db:
        db.execute("UPDATE pdml_collection SET schema = ?", [FORMAT.version + 1])
        db.commit()
    with pytest.raises(InvalidInput, match="a pdml newer than"):
        SqliteStore(tmp_path / "newer.db", ALICE)


def test_a_newer_postgresql_collection_is_refused(postgres_database, tmp_path):
    PostgresStore(postgres_database, ALICE, keys=tmp_path / "keys").close()
    with psycopg.connect(postgres_database) as db:
        db.execute("UPDATE pdml_collection SET schema = %s", [FORMAT.version + 1])
    with pytest.raises(InvalidInput, match="a pdml newer than"):
        PostgresStore(postgres_database, ALICE, keys=tmp_path / "keys")


def test_a_lost_connection_to_postgresql_heals(postgres_database, tmp_path):
    store = PostgresStore(postgres_database, ALICE, keys=tmp_path / "keys")
    known = entry()
    store.commit([known])
    with psycopg.connect(postgres_database, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
            "current_database() AND pid <> pg_backend_pid()"
        )
    with pytest.raises(StorageUnavailable):
        store.commit([known])
    assert [outcome.code for outcome in store.commit([known, entry()])] == ["replayed", "stored"]
    store.close()


def set_fsync(address: str, value: str) -> None:
    """Change it for the whole server, and wait until new connections find it so."""
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(f"ALTER SYSTEM SET fsync = {value}")
        db.execute("SELECT pg_reload_conf()")
    for _ in range(600):
        with psycopg.connect(address) as db:
            if db.execute("SHOW fsync").fetchone() == (value,):
                return
        time.sleep(0.05)
    pytest.fail(f"fsync did not become {value}")


def test_a_postgresql_that_does_not_sync_is_refused(postgres, postgres_database, tmp_path):
    try:
        set_fsync(postgres.format("postgres"), "off")
        with pytest.raises(InvalidInput, match="fsync"):
            PostgresStore(postgres_database, ALICE, keys=tmp_path / "keys")
    finally:
        set_fsync(postgres.format("postgres"), "on")


def test_ids_do_not_reach_postgresql_s_log(postgres, postgres_database, tmp_path):
    store = PostgresStore(postgres_database, ALICE, keys=tmp_path / "keys")
    known = entry()
    for group in ([known], [known, entry()], [alter(known, label=1)]):
        store.commit(group)
    store.close()
    folder = postgres.partition("host=")[2]
    log = Path(folder, "log").read_text(encoding="utf-8", errors="replace")
    assert known.id.hex() not in log and known.report not in log
    assert "duplicate key" not in log
