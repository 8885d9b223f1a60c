"""Every reader of bytes that others may have written (tests/fuzz/readers.py): what the product
writes is read, whatever fuzzing has found is refused or read, and so is what is too deep, no text,
too long or no file. `make fuzz` looks for more.
"""

import os
from pathlib import Path

import msgspec
import pytest
from readers import CORPUS, READERS, corpus

from pdml.errors import PDMLError
from pdml.files import read_file
from pdml.formats import Format, decode
from pdml.training import sums_fit

DEEP = 100_000
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


@pytest.mark.parametrize("reader", sorted(name for name in READERS if READERS[name].seeds()))
def test_what_the_product_writes_is_read(reader: str, tmp_path: Path) -> None:
    for number, seed in enumerate(READERS[reader].seeds()):
        folder = tmp_path / str(number)
        folder.mkdir()
        READERS[reader](folder, seed)


FOUND = [
    pytest.param(name, path, id=f"{name}-{path.name}") for name in READERS for path in corpus(name)
]


@pytest.mark.parametrize("reader, path", FOUND)
def test_what_fuzzing_has_found_is_read_or_refused(reader: str, path: Path, tmp_path: Path) -> None:
    try:
        READERS[reader](tmp_path, path.read_bytes())
    except PDMLError as error:
        assert str(error)


def test_a_corpus_is_small_and_belongs_to_a_reader() -> None:
    folders = {path.name for path in CORPUS.iterdir()}
    assert folders and folders <= set(READERS)
    for name in folders:
        assert sum(path.stat().st_size for path in corpus(name)) <= 8_192


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


FILES = {name for name, reader in READERS.items() if reader.opens}


@pytest.mark.parametrize("reader", sorted(FILES))
def test_a_pipe_is_refused_at_once(reader: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Path, "write_bytes", lambda path, data: os.mkfifo(path))
    with pytest.raises(PDMLError, match="is a pipe, not an ordinary file"):
        READERS[reader](tmp_path, b"")
