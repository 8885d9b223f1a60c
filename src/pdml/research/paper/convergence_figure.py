"""Figure 3: the servers come to agree (`consensus_obs`), and the empirical risk settles above the
reference (`com_risks`); and the trainings on Adult that it shares with Figure 4: many curves, many
seeds, one pass over the records for all of them.

45,000 of Adult's people, 4,500 at each of the ten servers. What is common to the five figures and
not stated in the paper is `COMMON`: a, β, V and T; where Phase 2 is on, η is uniform in the ball of
radius R, as the paper's proof has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from pdml._types import Array, IntArray, Matrix
from pdml.accounting.ledger import Ledger
from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import labels, rows, steps
from pdml.numerics.admm.losses import LOGISTIC
from pdml.planning.search.planner import Sizes
from pdml.planning.search.planner import ledger as planned_ledger
from pdml.planning.training_plan import TrainingPlan
from pdml.research.datasets import adult
from pdml.research.paper import drawing, experiment
from pdml.research.paper.reproduction import Claim, Progress, Reproduction
from pdml.research.processes import run_parallel
from pdml.training import local_engine
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
    means = [labels.label_mean(server.matrix, server.codes, LOGISTIC) for server in true]
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
    loss, weight = LOGISTIC, regularization / len(servers)
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


if TYPE_CHECKING:
    from matplotlib.figure import Figure

PHASE1 = Curve(name="Phase 1 only", plan=SILENT)
BOTH = Curve(name="Phases 1 and 2", plan=COMMON)

VANISHED = 1e-3  # of the largest distance ever seen
NEAR = 0.01  # of the final risk: what "converged" means
STILL = 1e-3  # of the final risk: how much the last fifth of the rounds may still move it

SETTING = (
    f"Adult, {PEOPLE:,} people at ten servers with 13 links; labels at ε = "
    f"{EPSILON:g}; Phase 2: η uniform in the ball of "
    f"radius R = {COMMON.objective_bound:g}, θ(t) with V = {COMMON.noise_scale:g} and ρ = "
    f"{COMMON.noise_decay:g}; "
    f"a = {COMMON.regularization:g}, β = {COMMON.penalty:g}, {COMMON.rounds} rounds"
)


def fig3a(*, seeds: int | None, processes: int, progress: Progress) -> Reproduction:
    """The largest distance between two servers' classifiers, with and without Phase 2."""
    count = seeds or SEEDS
    curve_traces = measure([PHASE1, BOTH], seeds=count, processes=processes, progress=progress)
    columns = (
        "curve",
        "round",
        "distance_mean",
        "distance_sd",
        "distance_min",
        "distance_max",
        "norm_difference_mean",
    )
    rows = tuple(
        (name, t + 1, *_summary(traces.distance[:, t]), float(traces.norms[:, t].mean()))
        for name, traces in curve_traces.items()
        for t in range(traces.distance.shape[1])
    )
    return Reproduction(
        name="fig3a",
        title="Figure 3(a): the servers' classifiers come to agree",
        caption=(
            "Largest distance |w̃_i - w̃_l| between the classifiers that two servers sent, "
            "round by round, on a logarithmic scale: mean "
            f"over {count} seeds, pale: lowest to highest. {SETTING}. The paper speaks of "
            "distances between norms; the norm of the "
            "difference is never smaller, and the CSV has both."
        ),
        columns=columns,
        rows=rows,
        claims=(agreement(curve_traces),),
        draw=lambda: _draw_distances(curve_traces),
    )


def agreement(curve_traces: dict[str, Traces]) -> Claim:
    """Both distances converge to 0."""
    left = {
        name: traces.distance[:, -1] / traces.distance.max(axis=1)
        for name, traces in curve_traces.items()
    }
    remainder = "; ".join(
        f"{name}: {curve_traces[name].distance[:, -1].max():.1e} (from "
        f"{curve_traces[name].distance.max():.2f})"
        for name in left
    )
    return Claim(
        text=f"both distances go to 0: after the last round at most {VANISHED:g} of the "
        "largest is left, in every seed",
        holds=all(bool((share <= VANISHED).all()) for share in left.values()),
        measured=f"largest distance left, {remainder}",
    )


def fig3b(*, seeds: int | None, processes: int, progress: Progress) -> Reproduction:
    """Empirical risk round by round against the reference of general ADMM on the original data."""
    count = seeds or SEEDS
    curve_traces = measure(
        [REFERENCE, PHASE1, BOTH], seeds=count, processes=processes, progress=progress
    )
    columns = ("curve", "round", "risk_mean", "risk_sd", "risk_min", "risk_max")
    rows = tuple(
        (name, t + 1, *_summary(traces.risk[:, t]))
        for name, traces in curve_traces.items()
        for t in range(traces.risk.shape[1])
    )
    return Reproduction(
        name="fig3b",
        title="Figure 3(b): the empirical risk settles above the reference",
        caption=(
            "Empirical risk on the true labels (the paper's original objective divided by "
            "n, every server's own release on its own "
            f"records): mean over {count} seeds, pale: lowest to highest. Dashed: where "
            f"general ADMM on the original data ends. {SETTING}."
        ),
        columns=columns,
        rows=rows,
        claims=(above(curve_traces), slower(curve_traces), still(curve_traces)),
        draw=lambda: _draw_risks(curve_traces),
    )


def above(curve_traces: dict[str, Traces]) -> Claim:
    """Neither private training reaches the reference, which is the minimum: what can fail is the
    order of the two.
    """
    reference = curve_traces[REFERENCE.name].risk[:, -1]
    gaps = {
        curve.name: curve_traces[curve.name].risk[:, -1] - reference for curve in (PHASE1, BOTH)
    }
    return Claim(
        text="neither private training reaches the reference risk, and Phase 2 ends "
        "farther above it than Phase 1, in every seed",
        holds=bool((gaps[PHASE1.name] > 0).all() and (gaps[BOTH.name] > gaps[PHASE1.name]).all()),
        measured=f"reference {reference.mean():.5f}; "
        + "; ".join(
            f"{name}: above by {gap.mean():.5f} ± {_sd(gap):.5f}" for name, gap in gaps.items()
        ),
    )


def slower(curve_traces: dict[str, Traces]) -> Claim:
    """Phase 2 makes convergence take longer."""
    rounds = {
        c.name: find_convergence_round(
            curve_traces[c.name].risk, curve_traces[c.name].risk[:, -1], NEAR
        )
        for c in (PHASE1, BOTH)
    }
    return Claim(
        text=f"Phase 2 lengthens convergence (rounds until the risk stays within {NEAR:.0%} "
        "of its last value), in every seed",
        holds=bool((rounds[BOTH.name] > rounds[PHASE1.name]).all()),
        measured="; ".join(f"{name}: {r.mean():.1f} rounds" for name, r in rounds.items()),
    )


def still(curve_traces: dict[str, Traces]) -> Claim:
    """The noise does not keep ADMM from converging."""
    moved = {}
    for curve in (PHASE1, BOTH):
        end = curve_traces[curve.name].risk[
            :, -max(1, curve_traces[curve.name].risk.shape[1] // 5) :
        ]
        moved[curve.name] = float((np.ptp(end, axis=1) / end[:, -1]).max())
    return Claim(
        text="both converge: the last fifth of the rounds moves the risk by at most "
        f"{STILL:.1%}, in every seed",
        holds=all(value <= STILL for value in moved.values()),
        measured="; ".join(f"{name}: {value:.1e}" for name, value in moved.items()),
    )


def _summary(values: Array) -> tuple[float, float, float, float]:
    return float(values.mean()), _sd(values), float(values.min()), float(values.max())


def _sd(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _draw_distances(curve_traces: dict[str, Traces]) -> "Figure":
    names = [("Round", "Largest distance between two servers' classifiers")]
    with drawing.plots("fig3a", "Servers come to agree, with and without Phase 2", names) as (
        figure,
        (axes,),
    ):
        for curve, colour in zip((PHASE1, BOTH), drawing.SERIES, strict=True):
            distance = curve_traces[curve.name].distance
            marks = {"marker": "o", "markevery": 10, "markersize": 5} if curve is PHASE1 else {}
            drawing.band(
                axes, np.arange(1, distance.shape[1] + 1), distance, colour, curve.name, **marks
            )
        axes.set_yscale("log")
        axes.set_xlim(0, distance.shape[1])
        drawing.legend(figure)
        return figure


def _draw_risks(curve_traces: dict[str, Traces]) -> "Figure":
    level = curve_traces[REFERENCE.name].risk[:, -1:]
    names = [
        ("Round", "Empirical risk per server"),
        ("Round", "The same above the reference, logarithmic"),
    ]
    title = "Private training converges, a little above the reference"
    with drawing.plots("fig3b", title, names, size=(10, 4.5)) as (figure, (left, right)):
        for curve, colour in zip((PHASE1, BOTH), drawing.SERIES, strict=True):
            risk = curve_traces[curve.name].risk
            rounds = np.arange(1, risk.shape[1] + 1)
            drawing.band(left, rounds, risk, colour, curve.name)
            drawing.band(right, rounds, np.where(risk > level, risk - level, np.nan), colour, "_")
        drawing.reference(left, float(level.mean()), "reference: ADMM on the original data")
        right.set_yscale("log")
        for axes in (left, right):
            axes.set_xlim(0, rounds[-1])
        drawing.legend(figure)
        return figure
