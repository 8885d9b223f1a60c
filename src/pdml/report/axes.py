"""The pieces figures are made of: an empty plot, a line by round, and scales with labels that
people can read.
"""

from collections.abc import Callable
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml._types import Array
from pdml.accounting.certainty import gaussian_epsilon
from pdml.report import numbers
from pdml.report.svg import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = (0, (5, 3))

_MARKED_POINTS = 12  # with fewer than this a line alone is too little to see
_SURE = (0.55, 0.6, 0.75, 0.9, 0.99, 0.999)


def canvas(y: str, x: str = "Round of training") -> tuple["Figure", "Axes"]:
    """One empty plot that still reads when it is shrunk to a phone; what y is stands above it,
    upright.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.9), layout="constrained", facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    axes.set_xlabel(x)
    axes.set_title(y, loc="left", pad=10, color=MUTED)
    axes.tick_params(length=3)
    axes.xaxis.set_major_locator(ticks(8, integer=True))
    return figure, axes


def ticks(most: int, *, integer: bool = False) -> Any:
    """A locator of at most so many round numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=most, integer=integer, min_n_ticks=1, steps=[1, 2, 5, 10])


def labels(write: Callable[[float], str]) -> Any:
    """A formatter of tick labels."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: write(value))


def line(axes: "Axes", values: Array, colour: str, label: str, *, dashed: bool = False) -> None:
    """One value per round; rounds that are not finite are gaps."""
    marker = "o" if np.isfinite(values).sum() <= _MARKED_POINTS else ""
    axes.plot(
        np.arange(1, len(values) + 1),
        values,
        color=colour,
        label=label,
        marker=marker,
        linestyle=DASHES if dashed else "solid",
    )
    axes.set_xlim(0.5, len(values) + 0.5)


def legend(figure: "Figure") -> None:
    """Below the plot, where it covers nothing."""
    figure.legend(loc="outside lower center", ncols=2, handlelength=2.2, columnspacing=1.6)


def without_scale(axes: "Axes", rounds: int, words: str) -> None:
    """A plot that has nothing to show says so."""
    axes.set_xlim(0.5, rounds + 0.5)
    axes.set_yticks([])
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=MUTED)


def logarithmic(axes: "Axes", values: Array) -> None:
    """A logarithmic scale around positive values, labelled 1, 2, 5, 10 rather than by exponents."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = float(values.min()), float(values.max())
    low, high = (low / 1.25, high * 1.25) if high > 2 * low else (low / 2, high * 2)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high < 1000 * low else (1.0,), numticks=12)
    )
    axes.yaxis.set_major_formatter(labels(numbers.tick))
    axes.yaxis.set_minor_formatter(NullFormatter())


def how_sure(axes: "Axes", delta: float) -> None:
    """A second scale on the right: how sure of features they can be at an ε, from even odds."""
    low, high = axes.get_ylim()
    marks: list[tuple[float, str]] = []
    last = -1.0
    for share in _SURE:
        epsilon = gaussian_epsilon(share, delta)
        if low <= epsilon <= high and epsilon > 0:
            height = (
                log(epsilon / low) / log(high / low)
                if axes.get_yscale() == "log"
                else (epsilon - low) / (high - low)
            )
            if height > last + 0.09:  # else two labels would touch
                marks.append((epsilon, f"{100 * share:g}%"))
                last = height
    if not marks:
        return
    right = axes.secondary_yaxis("right")
    right.set_yticks([epsilon for epsilon, _ in marks], labels=[label for _, label in marks])
    right.spines["right"].set_visible(False)
    right.tick_params(length=3)
    right.minorticks_off()
    axes.set_title("others can be this sure", loc="right", pad=10, color=MUTED)
