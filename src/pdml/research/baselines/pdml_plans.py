"""PDML itself: the plan that its planner chooses for the budget, by sums or by rounds, and the
paper's settings as they stand.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import isinf

import numpy as np

from pdml._types import Array
from pdml.accounting.kinds import Adversary, Data, Method
from pdml.mechanisms.integer_gaussian import Units
from pdml.mechanisms.randomness import Simulated
from pdml.planning.search import planner
from pdml.planning.search.planner import Budget, Proposal, Sizes
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.research.baselines.task import Guarantee, Task
from pdml.research.paper import experiment
from pdml.training import local_engine, sums_fit

PAPER = TrainingPlan(
    rounds=60,
    penalty=0.1,
    regularization=0.01,
    objective_bound=1.0,
    objective_noise="uniform_ball",
    noise_scale=0.2,
    noise_decay=0.8,
)
# stands for ε = ∞, which the planner does not take: e^-30 of the labels would be flipped
UNFLIPPED = 30.0


@dataclass(frozen=True)
class PlanRequest:
    """What the planner is asked for: labels flipped at ε = ``flips`` on the device (∞: the own
    server sees the truth), protection from ``colluding`` other servers (None: all of them), and by
    which ``method`` (None: its own choice).
    """

    flips: float
    colluding: int | None = None
    method: str | None = None


@cache
def proposed(sizes: Sizes, epsilon: float, colluding: int | None, method: str | None) -> Proposal:
    """The planner's answer for features and labels at (ε, δ) against other servers; its synthetic
    populations never see the data.
    """
    return planner.propose(budget(epsilon, colluding), sizes, experiment.graph(), method=method)


def budget(epsilon: float, colluding: int | None) -> Budget:
    """(ε, δ) for features and for labels."""
    return Budget(
        features_epsilon=epsilon,
        features_delta=experiment.DELTA,
        labels_epsilon=epsilon,
        labels_delta=experiment.DELTA,
        colluding=colluding,
    )


def answer(task: Task, request: PlanRequest, epsilon: float) -> Proposal:
    """`proposed` for the sizes of a task."""
    sizes = task.sizes(UNFLIPPED if isinf(request.flips) else request.flips)
    free = proposed(sizes, epsilon, request.colluding, None)
    if request.method in (None, free.plan.method):  # the same plan, which need not be sought again
        return free
    return proposed(sizes, epsilon, request.colluding, request.method)


def describe_plan(task: Task, request: PlanRequest, epsilon: float) -> str:
    """What the planner chose, in words."""
    plan = answer(task, request, epsilon).plan
    if plan.method == Method.SUMS:
        return f"sums, noise of Q {plan.label_noise:.3g}, of S {plan.square_noise:.3g}"
    return f"{plan.rounds} rounds, penalty {plan.penalty:g}"


def planned(task: Task, request: PlanRequest, epsilon: float) -> Array:
    return trained(task, answer(task, request, epsilon).plan, request.flips)


def planned_guarantee(task: Task, request: PlanRequest, epsilon: float) -> Guarantee:
    """Against as many servers as were asked for. Local models add nothing: they are not
    sent.
    """
    return guarantee(task, answer(task, request, epsilon).plan, request.flips, request.colluding)


def local_models(task: Task, request: PlanRequest, epsilon: float) -> Array:
    """What each server would keep for itself of an exchange of sums, (n, d)."""
    run = _run(task, answer(task, request, epsilon).plan, request.flips)
    return np.array(
        [kept[0] for kept in local_engine.exchange(run, local_models=True, threads=1).local_models]
    )


def exchange_sums(task: Task, plan: TrainingPlan, flips: float) -> tuple[Units, ServerSpec]:
    """The total of one exchange of sums, and a spec that it can be read with."""
    run = _run(task, plan, flips)
    return local_engine.exchange(run, threads=1).total, run.servers[0].spec


def trained(task: Task, plan: TrainingPlan, flips: float) -> Array:
    """The model of the total, or the mean over servers of their last releases, (d,)."""
    if plan.method == Method.SUMS:
        total, spec = exchange_sums(task, plan, flips)
        return np.asarray(sums_fit.weights(total, plan, spec)[0])
    done = local_engine.train(experiment.graph(), _run(task, plan, flips), threads=1)
    return np.asarray(done.released.mean(axis=0)[0])


def _run(task: Task, plan: TrainingPlan, flips: float) -> local_engine.Run:
    source = Simulated(task.seed)
    return local_engine.Run(
        plan, experiment.members(task.x, task.y, experiment.graph(), flips, source), source
    )


def guarantee(
    task: Task, plan: TrainingPlan, flips: float, colluding: int | None = None
) -> Guarantee:
    """By the ledger: the worst server's people, against ``colluding`` others (None: all)."""
    sizes = replace(task.sizes(1.0), epsilon=flips)
    book = planner.ledger(plan, sizes, experiment.graph(), experiment.DELTA)
    return Guarantee(
        label_collector=book.row(Data.LABEL, Adversary.OWN).epsilon,
        label_others=book.row(Data.LABEL, Adversary.OTHERS, colluding=colluding).epsilon,
        features_others=book.row(Data.FEATURES, Adversary.OTHERS, colluding=colluding).epsilon,
    )
