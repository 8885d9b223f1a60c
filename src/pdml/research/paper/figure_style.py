"""The project's style for figures by matplotlib: colours, and settings that hide the user's own."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

INK, MUTED, GRID, PAPER = "#1c2430", "#5b6675", "#dfe4ea", "#ffffff"
BLUE, ORANGE = "#0067a8", "#b94a00"  # told apart by every kind of colour vision, and by lightness

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
    """Matplotlib's own defaults plus the project's style, whatever the user's are; theirs come back
    at the end.
    """
    from matplotlib import style

    with style.context(["default", _STYLE | {"svg.hashsalt": kind}]), warnings.catch_warnings():
        # A browser has the glyphs that matplotlib's font lacks; only the estimate of a label's
        # width suffers.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
