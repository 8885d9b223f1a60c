"""What a statement is made of, and its two forms: read from the Markdown of `sections/`, written as
Markdown, or drawn as a page by ``statement.html``.

Text is plain text: a page escapes it, Markdown does too, and neither obeys it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from pdml.formatting.markup import escape_markdown

TO_FILL_IN = "To be filled in by the controller"


@dataclass(frozen=True)
class Items:
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class StatementTable:
    """A table; the first column names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Blank:
    """What nobody but the controller can say, and the study does not: never filled in by us."""

    what: str

    @property
    def sentence(self) -> str:
        return f"{TO_FILL_IN}: {self.what}."


@dataclass(frozen=True)
class Exact:
    """Lines in which every space counts: commands and formulas."""

    lines: tuple[str, ...]


Part = str | Items | StatementTable | Blank | Exact


@dataclass(frozen=True)
class Section:
    name: str
    heading: str
    question: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class FigureCard:
    """A big number with its name above and words below."""

    name: str
    big: str
    small: str
    weak: bool = False


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole statement, in the order in which it is read: the context of ``statement.html``."""

    title: str
    lead: str
    warning: str  # "" unless somebody would be misled without it
    cards: tuple[FigureCard, ...]
    summary: tuple[str, ...]
    sections: tuple[Section, ...]  # the questions of the evaluation
    dpia: tuple[Section, ...]
    appendix: tuple[Section, ...]  # formulas
    language: str = "en"

    DPIA: ClassVar[str] = "Data protection impact assessment (Art. 35 GDPR)"
    APPENDIX: ClassVar[str] = "Appendix: formulas"

    @property
    def layout(self) -> str:
        """The class of its cards: three in a row where that leaves no row unfinished, else four."""
        return "cards four" if len(self.cards) % 3 else "cards"

    @property
    def blanks(self) -> tuple[str, ...]:
        """What the controller must fill in, each once, in the order of the document."""
        sections = (*self.sections, *self.dpia, *self.appendix)
        parts = (part for section in sections for part in section.parts)
        return tuple(dict.fromkeys(part.what for part in parts if isinstance(part, Blank)))


# Read: headings, paragraphs, lists, tables below a bold caption, quotes to fill in, fenced lines

_MARK = re.compile(r"\\([\\`*_\[\]<>|#~+-])")
_CELL = re.compile(r"((?:\\.|[^\\|])*)\|")
_FENCE = re.compile(r"^```\n(.*?)^```$", re.S | re.M)


def read_section(name: str, markdown: str) -> Section:
    """One file of `sections/`, rendered: a heading, the question in italics, and the answer."""
    heading, _, rest = markdown.strip().partition("\n")
    parts = tuple(_parts(rest))
    question, *answer = parts if parts and rest.lstrip().startswith("*") else ("", *parts)
    assert isinstance(question, str)
    question = question.removeprefix("*").removesuffix("*")
    return Section(name, _plain(heading.removeprefix("# ")), question, tuple(answer))


def _parts(markdown: str) -> Iterator[Part]:
    for k, piece in enumerate(_FENCE.split(markdown)):
        if k % 2:
            yield Exact(tuple(_MARK.sub(r"\1", line) for line in piece.splitlines()))
        else:
            caption = ""
            for block in re.split(r"\n\s*\n", piece):
                lines = [line.strip() for line in block.splitlines() if line.strip()]
                if lines and lines[0].startswith("**"):
                    caption = _plain(" ".join(lines)[2:-2])
                elif lines:
                    yield from _block(lines, caption)
                    caption = ""


def _block(lines: list[str], caption: str) -> Iterator[Part]:
    if lines[0].startswith("|"):
        columns, _, *rows = (tuple(map(_plain, _CELL.findall(line[1:]))) for line in lines)
        if rows:
            yield StatementTable(caption, columns, tuple(rows))
    elif lines[0].startswith("- "):
        items = re.split(r"\n- ", "\n".join(lines)[2:])
        yield Items(tuple(map(_plain, items)))
    elif lines[0].startswith("> "):
        text = " ".join(line.removeprefix("> ") for line in lines)
        yield Blank(_plain(text.removeprefix(f"{TO_FILL_IN}: ")).removesuffix("."))
    else:
        yield _plain("\n".join(lines))


def _plain(text: str) -> str:
    return _MARK.sub(r"\1", " ".join(text.split()))


# Written


def to_markdown(document: Document) -> str:
    """The whole document, for whoever puts it into another one."""
    blocks = [f"# {escape_markdown(document.title)}", escape_markdown(document.lead)]
    if document.warning:
        blocks.append(f"> **{escape_markdown(document.warning)}**")
    rows = tuple((card.name, card.big, card.small) for card in document.cards)
    blocks.append(parts_to_markdown(document.summary))
    blocks.append(_sheet(StatementTable("", ("Data, against whom", "ε", "How sure"), rows)))
    for heading, sections in (
        ("", document.sections),
        (document.DPIA, document.dpia),
        (document.APPENDIX, document.appendix),
    ):
        blocks += [f"# {heading}"] if heading else []
        for section in sections:
            blocks += [f"## {escape_markdown(section.heading)}"]
            blocks += [f"*{escape_markdown(section.question)}*", parts_to_markdown(section.parts)]
    return "\n\n".join(blocks) + "\n"


def parts_to_markdown(parts: Iterable[Part]) -> str:
    return "\n\n".join(map(_part, parts))


def _part(part: Part) -> str:
    if isinstance(part, Items):
        return "\n".join(f"- {escape_markdown(sentence)}" for sentence in part.sentences)
    if isinstance(part, StatementTable):
        return _sheet(part)
    if isinstance(part, Blank):
        return f"> **{escape_markdown(part.sentence)}**"
    if isinstance(part, Exact):
        return "\n".join(f"    {line}" for line in part.lines)
    return escape_markdown(part)


def _sheet(sheet: StatementTable) -> str:
    rule = "| " + " | ".join("---" for _ in sheet.columns) + " |"
    head, *rows = (
        "| " + " | ".join(map(escape_markdown, cells)) + " |"
        for cells in (sheet.columns, *sheet.rows)
    )
    table = "\n".join([head, rule, *rows])
    return f"{escape_markdown(sheet.caption)}:\n\n{table}" if sheet.caption else table
