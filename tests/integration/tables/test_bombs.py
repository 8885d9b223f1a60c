"""Files that are made to fill a machine's memory, to wait for ever, or never to end."""

import gzip
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pdml.errors import DataError
from pdml.tables import read_table
from pdml.tables.table_files import read_parquet

MOST_MEMORY = 200 << 20  # bytes beyond what the libraries take: the bombs are 3 and 6 GB


def refused_within_memory(path: Path) -> str:
    """The sentence that refuses a table, read by a process whose memory is measured and bounded."""
    code = (
        "import resource, sys; from pdml.tables import read_table, table_files\n"
        "table_files._pyarrow()\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10\n"
        "before = peak()\n"
        "try: read_table(sys.argv[1])\n"
        "except ValueError as error: print(error)\n"
        f"assert peak() - before < {MOST_MEMORY}, peak() - before\n"
    )
    limit = 3 << 30  # a bomb that goes off must not take the machine with it
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_gzip_bomb_is_refused_before_it_fills_memory(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.csv.gz"
    member = gzip.compress(b"1,2\n" * (64 << 18), mtime=0)  # 64 MB in 64 kB
    bomb.write_bytes(gzip.compress(b"a,b\n") + member * 48)  # 3 GB in 3 MB
    assert "unpacks to more than 100 times its size" in refused_within_memory(bomb)


def test_a_sparse_file_is_refused_at_its_first_bytes(tmp_path: Path) -> None:
    with open(tmp_path / "sparse.csv", "wb") as file:
        file.write(b"a,b\n")
        file.truncate(3 << 30)
    assert "got a NUL byte on line 2" in refused_within_memory(tmp_path / "sparse.csv")


def test_a_parquet_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """6 GB of zeros in less than 1 MB."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows, groups = 1 << 23, 16
    table = pa.table({name: np.zeros(rows) for name in "abcdef"})
    options = {"compression": "zstd", "use_dictionary": False}
    with parquet.ParquetWriter(tmp_path / "bomb.parquet", table.schema, **options) as writer:
        for _ in range(groups):
            writer.write_table(table, row_group_size=rows)
    said = refused_within_memory(tmp_path / "bomb.parquet")
    assert "unpacks to 6," in said and "more than 100 times its size" in said


def test_equal_texts_of_a_parquet_file_are_one_object(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    text = "x" * 100_000
    parquet.write_table(pa.table({"a": [text] * 50 + [None, "y"]}), tmp_path / "t.parquet")
    column = read_parquet(tmp_path / "t.parquet", None)._column("a")
    assert column.tolist() == [text] * 50 + ["", "y"]
    assert len({id(cell) for cell in column}) == 3


def test_well_packed_records_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 100_000))
    assert read_table(tmp_path / "t.csv.gz").n_rows == 100_000


@pytest.mark.parametrize("extension", [".csv", ".csv.gz", ".parquet"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, extension: str) -> None:
    places = {kind: tmp_path / f"{kind}{extension}" for kind in ("pipe", "device", "folder")}
    os.mkfifo(places["pipe"])
    places["device"].symlink_to("/dev/zero")
    places["folder"].mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        places["socket"] = tmp_path / f"socket{extension}"
        here = os.getcwd()
        try:
            os.chdir(tmp_path)  # a socket's name must be short
            listening.bind(places["socket"].name)
        finally:
            os.chdir(here)
        for kind, path in places.items():
            with pytest.raises(DataError, match=f"cannot read .*: it is a {kind}, not an ordinary"):
                read_table(path)
