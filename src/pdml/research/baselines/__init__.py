"""Other ways to learn from the same people: each one, whom it trusts with true labels, and the
privacy that is proved for it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

from pdml._registry import Registry
from pdml._types import Array
from pdml.research.baselines import (
    pdml_plans,
    pooled,
    zhang_zhu,
)
from pdml.research.baselines.pdml_plans import PlanRequest
from pdml.research.baselines.task import Guarantee, Task

EPSILON = 1.0  # of labels on the device, and of labels and records against others

PLANNED, AS_PAPER = "PDML planned", "PDML as in the paper"
HALF, SINGLE = f"{PLANNED}, 5 collude", f"{PLANNED}, 1 colludes"
LOCAL_MODELS = f"{PLANNED}, local models"
FLOOR, PLAIN = "Larger class", "No privacy, pooled"  # learns nothing; hides nothing
ALONE = ("Flip, each server alone", "Flip, alone, from sums")
NO_TRUST, SERVER, CURATOR = "nobody", "server", "curator"
ALL = ("label_collector", "label_others", "features_others")  # the columns of `Guarantee`
LABELS, FROM_OTHERS = ALL[:2], ALL[1:]

# of a setting at a budget ε: weights, (d,) or one row per server
Train = Callable[[Task, Any, float], Array]
Prove = Callable[[Task, Any, float], Guarantee]


@dataclass(frozen=True)
class Baseline:
    """A way to learn, and what it proves.

    Parameters
    ----------
    name : str
        What tables and figures call it.
    trusts : str
        Who has the true labels: `NO_TRUST`, `SERVER` or `CURATOR`.
    train : callable
        (task, setting, budget) -> weights (d,), or one row for each server.
    guarantee : callable
        (task, setting, budget) -> `Guarantee`: the ε that its own proof gives.
    protects : tuple of str
        Fields of `Guarantee` in which it promises the budget.
    settings : tuple
        Of these the one with the best mean accuracy is reported; PDML has one only.
    """

    name: str
    trusts: str  # with true labels
    train: Train
    guarantee: Prove
    protects: tuple[str, ...]  # the columns in which it promises the budget
    settings: tuple[Any, ...] = (None,)


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


def _descent(name: str, protects: tuple[str, ...], settings: tuple[Any, ...]) -> Baseline:
    train, guarantee = pooled.descend, pooled.descent_guarantee
    return Baseline(name, CURATOR, train, guarantee, protects, settings)


def _zhang_zhu(name: str, kind: str, flips: float) -> Baseline:
    return _between_servers(
        name, zhang_zhu.train, zhang_zhu.guarantee, zhang_zhu.variants(kind, flips), flips
    )


def _planned(
    name: str, flips: float, *, colluding: int | None = None, local_models: bool = False
) -> Baseline:
    """By sums or rounds, as the planner chooses; local models need sums."""
    request = PlanRequest(flips, colluding, "sums" if local_models else None)
    train = pdml_plans.local_models if local_models else pdml_plans.planned
    return _between_servers(name, train, pdml_plans.planned_guarantee, (request,), flips)


def _between_servers(
    name: str, train: Train, guarantee: Prove, settings: tuple[Any, ...], flips: float
) -> Baseline:
    """With labels flipped on devices at ε = ``flips``; at ∞ they are not, and people trust their
    server.
    """
    trusts, protects = (SERVER, FROM_OTHERS) if isinf(flips) else (NO_TRUST, ALL)
    return Baseline(name, trusts, train, guarantee, protects, settings)


_BUILT_IN = (
    Baseline(FLOOR, CURATOR, pooled.majority, pooled.nothing, ()),
    Baseline(PLAIN, CURATOR, pooled.plain, pooled.nothing, ()),
    Baseline(
        "Chaudhuri et al.",
        CURATOR,
        pooled.chaudhuri,
        pooled.perturbation_guarantee,
        FROM_OTHERS,
        pooled.RIDGES,
    ),
    _descent("DP-GD, records", FROM_OTHERS, pooled.RECORDS),
    _descent("DP-GD, labels only", ("label_others",), pooled.LABELS_ONLY),
    _zhang_zhu("Zhang-Zhu, dual", "dual", inf),
    _zhang_zhu("Zhang-Zhu, primal", "primal", inf),
    _planned(f"{PLANNED}, no flips", inf),
    Baseline("Flip, pooled, corrected", NO_TRUST, pooled.corrected, pooled.flipped, LABELS),
    Baseline("Flip, pooled, uncorrected", NO_TRUST, pooled.uncorrected, pooled.flipped, LABELS),
    Baseline(ALONE[0], NO_TRUST, pooled.alone, pooled.unshared, ALL),
    Baseline(ALONE[1], NO_TRUST, pooled.alone_from_sums, pooled.unshared, ALL),
    _zhang_zhu("Flip + Zhang-Zhu, dual", "dual", EPSILON),
    _zhang_zhu("Flip + Zhang-Zhu, primal", "primal", EPSILON),
    _planned(PLANNED, EPSILON),
    _planned(HALF, EPSILON, colluding=5),
    _planned(SINGLE, EPSILON, colluding=1),
    _planned(LOCAL_MODELS, EPSILON, local_models=True),
    Baseline(
        AS_PAPER,
        NO_TRUST,
        pdml_plans.trained,
        pdml_plans.guarantee,
        LABELS,
        (pdml_plans.PAPER,),
    ),
)
BASELINES: Registry[Baseline] = Registry("baseline", Baseline, _BUILT_IN)
# the same trust, and the same ε in every column
EQUAL = ("Flip + Zhang-Zhu, dual", "Flip + Zhang-Zhu, primal")
CURATORS = ("Chaudhuri et al.", "DP-GD, records")


def register(baseline: Baseline) -> Baseline:
    """Make a baseline part of the comparison, in this process."""
    return BASELINES.register(baseline)
