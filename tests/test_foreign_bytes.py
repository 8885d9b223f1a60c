"""Every reader of a file that others may have written: too deep, no text, too long, no file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pdml.consortium.signed_evaluation import _read as read_counts
from pdml.device import answers, receipt
from pdml.device.memo import Memory
from pdml.device.simulated_participants import read_tokens
from pdml.encoding.declarations import read_encoder
from pdml.errors import PDMLError
from pdml.files import read_file
from pdml.formats import Format, decode
from pdml.model.model import load_model
from pdml.node.crypto import tls
from pdml.node.crypto.signing import Card, load_secret
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.plan_file import SavedPlan
from pdml.study import Study
from pdml.study.frozen_dataset import open_frozen
from pdml.study.messages import decode_answer, decode_report
from pdml.training import sums_fit

DEEP = 100_000


def at(name: str, read: Callable[[Path], Any]) -> Callable[[Path, bytes], Any]:
    """A reader of bytes that stand in a folder under this name."""

    def reader(folder: Path, data: bytes) -> Any:
        (folder / name).write_bytes(data)
        return read(folder / name)

    return reader


def recall(path: Path) -> Any:
    memory = Memory(path.parent)
    os.rename(path, memory._path("0" * 64, "me"))
    return memory.recall("0" * 64, "me")


STORED = Path(__file__).parent / "vectors" / "result-1" / "study.toml"
READERS = {
    "model": at("model.json", load_model),
    "plan": at("plan.json", SavedPlan.load),
    "encoder": at("encoder.json", read_encoder),
    "study": at("study.toml", Study.load),
    "study on the wire": lambda folder, data: Study.from_canonical(data),
    "card": at("card.toml", Card.load),
    "node": at("node.json", lambda path: NodeDirectory.open(path.parent)),
    "answers": at("answers.json", answers.read),
    "receipt": at("receipt.json", receipt.load),
    "memo": at("memo.json", recall),
    "manifest": at("manifest.json", lambda path: open_frozen(path.parent)),
    "evaluation": at("e.json", lambda path: read_counts(path, Study.load(STORED))),
    "certificate": at("relay.pem", tls.read),
    "node's key": at("identity.key", lambda path: load_secret(path, 32)),
    "invitations": at("tokens.csv", lambda path: read_tokens(path, 1)),
    "report": lambda folder, data: decode_report(data),
    "answer": lambda folder, data: decode_answer(data),
}
DOCUMENTS = {
    "array": b"[" * DEEP + b"]" * DEEP,
    "table": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "field": b'{"version":1,"format":"pdml-model/3","plan":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "toml": b"a = " + b"[" * 4000 + b"]" * 4000,
    "not so deep": b'{"format":"pdml-model/1","provenance":' + b"[" * 500 + b"]" * 500 + b"}",
    "no text": b'{"version": "\xff\xfe"}',
    "digits": b'{"version": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_nobody_can_read_is_refused_by_a_sentence(
    reader: str, document: str, tmp_path: Path
) -> None:
    with pytest.raises(PDMLError):
        READERS[reader](tmp_path, DOCUMENTS[document])


def test_a_model_that_is_too_deep_is_not_near_to_another() -> None:
    assert not sums_fit.equal_up_to_rounding(DOCUMENTS["array"], b"{}")


def test_whatever_is_read_can_be_walked() -> None:
    for levels, good in ((99, True), (101, False)):
        data = b"[" * levels + b"]" * levels
        if good:
            assert isinstance(decode(data), list)
        else:
            with pytest.raises(msgspec.DecodeError, match="nested more than 100 levels"):
                decode(data)
    assert Format(name="song", version=1).refusal_of(DOCUMENTS["table"], "x") == ""


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * 11)
    assert read_file(tmp_path / "long", 11) == b"x" * 11
    with pytest.raises(OSError, match="longer than the 10 bytes"):
        read_file(tmp_path / "long", 10)
    os.truncate(tmp_path / "long", 1 << 40)  # sparse: nothing could hold it
    with pytest.raises(OSError, match="longer than"):
        read_file(tmp_path / "long")


FILES = {name: read for name, read in READERS.items() if name not in ("report", "answer")}


@pytest.mark.parametrize("reader", sorted(set(FILES) - {"study on the wire", "memo"}))
def test_a_pipe_is_refused_at_once(reader: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Path, "write_bytes", lambda path, data: os.mkfifo(path))
    with pytest.raises(PDMLError, match="is a pipe, not an ordinary file"):
        FILES[reader](tmp_path, b"")
