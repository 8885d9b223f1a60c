"""Rivals at equal, proved privacy: who must be trusted, what is proved against whom, and how
accurate each is on eight data sets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isinf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.paper import baselines_figure, setting
from pdml.paper.reproduction import Claim, Progress, Reproduction
from pdml.paper.rivals import (
    gradient_descent,
    objective_perturbation,
    pdml_plans,
    pooled,
    task,
    zhang_zhu,
)
from pdml.paper.rivals.composition import Guarantee
from pdml.paper.rivals.task import Task
from pdml.train.engines.jobs import spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON = 1.0  # of labels on the device, and of labels and records against others
SEEDS = 10

PLANNED, AS_PAPER = "PDML planned", "PDML as in the paper"
FLOOR = "Larger class"  # learns nothing
NOBODY, OWN, CURATOR = "nobody", "server", "curator"
ALL = ("label_collector", "label_others", "features_others")  # the columns of `Guarantee`
LABELS, FROM_OTHERS = ALL[:2], ALL[1:]

# of a setting at a budget ε: weights, (d,) or one row per server
Train = Callable[[Task, Any, float], Array]
Prove = Callable[[Task, Any, float], Guarantee]


@dataclass(frozen=True)
class Rival:
    """A way to learn. Of its ``settings`` the one with the best mean accuracy is reported; PDML has
    none to choose from.
    """

    name: str
    trusts: str  # with true labels
    train: Train
    guarantee: Prove
    protects: tuple[str, ...]  # the columns in which it promises the budget
    settings: tuple[Any, ...] = (None,)


def _descent(name: str, protects: tuple[str, ...], settings: tuple[Any, ...]) -> Rival:
    train, guarantee = gradient_descent.descend, gradient_descent.guarantee
    return Rival(name, CURATOR, train, guarantee, protects, settings)


def _zhang_zhu(name: str, kind: str, flips: float) -> Rival:
    return _between_servers(
        name, zhang_zhu.train, zhang_zhu.guarantee, zhang_zhu.variants(kind, flips), flips
    )


def _planned(name: str, flips: float) -> Rival:
    return _between_servers(name, pdml_plans.planned, pdml_plans.planned_guarantee, (flips,), flips)


def _between_servers(
    name: str, train: Train, guarantee: Prove, settings: tuple[Any, ...], flips: float
) -> Rival:
    """With labels flipped on devices at ε = ``flips``; at ∞ they are not, and people trust their
    own server.
    """
    trusts, protects = (OWN, FROM_OTHERS) if isinf(flips) else (NOBODY, ALL)
    return Rival(name, trusts, train, guarantee, protects, settings)


RIVALS = (
    Rival(FLOOR, CURATOR, pooled.majority, pooled.nothing, ()),
    Rival("No privacy, pooled", CURATOR, pooled.plain, pooled.nothing, ()),
    Rival(
        "Chaudhuri et al.",
        CURATOR,
        objective_perturbation.chaudhuri,
        objective_perturbation.guarantee,
        FROM_OTHERS,
        objective_perturbation.RIDGES,
    ),
    _descent("DP-GD, records", FROM_OTHERS, gradient_descent.RECORDS),
    _descent("DP-GD, labels only", ("label_others",), gradient_descent.LABELS_ONLY),
    _zhang_zhu("Zhang-Zhu, dual", "dual", inf),
    _zhang_zhu("Zhang-Zhu, primal", "primal", inf),
    _planned("PDML planned, no flips", inf),
    Rival("Flip, pooled, corrected", NOBODY, pooled.corrected, pooled.flipped, LABELS),
    Rival("Flip, pooled, uncorrected", NOBODY, pooled.uncorrected, pooled.flipped, LABELS),
    Rival("Flip, each server alone", NOBODY, pooled.alone, pooled.unshared, ALL),
    _zhang_zhu("Flip + Zhang-Zhu, dual", "dual", EPSILON),
    _zhang_zhu("Flip + Zhang-Zhu, primal", "primal", EPSILON),
    _planned(PLANNED, EPSILON),
    Rival(
        AS_PAPER,
        NOBODY,
        pdml_plans.as_paper,
        pdml_plans.as_paper_guarantee,
        LABELS,
        (pdml_plans.PAPER,),
    ),
)
# the same trust, and the same ε in every column
EQUAL = ("Flip + Zhang-Zhu, dual", "Flip + Zhang-Zhu, primal")
CURATORS = ("Chaudhuri et al.", "DP-GD, records")


@dataclass(frozen=True)
class Score:
    """One rival on one set: its accuracies, one per seed, under its best setting, and what that
    proves.
    """

    rival: str
    trusts: str
    name: str
    setting: str
    accuracies: Array
    guarantee: Guarantee


def baselines(*, seeds: int | None, processes: int, progress: Progress) -> Reproduction:
    """Every rival on the seven sets of Table I and on Adult."""
    return reproduction(
        measure(task.NAMES, seeds=seeds or SEEDS, processes=processes, progress=progress)
    )


def measure(names: Sequence[str], *, seeds: int, processes: int, progress: Progress) -> list[Score]:
    """All rivals on these sets; the same splits and the same flipped labels for all."""
    # the largest set first: no core idles at the end
    jobs = [(name, seed) for name in reversed(names) for seed in range(seeds)]
    found = dict(
        zip(jobs, spread(_accuracies, [(job,) for job in jobs], processes, progress), strict=True)
    )
    results = []
    for name in names:
        given = task.load(name, 0)
        for k, rival in enumerate(RIVALS):
            table = np.array([found[name, seed][k] for seed in range(seeds)])  # (seeds, settings)
            best = int(table.mean(axis=0).argmax())
            chosen = rival.settings[best]
            proved = rival.guarantee(given, chosen, EPSILON)
            results.append(
                Score(rival.name, rival.trusts, name, _said(chosen), table[:, best], proved)
            )
    return results


def _accuracies(job: tuple[str, int]) -> list[list[float]]:
    """For every rival the accuracy of every setting; of several models their mean."""
    given = task.load(*job)
    with threadpool_limits(1):  # the matrices are small, and the cores are taken by other jobs
        return [
            [_accuracy(given, rival.train(given, how, EPSILON)) for how in rival.settings]
            for rival in RIVALS
        ]


def _accuracy(given: Task, weights: Array) -> float:
    return float(np.mean([given.accuracy(w) for w in np.atleast_2d(weights)]))


def reproduction(results: Sequence[Score]) -> Reproduction:
    """The table of these results."""
    seeds = len(results[0].accuracies)
    return Reproduction(
        name="baselines",
        title="Rivals at equal, proved privacy: accuracy on test data (%)",
        caption=(
            f"Mean over {seeds} random splits. ε at δ = {setting.DELTA:g}: of a label "
            "against whoever collects it (own), of a label "
            "(oth) and of features (feat) against everybody else, the worst of all sets, "
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
    "delta": lambda result: setting.DELTA,
    "setting": lambda result: result.setting,
}


def _said(chosen: Any) -> str:
    return "" if chosen is None else f"{chosen:g}" if isinstance(chosen, float) else str(chosen)


def claims(results: Sequence[Score]) -> tuple[Claim, ...]:
    """What the comparison is about."""
    return within_budget(results), ahead_of_equals(results), behind_curators(results)


def within_budget(results: Sequence[Score]) -> Claim:
    """Equal privacy means that nobody spends more than the budget where it promises to protect; a
    proof that is lost (∞) spends more.
    """
    promised = {rival.name: rival.protects for rival in RIVALS}
    spent = [getattr(r.guarantee, column) for r in results for column in promised[r.rival]]
    return Claim(
        text="wherever a rival promises protection (the paper's own settings: of labels "
        f"only), it proves ε <= {EPSILON:g}",
        holds=max(spent) <= EPSILON + 1e-9,
        measured=f"the largest ε is {max(spent):.6f}",
    )


def ahead_of_equals(results: Sequence[Score]) -> Claim:
    """Against rivals that prove the same against the same adversaries; on small sets either may
    win, and all are told.
    """
    means = _means(results)
    best = {name: max(EQUAL, key=lambda rival: means[rival, name]) for name in _names(results)}
    found = {(r.rival, r.name): r.accuracies for r in results}
    # seed by seed: both have the same splits
    leads = {name: found[PLANNED, name] - found[best[name], name] for name in best}
    error = float(leads["adult"].std(ddof=1)) / sqrt(len(leads["adult"]))
    return Claim(
        text=(
            "at the same trust and the same ε in every column PDML's plan is ahead of "
            "Zhang-Zhu on Adult, the paper's own set, "
            "by more than two standard errors"
        ),
        holds=float(leads["adult"].mean()) > 2 * error,
        measured=f"{', '.join(f'{name} {lead.mean():+.1f}' for name, lead in leads.items())}; "
        f"standard error on adult {error:.2f}",
    )


def behind_curators(results: Sequence[Score]) -> Claim:
    """What not trusting anybody costs."""
    means = _means(results)
    lost = {
        name: max(means[rival, name] for rival in CURATORS) - means[PLANNED, name]
        for name in _names(results)
    }
    return Claim(
        text="PDML pays for trusting nobody: a trusted curator at the same ε for records "
        "is ahead on average",
        holds=float(np.mean(list(lost.values()))) > 0,
        measured=", ".join(f"{name} {value:+.1f}" for name, value in lost.items()),
    )


def _names(results: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(r.name for r in results))


def _means(results: Sequence[Score]) -> dict[tuple[str, str], float]:
    return {(r.rival, r.name): float(r.accuracies.mean()) for r in results}


def summary(results: Sequence[Score]) -> tuple[tuple[str, ...], ...]:
    """One line per rival: whom it trusts, the worst ε over the sets, and its mean accuracy on
    each.
    """
    names, means = _names(results), _means(results)
    lines = [("rival", "trusts", "ε own", "ε oth", "ε feat", *(name[:4] for name in names))]
    for rival in RIVALS:
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
    return baselines_figure.draw(results, budget=EPSILON, highlighted=PLANNED, floor=FLOOR)
