"""Data sets from a real server into the cache folder: every way is tried, only right files appear,
all or none.
"""

import gzip
import hashlib
import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from serving import Site, serve

from pdml.errors import DataError, InvalidInput
from pdml.research.datasets import adult, catalogue, local, raetsch
from pdml.research.datasets import fetch as fetching
from pdml.research.datasets.catalogue import SOURCES, Address, DataSource, matlab, plain, zipped
from pdml.research.datasets.fetch import fetch, status

A, B = random.Random(1).randbytes(70_000), b"second file"
FILES = {"a.data": hashlib.sha256(A).hexdigest(), "b.test": hashlib.sha256(B).hexdigest()}


def archive(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name.replace("_", "."), content)
    return packed.getvalue()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PDML_DATA_DIR", raising=False)
    monkeypatch.setattr(local, "cache_folder", lambda: tmp_path / "cache" / "pdml")
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "pdml"


@pytest.fixture
def site(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Serves a set "two": by an archive or, failing that, as its two files."""
    with serve() as site:
        site.files |= {
            "/two.zip": archive(a_data=A, b_test=B, c_names=b"more"),
            "/old/a.data": A,
            "/old/b.test": B,
        }
        files = tuple(plain(f"{site.url}/old/{file}", file, FILES[file]) for file in FILES)
        two = DataSource(files=FILES, ways=((zipped(f"{site.url}/two.zip", FILES),), files))
        monkeypatch.setattr(catalogue, "SOURCES", {"two": two})
        yield site


def contents(cache: Path) -> dict[str, bytes]:
    return {path.name: gzip.decompress(path.read_bytes()) for path in cache.glob("*.gz")}


def states() -> list[str]:
    return [one.state for one in status("two")]


def test_the_first_way_that_works_is_enough(site: Site, cache: Path) -> None:
    result: list[tuple[str, int, int | None]] = []
    assert states() == ["missing", "missing"]
    assert fetch("two", tell=lambda *now: result.append(now)) == f"{site.url}/two.zip"
    assert contents(cache) == {"a.data.gz": A, "b.test.gz": B}
    assert states() == ["checked", "checked"]
    size = len(site.files["/two.zip"])
    assert result[-1] == ("two.zip", size, size)
    assert all(name == "two.zip" and done <= size for name, done, _ in result)
    assert sorted(path.name for path in cache.iterdir()) == ["a.data.gz", "b.test.gz"]


def test_what_is_here_and_right_is_not_fetched_again(site: Site, cache: Path) -> None:
    fetch("two")
    asked = len(site.asked)
    assert fetch("two") is None and len(site.asked) == asked
    assert fetch("two", force=True) is not None and len(site.asked) == asked + 1


@pytest.mark.parametrize("damage", [b"no gzip", gzip.compress(b"other bytes", mtime=0)])
def test_what_is_damaged_is_replaced(site: Site, cache: Path, damage: bytes) -> None:
    fetch("two")
    (cache / "a.data.gz").write_bytes(damage)
    assert states() == ["damaged", "checked"]
    fetch("two")
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
    ],
    ids=["gone", "a page", "a file less", "another file", "cut", "no directory"],
)
def test_another_way_is_taken_when_one_fails(site: Site, cache: Path, wrong: bytes | None) -> None:
    if wrong is None:
        del site.files["/two.zip"]
    else:
        site.files["/two.zip"] = wrong
    assert fetch("two") == f"{site.url}/old/a.data"
    assert contents(cache) == {"a.data.gz": A, "b.test.gz": B}


def test_all_files_or_none_and_one_sentence_that_says_what_to_do(site: Site, cache: Path) -> None:
    del site.files["/two.zip"]
    site.files["/old/b.test"] = b"other"
    with pytest.raises(DataError) as refused:
        fetch("two")
    assert str(refused.value) == (
        f"two could not be fetched: {site.url}/two.zip answers 404 Not Found; "
        f"{site.url}/old/b.test gives something else (its sha256 is wrong); "
        "try again later, or set PDML_DATA_DIR to a folder that holds a.data and b.test"
    )
    assert contents(cache) == {}


def test_what_goes_wrong_on_the_way_is_said(
    site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_SILENCE", 0.2)
    site.broken["/two.zip"] = 20_000
    site.silent.add("/old/a.data")
    with pytest.raises(
        DataError, match=r"two\.zip breaks off; .*a\.data is silent for 0\.2 seconds"
    ):
        fetch("two")
    site.refused |= {"/two.zip": 503, "/old/a.data": 403}
    site.silent.clear()
    with pytest.raises(DataError, match=r"answers 503 Service Unavailable; .* answers 403 Forbid"):
        fetch("two")
    assert contents(cache) == {}


def test_without_a_network_the_sentence_says_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = DataSource(files=FILES, ways=((zipped("http://127.0.0.1:9/two.zip", FILES),),))
    monkeypatch.setattr(catalogue, "SOURCES", {"two": nobody})
    with pytest.raises(DataError, match=r"cannot be reached \(no network, or no such host\); try"):
        fetch("two")


def test_an_unknown_set_is_refused(cache: Path) -> None:
    for ask in (fetch, status):
        with pytest.raises(InvalidInput, match="must be one of 'adult', 'raetsch', got 'iris'"):
            ask("iris")


def test_the_variable_names_where_files_go(
    site: Site, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("PDML_DATA_DIR", str(tmp_path / "mine"))
    fetch("two")
    assert contents(tmp_path / "mine") == {"a.data.gz": A, "b.test.gz": B} and not cache.exists()
    monkeypatch.setenv("PDML_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="there is no such folder"):
        fetch("two")


def test_says_that_the_folder_cannot_be_written_to(site: Site, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"cannot write to .*pdml: "):
        fetch("two")


# The real sets


def test_adult_from_its_archive(
    site: Site, cache: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.files["/adult.zip"] = archive(
        **{
            file.replace(".", "_"): gzip.decompress((data_dir / f"{file}.gz").read_bytes())
            for file in adult.FILES
        },
        Index=b"",
    )
    way = (zipped(f"{site.url}/adult.zip", adult.FILES),)
    monkeypatch.setattr(catalogue, "SOURCES", {"adult": DataSource(files=adult.FILES, ways=(way,))})
    fetch("adult")
    assert adult.load().X.shape == (45_222, 105)


def test_raetsch_from_a_file_of_the_same_structure(
    site: Site, cache: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = SOURCES["raetsch"]
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
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    way = (Address(url=f"{site.url}/benchmarks.mat", sha256=digest, unpack=matlab),)
    monkeypatch.setattr(
        catalogue, "SOURCES", {"raetsch": DataSource(files=known.files, ways=(way,))}
    )
    fetch("raetsch")
    for name, facts in raetsch.FACTS.items():
        assert raetsch.load(name)[0].shape == (facts.rows, facts.features)


def test_nothing_is_unpacked_before_its_digest_is_right(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(content: bytes) -> dict[str, bytes]:
        raise AssertionError("opened")

    wrong = Address(url=f"{site.url}/two.zip", sha256=FILES["a.data"], unpack=opened)
    monkeypatch.setattr(catalogue, "SOURCES", {"two": DataSource(files=FILES, ways=((wrong,),))})
    with pytest.raises(DataError, match="its sha256 is wrong"):
        fetch("two")


def test_homes_are_public_encrypted_and_complete() -> None:
    assert set(SOURCES) == {"adult", "raetsch"}
    for known in SOURCES.values():
        assert len(known.ways) >= 2
        assert all(address.url.startswith("https://") for way in known.ways for address in way)
    assert set(SOURCES["raetsch"].files) == {f"raetsch/{name}.csv" for name in raetsch.NAMES}
