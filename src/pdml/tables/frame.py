"""`Frame`: the columns of a DataFrame of any library, and what their types say of them."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array
from pdml.errors import InvalidInput

DATES = "make a number of a date first, such as an age in years or days since a public day"


class ColumnKind(StrEnum):
    """What a column's type says that it holds."""

    NUMBER = "number"
    TRUTH = "truth value"
    DATE = "date"
    TEXT = "text"  # also whatever else


_TYPES = {  # how NumPy, pandas, Arrow and polars call their types, in lower case
    r"u?int\d|float|double|halffloat|decimal": ColumnKind.NUMBER,
    "bool": ColumnKind.TRUTH,
    "date|time|period|duration": ColumnKind.DATE,
}
_CELLS = {
    (bool, np.bool_): ColumnKind.TRUTH,
    (int, float, Decimal, np.number): ColumnKind.NUMBER,
    (date, time, timedelta, np.datetime64, np.timedelta64): ColumnKind.DATE,
}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A DataFrame's columns: pandas' series, or what another library's cells are in Python."""

    cells: Mapping[str, Any]
    kinds: Mapping[str, ColumnKind]
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # that types declare
    is_pandas: bool = False

    @classmethod
    def of(cls, x: Any) -> Self | None:
        """The columns of a DataFrame; None of anything else."""
        if hasattr(x, "iloc") and hasattr(x, "dtypes") and getattr(x, "ndim", 0) == 2:
            names = distinct(list(map(str, x.columns)))
            cells = {name: x.iloc[:, k] for k, name in enumerate(names)}
            types = {name: series.dtype for name, series in cells.items()}
            return cls._typed(cells, types, is_pandas=True)
        if hasattr(x, "__arrow_c_stream__"):
            with suppress(ImportError):
                cells, types = _arrow(x)
                return cls._typed(cells, {**types, **_schema(x)})
        if hasattr(x, "to_dict") and hasattr(x, "columns"):
            return cls._typed(x.to_dict(as_series=False), _schema(x))
        return None

    @classmethod
    def schema(cls, x: Any) -> Self | None:
        """The same without any record: what types say, and nothing else."""
        if hasattr(x, "iloc"):
            return cls.of(x.iloc[:0])
        return cls.of(x.slice(0, 0)) if hasattr(x, "slice") else None

    @classmethod
    def _typed(
        cls, cells: Mapping[str, Any], types: Mapping[str, Any], *, is_pandas: bool = False
    ) -> Self:
        declared = {name: getattr(kind, "categories", ()) for name, kind in types.items()}
        return cls(
            cells=cells,
            kinds={name: _kind(str(types.get(name, "object")), cells[name]) for name in cells},
            levels={
                name: tuple(map(str, levels))
                for name, levels in declared.items()
                if hasattr(levels, "__len__") and len(levels)
            },
            is_pandas=is_pandas,
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.cells)

    def is_numeric(self, name: str) -> bool:
        """Whether a column's type is one of numbers or truth values."""
        return self.kinds[name] in (ColumnKind.NUMBER, ColumnKind.TRUTH)

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


def _kind(name: str, cells: Any) -> ColumnKind:
    """By the name of a type; where it is any object's, by the types of the cells."""
    spelling = name.lower().removeprefix("sparse[")
    for pattern, kind in _TYPES.items():
        if re.match(pattern, spelling):
            return kind
    if spelling != "object":
        return ColumnKind.TEXT
    plain = {type(cell) for cell in np.asarray(cells, dtype=object).tolist() if not _is_gap(cell)}
    for types, kind in _CELLS.items():
        if plain and all(issubclass(one, types) for one in plain):
            return kind
    return ColumnKind.TEXT


def _is_gap(cell: Any) -> bool:
    if isinstance(cell, float):
        return cell != cell
    return type(cell).__name__ in ("NoneType", "NAType", "NaTType")


def _schema(x: Any) -> dict[str, Any]:
    """The types of a frame that has a mapping of them, as polars has."""
    schema = getattr(x, "schema", None)
    return dict(schema) if isinstance(schema, Mapping) else {}


def _arrow(x: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Columns and types of whatever gives an Arrow stream."""
    import pyarrow as pa

    table = pa.table(x)
    names = distinct(table.column_names)
    cells = {name: arrow_cells(pa, table.column(name)) for name in names}
    return cells, dict(zip(names, table.schema.types, strict=True))


def distinct(names: Sequence[str]) -> Sequence[str]:
    """The same, if each names one column."""
    for position, name in enumerate(names):
        if names.index(name) < position:
            raise InvalidInput(
                f"the column names of a DataFrame must differ, got {name!r} for columns "
                f"{names.index(name) + 1} and {position + 1}"
            )
    return names


def arrow_cells(pa: Any, column: Any) -> NDArray[Any]:
    """A column of Arrow as an array."""
    types = pa.types
    if types.is_dictionary(column.type):
        kind = column.type.value_type
        if any(getattr(types, f"is_{name}")(kind) for name in ARROW_TEXTS):
            return np.concatenate([np.empty(0, object), *map(_spread, column.chunks)])
        column = column.cast(kind)
    if types.is_decimal(column.type):
        column = column.cast(pa.float64(), safe=False)
    values: NDArray[Any] = column.to_numpy()  # null becomes NaN or None
    return values


ARROW_TEXTS = ("string", "large_string", "string_view")


def _spread(chunk: Any) -> NDArray[Any]:
    """Row by row, equal texts being one object; null becomes None."""
    different = np.array([*chunk.dictionary.to_pylist(), None], dtype=object)
    return np.asarray(different[chunk.indices.fill_null(len(different) - 1).to_numpy()])
