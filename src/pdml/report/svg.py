"""From a matplotlib figure to an SVG that can stand alone or in a page with others, and never
changes for the same input.
"""

import hashlib
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, LINK, GRID, PAPER = "#1c2430", "#5b6675", "#9aa5b1", "#dfe4ea", "#ffffff"
BLUE, ORANGE, SAND = (
    "#0067a8",
    "#b94a00",
    "#fdeee2",
)  # told apart by every kind of colour vision, and by lightness
NODE, NODE_MISSING, ON_DARK, ON_LIGHT = (
    "#1a6aa5",
    "#d5dbe1",
    "#fefefe",
    "#111111",
)  # these stay when a page turns dark
NAMESPACE = "http://www.w3.org/2000/svg"
HALO = "halo"  # the group id of text that needs paper around it to be read over lines

_STYLE = {
    "svg.fonttype": "none",
    "font.size": 12,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 12,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.formatter.useoffset": False,
    "grid.color": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 2.2,
    "lines.markersize": 6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
}


@contextmanager
def drawing(kind: str) -> Iterator[None]:
    """Matplotlib's own defaults plus this house's style, whatever the user's are; theirs come back
    at the end.
    """
    from matplotlib import style

    with style.context(["default", _STYLE | {"svg.hashsalt": kind}]), warnings.catch_warnings():
        # A browser has the glyphs that matplotlib's font lacks; only the estimate of a label's
        # width suffers.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def export(figure: "Figure", kind: str, title: str, description: str) -> str:
    """The figure as SVG text with a name and a description for people who do not see it.

    No script, style sheet, metadata, clipping path or second namespace is left, and ids are
    prefixed by ``kind`` and a digest of the picture, so that several figures share a page.
    """
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    raw = buffer.getvalue()
    root = ElementTree.fromstring(xml_text(raw))
    prefix = f"{kind}-{hashlib.sha256((raw + title + description).encode()).hexdigest()[:8]}"
    _clean(root, prefix)
    width, height = root.get("viewBox", "0 0 0 0").split()[2:]
    root.attrib.clear()
    root.attrib.update(
        {
            "xmlns": NAMESPACE,
            "viewBox": f"0 0 {width} {height}",
            "width": width,
            "height": height,
            "role": "img",
            "aria-label": xml_text(title),
            "aria-describedby": f"{prefix}-desc",
            "font-family": "system-ui, sans-serif",
            "stroke-linejoin": "round",
        }
    )
    named, described = (
        ElementTree.Element("title"),
        ElementTree.Element("desc", {"id": f"{prefix}-desc"}),
    )
    named.text, described.text = xml_text(title), xml_text(description)
    root[:0] = [named, described]
    return ElementTree.tostring(root, encoding="unicode")


def line_of_text(text: str, longest: int) -> str:
    """One line of at most so many characters, all of which XML allows."""
    clean = " ".join(xml_text(text).split())
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def xml_text(text: str) -> str:
    """Replace control characters and lone surrogates, which neither XML nor UTF-8 can carry."""
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def _clean(root: ElementTree.Element, prefix: str) -> None:
    """Drop what a browser does not need and rename ids, in place."""
    for parent in list(root.iter()):
        for child in list(parent):
            name = child.tag.rpartition("}")[2]
            if name in ("style", "metadata", "clipPath"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.tail = None
        if element.tag != "text" and element.tag != "tspan":
            element.text = None
        halo = element.get("id") == HALO
        element.attrib = dict(_attributes(element, prefix))
        if halo:
            element.set("style", f"paint-order: stroke; stroke: {PAPER}; stroke-width: 3px")


def _attributes(element: ElementTree.Element, prefix: str) -> Iterator[tuple[str, str]]:
    for qualified, value in element.attrib.items():
        name = qualified.rpartition("}")[2]
        if (
            name == "id" and element.tag == "path"
        ):  # a marker or a glyph, the only things that are referred to
            yield name, f"{prefix}-{value}"
        elif name == "href":
            yield name, f"#{prefix}-{value.removeprefix('#')}"
        elif name == "style":
            yield name, re.sub(r"font-family: [^;]*(; )?", "", value)
        elif name in ("d", "x", "y", "transform"):
            if not value.startswith("rotate(-0 "):
                yield name, " ".join(re.sub(r"-?\d+\.\d+", _rounded, value).split())
        elif name not in ("id", "clip-path"):
            yield name, value


def _rounded(match: re.Match[str]) -> str:
    return f"{round(float(match[0]), 2) + 0.0:g}"  # a hundredth of a point is finer than any screen
