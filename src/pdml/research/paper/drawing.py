"""The pieces that figures of experiments share: one style whatever the user's settings are, a white
canvas, a mean with its band, labels at the end of lines.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml._types import Array

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


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# the paper's green dashed reference; always dashed here, so that colour alone never tells
GREEN = "#1b7f4b"
DASHES = (0, (5, 3))
# light to dark, for values in order
RAMP = ("#6bb1e0", "#3f93cf", "#1f74b3", "#0d559f", "#082f5c", "#03152c")
SERIES = (BLUE, ORANGE)


@contextmanager
def grid(
    name: str,
    title: str,
    lines: int,
    columns: int,
    *,
    size: tuple[float, float],
    same_heights: bool = False,
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """White plots under one title, line by line, in the project's style."""
    from matplotlib.figure import Figure

    with drawing(name):
        figure = Figure(figsize=size, layout="constrained", facecolor=PAPER)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=13)
        panels = list(figure.subplots(lines, columns, squeeze=False, sharey=same_heights).ravel())
        for axes in panels:
            axes.set_facecolor(PAPER)
            axes.tick_params(length=3)
        yield figure, panels


@contextmanager
def plots(
    name: str,
    title: str,
    axes: Sequence[tuple[str, str]],
    *,
    size: tuple[float, float] = (7.2, 4.5),
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """Plots side by side, each with (x, y) named."""
    with grid(name, title, 1, len(axes), size=size) as (figure, panels):
        for panel, (x, y) in zip(panels, axes, strict=True):
            panel.set_xlabel(x)
            panel.set_title(y, loc="left", pad=8, color=MUTED, fontsize=11)
        yield figure, panels


def shades(count: int) -> list[str]:
    """That many colours from light to dark."""
    places = np.linspace(0, len(RAMP) - 1, count).round().astype(int)
    return [RAMP[k] for k in places]


def band(axes: "Axes", x: Array, values: Array, colour: str, label: str, **line: Any) -> None:
    """The mean of ``values`` (seeds, points) and, pale behind it, all of the seeds from the lowest
    to the highest.
    """
    if len(values) > 1:
        axes.fill_between(
            x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, linewidth=0
        )
    axes.plot(x, values.mean(axis=0), color=colour, label=label, **line)


def reference(axes: "Axes", level: float, label: str) -> None:
    """A dashed level that all curves are compared with."""
    axes.axhline(level, color=GREEN, linestyle=DASHES, label=label, zorder=1.5)


def legend(figure: "Figure", *, columns: int = 3) -> None:
    """Below the plot, where it covers nothing."""
    figure.legend(loc="outside lower center", ncols=columns, handlelength=2.4, columnspacing=1.8)


def end_labels(
    axes: "Axes", x: float, ends: Sequence[tuple[float, str]], *, gap: float = 0.055
) -> None:
    """Names to the right of where lines end, as (height, text); moved apart so that none covers
    another.
    """
    axes.figure.canvas.draw()  # limits are final only then
    inverse = axes.transAxes.inverted()
    heights = [float(inverse.transform(axes.transData.transform((x, y)))[1]) for y, _ in ends]
    place = -np.inf
    for k in np.argsort(heights):
        place = max(heights[k], place + gap)
        axes.annotate(
            ends[k][1],
            (1.015, place),
            xycoords="axes fraction",
            color=INK,
            va="center",
            fontsize=11,
        )
