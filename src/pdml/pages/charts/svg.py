"""Figures as a template draws them: marks on a canvas, in the page's own colours.

Numbers are rounded to a tenth of a unit, and no font is measured, so that a figure has the same
bytes on every machine. Colours are classes of the style sheet, which turn dark with the page.
"""

from dataclasses import dataclass

WIDTH = 420  # of most figures: on a phone, text of 13 units can still be read


@dataclass(frozen=True)
class Mark:
    """One element of SVG: what it is, its attributes, and the words in it."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture with its heading and caption, and the same in words for screen readers."""

    name: str  # What ids on the page begin with
    # Above the picture
    heading: str
    caption: str
    words: str  # What the picture shows
    marks: tuple[Mark, ...]  # In the order in which they are drawn
    # Of the canvas
    width: float = WIDTH
    height: float
    warning: str = ""  # What stands out before the caption


def mark(tag: str, words: str = "", /, **attributes: str | float) -> Mark:
    """An element; ``class_`` and ``text_anchor`` are spelled as Python can."""
    spelled = (
        (name.rstrip("_").replace("_", "-"), value if isinstance(value, str) else number(value))
        for name, value in attributes.items()
        if value != ""
    )
    return Mark(tag, tuple(spelled), words)


def number(value: float) -> str:
    """A length or a place, to a tenth."""
    return f"{round(value, 1) + 0.0:g}"


def point(across: float, down: float) -> str:
    """A place in a path."""
    return f"{number(across)} {number(down)}"


def shortened(text: str, longest: int) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
