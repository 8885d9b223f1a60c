"""What another user of the machine made beforehand is refused, for every file that must be ours."""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from example_study import STUDY

from pdml import files
from pdml.collector.http.operator_routes import operator_token
from pdml.collector.intake.report_rules import collection_id
from pdml.collector.storage.report_keys import KeyRing
from pdml.collector.storage.sqlite import SqliteStore
from pdml.device import simulated_participants
from pdml.errors import DataError, InvalidInput, StorageUnavailable
from pdml.files import check_ours, open_ours
from pdml.node.crypto.signing import create_secret, load_secret
from pdml.node.daemon import relay_server
from pdml.node.protocol import equivocation
from pdml.node.storage.journal import Journal
from pdml.node.storage.node_dir import NodeDirectory
from pdml.node.storage.sqlite_store import SharedDatabase
from pdml.tables import Table

RING = "ab" * 16
STRANGER = 65533
SOMEBODY = 65534

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(files, "_PATIENCE", 0.0)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _second_name(path: Path) -> None:
    os.link(path, path.with_name("second-name"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _file(path: Path) -> None:
    shutil.rmtree(path)
    path.touch()


def _give_away(path: Path) -> None:
    os.chown(path, STRANGER, -1)


FILE_TRICKS = [
    pytest.param(_link, "is a symbolic link.*name the file itself", id="link"),
    pytest.param(_second_name, "has 2 names.*delete the others", id="hard link"),
    pytest.param(_pipe, "is a pipe, not an ordinary file", id="pipe"),
    pytest.param(_folder, "is a folder, not an ordinary file", id="folder"),
    pytest.param(_give_away, "belongs to another user.*chown", id="owner", marks=only_root),
]
FOLDER_TRICKS = [
    pytest.param(_link, "is a symbolic link.*name the folder itself", id="link"),
    pytest.param(_file, "is an ordinary file, not a folder", id="file"),
    pytest.param(_give_away, "belongs to another user.*chown", id="owner", marks=only_root),
]


def _collection(folder: Path) -> None:
    SqliteStore(folder / "reports.db", collection_id(STUDY, "alice")).close()


def _keys(folder: Path) -> None:
    ring = KeyRing(folder / "keys", RING, fresh=not (folder / "keys").exists())
    try:
        ring.begin()
        ring.take(1, lambda first, last: [])
    finally:
        ring.close()


def _token(folder: Path) -> None:
    operator_token(folder / "token", "reports.db")


def _journal(folder: Path) -> None:
    Journal(folder / "journal.db").close()


def _secret(folder: Path) -> None:
    if not (folder / "node.key").exists():
        create_secret(folder / "node.key", 32)
    load_secret(folder / "node.key", 32)


def _node(folder: Path) -> None:
    if not (folder / "node").exists():
        NodeDirectory.create(folder / "node", "alice")
    NodeDirectory.open(folder / "node")


def _relay(folder: Path) -> None:
    relay_server.prepare(folder / "relay", "127.0.0.1:4222")
    if not (folder / "relay" / relay_server.CONFIG).exists():
        (folder / "relay" / relay_server.CONFIG).touch(0o600)
    relay_server.command(folder / "relay")


def _relay_run(folder: Path) -> None:
    if not (folder / "relay").exists():
        _relay(folder)
    relay_server.command(folder / "relay")


def _proof(folder: Path) -> None:
    if not (folder / "bob.evidence").exists():
        (folder / "bob.evidence").touch(0o600)
    equivocation.read_stored(folder / "bob.evidence")


class _Service:
    """Stores everything."""

    def __enter__(self) -> "_Service":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def require_study(self, study: str) -> None:
        pass


def _crowd(folder: Path) -> None:
    outbox = folder / "outbox"
    table = Table(columns={"age": np.zeros(0), "sex": np.zeros(0, dtype=object)})
    nobody = (np.zeros(0, dtype=np.int64), np.zeros(0))
    simulated_participants.fill(outbox, STUDY, table, *nobody, source="s")
    simulated_participants.deliver(outbox, folder / "receipts", _Service)


FILES = [
    (_collection, "reports.db"),
    (_keys, "keys/ring"),
    (_keys, "keys/0.keys"),
    (_token, "token"),
    (_journal, "journal.db"),
    (_journal, "journal.db.lock"),
    (_secret, "node.key"),
    (_node, "node/node.json"),
    (_relay, "relay/relay.key"),
    (_relay, "relay/relay.crt"),
    (_relay, "relay/relay.conf"),
    (_relay_run, "relay/relay.key"),
    (_relay_run, "relay/relay.crt"),
    (_relay_run, "relay/relay.conf"),
    (_proof, "bob.evidence"),
    (_crowd, "outbox"),
    (_crowd, "receipts"),
]
FOLDERS = [(_keys, "keys"), (_node, "node"), (_relay, "relay"), (_relay_run, "relay")]


@pytest.mark.parametrize(("trick", "reason"), FILE_TRICKS)
@pytest.mark.parametrize(("use", "name"), FILES)
def test_a_file_of_another_user_is_refused(use, name, trick, reason, tmp_path):
    use(tmp_path)
    use(tmp_path)  # what we made ourselves will do
    trick(tmp_path / name)
    with pytest.raises(InvalidInput, match=f"{name} {reason}"):
        use(tmp_path)


@pytest.mark.parametrize(("trick", "reason"), FOLDER_TRICKS)
@pytest.mark.parametrize(("use", "name"), FOLDERS)
def test_a_folder_of_another_user_is_refused(use, name, trick, reason, tmp_path):
    use(tmp_path)
    trick(tmp_path / name)
    with pytest.raises(InvalidInput, match=f"{name} {reason}"):
        use(tmp_path)


def _refusal(use: Callable[[Path], None], folder: Path) -> str:
    """What a process of the user `SOMEBODY` hears; "" if nothing is refused."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(SOMEBODY)
            os.setuid(SOMEBODY)
            use(folder)
        except InvalidInput as error:
            os.write(writer, str(error).encode()[:4000])
        except BaseException as error:
            os.write(writer, f"another failure: {error!r}".encode()[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        summary = file.read().decode()
    os.waitpid(child, 0)
    return summary


@only_root
@pytest.mark.parametrize(("use", "name"), [*FILES, *FOLDERS])
def test_an_ordinary_user_s_process_refuses_strangers_and_takes_its_own(use, name, tmp_path):
    """As root nothing but the number of the owner tells files apart: here the system does, too."""
    use(tmp_path)  # what is imported at its first use is imported by root
    tricks = FOLDER_TRICKS if (use, name) in FOLDERS else FILE_TRICKS
    for trick, reason in (one.values for one in tricks):
        with TemporaryDirectory() as made:  # pytest's own folders are root's alone
            folder = Path(made)
            os.chown(folder, SOMEBODY, SOMEBODY)
            assert _refusal(use, folder) == "" == _refusal(use, folder)
            assert (folder / name).lstat().st_uid == SOMEBODY
            trick(folder / name)
            if trick is not _give_away:
                os.chown(folder / name, SOMEBODY, SOMEBODY, follow_symlinks=False)
            assert re.search(f"{name} {reason}", _refusal(use, folder))


def test_another_owner_is_refused_without_root_too(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    status = list(os.lstat(tmp_path / "a"))
    status[4] = STRANGER
    monkeypatch.setattr(files.os, "lstat", lambda path: os.stat_result(status))
    with pytest.raises(DataError, match="belongs to another user"):
        check_ours(tmp_path / "a", "the file")
    status[4] = 0  # root can do anything anyway
    assert check_ours(tmp_path / "a", "the file")


@only_root
def test_an_empty_folder_of_another_user_gets_no_keys(tmp_path):
    (tmp_path / "keys").mkdir()
    _give_away(tmp_path / "keys")
    with pytest.raises(InvalidInput, match="belongs to another user"):
        KeyRing(tmp_path / "keys", RING, fresh=True)
    assert not any((tmp_path / "keys").iterdir())


@pytest.mark.parametrize(("trick", "reason"), FILE_TRICKS)
@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_what_sqlite_would_read_beside_a_database_is_checked(end, trick, reason, tmp_path):
    for use, name in ((_collection, "reports.db"), (_journal, "journal.db")):
        folder = tmp_path / name
        folder.mkdir()
        use(folder)
        (folder / f"{name}{end}").touch()
        trick(folder / f"{name}{end}")
        with pytest.raises(InvalidInput, match=f"{name}{end} {reason}"):
            use(folder)


def test_what_comes_to_stand_beside_an_open_database_is_noticed_by_the_next_connection(tmp_path):
    store = SqliteStore(tmp_path / "reports.db", collection_id(STUDY, "alice"))
    store.close()
    (tmp_path / "reports.db-wal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageUnavailable, match=r"reports\.db-wal is a symbolic link"):
        store.totals()
    assert not (tmp_path / "elsewhere").exists()


def test_reading_a_journal_checks_it_too(tmp_path):
    _journal(tmp_path)
    _link(tmp_path / "journal.db")
    with pytest.raises(DataError, match="is a symbolic link"):
        Journal.peek(tmp_path / "journal.db")


def test_a_link_s_target_is_left_alone(tmp_path):
    """A lock writes its process number: by a link into any file of ours."""
    (tmp_path / "letter").write_text("dear")
    (tmp_path / "journal.db.lock").symlink_to(tmp_path / "letter")
    with pytest.raises(DataError, match="is a symbolic link"):
        Journal(tmp_path / "journal.db")
    assert (tmp_path / "letter").read_text() == "dear"


def test_a_refused_journal_is_not_locked(tmp_path):
    _journal(tmp_path)
    _second_name(tmp_path / "journal.db")
    with pytest.raises(DataError, match="has 2 names"):
        _journal(tmp_path)
    (tmp_path / "second-name").unlink()
    _journal(tmp_path)


def test_links_among_the_folders_above_are_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "disk")
    for use in (_collection, _keys, _token, _journal, _secret, _node):
        use(tmp_path / "here")
        use(tmp_path / "here")


def test_a_new_file_s_second_name_is_waited_for(tmp_path, monkeypatch):
    """`write_private` gives a new file its name by a link, and takes the draft's away after it."""
    (tmp_path / "token").write_text("x" * 30)
    (tmp_path / "token").chmod(0o600)
    _second_name(tmp_path / "token")
    monkeypatch.setattr(files, "_PATIENCE", 600.0)
    monkeypatch.setattr(files.time, "sleep", lambda _: (tmp_path / "second-name").unlink())
    operator_token(tmp_path / "token", "reports.db")


def test_nothing_is_made_where_nothing_is(tmp_path):
    assert not check_ours(tmp_path / "a", "the file")
    with pytest.raises(FileNotFoundError):
        open_ours(tmp_path / "a", "the file")
    with pytest.raises(sqlite3.OperationalError):
        SharedDatabase(tmp_path / "a", read_only=True, timeout=1)
    assert not any(tmp_path.iterdir())
