import os
import stat
from pathlib import Path

import pytest

from pdml.errors import InvalidInput
from pdml.files import atomic_write


def only(folder: Path, *names: str) -> bool:
    """No file besides these: nothing temporary stayed behind."""
    return {path.name for path in folder.iterdir()} == set(names)


@pytest.mark.parametrize(
    ("data", "content"), [(b"\x00\xff", b"\x00\xff"), ("ε\n", "ε\n".encode()), ("", b"")]
)
def test_writes_bytes_and_text(tmp_path: Path, data: bytes | str, content: bytes) -> None:
    atomic_write(tmp_path / "model.json", data)
    assert (tmp_path / "model.json").read_bytes() == content
    assert only(tmp_path, "model.json")


def test_replaces_the_old_file_and_takes_a_name_as_text(tmp_path: Path) -> None:
    atomic_write(str(tmp_path / "a"), "old")
    atomic_write(str(tmp_path / "a"), "new")
    assert (tmp_path / "a").read_text() == "new"


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt(), OSError(28, "No space left on device"), RuntimeError()]
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_interrupted_write_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: BaseException
) -> None:
    target = tmp_path / "ledger.json"
    target.write_text("old")

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, step, fail)
    expected = InvalidInput if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected):
        atomic_write(target, "new")
    assert target.read_text() == "old"
    assert only(tmp_path, "ledger.json")


def test_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InvalidInput, match=r"cannot write .*a\.csv: no space left on device$"):
        atomic_write(tmp_path / "a.csv", "x")


def test_the_data_reach_the_disk_before_the_name_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(handle: int) -> None:
        steps.append("fsync")
        sync(handle)

    def noted_replace(source: Path, target: Path) -> None:
        steps.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    atomic_write(tmp_path / "a", "x")
    assert steps[:2] == ["fsync", "replace"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        atomic_write(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    atomic_write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_the_longest_possible_name(tmp_path: Path) -> None:
    name = "a" * 255
    atomic_write(tmp_path / name, "x")
    assert only(tmp_path, name)


def test_missing_folder_and_folder_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the folder .* does not exist"):
        atomic_write(tmp_path / "no" / "a", "x")
    with pytest.raises(InvalidInput, match="not a file"):
        atomic_write(tmp_path, "x")
