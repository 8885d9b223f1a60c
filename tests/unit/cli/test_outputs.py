"""Files that appear together or not at all: refused before the work what would fail after it."""

from pathlib import Path

import pytest

from pdml.cli import outputs
from pdml.errors import InvalidInput


def test_a_new_file_may_be_written_where_folders_are_made_later(tmp_path: Path) -> None:
    outputs.check([tmp_path / "new" / "model.json", tmp_path / "report.html"], force=False)


def test_two_names_of_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must have different names"):
        outputs.check([tmp_path / "a", tmp_path / "b" / ".." / "a"], force=True)


def test_a_file_that_is_there_needs_force(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(InvalidInput, match="exists already: --force overwrites it"):
        outputs.check([tmp_path / "a"], force=False)
    outputs.check([tmp_path / "a"], force=True)


def test_a_folder_is_no_file_and_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    for path, why in ((tmp_path, "it is a folder"), (tmp_path / "a" / "b", "is a file, not a")):
        with pytest.raises(InvalidInput, match=why):
            outputs.check([path], force=True)


def test_all_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "written", [])

    def fail(path: Path) -> None:
        raise InvalidInput("no model")

    good = {tmp_path / "a": lambda path: path.write_text("new") and None}
    with pytest.raises(InvalidInput):
        outputs.commit({**good, tmp_path / "b": fail})
    assert not list(tmp_path.iterdir()) and not outputs.written
    outputs.commit(good)
    assert (tmp_path / "a").read_text() == "new" and outputs.written == [tmp_path / "a"]
