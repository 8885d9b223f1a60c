"""CSV: one pass with the standard library, which knows quotes; where something is wrong is looked
for afterwards.
"""

import codecs
import contextlib
import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from pdml.errors import DataError
from pdml.tables.table import Table, kept_columns
from pdml.tables.texts import Texts

# records per step: cells are looked up while they are still in the processor's cache
_CHUNK = 500


def read_csv(path: Path, content: bytes, wanted: Sequence[str] | None) -> Table:
    data = _text_bytes(path, content)
    try:
        delimiter = _delimiter(path, data)
        reader = _reader(data, delimiter)
        names = [cell.strip() for cell in next(reader)]
        kept = kept_columns(path, names, wanted)
        cells = {name: Texts() for name in kept}
        n_rows = 0
        while chunk := list(islice(reader, _CHUNK)):
            if set(map(len, chunk)) != {len(names)}:
                _blame_ragged(path, data, delimiter, len(names))
            columns = list(zip(*chunk, strict=True))
            for name, position in kept.items():
                cells[name].add(columns[position])
            n_rows += len(chunk)
    except csv.Error as error:
        raise DataError(
            f"{path} must be well-formed CSV, got a mistake on or before line "
            f"{reader.line_num}: {error}"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} must be UTF-8 text, got other bytes{_undecodable(data)}: save it again "
            "as UTF-8"
        ) from error
    if reader.line_num == n_rows + 1:
        lines = np.arange(2, n_rows + 2)
    else:  # some cell spans several lines
        lines = np.fromiter(
            (line for line, _ in islice(_located(data, delimiter), 1, None)),
            dtype=np.int64,
            count=n_rows,
        )
    return Table(columns=cells, source=str(path), lines=lines)


def _text_bytes(path: Path, data: bytes) -> bytes:
    data = data.removeprefix(codecs.BOM_UTF8).rstrip(b"\r\n")
    if not data or data.isspace():
        raise DataError(f"{path} must begin with a line of column names, got an empty file")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise DataError(
            f"{path} must be UTF-8 text, got a NUL byte on line {line}: it is a binary file "
            "or saved as UTF-16"
        )
    return data


def _reader(data: bytes, delimiter: str) -> Any:
    return csv.reader(
        io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=True,
    )


def _located(data: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins."""
    reader, line = _reader(data, delimiter), 1
    for record in reader:
        yield line, record
        line = reader.line_num + 1


def _delimiter(path: Path, data: bytes) -> str:
    """The comma, unless only the semicolon or only the tab splits the header (and, in doubt, the
    first records).
    """
    fits: dict[str, bool] = {}
    for delimiter in ",;\t":
        with contextlib.suppress(csv.Error):
            first = list(islice(_reader(data, delimiter), 20))
            if len(first[0]) > 1:
                fits[delimiter] = all(len(record) == len(first[0]) for record in first)
    fitting = [delimiter for delimiter in fits if fits[delimiter] or len(fits) == 1]
    if len(fitting) > 1:
        raise DataError(
            f"{path} must have one kind of delimiter, got a header that "
            f"{' and '.join(map(repr, fitting))} split equally well"
        )
    return fitting[0] if fitting else ","


def _blame_ragged(path: Path, data: bytes, delimiter: str, width: int) -> NoReturn:
    line, record = next(
        (line, record) for line, record in _located(data, delimiter) if len(record) != width
    )
    raise DataError(
        f"line {line} of {path} must have as many cells as the header ({width}), got "
        f"{len(record) or 'an empty line'}"
    )


def _undecodable(data: bytes) -> str:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f" on line {data.count(bytes([10]), 0, error.start) + 1}"
    return ""
