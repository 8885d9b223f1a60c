"""Data sets from a real server into the cache folder: every way is tried, only right files appear,
all or none.
"""

import fcntl
import gzip
import hashlib
import io
import lzma
import os
import random
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from serving import Site, serve

from pdml.datasets import adult, homes, local, raetsch
from pdml.datasets.benchmarks_mat import csv
from pdml.datasets.download import Patience
from pdml.datasets.fetch import fetch, status
from pdml.datasets.homes import Address, Home, matlab, whole, zipped
from pdml.errors import DataError

QUICK = Patience(attempts=2, timeout=5, wait=0.001, longest_wait=0.001)
A, B = random.Random(1).randbytes(70_000), b"second file"
FILES = {"a.data": hashlib.sha256(A).hexdigest(), "b.test": hashlib.sha256(B).hexdigest()}


def archive(how: int = zipfile.ZIP_DEFLATED, /, **files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", how) as opened:
        for name, content in files.items():
            opened.writestr(name.replace("_", "."), content)
    return packed.getvalue()


def garbled(packed: bytes) -> bytes:
    """The first file's bytes are noise, its headers are right."""
    return packed[:60] + bytes(range(200)) + packed[260:]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PDML_DATA_DIR", raising=False)
    monkeypatch.setattr(local, "cache_folder", lambda: tmp_path / "cache" / "pdml")
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "pdml"


@pytest.fixture
def site(cache: Path) -> Iterator[Site]:
    with serve() as site:
        site.files |= {
            "/two.zip": archive(a_data=A, b_test=B, c_names=b"more"),
            "/old/a.data": A,
            "/old/b.test": B,
        }
        yield site


def home(site: Site) -> Home:
    plain = tuple(
        Address(url=f"{site.url}/old/{file}", most=10**6, unpack=whole(file, digest))
        for file, digest in FILES.items()
    )
    return Home(
        files=FILES,
        ways=((Address(url=f"{site.url}/two.zip", most=10**6, unpack=zipped(FILES)),), plain),
    )


def contents(cache: Path) -> dict[str, bytes]:
    return {path.name: gzip.decompress(path.read_bytes()) for path in cache.glob("*.gz")}


def test_the_first_way_that_works_is_enough(site: Site, cache: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    assert [one.state for one in status("two", home(site))] == ["missing", "missing"]
    assert fetch("two", home(site), tell=lambda *now: told.append(now)) == f"{site.url}/two.zip"
    assert contents(cache) == {"a.data.gz": A, "b.test.gz": B}
    assert [one.state for one in status("two", home(site))] == ["checked", "checked"]
    assert told[-1] == ("two.zip", len(site.files["/two.zip"]), len(site.files["/two.zip"]))
    assert not list(cache.rglob("*.part")) and not list(cache.rglob("*.json"))


def test_what_is_here_and_right_is_not_fetched_again(site: Site, cache: Path) -> None:
    fetch("two", home(site))
    asked = len(site.asked)
    assert fetch("two", home(site)) is None and len(site.asked) == asked
    assert fetch("two", home(site), force=True) is not None and len(site.asked) == asked + 1


@pytest.mark.parametrize("damage", [b"no gzip", gzip.compress(b"other bytes", mtime=0)])
def test_what_is_damaged_is_replaced(site: Site, cache: Path, damage: bytes) -> None:
    fetch("two", home(site))
    (cache / "a.data.gz").write_bytes(damage)
    assert [one.state for one in status("two", home(site))] == ["damaged", "checked"]
    fetch("two", home(site))
    assert contents(cache) == {"a.data.gz": A, "b.test.gz": B}


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        b"<html>",
        archive(a_data=A),
        archive(a_data=A, b_test=b"newer"),
        archive(a_data=A, b_test=B)[:-30],
        archive(a_data=A)[:9000],
        archive(zipfile.ZIP_BZIP2, a_data=A, b_test=B),
        garbled(archive(zipfile.ZIP_BZIP2, a_data=A, b_test=B)),
        garbled(archive(zipfile.ZIP_LZMA, a_data=A, b_test=B)),
    ],
    ids=[
        "gone",
        "a page",
        "a file less",
        "another file",
        "cut",
        "no directory",
        "bzip2",
        "garbled bzip2",
        "garbled lzma",
    ],
)
def test_another_way_is_taken_when_one_fails(site: Site, cache: Path, wrong: bytes | None) -> None:
    if wrong is None:
        del site.files["/two.zip"]
    else:
        site.files["/two.zip"] = wrong
    assert fetch("two", home(site), patience=QUICK) == f"{site.url}/old/a.data"
    assert contents(cache) == {"a.data.gz": A, "b.test.gz": B}


@pytest.mark.parametrize(
    "how",
    [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA],
    ids=["deflate", "bzip2", "lzma"],
)
@pytest.mark.parametrize("honest", [True, False])
def test_a_small_archive_cannot_fill_the_memory(how: int, honest: bool) -> None:
    """40 MiB of zeros in a few kB, also if the directory says that they are few."""
    size = 40 << 20
    packed = archive(how, a_data=bytes(size))
    if not honest:
        packed = packed.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    assert len(packed) < 50_000
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a\.data"):
            zipped(FILES)(packed)
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def test_other_ways_to_pack_are_refused_and_a_stored_file_is_not() -> None:
    assert zipped(FILES)(archive(zipfile.ZIP_STORED, a_data=A, b_test=B)) == {
        "a.data": A,
        "b.test": B,
    }
    for how in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(
            DataError, match=r"a\.data is packed in a way, or to a size, that it never had"
        ):
            zipped(FILES)(archive(how, a_data=A, b_test=B))


@pytest.mark.parametrize(
    "error",
    [OSError("Invalid data stream"), ValueError("negative seek"), lzma.LZMAError("corrupt")],
    ids=repr,
)
def test_whatever_the_unpacker_says_the_next_way_is_tried(
    site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(self: zipfile.ZipFile, file: str) -> zipfile.ZipInfo:
        raise error

    monkeypatch.setattr(zipfile.ZipFile, "getinfo", fails)
    assert fetch("two", home(site), patience=QUICK) == f"{site.url}/old/a.data"


def test_a_broken_download_goes_on_in_the_next_call_and_leaves_nothing(
    site: Site, cache: Path
) -> None:
    site.script["/two.zip"] = [{"cut": 20_000}] + [{"status": 503}] * 2
    site.script["/old/a.data"] = [{"status": 404}]
    with pytest.raises(DataError):
        fetch("two", home(site), patience=QUICK)
    assert (cache / "partial" / "two.zip.part").stat().st_size == 20_000 and contents(cache) == {}
    fetch("two", home(site), patience=QUICK)
    assert site.asked[-1] == ("/two.zip", "bytes=20000-")
    site.script["/two.zip"] = [{"cut": 20_000}] + [{"status": 503}] * 2
    fetch("two", home(site), force=True, patience=QUICK)  # by the other way
    assert not list(cache.rglob("*.part")) and not list(cache.rglob("two.zip.json"))


def test_all_files_or_none_and_one_sentence_that_says_what_to_do(site: Site, cache: Path) -> None:
    del site.files["/two.zip"]
    site.files["/old/b.test"] = b"other"
    with pytest.raises(DataError) as refused:
        fetch("two", home(site), patience=QUICK)
    sentence = str(refused.value)
    assert sentence.startswith(
        f"two could not be fetched: {site.url}/two.zip answers 404 Not Found; "
        f"{site.url}/old/b.test gives something else"
    )
    assert (
        sentence.endswith(
            "try again later, or set PDML_DATA_DIR to a folder that holds a.data and b.test"
        )
        and "\n" not in sentence
    )
    assert contents(cache) == {}


def test_the_variable_names_where_files_go(
    site: Site, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("PDML_DATA_DIR", str(tmp_path / "mine"))
    fetch("two", home(site))
    assert contents(tmp_path / "mine") == {"a.data.gz": A, "b.test.gz": B} and not cache.exists()
    monkeypatch.setenv("PDML_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="there is no such folder"):
        fetch("two", home(site))


def test_says_that_the_folder_cannot_be_written_to(site: Site, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"cannot write to .*pdml: "):
        fetch("two", home(site))


def test_two_processes_do_not_share_a_part(site: Site, cache: Path) -> None:
    (cache / "partial").mkdir(parents=True)
    handle = os.open(cache / "partial" / "two.lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="two is being fetched by another process"):
            fetch("two", home(site))
        assert site.asked == []
    finally:
        os.close(handle)
    fetch("two", home(site))


# The real sets


def test_adult_from_its_archive(site: Site, cache: Path, data_dir: Path) -> None:
    site.files["/adult.zip"] = archive(
        **{
            file.replace(".", "_"): gzip.decompress((data_dir / f"{file}.gz").read_bytes())
            for file in adult.FILES
        },
        Index=b"",
    )
    site.script["/adult.zip"] = [{"cut": 100_000}]
    way = (Address(url=f"{site.url}/adult.zip", most=1 << 24, unpack=zipped(adult.FILES)),)
    fetch("adult", Home(files=adult.FILES, ways=(way,)), patience=QUICK)
    assert adult.load().X.shape == (45_222, 105)


def test_raetsch_from_a_file_of_the_same_structure(site: Site, cache: Path, data_dir: Path) -> None:
    records = {}
    for name in raetsch.NAMES:
        table = np.loadtxt(
            io.BytesIO(gzip.decompress((data_dir / "raetsch" / f"{name}.csv.gz").read_bytes())),
            delimiter=",",
        )
        records[name] = {
            "x": table[:, 1:],
            "t": table[:, :1],
            "train": np.ones((2, 3)),
            "test": np.ones((2, 3)),
        }
    file = io.BytesIO()
    savemat(file, records, do_compression=True)
    site.files["/benchmarks.mat"] = file.getvalue()
    site.script["/benchmarks.mat"] = [{"cut": 1_000_000}]
    known = homes.HOMES["raetsch"]
    sets = {name: facts.sha256 for name, facts in raetsch.FACTS.items()}
    unpack = matlab(sets, hashlib.sha256(file.getvalue()).hexdigest())
    fetch(
        "raetsch",
        Home(
            files=known.files,
            ways=((Address(url=f"{site.url}/benchmarks.mat", most=1 << 24, unpack=unpack),),),
        ),
        patience=QUICK,
    )
    for name, facts in raetsch.FACTS.items():
        assert raetsch.load(name)[0].shape == (facts.rows, facts.features)


def test_a_matlab_file_is_not_opened_before_its_digest_is_right() -> None:
    X, y = np.ones((2, 2)), np.ones(2)
    file = io.BytesIO()
    savemat(file, {"banana": {"x": X, "t": y}})
    digest, table = hashlib.sha256(file.getvalue()).hexdigest(), csv(X, y)
    sets = {"banana": hashlib.sha256(table).hexdigest()}
    assert matlab(sets, digest)(file.getvalue()) == {"raetsch/banana.csv": table}
    with pytest.raises(DataError, match=r"benchmarks\.mat must have the sha256"):
        matlab(sets, digest)(file.getvalue() + b"\0")
    with pytest.raises(DataError, match=r"raetsch/banana\.csv must have the sha256"):
        matlab({"banana": digest}, digest)(file.getvalue())


def test_homes_are_public_encrypted_and_complete() -> None:
    assert set(homes.HOMES) == {"adult", "raetsch"}
    for known in homes.HOMES.values():
        assert len(known.ways) >= 2
        assert all(address.url.startswith("https://") for way in known.ways for address in way)
    assert set(homes.HOMES["raetsch"].files) == {f"raetsch/{name}.csv" for name in raetsch.NAMES}
