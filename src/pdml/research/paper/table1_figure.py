"""Table I as a figure: one panel per set, one line per column, the paper's figure between ours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pdml.research.paper import drawing, preprocessing
from pdml.research.paper.figure_style import BLUE, GRID, INK, MUTED, ORANGE
from pdml.research.paper.table1_cells import COLUMNS, Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = (
    "no privacy",
    "ε = 0.4, R = 0",
    "ε = 1, R = 0",
    "ε = 0.4, R = 1",
    "ε = 0.4, R = 9",
    "ε = 1, R = 1",
    "ε = 1, R = 9",
)
_WAYS = {
    preprocessing.OURS.name: "our preprocessing",
    preprocessing.THEIRS.name: "paper's likely preprocessing",
}
_LEGEND = (1, 2, 3, 0)  # the paper, ours, theirs, the box
_ACROSS = 4


def draw(cells: Sequence[Cell], noise: str) -> "Figure":
    """Intervals of two standard deviations with ``noise`` under both preprocessings, and the
    paper's uniform box for comparison.
    """
    names = list(dict.fromkeys(cell.set for cell in cells))
    across = min(_ACROSS, len(names) + 1)
    down = -(-(len(names) + 1) // across)  # one place is the legend's
    title = "Table I: test accuracy, the paper's figure and two standard deviations about ours"
    size = (3.2 * across + 0.8, 3.5 * down + 0.6)
    with drawing.grid("table1", title, down, across, size=size, same_heights=True) as (
        figure,
        places,
    ):
        for axes, name in zip(places, names, strict=False):
            _panel(axes, name, [cell for cell in cells if cell.set == name], noise)
        for axes in places[len(names) :]:
            axes.set_axis_off()
        for axes in places[::across]:
            axes.set_yticks(range(len(COLUMNS)), labels=_NAMES)
        handles, words = places[0].get_legend_handles_labels()
        ordered = [handles[k] for k in _LEGEND], [words[k] for k in _LEGEND]
        places[len(names)].legend(
            *ordered, loc="center", frameon=False, fontsize=11, labelspacing=1.1
        )
        figure.supxlabel("Test accuracy, %", fontsize=12)
        return figure


def _panel(axes: "Axes", name: str, cells: Sequence[Cell], noise: str) -> None:
    styles = {
        preprocessing.OURS.name: (BLUE, "o", -0.2),
        preprocessing.THEIRS.name: (ORANGE, "s", 0.2),
    }
    for way, (colour, marker, offset) in styles.items():
        selection = [
            cell for cell in cells if cell.preprocessing == way and cell.noise in (noise, "none")
        ]
        axes.errorbar(
            [cell.mean for cell in selection],
            [COLUMNS.index(cell.column) + offset for cell in selection],
            xerr=[2 * cell.sd for cell in selection],
            fmt=marker,
            color=colour,
            markersize=5,
            elinewidth=2,
            label=f"{_WAYS[way]},\n{noise} η: mean ± 2 sd",
        )
    box = [
        cell
        for cell in cells
        if cell.preprocessing == preprocessing.THEIRS.name and cell.noise == "box"
    ]
    axes.plot(
        [cell.mean for cell in box],
        [COLUMNS.index(cell.column) for cell in box],
        "x",
        color=MUTED,
        markersize=6,
        label="paper's likely preprocessing,\nη uniform in the box: mean",
    )
    printed = {COLUMNS.index(cell.column): cell.paper for cell in cells}
    axes.plot(
        list(printed.values()), list(printed), "D", color=INK, markersize=6, label="the paper"
    )
    axes.set_title(name.capitalize(), loc="left")
    axes.set_ylim(len(COLUMNS) - 0.4, -0.6)
    axes.grid(axis="x", color=GRID)
    axes.grid(visible=False, axis="y")
    for line in range(1, len(COLUMNS)):
        axes.axhline(line - 0.5, color=GRID, linewidth=0.8, zorder=0)
