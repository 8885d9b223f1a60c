"""Tables of words for people at a terminal or in a notebook: the one way that objects show
themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """One table: every cell is text that was written for people."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


def as_text(title: str, sheets: Iterable[Sheet], notes: Sequence[str] = ()) -> str:
    """Columns side by side, as wide as their widest cell."""
    lines = [title]
    for sheet in sheets:
        table = [sheet.columns, *sheet.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines += ["", *([sheet.caption] if sheet.caption else [])]
        for row in table:
            cells = (cell.ljust(wide) for cell, wide in zip(row, widths, strict=True))
            lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *([""] if notes else []), *notes])


def as_html(title: str, sheets: Iterable[Sheet], notes: Sequence[str] = ()) -> str:
    """The same for a notebook, whose colours it takes, light or dark."""
    return str(_template().render(title=title, sheets=list(sheets), notes=list(notes)))


@cache
def _template() -> Any:
    from pdml.formatting import markup

    return markup.templates("pdml").get_template("notebook.html")
