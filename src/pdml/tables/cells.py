"""Cells: which say nothing, which are numbers, and how one may stand in a sentence."""

from collections.abc import Sequence
from typing import Any

# cells that stand for "no value"
MISSING = frozenset({"", "NA", "NaN", "nan", "null", "NULL", "None", "?"})


def number(cell: Any) -> float | None:
    """The number that a cell is, or None; it may be infinite or NaN.

    Python reads 1_000 as a number; people who write it may mean a code.
    """
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
