"""Tables as files: .csv, .csv.gz and .parquet, or CSV from a pipe."""

import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from pdml.errors import DataError, InvalidInput, because, visible
from pdml.files import atomic_write, open_file
from pdml.tables.cells import number
from pdml.tables.csv_text import read_csv
from pdml.tables.parquet import LEAST_UNPACKED, MOST_UNPACKED, parquet_bytes, read_parquet
from pdml.tables.table import Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PART = 1 << 20  # bytes that are looked at together


def read_table(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Table:
    """Read a table of people's records."""
    path, piped = Path(path), os.fspath(path) == "-"
    try:
        if piped:
            path = Path("standard input")
            table = read_csv(path, _gather(path, sys.stdin.buffer), columns)
        elif _extension(path) == ".parquet":
            table = read_parquet(path, columns)
        else:
            table = read_csv(path, _content(path), columns)
    except OSError as error:
        raise DataError(f"cannot read {path}: {because(error)}") from error
    if table.n_rows == 0:
        raise DataError(f"{path} must hold at least one record, got column names only")
    return table


def write_predictions(
    path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any] | NDArray[Any]]
) -> None:
    """Write columns of equal length; an interrupted write leaves the old file as it was."""
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
    write_csv(text, plain)
    data = text.getvalue().encode("utf-8")
    atomic_write(path, gzip.compress(data, mtime=0) if extension == ".csv.gz" else data)


def write_csv(out: TextIO, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as CSV that neither a spreadsheet nor a terminal obeys.

    Guarantees
    ----------
    - Numbers are written as numbers, also those that are spelt as text.
    - A text of two or more letters that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage
      return, and is no number, has an apostrophe before it: no spreadsheet takes it for a formula.
    - Letters that no screen shows, such as escape, are replaced by U+FFFD.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(harmless, columns))
    writer.writerows(zip(*(map(harmless, values) for values in columns.values()), strict=True))


def harmless(cell: Any) -> Any:
    """A cell as `write_csv` writes it."""
    if not isinstance(cell, str):
        return cell
    formula = cell[:1] in _FORMULA and len(cell) > 1 and number(cell) is None
    return ("'" if formula else "") + visible(cell)


def _extension(path: Path) -> str:
    for extension in (".csv", ".csv.gz", ".parquet"):
        if path.name.lower().endswith(extension):
            return extension
    raise InvalidInput(
        f"the name of a table must end in .csv, .csv.gz or .parquet, got {str(path)!r}"
    )


def _content(path: Path) -> bytes:
    """What a CSV file holds, unpacked."""
    with open_file(path) as file:
        if _extension(path) != ".csv.gz":
            return _gather(path, file)
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                return _gather(path, unpacked, packed=file)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"{path} must be a whole gzip file, got bytes that do not unpack: {error}"
            ) from error


def _gather(path: Path, file: BinaryIO | gzip.GzipFile, packed: BinaryIO | None = None) -> bytes:
    """All of a stream, unless it is no text, or has been packed to fill somebody's memory."""
    content = io.BytesIO()
    while part := file.read(_PART):
        content.write(part)
        if b"\0" in part:
            return content.getvalue()  # which `read_csv` refuses, naming the line
        if packed and content.tell() > max(LEAST_UNPACKED, MOST_UNPACKED * packed.tell()):
            raise DataError(
                f"{path} unpacks to more than {MOST_UNPACKED} times its size, as files do that "
                "are made to fill a machine's memory: if you trust it, unpack it with gunzip and "
                "name the .csv"
            )
    return content.getvalue()
