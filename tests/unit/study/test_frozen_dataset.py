"""Frozen data sets: what goes in comes out, and no bit changes unnoticed."""

import hashlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.errors import DataError, InvalidInput
from pdml.study import frozen_dataset
from pdml.study.frozen_dataset import FrozenData, FrozenWriter, Manifest, open_frozen

HOUR = "2026-03-01T14Z"
HASH = "5a" * 32


def rows(count: int, width: int = 4, classes: int = 2, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    features = rng.random((count, width)).astype(np.float32) + np.float32(0.01)
    features /= np.float32(1.001) * np.linalg.norm(features, axis=1, keepdims=True).astype(
        np.float32
    )
    return features, rng.integers(0, classes, count), rng.choice([400_000, 1_000_000], count)


def write(folder: Path, *parts: tuple[Any, Any, Any], width: int = 4, classes: int = 2) -> Manifest:
    with FrozenWriter(
        folder, width=width, classes=classes, study_hash=HASH, study_id="s", server="alice"
    ) as writer:
        for part in parts:
            writer.append(*part)
        return writer.finish(frozen_at=HOUR)


def copied(data: FrozenData) -> tuple[Any, Any, Any]:
    return np.array(data.features), np.array(data.labels), np.array(data.epsilons)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=5).filter(sum),
    st.integers(2, 6),
    st.integers(2, 4),
)
@settings(max_examples=25)
def test_what_goes_in_comes_out(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], width: int, classes: int
) -> None:
    folder = tmp_path_factory.mktemp("frozen") / "data"
    parts = [rows(size, width, classes, seed) for seed, size in enumerate(sizes)]
    manifest = write(folder, *parts, width=width, classes=classes)
    data = open_frozen(folder, study_hash=HASH)
    assert data.manifest == manifest and len(data) == manifest.records == sum(sizes)
    for name, column, got in zip(
        ("features", "labels", "epsilons"), zip(*parts, strict=True), copied(data), strict=True
    ):
        assert (np.concatenate(column) == got).all()
        assert (
            np.load(folder / f"{name}.npy", allow_pickle=False) == got
        ).all()  # any reader of NumPy's format
        assert not getattr(data, name).flags.writeable


def test_chunks_leave_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels, epsilons = rows(100)
    one = write(tmp_path / "one", (features, labels, epsilons))
    many = write(
        tmp_path / "many",
        *((features[i : i + 7], labels[i : i + 7], epsilons[i : i + 7]) for i in range(0, 100, 7)),
    )
    assert one == many and one.digest == many.digest
    monkeypatch.setattr(frozen_dataset, "_CHUNK", 50)
    assert (open_frozen(tmp_path / "many").features == features).all()


def test_every_single_bit_counts(tmp_path: Path) -> None:
    """Each bit of each file is flipped in turn, several thousands of them."""
    folder = tmp_path / "data"
    write(folder, rows(2, width=2), width=2)
    for path in sorted(folder.iterdir()):
        good = path.read_bytes()
        with open(
            path, "r+b", buffering=0
        ) as file:  # in place: a file written anew would wait for the disk each time
            for position, byte in enumerate(good):
                for bit in range(8):
                    file.seek(position)
                    file.write(bytes([byte ^ 1 << bit]))
                    with pytest.raises(DataError):
                        open_frozen(folder)
                file.seek(position)
                file.write(bytes([byte]))
    open_frozen(folder)


@pytest.mark.parametrize("name", ["features.npy", "labels.npy", "epsilons.npy", "manifest.json"])
def test_files_that_are_missing_cut_or_longer(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    write(folder, rows(5))
    good = (folder / name).read_bytes()
    for bad in (good[:-1], good[:40], b"", good + b"\0", good * 2):
        (folder / name).write_bytes(bad)
        with pytest.raises(DataError, match=name):
            open_frozen(folder)
        if name != "manifest.json":
            with pytest.raises(DataError, match=name):
                open_frozen(folder, verify=False)
    (folder / name).unlink()
    with pytest.raises(DataError, match=r"cannot read .*no such file"):
        open_frozen(folder)


def test_without_verification_sizes_still_count_and_contents_do_not(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write(folder, rows(5))
    data = bytearray((folder / "labels.npy").read_bytes())
    data[-4] ^= 1
    (folder / "labels.npy").write_bytes(data)
    with pytest.raises(DataError, match="does not match its sha256"):
        open_frozen(folder)
    assert len(open_frozen(folder, verify=False)) == 5


def reseal(folder: Path, **changes: Any) -> None:
    """A manifest that is consistent, whatever it says."""
    summary = json.loads((folder / "manifest.json").read_bytes())
    summary.pop("digest")
    summary["files"] = {
        f"{n}.npy": hashlib.sha256((folder / f"{n}.npy").read_bytes()).hexdigest()
        for n in ("features", "labels", "epsilons")
    }
    (folder / "manifest.json").write_bytes(Manifest(**{**summary, **changes}).to_bytes())


@pytest.mark.parametrize(
    "name, value, summary",
    [
        ("features", np.float32(1.5), "row 3 of .* has features"),
        ("features", np.float32(np.nan), "row 3 of .* has features"),
        ("labels", np.int32(2), "row 3 of .* has labels"),
        ("labels", np.int32(-1), "row 3 of .* has labels"),
        ("epsilons", np.int64(0), "row 3 of .* has epsilons"),
        ("epsilons", np.int64(2_000_000_000), "row 3 of .* has epsilons"),
    ],
)
def test_rows_that_no_report_may_have_are_refused_even_under_a_good_hash(
    tmp_path: Path, name: str, value: Any, summary: str
) -> None:
    folder = tmp_path / "data"
    write(folder, rows(5))
    column = np.lib.format.open_memmap(folder / f"{name}.npy", mode="r+")
    column[2] = value
    column.flush()
    reseal(folder)
    with pytest.raises(DataError, match=summary):
        open_frozen(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"records": 0},
        {"records": 1 << 50},
        {"width": 3},
        {"version": 0},
        {"version": 2},
        {"study": "x"},
        {"records": True},
        {"files": {}},
        {"server": 3},
        {"randomised_by": "nobody"},
        {"randomised_by": None},
    ],
)
def test_consistent_manifests_that_lie(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = tmp_path / "data"
    write(folder, rows(5))
    reseal(folder, **changes)
    with pytest.raises(DataError):
        open_frozen(folder)


@pytest.mark.parametrize("by", ["devices", "elsewhere", "operator", ""])
def test_it_says_who_randomised_its_labels(tmp_path: Path, by: str) -> None:
    names = {"study_hash": HASH, "study_id": "s", "server": "a", "randomised_by": by}
    with FrozenWriter(tmp_path / "data", width=4, classes=2, **names) as writer:
        writer.append(*rows(5))
        digest = writer.finish(frozen_at=HOUR).digest
    manifest = open_frozen(tmp_path / "data").manifest
    assert manifest.randomised_by == by and manifest.digest == digest
    reseal(tmp_path / "data", randomised_by="devices" if by != "devices" else "operator")
    assert open_frozen(tmp_path / "data").manifest.digest != digest  # it is part of the name


def test_nobody_is_credited_unasked(tmp_path: Path) -> None:
    assert write(tmp_path / "data", rows(5)).randomised_by == ""
    with pytest.raises(InvalidInput, match="randomised_by must be one of"):
        FrozenWriter(
            tmp_path / "other",
            width=4,
            classes=2,
            study_hash=HASH,
            study_id="s",
            server="a",
            randomised_by="angels",
        )


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda v: (
            st.lists(v, max_size=3)
            | st.dictionaries(
                st.sampled_from(["digest", "study", "files", "records", "version"]), v, max_size=5
            )
        ),
    ).map(lambda v: json.dumps(v).encode("utf-8", "surrogatepass"))
)
def test_any_bytes_as_a_manifest_are_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "manifests"
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_bytes(data)
    with pytest.raises(DataError):
        open_frozen(folder)


def test_another_study_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "data", rows(5))
    with pytest.raises(DataError, match="the studies differ"):
        open_frozen(tmp_path / "data", study_hash="00" * 32)


# Writing


def test_files_are_the_owner_s_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(tmp_path / "data", rows(5))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    for path in (tmp_path / "data").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_appears_before_the_end_and_nothing_stays_after_a_failure(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with (
        pytest.raises(RuntimeError),
        FrozenWriter(
            folder, width=4, classes=2, study_hash=HASH, study_id="s", server="a"
        ) as writer,
    ):
        writer.append(*rows(5))
        assert not folder.exists() and len(list(tmp_path.iterdir())) == 1
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="at least one report"):
        write(folder)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInput, match="frozen or abandoned"):
        writer.append(*rows(1))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "data", rows(5))
    with pytest.raises(InvalidInput, match="exists already"):
        write(tmp_path / "data", rows(6))
    assert len(open_frozen(tmp_path / "data")) == 5
    shutil.rmtree(tmp_path / "data")
    with FrozenWriter(
        tmp_path / "data", width=4, classes=2, study_hash=HASH, study_id="s", server="a"
    ) as writer:
        writer.append(*rows(5))
        (tmp_path / "data").mkdir()
        with pytest.raises(InvalidInput, match="exists already"):
            writer.finish(frozen_at=HOUR)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    with pytest.raises(InvalidInput, match="cannot write into"):
        write(tmp_path / "nowhere" / "data", rows(5))


@pytest.mark.parametrize(
    "change, summary",
    [
        (lambda x, y, e: (x.astype(float), y, e), "float32"),
        (lambda x, y, e: (x[:, :3], y, e), r"must be \(k, 4\) features"),
        (lambda x, y, e: (x, y[:2], e), "k labels"),
        (lambda x, y, e: (x, y, e.astype(float)), "whole numbers"),
        (lambda x, y, e: (x * np.float32(2), y, e), "row 6 of the new rows has features"),
        (lambda x, y, e: (-x, y, e), "row 6 of the new rows has features"),
        (lambda x, y, e: (x, y + 2, e), "row 6 of the new rows has labels"),
        (lambda x, y, e: (x, y, e * 0), "row 6 of the new rows has epsilons"),
    ],
)
def test_rows_are_checked_before_they_are_written(
    tmp_path: Path, change: Any, summary: str
) -> None:
    with FrozenWriter(
        tmp_path / "data", width=4, classes=2, study_hash=HASH, study_id="s", server="a"
    ) as writer:
        writer.append(*rows(5))
        with pytest.raises(InvalidInput, match=summary):
            writer.append(*change(*rows(5)))
        assert writer.finish(frozen_at=HOUR).records == 5
    assert len(open_frozen(tmp_path / "data")) == 5


def test_the_hour_is_coarse(tmp_path: Path) -> None:
    with FrozenWriter(
        tmp_path / "data", width=4, classes=2, study_hash=HASH, study_id="s", server="a"
    ) as writer:
        writer.append(*rows(5))
        with pytest.raises(InvalidInput, match="an hour in UTC"):
            writer.finish(frozen_at="2026-03-01T14:05:06Z")
