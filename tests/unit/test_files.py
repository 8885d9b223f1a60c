import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdml.errors import InvalidInput
from pdml.files import atomic_write, write_private, write_together


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


class TestPrivate:
    @pytest.mark.parametrize("mask", [0, 0o022, 0o077])
    def test_only_the_owner_can_read_it_from_the_first_byte_on(
        self, tmp_path: Path, mask: int
    ) -> None:
        seen: list[int] = []

        def parts() -> Iterator[bytes]:
            for part in (b"secret ", b"words"):
                seen.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())
                yield part

        before = os.umask(mask)
        try:
            assert write_private(tmp_path / "key", parts())
        finally:
            os.umask(before)
        assert (tmp_path / "key").read_bytes() == b"secret words"
        assert {*seen, stat.S_IMODE((tmp_path / "key").stat().st_mode)} == {0o600}
        assert only(tmp_path, "key")

    def test_replaces_a_file_unless_the_first_is_to_win(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        assert write_private(path, "one", first=True)
        assert not write_private(path, "two", first=True)
        assert path.read_text() == "one"
        assert write_private(path, "three")
        assert path.read_text() == "three"
        assert only(tmp_path, "key")

    def test_of_two_at_the_same_time_the_first_wins(self, tmp_path: Path) -> None:
        """The other one appears while the content is being made."""
        path = tmp_path / "key"

        def late() -> Iterator[bytes]:
            yield b"late"
            assert write_private(path, "early", first=True)

        assert not write_private(path, late(), first=True)
        assert path.read_text() == "early"
        assert only(tmp_path, "key")

    @pytest.mark.parametrize("step", ["fsync", "replace", "link"])
    def test_a_failure_leaves_nothing_behind_and_is_one_sentence(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, step, fail)
        with pytest.raises(InvalidInput, match=r"cannot write .*key: no space left on device$"):
            write_private(tmp_path / "key", "x", first=step == "link")
        assert only(tmp_path)

    def test_a_missing_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"the folder .*no does not exist"):
            write_private(tmp_path / "no" / "key", "x")


class TestTogether:
    def test_all_or_none(self, tmp_path: Path) -> None:
        first, second = tmp_path / "a.json", tmp_path / "new" / "b.html"
        first.write_text("old")

        def fail(path: Path) -> None:
            path.write_text("half")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_together({first: lambda path: atomic_write(path, "new"), second: fail})
        assert first.read_text() == "old"
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [first]
        result: list[Path] = []
        both = {
            path: (lambda to, text=path.name: atomic_write(to, text)) for path in (first, second)
        }
        write_together(both, written=result.append)
        assert result == [first, second]
        assert first.read_text() == "a.json" and second.read_text() == "b.html"
        assert only(tmp_path, "a.json", "new") and only(tmp_path / "new", "b.html")

    def test_a_link_is_followed(self, tmp_path: Path) -> None:
        target, link = tmp_path / "target", tmp_path / "link"
        link.symlink_to(target)
        write_together({link: lambda path: atomic_write(path, "x")})
        assert link.is_symlink() and target.read_text() == "x"

    def test_a_signal_waits_until_all_are_renamed(self, tmp_path: Path) -> None:
        files = [tmp_path / "a", tmp_path / "b"]

        def stop(path: Path) -> None:
            os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            write_together({path: lambda to: atomic_write(to, "x") for path in files}, written=stop)
        assert only(tmp_path, "a", "b")
