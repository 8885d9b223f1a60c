"""What a statement is made of, once for every form in which it is written.

Text is plain text: a page escapes it, Markdown does too, and neither obeys it.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Sheet:
    """A table; the first column names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Blank:
    """What nobody but the organiser can say, and the study does not: never filled in by us."""

    what: str

    @property
    def sentence(self) -> str:
        return f"{TO_FILL_IN}: {self.what}."


@dataclass(frozen=True)
class Exact:
    """Lines in which every space counts: commands and formulas."""

    lines: tuple[str, ...]


Part = str | Items | Sheet | Blank | Exact

TO_FILL_IN = "To be filled in by the organiser"


@dataclass(frozen=True)
class Section:
    """One question, and its answer."""

    name: str
    heading: str
    question: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Card:
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
    cards: tuple[Card, ...]
    summary: tuple[str, ...]
    sections: tuple[Section, ...]  # the questions of the evaluation
    annex: tuple[Section, ...]  # for whoever assesses the impact on data protection
    appendix: tuple[Section, ...]  # formulas
    language: str = "en"

    ANNEX: ClassVar[str] = "Annex: assessing the impact on data protection"
    APPENDIX: ClassVar[str] = "Appendix: formulas"

    @property
    def layout(self) -> str:
        """The class of its cards: three in a row where that leaves no row unfinished, else four."""
        return "cards four" if len(self.cards) % 3 else "cards"

    @property
    def blanks(self) -> tuple[str, ...]:
        """What the organiser must fill in, each once, in the order of the document."""
        every = (*self.sections, *self.annex, *self.appendix)
        names = (
            part.what for section in every for part in section.parts if isinstance(part, Blank)
        )
        return tuple(dict.fromkeys(names))
