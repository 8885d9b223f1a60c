"""A person's consent and withdrawal by the Python client, against the real service."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from collector_process import Collector, collecting
from form_study import TOLD

from pdml.device import receipt as receipts
from pdml.device.client import contribute
from pdml.device.memo import Memory
from pdml.device.receipt import withdraw
from pdml.errors import DataError, InvalidInput, NotDelivered
from pdml.study import Study
from pdml.study.schema import template

ANSWERS = {"age": 34, "sex": "female", "region": "south"}
SAID = {"label": "yes", "epsilon": 1}


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(template.render(TOLD), encoding="utf-8")
    return path


@pytest.fixture
def collector(study_file: Path, tmp_path: Path) -> Iterator[Collector]:
    with collecting(study_file, tmp_path, "--open") as running:
        yield running


def test_whoever_has_not_agreed_sends_and_draws_nothing(
    collector: Collector, study_file: Path, tmp_path: Path
) -> None:
    place = {"memory": tmp_path / "mine"}
    with pytest.raises(InvalidInput, match="agreed must be True") as caught:
        contribute(TOLD, collector.url, ANSWERS, **SAID, **place)
    assert caught.value.setting == "agreed" and not place["memory"].exists()
    receipt = contribute(TOLD, collector.url, ANSWERS, **SAID, **place, agreed=True)
    assert collector.command("status", study_file)["reports"] == 1
    done = withdraw(TOLD, collector.url, **place)
    assert (done.id, done.before) == (receipt.id, False)
    memo = Memory(place["memory"]).recall(TOLD.unkeyed_hash, "")
    left = {"study": TOLD.unkeyed_hash, "version": 1, "withdrawn": True}
    (file,) = place["memory"].iterdir()
    assert json.loads(file.read_bytes()) == left and memo is not None and memo.withdrawn
    status = collector.command("status", study_file)
    assert (status["reports"], status["withdrawn"]) == (0, 1)
    with pytest.raises(NotDelivered, match="was withdrawn on this device"):  # no second draw
        contribute(TOLD, collector.url, ANSWERS, **SAID, **place, agreed=True)
    with pytest.raises(InvalidInput, match="withdrawn before"):
        withdraw(TOLD, collector.url, **place)
    assert json.loads(file.read_bytes()) == left
    assert collector.command("status", study_file)["withdrawn"] == 1


def test_a_receipt_withdraws_whoever_s_report_it_was_on_this_device(
    collector: Collector, study_file: Path, tmp_path: Path
) -> None:
    """By the receipt alone, without the invitation: also then this device keeps nothing else."""
    place, listed = {"memory": tmp_path / "mine"}, tmp_path / "tokens.csv"
    collector.command("invite", study_file, "--count", "2", "--out", str(listed))
    first, second = (line.split(",")[0] for line in listed.read_text().splitlines()[1:])
    said = {**SAID, **place, "agreed": True}
    for token in (first, second):
        contribute(TOLD, collector.url, ANSWERS, **said, token=token)
    memory = Memory(tmp_path / "mine")
    memo, other = (memory.recall(TOLD.memory_key(each), "") for each in (first, second))
    assert memo is not None and other is not None
    with pytest.raises(InvalidInput, match="remembers no report to this study: name its inv"):
        withdraw(TOLD, collector.url, **place)
    file = tmp_path / "receipt.json"
    receipts.save(file, receipts.make_receipt(TOLD, collector.url, memo))
    (tmp_path / "mine" / "broken.json").write_bytes(b"{")  # somebody else's trouble
    with pytest.raises(InvalidInput, match="names its report by itself"):
        withdraw(TOLD, receipt=file, token=second, **place)
    withdraw(TOLD, receipt=file, **place)
    result = b"".join(path.read_bytes() for path in (tmp_path / "mine").iterdir())
    assert memo.id.encode() not in result and memo.code.encode() not in result
    assert memory.recall(TOLD.memory_key(second), "") == other  # and nothing of the other
    with pytest.raises(NotDelivered, match="was withdrawn on this device"):
        contribute(TOLD, collector.url, ANSWERS, **said, token=first)
    link = f"{collector.url}/#t={second}"
    assert withdraw(TOLD, collector.url, token=link, **place).id == other.id


def test_after_the_freeze_it_says_what_cannot_be_undone(
    collector: Collector, study_file: Path, tmp_path: Path
) -> None:
    place = {"memory": tmp_path / "mine"}
    contribute(TOLD, collector.url, ANSWERS, **SAID, **place, agreed=True)
    collector.command("export", study_file, "--out", str(tmp_path / "data"), "--force-small")
    with pytest.raises(NotDelivered, match="cannot be called back") as caught:
        withdraw(TOLD, collector.url, **place)
    assert caught.value.code == "frozen"
    assert "2036-01-01" in str(caught.value) and "study@hospital.example" in str(caught.value)
    memo = Memory(place["memory"]).recall(TOLD.unkeyed_hash, "")
    assert memo is not None and not memo.withdrawn


def test_what_cannot_be_withdrawn_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "mine")
    with pytest.raises(InvalidInput, match="remembers no report"):
        withdraw(TOLD, "alice", memory=tmp_path / "mine")
    memory.draw_once(TOLD.unkeyed_hash, "", 1, 1_000_000, 2)
    with pytest.raises(InvalidInput, match="remembers no report"):
        withdraw(TOLD, "alice", memory=tmp_path / "mine")


def test_receipts_of_other_studies_and_other_files_are_refused(
    tmp_path: Path, study: Study
) -> None:
    file = Path(__file__).parents[2] / "vectors" / "formats" / "saved-receipt-1.json"
    with pytest.raises(InvalidInput, match="receipt of another study"):
        withdraw(study, receipt=file, memory=tmp_path)
    for content, why in (
        (b"{}", "must be a receipt"),
        (json.dumps({**json.loads(file.read_bytes()), "version": 2}).encode(), "version 2 of"),
    ):
        (tmp_path / "other.json").write_bytes(content)
        with pytest.raises(DataError, match=why):
            receipts.load(tmp_path / "other.json")
    with pytest.raises(DataError, match="cannot read"):
        receipts.load(tmp_path / "none.json")


def test_a_receipt_is_kept_for_its_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "mine")
    memo = memory.draw_once(TOLD.unkeyed_hash, "", 1, 1_000_000, 2)
    with pytest.raises(InvalidInput, match="that was not"):
        receipts.make_receipt(TOLD, "https://alice.example", memo)
    file = Path(__file__).parents[2] / "vectors" / "formats" / "saved-receipt-1.json"
    known = receipts.load(file)
    memo = msgspec.structs.replace(memo, sent=known.report, receipt=known.receipt)
    kept = receipts.make_receipt(TOLD, "https://alice.example", memo)
    assert (kept.organiser, kept.contact, kept.code) == (
        "City Hospital",
        "study@hospital.example",
        memo.code,
    )
    bare = replace(TOLD, organiser=None)
    assert receipts.make_receipt(bare, "https://alice.example", memo).organiser == ""
    path = tmp_path / "receipt.json"
    receipts.save(path, kept)
    assert path.stat().st_mode & 0o077 == 0 and receipts.load(path) == kept
    with pytest.raises(InvalidInput, match="exists already"):
        receipts.save(path, kept)
