"""A statement as Markdown, for whoever puts it into another document."""

import re
from collections.abc import Iterable

from pdml.formatting.markup import plain_text
from pdml.statement.document import Blank, Document, Exact, Items, Part, Section, Sheet

_MARKS = re.compile(r"([\\`*_\[\]<>|#~])")


def render(document: Document) -> str:
    """The whole document."""
    blocks = [f"# {escaped(document.title)}", escaped(document.lead)]
    if document.warning:
        blocks.append(f"> **{escaped(document.warning)}**")
    rows = tuple((card.name, card.big, card.small) for card in document.cards)
    blocks += [escaped(sentence) for sentence in document.summary]
    blocks.append(_sheet(Sheet("", ("Data, against whom", "ε", "How sure"), rows)))
    for heading, sections in (
        ("", document.sections),
        (document.ANNEX, document.annex),
        (document.APPENDIX, document.appendix),
    ):
        blocks += [f"# {heading}"] if heading else []
        blocks += [_section(section) for section in sections]
    return "\n\n".join(blocks) + "\n"


def _section(section: Section) -> str:
    head = f"## {escaped(section.heading)}\n\n*{escaped(section.question)}*"
    return f"{head}\n\n{parts(section.parts)}"


def parts(content: Iterable[Part]) -> str:
    """Parts of a section, one below the other."""
    return "\n\n".join(map(_part, content))


def _part(part: Part) -> str:
    if isinstance(part, Items):
        return "\n".join(f"- {escaped(sentence)}" for sentence in part.sentences)
    if isinstance(part, Sheet):
        return _sheet(part)
    if isinstance(part, Blank):
        return f"> **{escaped(part.sentence)}**"
    if isinstance(part, Exact):
        return "\n".join(f"    {line}" for line in part.lines)
    return escaped(part)


def _sheet(sheet: Sheet) -> str:
    rows = [sheet.columns, ("---",) * len(sheet.columns), *sheet.rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in _escaped_rows(rows))
    return f"{escaped(sheet.caption)}:\n\n{table}" if sheet.caption else table


def _escaped_rows(rows: Iterable[tuple[str, ...]]) -> Iterable[list[str]]:
    for cells in rows:
        yield [cell if cell == "---" else escaped(cell) for cell in cells]


def escaped(text: str) -> str:
    """Text that is shown and not obeyed, on one line."""
    return _MARKS.sub(r"\\\1", " ".join(plain_text(text).split()))
