"""Tables of people's records, read from CSV or Parquet, in which every complaint names the row and
the column.

Cells stay as they were written until a column is asked for as numbers or as text: what is not used
cannot be wrong, and the same data give the same answers from either format.
"""

import codecs
import contextlib
import csv
import gzip
import io
import math
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, IntArray
from pdml.errors import DataError, InvalidInput
from pdml.files import atomic_write

MISSING = frozenset(
    {"", "NA", "NaN", "nan", "null", "NULL", "None", "?"}
)  # cells that stand for "no value"
# records per step: small lists die young and columns grow as arrays, so the garbage collector has
# no work
_CHUNK = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Named columns of equal length: numbers as float64 or whole numbers, everything else as Python
    strings.

    Truth values become the text "True" and "False", as CSV files spell them. A missing cell (None,
    NaN or one of `MISSING`) is refused when its column is used. Spaces at the ends of a cell never
    count.
    """

    columns: Mapping[str, NDArray[Any]]
    source: str = "the table"
    lines: IntArray | None = (
        None  # the line on which each row begins, if the rows come from a text file
    )
    _numbers: dict[str, Array] = field(
        init=False, repr=False, default_factory=dict
    )  # columns already read as numbers

    def __post_init__(self) -> None:
        if not self.columns:
            raise DataError(f"{self.source} must have at least one column, got none")
        columns = {
            name: _storage(name, values, self.source) for name, values in self.columns.items()
        }
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise DataError(
                f"the columns of {self.source} must be equally long, got lengths {sorted(lengths)}"
            )
        object.__setattr__(self, "columns", columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, row: int) -> str:
        """Where people find the record with index ``row``: data rows count from 1, lines from the
        header.
        """
        return (
            f"row {row + 1} of {self.source}"
            if self.lines is None
            else f"row {row + 1} (line {self.lines[row]} of {self.source})"
        )

    def numeric(self, name: str, *, private: bool = False) -> Array:
        """The column as finite float64, read-only; ``private`` keeps cells (say, somebody's label)
        out of error messages.
        """
        column = self._column(name)
        try:
            values = self._floats(name, column)
        except ValueError:
            self._blame(name, private)
        if not np.isfinite(values).all():
            self._blame(name, private)
        return values

    def text(self, name: str, *, private: bool = False) -> NDArray[Any]:
        """The column as strings without spaces at the ends; a whole number reads "3", a float as
        Python writes it.
        """
        column = self._column(name)
        cells = list(map(str.strip if column.dtype.kind == "O" else str, column.tolist()))
        if not MISSING.isdisjoint(cells):
            row = next(i for i, cell in enumerate(cells) if cell in MISSING)
            self._refuse_missing(name, row, column[row], private)
        return _objects(cells)

    def is_numeric(self, name: str) -> bool:
        """Whether every cell that is not missing reads as a number, and at least one is not
        missing.
        """
        column = self._column(name)
        try:
            return not np.isnan(self._floats(name, column)).all()
        except ValueError:
            cells = {cell.strip() for cell in column.tolist()} - MISSING
            return bool(cells) and all(_number(cell) is not None for cell in cells)

    def _column(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise DataError(
                f"{self.source} has no column {name!r}: its columns are {listed(self.names)}"
            )
        return self.columns[name]

    def _floats(self, name: str, column: NDArray[Any]) -> Array:
        """The whole column at once, or ValueError. Python reads 1_000 as a number; people who write
        it may mean a code.
        """
        if name not in self._numbers:
            if column.dtype.kind == "O" and "_" in "".join(column.tolist()):
                raise ValueError("underscore")
            values = column.astype(np.float64, copy=False).view()
            values.flags.writeable = False
            self._numbers[name] = values
        return self._numbers[name]

    def _refuse_missing(self, name: str, row: int, cell: object, private: bool) -> NoReturn:
        found = (
            f" (it says {cell.strip()})"
            if isinstance(cell, str) and cell.strip() and not private
            else ""
        )
        raise DataError(
            f"column {name!r} must have a value in every row, got none in {self.where(row)}{found}"
        )

    def _blame(self, name: str, private: bool) -> NoReturn:
        """Name the first cell that is not a finite number: a slow search, only once the fast
        conversion has failed.
        """
        for row, cell in enumerate(self.columns[name].tolist()):
            if str(cell).strip() in MISSING:
                self._refuse_missing(name, row, cell, private)
            value = _number(cell)
            if value is None or not math.isfinite(value):
                got = "something else" if private else shown(cell)
                decimal_comma = (
                    value is None and not private and _number(cell.replace(",", ".")) is not None
                )
                hint = ": write decimals with a point" if decimal_comma else ""
                raise DataError(
                    f"column {name!r} must hold finite numbers, got {got} in "
                    f"{self.where(row)}{hint}"
                )
        raise AssertionError(f"column {name!r} failed as a whole, but none of its cells does")


def read_table(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Table:
    """Read a .csv, .csv.gz or .parquet file, or CSV from standard input ("-"); ``columns`` keeps
    only those, so that the others cost no memory."""
    path, piped = Path(path), os.fspath(path) == "-"
    if path.is_dir():
        raise DataError(f"cannot read {path}: it is a folder, not a file")
    try:
        if piped:
            path = Path("standard input")
            table = _read_csv(path, sys.stdin.buffer.read(), columns)
        elif _extension(path) == ".parquet":
            table = _read_parquet(path, columns)
        else:
            table = _read_csv(path, _unpacked(path), columns)
    except OSError as error:
        raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    if table.n_rows == 0:
        raise DataError(f"{path} must hold at least one record, got column names only")
    return table


def write_predictions(
    path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any] | NDArray[Any]]
) -> None:
    """Write columns of equal length as .csv, .csv.gz or .parquet; an interrupted write leaves the
    old file as it was.
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
        pa, buffer = _pyarrow(), io.BytesIO()
        try:
            pa.parquet.write_table(pa.table(plain), buffer)
        except pa.ArrowException as error:
            raise InvalidInput(
                f"columns must hold values of one kind each to become Parquet: {_first_line(error)}"
            ) from error
        atomic_write(path, buffer.getvalue())
        return
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(plain)
    writer.writerows(zip(*plain.values(), strict=True))
    data = text.getvalue().encode("utf-8")
    atomic_write(path, gzip.compress(data, mtime=0) if extension == ".csv.gz" else data)


def shown(value: object) -> str:
    """A cell as it may stand in a sentence: quoted, on one line, and not endless."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(str(value))} characters)"


def listed(names: Sequence[str]) -> str:
    """The first few of many names."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(shown(name) for name in names[:10]) + more


def _objects(cells: Sequence[Any]) -> NDArray[Any]:
    return np.fromiter(cells, dtype=object, count=len(cells))


def _storage(name: object, values: Any, source: str) -> NDArray[Any]:
    """A column as float64, whole numbers or an object array of `str`, in which "" is a missing
    cell.
    """
    if not isinstance(name, str):
        raise DataError(f"the column names of {source} must be text, got {name!r}")
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "fiubOUT":
        raise DataError(
            f"column {name!r} of {source} must be a list of numbers or texts, got "
            f"{array.ndim} dimension(s) of {array.dtype}"
        )
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "f":
        return array.astype(np.float64, copy=False)
    cells = array.tolist()
    kinds = set(map(type, cells))
    if kinds <= {str}:
        return _objects(cells) if array.dtype.kind != "O" else array
    if kinds <= {int, float, type(None)}:
        return np.array(cells, dtype=np.float64)  # None becomes NaN
    for cell in cells:
        if not (
            cell is None
            or isinstance(cell, (str, bool))
            or (isinstance(cell, float) and math.isnan(cell))
        ):
            raise DataError(
                f"column {name!r} of {source} must hold only numbers or only text, got a "
                f"mixture with {type(cell).__name__}"
            )
    return _objects([str(cell) if isinstance(cell, (str, bool)) else "" for cell in cells])


def _number(cell: Any) -> float | None:
    """One cell by the rule of `Table._floats`."""
    if isinstance(cell, str) and "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _extension(path: Path) -> str:
    for extension in (".csv", ".csv.gz", ".parquet"):
        if path.name.lower().endswith(extension):
            return extension
    raise InvalidInput(
        f"the name of a table must end in .csv, .csv.gz or .parquet, got {str(path)!r}"
    )


def _kept(path: Path, names: Sequence[str], wanted: Sequence[str] | None) -> dict[str, int]:
    """Name and position of the columns to keep, once all names are known to be good."""
    if not names:
        raise DataError(f"{path} must begin with the column names, got none")
    for position, name in enumerate(names):
        if not name:
            raise DataError(
                f"column {position + 1} of {path} must have a name, got none (pandas: write "
                "with index=False)"
            )
        if names.index(name) < position:
            raise DataError(
                f"the column names of {path} must differ, got {name!r} for columns "
                f"{names.index(name) + 1} and {position + 1}"
            )
    for name in wanted or ():
        if name not in names:
            raise DataError(f"{path} has no column {name!r}: its columns are {listed(names)}")
    return {name: names.index(name) for name in (names if wanted is None else wanted)}


# CSV: one pass with the standard library, which knows quotes; where something is wrong is looked
# for afterwards.


def _read_csv(path: Path, content: bytes, wanted: Sequence[str] | None) -> Table:
    data = _text_bytes(path, content)
    try:
        delimiter = _delimiter(path, data)
        reader = _reader(data, delimiter)
        names = [cell.strip() for cell in next(reader)]
        kept = _kept(path, names, wanted)
        parts: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, dtype=object)] for name in kept}
        n_rows = 0
        while chunk := list(islice(reader, _CHUNK)):
            if set(map(len, chunk)) != {len(names)}:
                _blame_ragged(path, data, delimiter, len(names))
            columns = list(zip(*chunk, strict=True))
            for name, position in kept.items():
                parts[name].append(_objects(columns[position]))
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
    return Table(
        columns={name: np.concatenate(part) for name, part in parts.items()},
        source=str(path),
        lines=lines,
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


# Parquet


def _pyarrow() -> Any:
    """Loaded only when a Parquet file is touched: it is large, and optional."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidInput("Parquet files need pyarrow: pip install 'pdml[parquet]'") from error
    return pyarrow


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _read_parquet(path: Path, wanted: Sequence[str] | None) -> Table:
    path.open("rb").close()  # a missing or forbidden file is no matter of Parquet
    pa = _pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            # pandas keeps an unnamed index under such a name; it numbers people and describes
            # nobody
            stored = [
                name
                for name in file.schema_arrow.names
                if not re.fullmatch(r"__index_level_\d+__", name)
            ]
            kept = _kept(path, [name.strip() for name in stored], wanted)
            content = file.read(columns=[stored[position] for position in kept.values()])
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} must be a Parquet file, got one that cannot be read: {_first_line(error)}"
        ) from error
    columns = {
        name: _from_arrow(pa, path, name, content.column(stored[position]))
        for name, position in kept.items()
    }
    return Table(columns=columns, source=str(path))


def _from_arrow(pa: Any, path: Path, name: str, column: Any) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind, types = column.type, pa.types
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    elif not any(
        is_kind(kind)
        for is_kind in (
            types.is_integer,
            types.is_floating,
            types.is_boolean,
            types.is_null,
            *texts,
        )
    ):
        raise DataError(
            f"column {name!r} of {path} must hold numbers, text or truth values, got "
            f"{kind}: convert it, or leave it out"
        )
    values: NDArray[Any] = column.to_numpy()  # null becomes NaN or None
    return values
