"""The few shapes of HTML that a report is made of. Everything that comes from outside passes
through `text`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pdml.report import svg
from pdml.report.svg import xml_text

# Colours of figures that follow the page when it turns dark.
_COLOURS = {
    svg.INK: "ink",
    svg.MUTED: "muted",
    svg.LINK: "link",
    svg.GRID: "line",
    svg.PAPER: "paper",
    svg.BLUE: "blue",
    svg.ORANGE: "orange",
    svg.SAND: "sand",
}


def text(words: str) -> str:
    """Words as they are, never as markup."""
    return escape(xml_text(words))


def exact(value: float, shown: str) -> str:
    """A rounded number that carries twelve digits for machines: in the last ones those differ."""
    return f'<data value="{float(f"{value:.12g}")!r}">{text(shown)}</data>'


@dataclass(frozen=True)
class Cell:
    """What stands in a cell (HTML), how it is set, and whether it names its row."""

    content: str
    style: str = ""
    header: bool = False


def table(
    caption: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[Cell]],
    *,
    stacked: bool = False,
) -> str:
    """A table with a caption and scopes; ``columns`` are (name, style). Stacked: rows turn into
    cards on a phone.

    Stacking takes the table's display away, and with it what a screen reader knows of rows and
    columns: roles give it back.
    """

    def role(name: str) -> str:
        return f' role="{name}"' if stacked else ""

    head = "".join(
        f'<th scope="col"{_style(style)}{role("columnheader")}>{text(name)}</th>'
        for name, style in columns
    )
    body = []
    for row in rows:
        cells = []
        for (column, _), cell in zip(columns, row, strict=True):
            if cell.header:
                cells.append(
                    f'<th scope="row"{_style(cell.style)}{role("rowheader")}>{cell.content}</th>'
                )
            else:
                named = f' data-name="{text(column)}"' if stacked and "number" in cell.style else ""
                cells.append(f"<td{_style(cell.style)}{named}{role('cell')}>{cell.content}</td>")
        body.append(f"<tr{role('row')}>{''.join(cells)}</tr>")
    name = text(caption)
    return (
        f'<div class="sheet" role="region" tabindex="0" aria-label="{name}">'
        f"<table{_style('stack' if stacked else '')}{role('table')}><caption>{name}</caption>\n"
        f"<thead{role('rowgroup')}><tr{role('row')}>{head}</tr></thead>\n"
        f"<tbody{role('rowgroup')}>\n" + "\n".join(body) + "\n</tbody></table></div>"
    )


def section(name: str, heading: str, intro: str, content: str) -> str:
    """A landmark that its heading names; ``intro`` is plain words, ``content`` HTML."""
    words = f'<p class="intro">{text(intro)}</p>' if intro else ""
    return (
        f'<section aria-labelledby="{name}"><h2 '
        f'id="{name}">{text(heading)}</h2>{words}\n{content}</section>'
    )


def figure(picture: str, heading: str, caption: str) -> str:
    """A picture with its caption (HTML) above, in the page's colours."""
    bare = picture.replace(f' xmlns="{svg.NAMESPACE}"', "", 1)
    themed = re.sub(r'style="[^"]*"', lambda match: re.sub("#[0-9a-f]{6}", _themed, match[0]), bare)
    title = f"<figcaption><strong>{text(heading)}</strong>{caption}</figcaption>"
    return f"<figure>{title}\n<div>{themed}</div></figure>"


def _themed(match: re.Match[str]) -> str:
    return f"var(--{_COLOURS[match[0]]})" if match[0] in _COLOURS else match[0]


def _style(name: str) -> str:
    return f' class="{name}"' if name else ""
