"""What an experiment hands to people: rows for a CSV, a figure, a caption, and what the paper
claims set against what was measured.
"""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[int, int], None]
"""Called as (done, of how many)."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One thing that is said of an experiment, and whether the run bears it out."""

    text: str
    holds: bool
    measured: str


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """One table or figure of the paper, measured. ``draw`` makes the figure from these rows
    alone.
    """

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    claims: tuple[Claim, ...]
    draw: Callable[[], "Figure"]
    # a header and rows, all text, for the terminal
    summary: tuple[tuple[str, ...], ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite as text."""
        claims = [{"text": c.text, "holds": c.holds, "measured": c.measured} for c in self.claims]
        rows = [dict(zip(self.columns, map(_plain, row), strict=True)) for row in self.rows]
        return {
            "name": self.name,
            "title": self.title,
            "caption": self.caption,
            "claims": claims,
            "rows": rows,
        }


def write(reproduction: Reproduction, folder: Path) -> dict[str, Path]:
    """Write a reproduction's files, each whole or not at all.

    Parameters
    ----------
    reproduction : Reproduction
        Of `run`.
    folder : Path
        Made if it is not there.

    Returns
    -------
    dict
        By kind, the path of ``name``.csv, .png and .svg.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(reproduction.columns)
    writer.writerows(reproduction.rows)
    contents = {"csv": table.getvalue().encode()}
    figure = reproduction.draw()
    for kind in ("png", "svg"):
        contents[kind] = _exported(figure, kind, reproduction)
    paths = {kind: folder / f"{reproduction.name}.{kind}" for kind in contents}
    for kind, content in contents.items():
        files.atomic_write(paths[kind], content)
    return paths


def _exported(figure: "Figure", kind: str, reproduction: Reproduction) -> bytes:
    """The same bytes for the same rows: no date, no random identifiers; text of an SVG stays
    text.
    """
    import matplotlib

    buffer = io.BytesIO()
    metadata: dict[str, str | None] = {
        "Title": reproduction.title,
        "Description": reproduction.caption,
    }
    if kind == "svg":
        metadata["Date"] = None
    with matplotlib.rc_context({"svg.hashsalt": reproduction.name, "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    number = value.item() if hasattr(value, "item") else value
    return str(number) if isinstance(number, float) and not abs(number) < float("inf") else number
