"""PDML itself: the plan that its planner proposes for the budget, and the paper's settings as they
stand.
"""

from dataclasses import replace
from functools import cache
from math import isinf

import numpy as np

from pdml._types import Array
from pdml.mechanisms.randomness import Simulated
from pdml.paper import setting
from pdml.paper.rivals.composition import Guarantee
from pdml.paper.rivals.task import Task
from pdml.plan import planner
from pdml.plan.planner import Budget, Sizes
from pdml.plan.training_plan import TrainingPlan
from pdml.train.engines import local

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


@cache
def proposed(sizes: Sizes, epsilon: float) -> TrainingPlan:
    """The planner's plan for features and labels at (ε, δ) against other servers; its synthetic
    population never sees the data.
    """
    budget = Budget(
        features_epsilon=epsilon,
        features_delta=setting.DELTA,
        labels_epsilon=epsilon,
        labels_delta=setting.DELTA,
    )
    return planner.propose(budget, sizes, setting.graph(), method="rounds").plan


def planned(task: Task, label_epsilon: float, epsilon: float) -> Array:
    return _trained(task, _plan(task, label_epsilon, epsilon), label_epsilon)


def planned_guarantee(task: Task, label_epsilon: float, epsilon: float) -> Guarantee:
    return _guarantee(task, _plan(task, label_epsilon, epsilon), label_epsilon)


def as_paper(task: Task, plan: TrainingPlan, epsilon: float) -> Array:
    return _trained(task, plan, epsilon)


def as_paper_guarantee(task: Task, plan: TrainingPlan, epsilon: float) -> Guarantee:
    return _guarantee(task, plan, epsilon)


def _plan(task: Task, label_epsilon: float, epsilon: float) -> TrainingPlan:
    return proposed(task.sizes(UNFLIPPED if isinf(label_epsilon) else label_epsilon), epsilon)


def _trained(task: Task, plan: TrainingPlan, label_epsilon: float) -> Array:
    """The mean over servers of their last releases, (d,)."""
    graph, source = setting.graph(), Simulated(task.seed)
    servers = setting.members(task.x, task.y, graph, label_epsilon, source)
    return np.asarray(
        local.train(graph, local.Run(plan, servers, source), threads=1).released.mean(axis=0)[0]
    )


def _guarantee(task: Task, plan: TrainingPlan, label_epsilon: float) -> Guarantee:
    book = planner.ledger(
        plan, replace(task.sizes(1.0), epsilon=label_epsilon), setting.graph(), setting.DELTA
    )
    return Guarantee(
        label_collector=book.line("label", "own server").epsilon,
        label_others=book.line("label", "other servers").epsilon,
        features_others=book.line("features", "other servers").epsilon,
    )
