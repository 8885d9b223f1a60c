"""The comparison as a picture: one panel per data set, one line per rival."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pdml._types import Array
from pdml.research.baselines.composition import Guarantee
from pdml.research.paper import drawing
from pdml.research.paper.figure_style import BLUE, INK, MUTED, ORANGE, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Point(Protocol):
    """What is drawn of a result."""

    @property
    def rival(self) -> str: ...
    @property
    def trusts(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def accuracies(self) -> Array: ...
    @property
    def guarantee(self) -> Guarantee: ...


COLOURS = {"curator": MUTED, "server": ORANGE, "nobody": BLUE}

WORDS = {
    "curator": "trusts a curator",
    "server": "trusts the own server",
    "nobody": "trusts nobody with labels",
}


def draw(results: Sequence[Point], *, budget: float, highlighted: str, floor: str) -> "Figure":
    """Mean and standard deviation; colour says who is trusted, a filled mark that features are
    protected within the budget too.

    ``floor`` is the rival that learns nothing: a dotted line where it comes into view.
    """
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(r.name for r in results))
    rivals = [name for name in dict.fromkeys(r.rival for r in results) if name != floor]
    columns = min(4, len(names))
    height = 1.6 + 0.27 * len(rivals)
    lines = -(-len(names) // columns)
    title = "Accuracy of rivals at equal, proved privacy"
    with drawing.grid(
        "baselines", title, lines, columns, size=(3.6 + 2.3 * columns, 1.0 + height * lines)
    ) as (figure, panels):
        for axes, name in zip(panels, names, strict=False):
            for result in (r for r in results if r.name == name and r.rival != floor):
                line, colour = rivals.index(result.rival), COLOURS[result.trusts]
                proved = result.guarantee
                filled = proved.features_others <= budget + 1e-6
                axes.errorbar(
                    [result.accuracies.mean()],
                    [line],
                    xerr=[result.accuracies.std(ddof=1)],
                    fmt="o",
                    color=colour,
                    markerfacecolor=colour if filled else PAPER,
                    elinewidth=1.4,
                    markersize=6,
                )
            axes.set_title(name, loc="left", fontsize=11, color=INK)
            axes.set_ylim(len(rivals) - 0.5, -0.5)
            axes.set_yticks(
                range(len(rivals)),
                labels=rivals if axes in panels[::columns] else [""] * len(rivals),
                fontsize=9,
            )
            axes.tick_params(labelsize=9, length=2)
            axes.grid(axis="both")
            left, right = axes.get_xlim()
            for nothing in (
                r.accuracies.mean() for r in results if r.name == name and r.rival == floor
            ):
                axes.axvline(nothing, color=INK, linewidth=1, linestyle=(0, (1, 2)))
            axes.set_xlim(left, right)
            if highlighted in rivals:
                axes.axhline(rivals.index(highlighted), color=BLUE, linewidth=9, alpha=0.10)
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        for axes in panels[max(0, len(names) - columns) : len(names)]:
            axes.set_xlabel("accuracy on test data (%)", fontsize=10)
        handles = [
            Line2D([], [], marker="o", linestyle="", color=c, label=WORDS[who])
            for who, c in COLOURS.items()
        ]
        kinds = (
            (f"filled: features protected, ε ≤ {budget:g}", INK),
            ("hollow: features not protected", PAPER),
        )
        handles += [
            Line2D(
                [], [], marker="o", linestyle="", color=INK, markerfacecolor=face, label=description
            )
            for description, face in kinds
        ]
        handles.append(
            Line2D(
                [],
                [],
                color=INK,
                linewidth=1,
                linestyle=(0, (1, 2)),
                label="always the larger class",
            )
        )
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=10)
        return figure
