"""Table I of the paper beside what was measured: its 49 cells under two preprocessings and every
noise, and what each cell proves.

Table I as a figure: one panel per set, one line per column, the paper's figure between ours.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isinf
from typing import TYPE_CHECKING

import numpy as np

from pdml.research.datasets import raetsch
from pdml.research.paper import drawing, experiment, table1_cells
from pdml.research.paper.drawing import BLUE, GRID, INK, MUTED, ORANGE
from pdml.research.paper.reproduction import Claim, Progress, Reproduction
from pdml.research.paper.table1_cells import COLUMNS, COMMON, PAPER, Cell, measure

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
    table1_cells.OURS.name: "our preprocessing",
    table1_cells.THEIRS.name: "paper's likely preprocessing",
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
        table1_cells.OURS.name: (BLUE, "o", -0.2),
        table1_cells.THEIRS.name: (ORANGE, "s", 0.2),
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
        if cell.preprocessing == table1_cells.THEIRS.name and cell.noise == "box"
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


SEEDS = 20
BEST = "calibrated"  # the noise that the bars are held against
SPLICE_BAR, SPLICE_LEAD = 80.0, 10.0  # without privacy; points above the paper in every column

_SHORT = {"gaussian": "gauss", "calibrated": "calib"}  # for a terminal of 80 columns

# the CSV's columns
_COLUMNS: Mapping[str, Callable[[Cell], str | float | int | bool]] = {
    "set": lambda cell: cell.set,
    "column": lambda cell: cell.column.name,
    "epsilon": lambda cell: cell.column.epsilon,
    "bound": lambda cell: cell.column.bound,
    "preprocessing": lambda cell: cell.preprocessing,
    "noise": lambda cell: cell.noise,
    "paper": lambda cell: cell.paper,
    "mean": lambda cell: round(cell.mean, 4),
    "sd": lambda cell: round(cell.sd, 4),
    "seeds": lambda cell: len(cell.accuracies),
    "meets_bar": lambda cell: cell.meets_bar,
    "label_epsilon_own_server": lambda cell: cell.privacy.label_receiving_server,  # at δ = 0
    "label_epsilon_other_servers": lambda cell: cell.privacy.label_others,  # at "delta"
    "features_epsilon_other_servers": lambda cell: cell.privacy.features_others,
    "delta": lambda cell: experiment.DELTA,
    "eta_alone_delta": lambda cell: cell.privacy.eta_delta,  # what η alone proves at ε = 0
    "eta_half_width": lambda cell: cell.plan.objective_bound,
    "regularization": lambda cell: cell.plan.regularization,
}


def table1(*, seeds: int | None, processes: int, progress: Progress) -> Reproduction:
    """All 49 cells under both preprocessings and every noise."""
    return reproduction(
        measure(raetsch.NAMES, seeds=seeds or SEEDS, processes=processes, progress=progress)
    )


def reproduction(cells: Sequence[Cell]) -> Reproduction:
    """The table of these cells."""
    return Reproduction(
        name="table1",
        title="Table I: accuracy on test data (%)",
        caption=_caption(len(cells[0].accuracies)),
        columns=tuple(_COLUMNS),
        rows=tuple(tuple(of(cell) for of in _COLUMNS.values()) for cell in cells),
        claims=claims(cells),
        draw=lambda: draw(cells, BEST),
        summary=summary(cells),
    )


def claims(cells: Sequence[Cell]) -> tuple[Claim, ...]:
    """The bars, then what the paper says of its table, then what its columns prove."""
    bars = [
        _bar(cells, way.name, bound) for bound in (0, 1, 9) for way in table1_cells.PREPROCESSINGS
    ]
    if any(cell.set == "splice" for cell in cells):
        bars.append(_splice(cells))
    return (*bars, _order(cells), _uniform_proves_nothing(cells), _features(cells))


def _bar(cells: Sequence[Cell], way: str, bound: float) -> Claim:
    """One of the six bars: the cells of one R under one preprocessing, with `BEST` where there is
    noise.
    """
    there = [cell for cell in cells if cell.preprocessing == way and cell.column.bound == bound]
    selection = [cell for cell in there if cell.noise in (BEST, "none")]
    met = sum(cell.meets_bar for cell in selection)
    tightest = min(
        selection, key=lambda cell: cell.mean + (0 if bound == 9 else 2 * cell.sd) - cell.paper
    )
    others = [
        (noise, sum(c.meets_bar for c in there if c.noise == noise))
        for noise in table1_cells.NOISES
        if noise != BEST and bound
    ]
    rest = (
        "; with other noise: " + ", ".join(f"{noise} {count}" for noise, count in others)
        if others
        else ""
    )
    what = "at or above the paper" if bound == 9 else "within two sd of the paper or above it"
    return Claim(
        text=f"R = {bound:g}, preprocessing {way}: every cell is {what}"
        + (f" with {BEST} η" if bound else ""),
        holds=met == len(selection),
        measured=f"{met} of {len(selection)}{rest}; tightest: {tightest.set}, "
        f"{tightest.column.name}, {tightest.mean:.1f} ± {tightest.sd:.1f} "
        f"against {tightest.paper:.1f}",
    )


def _splice(cells: Sequence[Cell]) -> Claim:
    ours = _pick(
        cells, lambda cell: cell.set == "splice" and cell.preprocessing == table1_cells.OURS.name
    )
    free = next(cell for cell in ours if isinf(cell.column.epsilon))
    lead = min(cell.mean - cell.paper for cell in ours)
    return Claim(
        text=f"splice, preprocessing ours: {SPLICE_BAR:g} or more without privacy, every "
        f"cell {SPLICE_LEAD:g} points above the paper",
        holds=free.mean >= SPLICE_BAR and lead >= SPLICE_LEAD,
        measured=f"{free.mean:.1f} ± {free.sd:.1f} against {free.paper:.1f}; smallest lead "
        f"{lead:.1f}",
    )


def _order(cells: Sequence[Cell]) -> Claim:
    """The paper: larger ε and smaller R give better accuracy. R = 1 and R = 0 lie too close
    together to be told apart.
    """
    ours = _pick(cells, lambda cell: cell.preprocessing == table1_cells.OURS.name)
    mean = {
        column.name: float(np.mean([c.mean for c in ours if c.column == column]))
        for column in COLUMNS
    }
    pairs = [
        ("none", "ε1 R0"),
        ("ε1 R0", "ε.4 R0"),
        ("ε1 R1", "ε.4 R1"),
        ("ε1 R9", "ε.4 R9"),
        ("ε1 R1", "ε1 R9"),
        ("ε.4 R1", "ε.4 R9"),
    ]
    return Claim(
        text="larger ε and smaller R give better accuracy (mean over the sets, preprocessing ours)",
        holds=all(mean[better] > mean[worse] for better, worse in pairs),
        measured=", ".join(f"{name} {value:.1f}" for name, value in mean.items()),
    )


def _uniform_proves_nothing(cells: Sequence[Cell]) -> Claim:
    uniform = [cell for cell in cells if cell.noise in ("box", "ball")]
    gained = max(
        1 - cell.privacy.label_others / cell.privacy.label_receiving_server for cell in uniform
    )
    deltas = [cell.privacy.eta_delta for cell in uniform]
    best = [cell for cell in cells if cell.noise == BEST]
    shares = [
        cell.privacy.label_others / cell.privacy.label_receiving_server
        for cell in best
        if cell.column.bound == 9
    ]
    return Claim(
        text=f"uniform η proves less than 1% below the label's own ε at δ = {experiment.DELTA:g}",
        holds=gained < 0.01,
        measured=f"its own δ is {min(deltas):.2g} to {max(deltas):.2g}; {BEST} η at R = 9 "
        f"leaves others {min(shares):.0%} to "
        f"{max(shares):.0%} of ε",
    )


def _features(cells: Sequence[Cell]) -> Claim:
    least = min(cell.privacy.features_others for cell in cells)
    return Claim(
        text="no column of the table protects features: ε above 100 in every cell",
        holds=least > 100,
        measured=f"least features ε against other servers {least:.3g} at δ = {experiment.DELTA:g}",
    )


def _pick(cells: Sequence[Cell], where: Callable[[Cell], bool]) -> list[Cell]:
    """One cell per set and column: with `BEST` noise, or none."""
    return [cell for cell in cells if cell.noise in (BEST, "none") and where(cell)]


def summary(cells: Sequence[Cell]) -> tuple[tuple[str, ...], ...]:
    """For each set the paper's row, then one per preprocessing (first letter) and noise; 80
    characters wide with the gaps.

    R = 0 is shown once per preprocessing.
    """
    table: list[tuple[str, ...]] = [("", *(column.name for column in COLUMNS))]
    for name in dict.fromkeys(cell.set for cell in cells):
        table.append((name, *(f"{value:.1f}" for value in PAPER[name])))
        for way in table1_cells.PREPROCESSINGS:
            for k, noise in enumerate(table1_cells.NOISES):
                noises = {noise} | ({"none"} if k == 0 else set())
                there = {
                    c.column: c
                    for c in cells
                    if (c.set, c.preprocessing) == (name, way.name) and c.noise in noises
                }
                table.append(
                    (
                        f"{way.name[0]} {_SHORT.get(noise, noise)}",
                        *(_text(there[c]) if c in there else "" for c in COLUMNS),
                    )
                )
    return tuple(table)


def _text(cell: Cell) -> str:
    """At most 8 characters: 97.7±.2, 56.3±2.0, 59.9±12; ! in place of ± where the bar is missed."""
    sd = f"{cell.sd:.0f}" if cell.sd >= 9.95 else f"{cell.sd:.1f}".removeprefix("0")
    return f"{cell.mean:.1f}{'±' if cell.meets_bar else '!'}{sd}"


def _caption(seeds: int) -> str:
    theirs, ours = table1_cells.PREPROCESSINGS
    return (
        f"First row of a set: the paper. Then mean ± sd of one run over {seeds} seeds "
        "(random split, labels and noise); ! in place of ± "
        "where a cell misses its bar (R = 9: the paper; else the paper less two sd). "
        "Preprocessing t (theirs): columns to largest value 1, "
        f"rows to norm 1, a constant 1, a/n = {theirs.ridge:g}; o (ours): declared ranges, "
        "rows with their constant to norm 1, "
        f"a/n = {ours.ridge:g}. η: box and ball uniform within R; gauss: Gaussian with σ = "
        "R/6 cut at R; calib (calibrated): Gaussian with "
        "σ at most R/(6√d), and no more than leaves other servers two thirds of the "
        "label's ε. Ten servers, 13 links, "
        f"β = {COMMON.penalty:g}, T = {COMMON.rounds}; θ with V = {COMMON.noise_scale:g}, ρ "
        f"= {COMMON.noise_decay:g} where R > 0, none "
        "where R = 0. The model is the mean of the servers' last releases."
    )
