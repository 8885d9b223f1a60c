"""A DataFrame, or numbers with gaps, by the declarations of a study: categories by their levels,
missing values by what is declared of them (`pdml.encoding.encoder`, version 2).

What a column may hold is never looked up in its cells: a category has the levels that its type
declares, a number its declared scale.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, Matrix
from pdml.encoding.encoder import Category, Encoder
from pdml.errors import DataError
from pdml.tables import Table

OPTIONS = (
    "missing='typical' takes numbers for typical and says so in a column of its own, "
    "missing='level' makes it one more level of a category"
)


def is_frame(x: Any) -> bool:
    """Whether it is a DataFrame."""
    return hasattr(x, "iloc") and hasattr(x, "dtypes") and getattr(x, "ndim", 0) == 2


def table_of(
    x: Any, names: Sequence[str], encoder: Encoder | None, wanted: Iterable[str] = ()
) -> Table:
    """The columns that an encoder asks for, or ``wanted`` numbers."""
    place = {name: k for k, name in enumerate(names)}
    text_columns = (
        {attribute.name: isinstance(attribute, Category) for attribute in encoder.attributes}
        if encoder
        else {}
    )
    columns: dict[str, NDArray[Any]] = {}
    for name, text in (text_columns or dict.fromkeys(wanted, False)).items():
        cells = x.iloc[:, place[name]] if is_frame(x) else x[:, place[name]]
        columns[name] = _text(cells) if text else _floats(cells)
    return Table(columns=columns, source="X")


def refuse_gaps(x: Matrix) -> None:
    """Say what could be declared where a value is missing."""
    values = x.data if hasattr(x, "toarray") else x
    if values.size and np.isnan(np.min(values)):
        raise DataError(f"X must have a value in every cell, got NaN: {OPTIONS}", setting="missing")


def non_numeric_columns(frame: Any) -> dict[str, Any]:
    """The types of a DataFrame's columns that do not hold numbers, by name."""
    pairs = zip(map(str, frame.columns), frame.dtypes, strict=True)
    return {name: kind for name, kind in pairs if getattr(kind, "kind", "O") not in "fiub"}


def number_columns(x: Any, names: Sequence[str], wanted: Sequence[str]) -> Array:
    """Columns of numbers, for scales that are taken from the data."""
    place = {name: k for k, name in enumerate(names)}
    picked = [place[name] for name in wanted]
    if not is_frame(x):
        return np.asarray(x[:, picked])
    columns = [_floats(x.iloc[:, k]) for k in picked]
    return np.column_stack(columns) if columns else np.zeros((len(x), 0))


def _floats(cells: Any) -> Array:
    """A column as numbers, with NaN in its gaps."""
    if isinstance(cells, np.ndarray):
        return cells
    return np.asarray(cells.to_numpy(dtype=np.float64, na_value=np.nan))


def _text(cells: Any) -> NDArray[Any]:
    """A column as levels, with "" in its gaps; 1.0 of an array is the level "1.0"."""
    if isinstance(cells, np.ndarray):
        texts = [str(cell) for cell in cells.tolist()]
    else:
        gaps = cells.isna().tolist()
        texts = ["" if gap else str(cell) for cell, gap in zip(cells.tolist(), gaps, strict=True)]
    return np.fromiter(texts, dtype=object, count=len(texts))
