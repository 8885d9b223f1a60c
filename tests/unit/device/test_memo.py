"""Chance decides once per record, on the disk before anybody sees it, and never in a way that tells
the true label.
"""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest

from pdml.device.memo import Memo, Memory, draw
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.label_flip import WORD, threshold
from pdml.mechanisms.randomness import SecureStream

STUDY = "ab" * 32


def test_the_same_record_gets_the_same_draw_for_ever(tmp_path: Path) -> None:
    first = Memory(tmp_path).draw_once(STUDY, "", 1, 400_000, 3)
    assert (
        Memory(tmp_path).draw_once(STUDY, "", 2, 2_000_000, 3) == first
    )  # whatever is asked later
    assert first.epsilon == 400_000 and first.label in (0, 1, 2)


def test_records_and_studies_are_drawn_on_their_own(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    places = [(study, record) for study in (STUDY, "cd" * 32) for record in ("", "ann", "bob")]
    memos = [memory.draw_once(*place, 1, 1_000_000, 2) for place in places]
    assert len({memo.id for memo in memos}) == 6


def test_two_at_the_same_time_get_one_draw(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        settle = Memory(tmp_path).draw_once
        memos = list(pool.map(lambda k: settle(STUDY, "", k, 1_000_000, 50), range(32)))
    assert len(set(memos)) == 1
    assert len(list(tmp_path.iterdir())) == 1  # and no trace of the draws that lost


@pytest.mark.parametrize("whole", [True, False])
def test_a_draw_whose_writer_was_killed_is_the_draw(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: bool,
) -> None:
    """Two independent draws on one disk would say more than a report does."""

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", die)
        patch.setattr(Path, "unlink", die)
        with pytest.raises(SystemExit):
            Memory(tmp_path).draw_once(STUDY, "", 1, 1_000_000, 100)
    (left,) = tmp_path.iterdir()
    memo = msgspec.json.decode(left.read_bytes(), type=Memo)
    if not whole:
        left.write_bytes(left.read_bytes()[:-1])
    settled = Memory(tmp_path).draw_once(STUDY, "", 1, 1_000_000, 100)
    assert (settled == memo) == whole
    (file,) = tmp_path.iterdir()
    assert msgspec.json.decode(file.read_bytes(), type=Memo) == settled


def test_whoever_writes_second_takes_the_first_draw(tmp_path: Path) -> None:
    """Another window of the same person draws between the look into the memory and the writing."""
    asked = (STUDY, "", 0, 1_000_000, 50)
    first: list[Memo] = []

    class Late(Memory):
        def recall(self, study: str, record: str) -> Memo | None:
            if first:
                return super().recall(study, record)
            first.append(Memory(tmp_path).draw_once(*asked))
            return None

    assert Late(tmp_path).draw_once(*asked) == first[0] == Memory(tmp_path).draw_once(*asked)


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        memory = Memory(tmp_path / "state")
        memory.keep("", memory.draw_once(STUDY, "", 1, 1_000_000, 2))
    finally:
        os.umask(before)
    (file,) = (tmp_path / "state").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


NOTHING = msgspec.json.encode(Memo(study=STUDY, version=1))


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"study": 1}', b"null", NOTHING])
def test_a_broken_memory_is_an_error_not_a_second_draw(tmp_path: Path, content: bytes) -> None:
    memory = Memory(tmp_path)
    memo = memory.draw_once(STUDY, "", 1, 1_000_000, 2)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    with pytest.raises(DataError, match="restore it"):
        memory.draw_once(STUDY, "", 1, 1_000_000, 2)
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(memo, study="cd" * 32)))
    with pytest.raises(DataError, match="about the study"):
        memory.recall(STUDY, "")


def test_a_folder_that_cannot_be_written_refuses_to_draw(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(InvalidInput, match="not a directory"):
        Memory(blocked / "state").draw_once(STUDY, "", 1, 1_000_000, 2)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_a_draw_is_the_mechanism_at_every_label(classes: int) -> None:
    """Words at the edge of the threshold decide exactly."""
    bound = threshold(1_000_000, classes)
    for label in range(classes):
        for word, reported in ((bound, label), (bound - 1, (label + 1) % classes)):
            words = iter([np.array([word], dtype=np.uint64), np.zeros(1, dtype=np.uint64)])
            stream = SecureStream(lambda count, words=words: next(words))
            assert draw(label, 1_000_000, classes, stream) == reported
    assert 0 < bound < WORD
