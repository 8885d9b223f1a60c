"""From whatever people have to a `Table`: files, a pipe, a DataFrame of any library."""

import codecs
import contextlib
import csv
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from pdml import extras
from pdml.errors import DataError, InvalidInput, because, visible
from pdml.files import atomic_write, open_file
from pdml.tables.cells import TextColumn, number
from pdml.tables.frame import ARROW_TEXTS, DATES, ColumnKind, Frame, arrow_cells
from pdml.tables.table import Table, kept_columns

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PART = 1 << 20  # bytes that are looked at together
LEAST_UNPACKED = 1 << 26  # bytes that any file may unpack to
MOST_UNPACKED = 100  # times its size; people's records unpack to ten or twenty
_CELL = 8  # bytes of a cell in memory, at least


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


# records per step: cells are looked up while they are still in the processor's cache
_CHUNK = 500


def read_csv(path: Path, content: bytes, wanted: Sequence[str] | None) -> Table:
    data = _text_bytes(path, content)
    try:
        delimiter = _delimiter(path, data)
        reader = _reader(data, delimiter)
        names = [cell.strip() for cell in next(reader)]
        kept = kept_columns(path, names, wanted)
        cells = {name: TextColumn() for name in kept}
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
        where = _undecodable(data)
        raise DataError(
            f"{path} must be UTF-8 text, got other bytes{where}: save it again as UTF-8"
        ) from error
    lines = np.arange(2, n_rows + 2)
    if reader.line_num != n_rows + 1:  # some cell spans several lines
        starts = (line for line, _ in islice(_number_lines(data, delimiter), 1, None))
        lines = np.fromiter(starts, dtype=np.int64, count=n_rows)
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


def _number_lines(data: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins."""
    reader, line = _reader(data, delimiter), 1
    for record in reader:
        yield line, record
        line = reader.line_num + 1


def _delimiter(path: Path, data: bytes) -> str:
    """The comma, unless only the semicolon or only the tab splits the header (and records)."""
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
        (line, record) for line, record in _number_lines(data, delimiter) if len(record) != width
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


# Parquet, by pyarrow, which is large and optional: loaded only when such a file is touched


def _pyarrow() -> Any:
    with extras.needed():
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def read_parquet(path: Path, wanted: Sequence[str] | None) -> Table:
    with open_file(path) as opened:  # a missing or forbidden file is no matter of Parquet
        packed = os.fstat(opened.fileno()).st_size
    pa = _pyarrow()
    try:
        schema = pa.parquet.read_schema(path)
        kinds = pa.string(), pa.large_string()
        texts = [field.name for field in schema if field.type in kinds]  # each text is kept once
        with pa.parquet.ParquetFile(path, read_dictionary=texts) as file:
            # but for pandas' unnamed index, which numbers people and describes nobody
            names = file.schema_arrow.names
            stored = [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]
            kept = kept_columns(path, [name.strip() for name in stored], wanted)
            selection = [stored[position] for position in kept.values()]
            for name in selection:
                _check_kind(pa, path, name, file.schema_arrow.field(name).type)
            _check_size(path, file.metadata, selection, packed)
            content = file.read(columns=selection)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} must be a Parquet file, got one that cannot be read: {_first_line(error)}"
        ) from error
    columns = {
        name: arrow_cells(pa, content.column(stored[position])) for name, position in kept.items()
    }
    truths = [
        name for name in kept if pa.types.is_boolean(content.schema.field(stored[kept[name]]).type)
    ]
    return Table(columns=columns, source=str(path), kinds=dict.fromkeys(truths, ColumnKind.TRUTH))


def _check_kind(pa: Any, path: Path, name: str, kind: Any) -> None:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    names = ("integer", "floating", "boolean", "null", "decimal", *ARROW_TEXTS)
    if not any(getattr(types, f"is_{name}")(kind) for name in names):
        advice = DATES if types.is_temporal(kind) else "convert it"
        raise DataError(
            f"column {name!r} of {path} must hold numbers, text or truth values, got "
            f"{kind}: {advice}, or leave it out"
        )


def _check_size(path: Path, metadata: Any, columns: Sequence[str], packed: int) -> None:
    """Refuse, before anything is unpacked, what a few bytes blow up to."""
    unpacked = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)  # whose `column` ends the process where a file is damaged
        unpacked += max(group.total_byte_size, _CELL * group.num_rows * len(columns))
    if unpacked > max(LEAST_UNPACKED, MOST_UNPACKED * packed):
        raise DataError(
            f"{path} unpacks to {unpacked:,} bytes, more than {MOST_UNPACKED} times its size, as "
            "files do that are made to fill a machine's memory: if you trust it, save it as .csv"
        )


def parquet_bytes(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Columns of equal length as the content of a file."""
    pa, buffer = _pyarrow(), io.BytesIO()
    try:
        pa.parquet.write_table(pa.table(dict(columns)), buffer)
    except pa.ArrowException as error:
        raise InvalidInput(
            f"columns must hold values of one kind each to become Parquet: {_first_line(error)}"
        ) from error
    return buffer.getvalue()


Readable = Any  # a Table, a file's path or a DataFrame of any library


def open_table(records: Readable) -> Table:
    """Records with named columns as a table."""
    table = as_table(records, source="the DataFrame")
    if table is None:
        kind = type(records).__name__
        raise InvalidInput(
            f"table must be a Table, the path of a file or a DataFrame, got {kind}: its columns "
            "have no names",
            setting="table",
        )
    return table


def as_table(
    records: Any, texts: Mapping[str, bool] | None = None, *, source: str = "X"
) -> Table | None:
    """Records as a table; None of what has no named columns, such as an array.

    ``texts``: which columns of a DataFrame are needed, and whether each holds texts.
    """
    if isinstance(records, Table):
        return records
    if isinstance(records, (str, os.PathLike)):
        return read_table(records)
    frame = Frame.of(records)
    if frame is None:
        return None
    needed = texts or {name: frame.kinds[name] != ColumnKind.NUMBER for name in frame.names}
    columns = {  # a text where the model has a number is refused by whoever reads it
        name: frame.texts(name) if text or not frame.is_numeric(name) else frame.numbers(name)
        for name, text in needed.items()
        if name in frame.cells
    }
    return Table(columns=columns or frame.cells, source=source, kinds=frame.kinds)
