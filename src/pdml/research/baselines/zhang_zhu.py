"""Private ADMM between servers whose people trust them: Zhang and Zhu (2017), dynamic dual and
primal variable perturbation.

The same ADMM as PDML's Phase 2, but every round is protected by noise of its own with a pure
α-guarantee *for that round*, drawn from densities proportional to exp(-ζ|·|):

- ``dual``: the dual variable is perturbed before the primal step, so that server i sends the exact
  minimiser of its round's objective plus b·w/m_i. That is objective perturbation (`calibrate`) with
  the ridge a/n + 2βN_i.
- ``primal``: the minimiser is sent with noise added, ζ = α/D, D = (S/m_i + 2 tol)/(a/n + 2βN_i), as
  in PDML.

They stop there. A server's neighbours see all T rounds, so α is chosen here such that T of them,
composed as well as anybody can from pure α-guarantees (`task.repeated_profile`), have the ε
that is asked for. ``epsilon`` < ∞ runs the same on labels randomised on the device, with the
corrected loss: then servers need not be trusted with labels either, and all columns of the
comparison agree.

The factors are derived in this repository, from the densities above, and not taken from the paper.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from pdml._types import Array
from pdml.accounting.profiles import epsilon_at, joint_profile
from pdml.numerics.admm import labels, rows, steps
from pdml.numerics.admm.solver import PrimalSolver
from pdml.research.baselines.pooled import calibrate, radial_noise
from pdml.research.baselines.task import LOSS, Guarantee, Task, per_round, repeated_profile
from pdml.research.paper import experiment

WEIGHT = 1e-3  # a/n
TOLERANCE = 1e-9  # of the primal solves


@dataclass(frozen=True)
class Dynamic:
    """Which variable is perturbed, T, β, and the ε of the labels on the device (∞: the server
    sees the truth).
    """

    kind: str  # "dual" or "primal"
    rounds: int
    penalty: float
    epsilon: float = inf


def variants(kind: str, epsilon: float) -> tuple[Dynamic, ...]:
    """The settings tried; the best is reported."""
    return tuple(
        Dynamic(kind, rounds, penalty, epsilon)
        for rounds in (1, 4, 16)
        for penalty in (0.001, 0.01, 0.1, 1.0)
    )


@dataclass(frozen=True)
class RoundNoise:
    """One server's noise in every round: its rate ζ, what is added to the ridge, and the α that a
    flipped label alone costs.
    """

    rate: float
    extra: float
    label_alpha: float


def noise_for(how: Dynamic, *, degree: int, records: int, alpha: float) -> RoundNoise:
    """The noise with which one round of one server is α-private for whole records."""
    ridge = WEIGHT + 2 * how.penalty * degree
    shift = labels.record_shift(how.epsilon, 1.0, LOSS, 2)
    label = labels.label_shift(how.epsilon, 1.0, LOSS, 2)
    if how.kind == "dual":
        calibration = calibrate(alpha, records=records, ridge=ridge, shift=shift)
        return RoundNoise(calibration.rate, calibration.extra, label_alpha=calibration.rate * label)
    moved = (shift / records + 2 * TOLERANCE) / ridge
    return RoundNoise(
        alpha / moved,
        0.0,
        label_alpha=alpha * (label / records + 2 * TOLERANCE) / (shift / records + 2 * TOLERANCE),
    )


def train(task: Task, how: Dynamic, epsilon: float) -> Array:
    """The mean over servers of what they sent last, (d,)."""
    return np.asarray(released(task, how, epsilon).mean(axis=0))


def released(task: Task, how: Dynamic, epsilon: float) -> Array:
    """What every server sent last, (n, d)."""
    graph, rng = experiment.graph(), task.generator(3)
    alpha = per_round(epsilon, how.rounds)
    codes = task.codes(how.epsilon)
    degrees = graph.degrees.tolist()
    parts = [rows.take(task.x, a, b) for a, b in task.cuts]
    noises = [
        noise_for(how, degree=degrees[i], records=part.shape[0], alpha=alpha)
        for i, part in enumerate(parts)
    ]
    linear = np.array(
        [
            labels.label_mean(part, codes[a:b], LOSS)
            for part, (a, b) in zip(parts, task.cuts, strict=True)
        ]
    )
    solvers = [
        PrimalSolver(part, LOSS, WEIGHT + 2 * how.penalty * degrees[i] + noises[i].extra)
        for i, part in enumerate(parts)
    ]
    degree = np.asarray(degrees, dtype=float)[:, None, None]
    sent, dual = np.zeros_like(linear), np.zeros_like(linear)
    for _ in range(how.rounds):
        neighbour_sums = graph.sum_over_neighbours(sent)
        dual = steps.dual_step(dual, sent, neighbour_sums, degree=degree, penalty=how.penalty)
        target = steps.primal_target(
            linear, dual, sent, neighbour_sums, degree=degree, penalty=how.penalty
        )
        sent = np.empty_like(target)
        for i, noise in enumerate(noises):
            sample = radial_noise(rng, task.width, noise.rate)
            within = sample / parts[i].shape[0] if how.kind == "dual" else 0.0
            sent[i] = solvers[i].solve((target[i] - within)[None], TOLERANCE)[0][0] + (
                0.0 if how.kind == "dual" else sample
            )
    return sent[:, 0]


def guarantee(task: Task, how: Dynamic, epsilon: float) -> Guarantee:
    """Against all neighbours together, over all rounds; the worst server speaks for all."""
    alpha = per_round(epsilon, how.rounds)
    records = task.sizes(1.0).records
    worst = max(
        noise_for(how, degree=int(degree), records=m, alpha=alpha).label_alpha
        for degree, m in zip(experiment.graph().degrees, records, strict=True)
    )
    label = epsilon_at(
        joint_profile(how.epsilon, repeated_profile(worst, how.rounds)), experiment.DELTA
    )
    return Guarantee(label_collector=how.epsilon, label_others=label, features_others=epsilon)
