"""Records in whatever form people have them: a `Table`, a file, a DataFrame of any library.

What a column may hold is never looked up in its cells: a category has the levels that its type
declares.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.tables.parquet import arrow_cells
from pdml.tables.table import Table
from pdml.tables.table_files import read_table

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

    ``texts``: of a DataFrame the columns that are needed, and whether each holds texts; by default
    all, by their types. ``source``: what errors call it.
    """
    if isinstance(records, Table):
        return records
    if isinstance(records, (str, os.PathLike)):
        return read_table(records)
    frame = Frame.of(records)
    if frame is None:
        return None
    needed = texts or {name: not frame.is_numeric(name) for name in frame.names}
    columns = {
        name: frame.texts(name) if text else frame.numbers(name)
        for name, text in needed.items()
        if name in frame.cells
    }
    return Table(columns=columns or frame.cells, source=source)


@dataclass(frozen=True)
class Frame:
    """A DataFrame, column by column: pandas' series, or what another library's cells are in Python.

    Others come by Arrow where pyarrow is installed, else by their ``to_dict``.
    """

    cells: Mapping[str, Any]
    is_pandas: bool

    @classmethod
    def of(cls, x: Any) -> Self | None:
        """The columns of a DataFrame; None of anything else."""
        if hasattr(x, "iloc") and hasattr(x, "dtypes") and getattr(x, "ndim", 0) == 2:
            names = map(str, x.columns)
            return cls({name: x.iloc[:, k] for k, name in enumerate(names)}, is_pandas=True)
        if hasattr(x, "__arrow_c_stream__"):
            with suppress(ImportError):
                return cls(arrow_cells(x), is_pandas=False)
        if hasattr(x, "to_dict") and hasattr(x, "columns"):
            return cls(x.to_dict(as_series=False), is_pandas=False)
        return None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.cells)

    def is_numeric(self, name: str) -> bool:
        """Whether a column's type is one of numbers or truth values."""
        if self.is_pandas:
            return getattr(self.cells[name].dtype, "kind", "O") in "fiub"
        kinds = {type(cell) for cell in np.asarray(self.cells[name], dtype=object).tolist()}
        return kinds <= {int, float, bool, type(None)}

    def kind(self, name: str) -> str:
        """A column's type as its library calls it."""
        return str(self.cells[name].dtype) if self.is_pandas else "text"

    def levels(self, name: str) -> tuple[str, ...] | None:
        """What a column's type declares."""
        declared = getattr(getattr(self.cells[name], "dtype", None), "categories", None)
        return None if declared is None else tuple(map(str, declared))

    def numbers(self, name: str) -> Array:
        """A column as numbers, with NaN in its gaps."""
        cells = self.cells[name]
        if self.is_pandas:
            return np.asarray(cells.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.array(cells, dtype=np.float64)  # None becomes NaN

    def texts(self, name: str) -> NDArray[Any]:
        """A column as texts, with "" in its gaps."""
        cells = self.cells[name]
        if self.is_pandas:
            gaps = cells.isna().tolist()
        else:
            gaps = [cell is None or cell != cell for cell in cells]
        values = cells.tolist() if hasattr(cells, "tolist") else list(cells)
        texts = ("" if gap else str(cell) for gap, cell in zip(gaps, values, strict=True))
        return np.fromiter(texts, dtype=object, count=len(values))
