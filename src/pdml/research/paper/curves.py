"""Trainings on Adult as the paper's Figures 3 and 4 need them: many curves, many seeds, one pass
over the records for all of them.

45,000 of Adult's people, 4,500 at each of the ten servers. What is common to the five figures and
not stated in the paper is `COMMON`: a, β, V and T; where Phase 2 is on, η is uniform in the ball of
radius R, as the paper's proof has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf

import numpy as np

from pdml._types import Array, IntArray, Matrix
from pdml.accounting.ledger import Ledger
from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import labels, rows, steps
from pdml.numerics.admm.losses import binary_loss
from pdml.planning.search.planner import Sizes
from pdml.planning.search.planner import ledger as planned_ledger
from pdml.planning.training_plan import TrainingPlan
from pdml.research.datasets import adult
from pdml.research.paper import experiment
from pdml.research.paper.reproduction import Progress
from pdml.training import local_engine
from pdml.training.processes import run_parallel
from pdml.training.server import Server

PEOPLE = 45_000
SEEDS = 10  # repetitions of a figure unless told otherwise

COMMON = TrainingPlan(
    rounds=150,
    penalty=0.1,
    regularization=1.0,
    objective_bound=1.0,
    objective_noise="uniform_ball",
    noise_scale=0.2,
    noise_decay=0.8,
    tolerance=1e-10,  # far below the distances shown, which else would end at the solver's
)
SILENT = replace(COMMON, objective_bound=0.0, noise_scale=0.0)  # general ADMM: neither η nor θ
EPSILON = 1.0


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One training of a figure: its plan, and the ε of its labels (∞: the true labels)."""

    name: str
    plan: TrainingPlan
    epsilon: float = EPSILON


REFERENCE = Curve(name="reference", plan=SILENT, epsilon=inf)


@dataclass(frozen=True)
class Traces:
    """What one curve did, seed by seed; every field is (seeds, rounds observed)."""

    # J({w̃_i})/n of the paper's original_objective: true labels, each server's own release on its
    # own records
    risk: Array
    distance: Array  # the largest |w̃_i - w̃_l|
    norms: Array  # the largest ||w̃_i| - |w̃_l||


def measure(
    curves: Sequence[Curve],
    *,
    seeds: int,
    processes: int,
    progress: Progress,
    every_round: bool = True,
    people: int = PEOPLE,
) -> dict[str, Traces]:
    """Every curve with seeds 0, 1, ...: labels, η and θ are drawn anew, records and graph stay;
    without ``every_round``, the last one.
    """
    work = partial(_measure_seed, curves=tuple(curves), every_round=every_round, people=people)
    seed_results = run_parallel(work, [(seed,) for seed in range(seeds)], processes, progress)
    stacked = np.array(seed_results)  # (seeds, curves, 3, rounds)
    return {curve.name: Traces(*stacked[:, k].swapaxes(0, 1)) for k, curve in enumerate(curves)}


def _measure_seed(seed: int, *, curves: tuple[Curve, ...], every_round: bool, people: int) -> Array:
    joined, source = experiment.graph(), Simulated(seed)
    x, y = _records(people)
    teams = experiment.teams(x, y, joined, [inf, *(curve.epsilon for curve in curves)], source)
    true = teams[inf]
    runs = [local_engine.Run(curve.plan, teams[curve.epsilon], source) for curve in curves]
    means = [
        labels.label_mean(server.matrix, server.codes, binary_loss("logistic")) for server in true
    ]
    rounds = curves[0].plan.rounds
    observations: list[Array] = []

    def observe(t: int, released: Array, _: Array) -> None:
        if every_round or t == rounds:
            lengths = np.linalg.norm(released, axis=(2, 3))
            risk = _risk(true, means, curves[0].plan.regularization, released)
            observations.append(
                np.array([risk, local_engine.diameters(released), np.ptp(lengths, axis=1)])
            )

    local_engine.sweep(joined, runs, observe=observe, threads=1)
    return np.array(observations).transpose(2, 1, 0)


@cache
def _records(people: int) -> tuple[Matrix, IntArray]:
    """The first ``people`` of a fixed random order of Adult; rows with a constant column, of norm
    at most 1.
    """
    raw = adult.load()
    x, y = experiment.shuffled(
        experiment.bounded(adult.unit_rows(raw)), (raw.y > 0).astype(np.int64), 0
    )
    return rows.as_rows(x[:people]), y[:people]


def _risk(
    servers: Sequence[Server], means: Sequence[Array], regularization: float, released: Array
) -> Array:
    """J({w_i})/n for releases (runs, n, C, d): the mean over servers of (1/m_i) Σ_j ℓ(y, w_i·x) +
    (a/n)|w_i|²/2.
    """
    loss, weight = binary_loss("logistic"), regularization / len(servers)
    risks = [
        steps.risk(s.matrix, loss, q, weight, released[:, i])
        for i, (s, q) in enumerate(zip(servers, means, strict=True))
    ]
    return np.asarray(np.mean(risks, axis=0))


def ledger(curve: Curve, people: int = PEOPLE) -> Ledger:
    """Who learns what from this curve's training: public settings only."""
    joined = experiment.graph()
    sizes = Sizes(
        records=(people // joined.n,) * joined.n, width=adult.COLUMNS + 1, epsilon=curve.epsilon
    )
    return planned_ledger(curve.plan, sizes, joined, experiment.DELTA)


def find_convergence_round(risk: Array, limit: Array, share: float) -> IntArray:
    """The first round from which a curve stays within ``share`` of its limit, per seed; one past
    the last if it does not.

    ``risk`` is (seeds, rounds), ``limit`` (seeds,).
    """
    outside = np.abs(risk - limit[:, None]) > share * np.abs(limit)[:, None]
    # the last round outside, counted from 1
    last = risk.shape[1] - np.argmax(outside[:, ::-1], axis=1)
    return np.where(outside.any(axis=1), last, 0) + 1
