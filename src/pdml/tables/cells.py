"""Cells: which say nothing, which are numbers, how one may be quoted, and a column of texts."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, IntArray

# cells that stand for "no value"
MISSING = frozenset({"", "NA", "NaN", "nan", "null", "NULL", "None", "?"})


def number(cell: Any) -> float | None:
    """The number that a cell is, or None; 1_000 is none: who writes it may mean a code."""
    if isinstance(cell, str) and "_" in cell:
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def quote(value: object) -> str:
    """A cell as it may stand in a sentence: quoted, on one line, and not endless."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(str(value))} characters)"


def quote_names(names: Sequence[str]) -> str:
    """The first few of many names."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(quote(name) for name in names[:10]) + more


_SOON = 2000  # rows, after which it is known whether most are different


class TextColumn:
    """Texts in the order of their rows: each different one once, or by row where most differ."""

    def __init__(self, cells: Sequence[str] = ()) -> None:
        self._codes: defaultdict[str, int] = _counted()
        self._places: list[IntArray] = []
        self._rows: list[NDArray[Any]] = []
        self._many = 0
        self.add(cells)

    def add(self, cells: Sequence[str]) -> None:
        """Some more rows, before anything is asked."""
        self._many += len(cells)
        if self._rows:
            self._rows.append(objects(cells))
            return
        self._places.append(_placed(cells, self._codes))
        if self._many >= _SOON and len(self._codes) > self._many / 2:
            self._rows = [objects(list(self._codes))[np.concatenate(self._places)]]
            self._codes, self._places = _counted(), []

    @cached_property
    def column(self) -> NDArray[Any]:
        """Row by row, as an array of Python objects."""
        if self._rows:
            return np.concatenate(self._rows)
        different, place = self.distinct
        return np.asarray(objects(different)[place])

    @cached_property
    def distinct(self) -> tuple[list[str], IntArray]:
        """The different ones, first come first, and which of them each row has."""
        if self._rows:
            return distinct(self.column.tolist())
        return list(self._codes), np.concatenate(self._places)

    def floats(self) -> Array:
        """All rows as numbers, by the rule of `pdml.tables.cells.number`."""
        if self._rows:
            return _floats(self.column.tolist())
        different, place = self.distinct
        return np.asarray(_floats(different)[place])


def objects(cells: Sequence[Any]) -> NDArray[Any]:
    """Strings as an array of Python objects."""
    return np.fromiter(cells, dtype=object, count=len(cells))


def distinct(cells: Sequence[str]) -> tuple[list[str], IntArray]:
    """The different ones, first come first, and which of them each one is."""
    codes = _counted()
    place = _placed(cells, codes)
    return list(codes), place


def _counted() -> defaultdict[str, int]:
    """Of each text that is looked up which one it is; a new one is counted on."""
    codes: defaultdict[str, int] = defaultdict()
    codes.default_factory = codes.__len__
    return codes


def _placed(cells: Sequence[str], codes: defaultdict[str, int]) -> IntArray:
    return np.fromiter(map(codes.__getitem__, cells), np.int64, len(cells))


def _floats(cells: list[str]) -> Array:
    if "_" in "".join(cells):
        raise ValueError("underscore")
    return objects(cells).astype(np.float64)
