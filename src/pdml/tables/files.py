"""Tables as files: .csv, .csv.gz and .parquet, or CSV from a pipe."""

import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml.errors import DataError, InvalidInput, because
from pdml.files import atomic_write
from pdml.tables.csv_text import read_csv
from pdml.tables.parquet import parquet_bytes, read_parquet
from pdml.tables.table import Table


def read_table(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Table:
    """Read a table of people's records.

    Parameters
    ----------
    path : str or path
        A file whose name ends in .csv, .csv.gz or .parquet; "-" reads CSV from standard input.
    columns : sequence of str, optional
        Keep only these, so that the others cost no memory.

    Returns
    -------
    Table
        With at least one row.

    Raises
    ------
    DataError
        If the file cannot be read or is no table, with the line where it stops being one.
    """
    path, piped = Path(path), os.fspath(path) == "-"
    if path.is_dir():
        raise DataError(f"cannot read {path}: it is a folder, not a file")
    try:
        if piped:
            path = Path("standard input")
            table = read_csv(path, sys.stdin.buffer.read(), columns)
        elif _extension(path) == ".parquet":
            table = read_parquet(path, columns)
        else:
            table = read_csv(path, _unpacked(path), columns)
    except OSError as error:
        raise DataError(f"cannot read {path}: {because(error)}") from error
    if table.n_rows == 0:
        raise DataError(f"{path} must hold at least one record, got column names only")
    return table


def write_predictions(
    path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any] | NDArray[Any]]
) -> None:
    """Write columns of equal length; an interrupted write leaves the old file as it was.

    Parameters
    ----------
    path : str or path
        The name's end chooses the format: .csv, .csv.gz or .parquet.
    columns : mapping of str to sequence
        The columns in their order.
    """
    extension = _extension(Path(path))
    plain = {
        name: values.tolist() if isinstance(values, np.ndarray) else list(values)
        for name, values in columns.items()
    }
    lengths = {name: len(values) for name, values in plain.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidInput(
            f"columns must be one or more columns of equal length, got the lengths {lengths}"
        )
    if extension == ".parquet":
        atomic_write(path, parquet_bytes(plain))
        return
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(plain)
    writer.writerows(zip(*plain.values(), strict=True))
    data = text.getvalue().encode("utf-8")
    atomic_write(path, gzip.compress(data, mtime=0) if extension == ".csv.gz" else data)


def _extension(path: Path) -> str:
    for extension in (".csv", ".csv.gz", ".parquet"):
        if path.name.lower().endswith(extension):
            return extension
    raise InvalidInput(
        f"the name of a table must end in .csv, .csv.gz or .parquet, got {str(path)!r}"
    )


def _unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    if _extension(path) == ".csv.gz":
        try:
            data = gzip.decompress(data)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"{path} must be a whole gzip file, got bytes that do not unpack: {error}"
            ) from error
    return data
