"""Accuracy against the privacy that is proved: the paper's spending, the planner's, and two
yardsticks.

Every set is split at random into training and test (the paper's test sizes), its rows get a
constant column and are shrunk to norm 1, and ten servers on one random graph train on labels
randomised with ε = 1. Columns:

- paper: V = 0.2, ρ = 0.8, T = 60, β = 0.1, the last iterate; the ledger says what that spends;
- planner: the plan proposed for exactly that spending (or for the strict budget), last iterate;
- flip: no Phase 2 at all: the pooled, label-corrected regression. No protection of features against
  other servers;
- Chaudhuri: objective perturbation (Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 2) by a trusted
  curator who sees everything: pure ε for whole records at the same ε, and no local randomisation at
  all.
"""

from dataclasses import replace
from math import isinf

import numpy as np
from rich.console import Console
from rich.table import Table

from pdml.mechanisms.randomness import Simulated
from pdml.paper import setting
from pdml.paper.rivals import objective_perturbation, pooled, task
from pdml.paper.setting import DELTA
from pdml.plan import planner
from pdml.plan.training_plan import TrainingPlan
from pdml.train.engines import local

EPSILON = 1.0
STRICT = planner.Budget(
    features_epsilon=1.0, features_delta=DELTA, labels_epsilon=EPSILON, labels_delta=DELTA
)
PAPER = TrainingPlan(
    rounds=60,
    penalty=0.1,
    regularization=0.01,
    objective_bound=0.0,
    noise_scale=0.2,
    noise_decay=0.8,
)
GRAPH = setting.graph()


def trained(plan, given, servers):
    """Accuracy of the last releases' average."""
    out = local.train(GRAPH, local.Run(plan, servers, Simulated(given.seed)))
    return given.accuracy(out.released.mean(axis=0))


def proved(plan, sizes):
    """(features ε, labels ε) against other servers at δ = 1e-6, from the ledger."""
    rows_ = planner.spent(plan, STRICT, sizes, GRAPH)
    return rows_[0].spent, rows_[1].spent


def measure(name, seeds):
    """What each plan provably spends on this set, the plans, and every accuracy, one per seed."""
    results, spent, plans = {}, {}, {}
    for seed in range(seeds):
        given = task.load(name, seed)
        servers = setting.members(given.x, given.y, GRAPH, EPSILON, Simulated(seed))
        if not plans:
            plans = _plans(given.sizes(EPSILON))
            spent = {kind: proved(plan, given.sizes(EPSILON)) for kind, plan in plans.items()}
        found = {
            "flip": pooled.corrected(given, None, EPSILON),
            "curator": objective_perturbation.chaudhuri(
                given, pooled.RIDGE, STRICT.features_epsilon
            ),
            "plain": pooled.plain(given, None, EPSILON),
            "majority": pooled.majority(given, None, EPSILON),
        }
        accuracies = {kind: given.accuracy(w) for kind, w in found.items()}
        for kind, plan in plans.items():
            accuracies[f"{kind}, last"] = trained(plan, given, servers)
        for kind, value in accuracies.items():
            results.setdefault(kind, []).append(value)
    return spent, plans, results


def _plans(sizes):
    """The paper's plan; the paper's made loud enough for the strict budget; the planner's for each
    of the two budgets.
    """
    features, labels_ = proved(PAPER, sizes)
    same = planner.Budget(
        features_epsilon=features, features_delta=DELTA, labels_epsilon=labels_, labels_delta=DELTA
    )
    return {
        "paper": PAPER,
        "planned as paper": planner.propose(same, sizes, GRAPH, method="rounds").plan,
        "paper, stopped": _stopped(PAPER, sizes, STRICT),
        "paper, louder": replace(
            PAPER, noise_scale=PAPER.noise_scale * _louder(PAPER, sizes, STRICT)
        ),
        "planned": planner.propose(STRICT, sizes, GRAPH, method="rounds").plan,
    }


def _stopped(plan, sizes, budget):
    """This schedule up to its last safe round; where not even the first is safe, one round made
    loud enough.
    """
    safe = planner.ledger(plan, sizes, GRAPH).last_safe_round(budget)
    if safe:
        return replace(plan, rounds=safe)
    one = replace(plan, rounds=1)
    return replace(one, noise_scale=one.noise_scale * _louder(one, sizes, budget))


def _louder(plan, sizes, budget):
    """The factor on V at which this schedule meets the budget for features."""
    low, high = 1.0, 1e8
    while high / low > 1.0001:
        middle = (low * high) ** 0.5
        spent = planner.spent(
            replace(plan, noise_scale=plan.noise_scale * middle), budget, sizes, GRAPH
        )[0].spent
        low, high = (low, middle) if spent <= budget.features_epsilon else (middle, high)
    return high


COLUMNS = (
    "plain",
    "flip",
    "curator",
    "paper, last",
    "planned as paper, last",
    "paper, stopped, last",
    "paper, louder, last",
    "planned, last",
    "majority",
)


def utility(seeds=5, names=task.NAMES):
    """Accuracy (mean ± sd over seeds) against proved ε, on the seven sets of Table I and on
    Adult.
    """
    table = Table(
        "set",
        "paper spends",
        "planned spends",
        *COLUMNS,
        title=f"Accuracy, {seeds} seeds; (features, labels) ε at δ = 1e-6",
    )
    for name in names:
        spent, _, results = measure(name, seeds)
        budgets = [
            "{} / {:.2f}".format("∞" if isinf(e) else f"{e:.3g}", label)
            for e, label in (spent["paper"], spent["planned"])
        ]
        table.add_row(
            name,
            *budgets,
            *(f"{np.mean(results[c]):.1f} ± {np.std(results[c], ddof=1):.1f}" for c in COLUMNS),
        )
    Console(width=220).print(table)


if __name__ == "__main__":
    utility()
