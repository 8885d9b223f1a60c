"""`Table`: cells stay as they were written until a column is read as numbers or as text."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, BoolArray, IntArray
from pdml.errors import DataError, MissingValueError
from pdml.tables.cells import MISSING, TextColumn, distinct, number, objects, quote, quote_names
from pdml.tables.frame import ColumnKind

_TRUTHS = {"False": 0.0, "True": 1.0}


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Named columns of equal length: float64 or whole numbers, everything else as Python strings.

    Truth values become the text "True" and "False", and 1 and 0 where numbers are wanted. A missing
    cell (None, NaN or one of `MISSING`) is refused when its column is used, unless declared
    (`absent`). Spaces at the ends never count.
    """

    columns: Mapping[str, Any]  # of numbers, of texts, or `TextColumn`; afterwards arrays
    source: str = "the table"
    # the line on which each row begins, if the rows come from a text file
    lines: IntArray | None = None
    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)  # of columns, where types say it
    # columns already taken apart, read as numbers, and as texts
    _written: dict[str, TextColumn] = field(init=False, repr=False, default_factory=dict)
    _read: dict[str, Array] = field(init=False, repr=False, default_factory=dict)
    _distinct: dict[str, tuple[NDArray[Any], IntArray]] = field(
        init=False, repr=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        if not self.columns:
            raise DataError(f"{self.source} must have at least one column, got none")
        texts = {
            name: column for name, column in self.columns.items() if isinstance(column, TextColumn)
        }
        columns = {
            name: texts[name].column if name in texts else _storage(name, values, self.source)
            for name, values in self.columns.items()
        }
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise DataError(
                f"the columns of {self.source} must be equally long, got lengths {sorted(lengths)}"
            )
        self._written.update(texts)
        object.__setattr__(self, "columns", columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, row: int) -> str:
        """Where people find the record with index ``row``; data rows count from 1."""
        return (
            f"row {row + 1} of {self.source}"
            if self.lines is None
            else f"row {row + 1} (line {self.lines[row]} of {self.source})"
        )

    def absent(self, name: str, spellings: Collection[str] = ()) -> BoolArray:
        """Which cells hold no value: empty ones, nulls, and ``spellings`` (of numbers by value)."""
        column = self._column(name)
        if column.dtype.kind == "O":
            missing = {"", *spellings}
            cells = (cell.strip() in missing for cell in column.tolist())
            return np.fromiter(cells, dtype=bool, count=len(column))
        codes = [code for text in spellings if (code := number(text)) is not None]
        return np.asarray(np.isnan(column) | np.isin(column, codes))

    def numeric(
        self, name: str, *, private: bool = False, absent: BoolArray | None = None
    ) -> Array:
        """The column as finite float64, NaN where ``absent``; ``private`` cells are not quoted."""
        column = self._column(name)
        if self.kinds.get(name) == ColumnKind.TRUTH and column.dtype.kind == "O":
            column = np.array([_TRUTHS.get(cell, np.nan) for cell in column.tolist()])
        gaps = np.zeros(len(column), dtype=bool) if absent is None else absent
        try:
            values = _with_gaps(column, gaps) if gaps.any() else self._floats(name, column)
        except ValueError:
            self._blame(name, private, gaps)
        if not (np.isfinite(values) | gaps).all():
            self._blame(name, private, gaps)
        return values

    def text(
        self, name: str, *, private: bool = False, absent: BoolArray | None = None
    ) -> NDArray[Any]:
        """The column as strings without spaces at the ends; "" where ``absent``."""
        different, place = self.distinct(name, private=private, absent=absent)
        return np.asarray(different[place])

    def distinct(
        self, name: str, *, private: bool = False, absent: BoolArray | None = None
    ) -> tuple[NDArray[Any], IntArray]:
        """The different cells of `text`, first come first, and which of them each row has."""
        column = self._column(name)
        if name not in self._distinct:
            written, rows = self._texts(name, column).distinct
            texts, merged = distinct([cell.strip() for cell in written])
            self._distinct[name] = objects(texts), merged[rows]
        different, place = self._distinct[name]
        missing = [i for i, text in enumerate(different.tolist()) if text in MISSING]
        gaps = np.zeros(len(column), dtype=bool) if absent is None else absent
        if missing and (lost := np.isin(place, missing) & ~gaps).any():
            row = int(np.argmax(lost))
            self._refuse_missing(name, row, column[row], private)
        if not gaps.any():
            return different, place
        return objects([*different.tolist(), ""]), np.where(gaps, len(different), place)

    def is_numeric(self, name: str, spellings: Collection[str] = ()) -> bool:
        """Whether all cells that are not missing read as numbers, and at least one is there."""
        column = self._column(name)
        if column.dtype.kind == "O":  # one text is enough, and most columns of texts begin with one
            missing = MISSING | {*spellings}
            first = next((cell for cell in column if cell.strip() not in missing), "")
            if number(first) is None:
                return False
        try:
            return not np.isnan(self._floats(name, column)).all()
        except ValueError:
            cells = {cell.strip() for cell in set(column.tolist())} - MISSING - {*spellings}
            return bool(cells) and all(number(cell) is not None for cell in cells)

    def _column(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise DataError(
                f"{self.source} has no column {name!r}: its columns are {quote_names(self.names)}"
            )
        column: NDArray[Any] = self.columns[name]
        return column

    def _texts(self, name: str, column: NDArray[Any]) -> TextColumn:
        if name not in self._written:
            cells = column.tolist()
            self._written[name] = TextColumn(
                cells if column.dtype.kind == "O" else [*map(str, cells)]
            )
        return self._written[name]

    def _floats(self, name: str, column: NDArray[Any]) -> Array:
        """The whole column at once by the rule of `cells.number`, or ValueError."""
        if name not in self._read:
            if column.dtype.kind == "O":
                values = self._texts(name, column).floats()
            else:
                values = column.astype(np.float64, copy=False).view()
            values.flags.writeable = False
            self._read[name] = values
        return self._read[name]

    def _refuse_missing(self, name: str, row: int, cell: object, private: bool) -> NoReturn:
        spelling = cell.strip() if isinstance(cell, str) and not private else ""
        note = f" (it says {spelling})" if spelling else ""
        raise MissingValueError(
            f"column {name!r} must have a value in every row, got none in {self.where(row)}{note}",
            column=name,
            cell=spelling,
        )

    def _blame(self, name: str, private: bool, gaps: BoolArray) -> NoReturn:
        """Name the first cell that is not a finite number, once the fast conversion has failed."""
        for row, cell in enumerate(self.columns[name].tolist()):
            if gaps[row]:
                continue
            if str(cell).strip() in MISSING:
                self._refuse_missing(name, row, cell, private)
            value = number(cell)
            if value is None or not math.isfinite(value):
                got = "something else" if private else quote(cell)
                decimal_comma = (
                    value is None and not private and number(cell.replace(",", ".")) is not None
                )
                hint = ": write decimals with a point" if decimal_comma else ""
                raise DataError(
                    f"column {name!r} must hold finite numbers, got {got} in "
                    f"{self.where(row)}{hint}"
                )
        raise AssertionError(f"column {name!r} failed as a whole, but none of its cells does")


def kept_columns(path: Path, names: Sequence[str], wanted: Sequence[str] | None) -> dict[str, int]:
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
            raise DataError(f"{path} has no column {name!r}: its columns are {quote_names(names)}")
    return {name: names.index(name) for name in (names if wanted is None else wanted)}


def _with_gaps(column: NDArray[Any], gaps: BoolArray) -> Array:
    """A column as float64, NaN in the gaps, or ValueError: the rule of `cells.number`."""
    values = np.full(len(column), np.nan)
    kept = column[~gaps]
    if column.dtype.kind == "O" and "_" in "".join(kept.tolist()):
        raise ValueError("underscore")
    values[~gaps] = kept.astype(np.float64)
    values.flags.writeable = False
    return values


def _storage(name: object, values: Any, source: str) -> NDArray[Any]:
    """A column as float64, whole numbers or an object array of `str`, in which "" is missing."""
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
        return objects(cells) if array.dtype.kind != "O" else array
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
    return objects([str(cell) if isinstance(cell, (str, bool)) else "" for cell in cells])
