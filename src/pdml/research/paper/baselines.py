"""Rivals at equal, proved privacy: who must be trusted, what is proved against whom, and how
accurate each is on eight data sets.

The comparison as a picture: one panel per data set, one line per rival.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isinf
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.research.baselines import pdml_plans, task
from pdml.research.baselines.composition import Guarantee
from pdml.research.baselines.pdml_plans import PlanRequest
from pdml.research.baselines.roster import (
    ALL,
    BASELINES,
    EPSILON,
    FLOOR,
    PLANNED,
    Baseline,
    Score,
)
from pdml.research.baselines.task import Task
from pdml.research.datasets.catalogue import DATASETS, Dataset
from pdml.research.paper import drawing, experiment
from pdml.research.paper.baselines_claims import claims, means_of, names_of
from pdml.research.paper.figure_style import BLUE, INK, MUTED, ORANGE, PAPER
from pdml.research.paper.reproduction import Progress, Reproduction
from pdml.training.processes import run_parallel

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
    "server": "trusts its server",
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


SEEDS = 10
FIRST_SEED = 6000  # nothing in this product was chosen while looking at splits from here on


def baselines(*, seeds: int | None, processes: int, progress: Progress) -> Reproduction:
    """Every rival on the seven sets of Table I and on Adult."""
    return reproduction(
        measure(tuple(DATASETS), seeds=seeds or SEEDS, processes=processes, progress=progress)
    )


def measure(names: Sequence[str], *, seeds: int, processes: int, progress: Progress) -> list[Score]:
    """All baselines on these sets; the same splits and the same flipped labels for all."""
    splits = range(FIRST_SEED, FIRST_SEED + seeds)
    rivals = tuple(BASELINES.values())  # handed over: other processes have the built-in ones only
    # the largest set first: no core idles at the end
    jobs = [(name, seed) for name in reversed(names) for seed in splits]
    tasks = [(DATASETS[name], seed, rivals) for name, seed in jobs]
    accuracies = dict(zip(jobs, run_parallel(_accuracies, tasks, processes, progress), strict=True))
    tables = {  # (seeds, settings)
        (name, k): np.array([accuracies[name, seed][k] for seed in splits])
        for name in names
        for k in range(len(rivals))
    }
    best = {key: int(table.mean(axis=0).argmax()) for key, table in tables.items()}
    chosen = [tuple(best[name, k] for k in range(len(rivals))) for name in names]
    # where they were trained, so that no plan is sought again
    proved_by = [(DATASETS[name], how, rivals) for name, how in zip(names, chosen, strict=True)]
    proofs = run_parallel(_prove, proved_by, processes)
    return [
        Score(rival.name, rival.trusts, name, setting, tables[name, k][:, best[name, k]], guarantee)
        for name, proved in zip(names, proofs, strict=True)
        for k, (rival, (setting, guarantee)) in enumerate(zip(rivals, proved, strict=True))
    ]


def _accuracies(dataset: Dataset, seed: int, rivals: Sequence[Baseline]) -> list[list[float]]:
    """For every baseline the accuracy of every setting; of several models their mean."""
    split = task.load(dataset, seed)
    with threadpool_limits(1):  # the matrices are small, and the cores are taken by other jobs
        return [
            [_accuracy(split, rival.train(split, how, EPSILON)) for how in rival.settings]
            for rival in rivals
        ]


def _prove(
    dataset: Dataset, chosen: Sequence[int], rivals: Sequence[Baseline]
) -> list[tuple[str, Guarantee]]:
    """For every baseline its chosen setting in words, and what that proves."""
    split = task.load(dataset, FIRST_SEED)
    return [
        (
            _describe_setting(split, rival.settings[how]),
            rival.guarantee(split, rival.settings[how], EPSILON),
        )
        for rival, how in zip(rivals, chosen, strict=True)
    ]


def _describe_setting(split: Task, chosen: Any) -> str:
    if isinstance(chosen, PlanRequest):
        return pdml_plans.describe_plan(split, chosen, EPSILON)
    return "" if chosen is None else f"{chosen:g}" if isinstance(chosen, float) else str(chosen)


def _accuracy(split: Task, weights: Array) -> float:
    return float(np.mean([split.accuracy(w) for w in np.atleast_2d(weights)]))


def reproduction(results: Sequence[Score]) -> Reproduction:
    """The table of these results."""
    seeds = len(results[0].accuracies)
    return Reproduction(
        name="baselines",
        title="Rivals at equal, proved privacy: accuracy on test data (%)",
        caption=(
            f"Mean over {seeds} random splits (seeds from {FIRST_SEED}). ε at δ = "
            f"{experiment.DELTA:g}: of a label "
            "against whoever collects it (own), of a label "
            "(oth) and of features (feat) against everybody else, or as many servers as the "
            "row says, the worst of all sets, "
            "from the ledger or the rival's own proof; ∞ where "
            "nothing is proved. The budget is ε = 1 in each. Rivals get the best of their "
            "settings by test accuracy; PDML is not tuned."
        ),
        columns=tuple(_COLUMNS),
        rows=tuple(tuple(of(result) for of in _COLUMNS.values()) for result in results),
        claims=claims(results),
        draw=partial(_draw, tuple(results)),
        summary=summary(results),
    )


_COLUMNS: Mapping[str, Callable[[Score], Any]] = {  # of the CSV
    "rival": lambda result: result.rival,
    "trusts": lambda result: result.trusts,
    "set": lambda result: result.name,
    "accuracy_mean": lambda result: float(result.accuracies.mean()),
    "accuracy_sd": lambda result: float(result.accuracies.std(ddof=1)),
    "seeds": lambda result: len(result.accuracies),
    "label_epsilon_collector": lambda result: result.guarantee.label_collector,
    "label_epsilon_others": lambda result: result.guarantee.label_others,
    "features_epsilon_others": lambda result: result.guarantee.features_others,
    "delta": lambda result: experiment.DELTA,
    "setting": lambda result: result.setting,
}


def summary(results: Sequence[Score]) -> tuple[tuple[str, ...], ...]:
    """One line per rival: whom it trusts, the worst ε over the sets, and its mean accuracy on
    each.
    """
    names, means = names_of(results), means_of(results)
    lines = [("rival", "trusts", "ε own", "ε oth", "ε feat", *(name[:4] for name in names))]
    for rival in BASELINES.values():
        proofs = [r.guarantee for r in results if r.rival == rival.name]
        worst = [max(getattr(p, field) for p in proofs) for field in ALL]
        lines.append(
            (
                rival.name,
                rival.trusts,
                *map(_epsilon, worst),
                *(f"{means[rival.name, name]:.1f}" for name in names),
            )
        )
    return tuple(lines)


def _epsilon(value: float) -> str:
    return "∞" if isinf(value) else f"{value:.2g}" if value < 1 else f"{value:.3g}"


def _draw(results: tuple[Score, ...]) -> "Figure":
    return draw(results, budget=EPSILON, highlighted=PLANNED, floor=FLOOR)
