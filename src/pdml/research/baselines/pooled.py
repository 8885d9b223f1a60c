"""Rivals that pool records, or share nothing at all.

- ``majority``: the majority-class baseline.
- ``plain``: one curator sees true labels and features; ridge 10⁻³, as for all without noise.
- ``corrected``: labels randomised on the device, then the paper's corrected loss on pooled records.
- ``uncorrected``: the same reports taken at face value: LP-1ST of Ghazi et al. (2021).
- ``alone``: each server trains on its own people's reports (corrected) and sends nothing.
- ``alone_from_sums``: the same by the estimator that turns exact sums into a model.

`descend` is noisy gradient descent by a trusted curator: DP-SGD (Abadi et al. 2016) with the whole
data set as its batch, w ← w - s·(∇J(w) + N(0, σ²)), T times. A logistic gradient has norm at most
|x| <= 1, so nothing need be clipped; T steps are one Gaussian mechanism with μ = √T·D/σ. A full
batch needs no account of sampling. D is 2/m for ``records``, one replaced by any other, and 1/m for
``labels``, one flipped, with features as good as plain: a yardstick, as the label enters linearly
and noise on the label mean, once, does for all steps.

`chaudhuri` is objective perturbation by a trusted curator: Chaudhuri, Monteleoni and Sarwate
(2011), Algorithm 2, w = argmin (1/m) Σ_j ℓ(y_j, w·x_j) + (Λ + Δ)/2 |w|² + b·w/m, where b has a
density proportional to exp(-ζ|b|).

Why it is private (their Theorem 9, for replaced records and linear models). b is a function of the
w that comes out, b(w) = -(Σ_j ∇ℓ_j(w) + m(Λ+Δ)w), so that w has density ν(b(w))·|det ∇b(w)|. A
replaced record moves b(w) by at most S, twice the largest slope: a factor e^(ζS). It changes ∇b by
two matrices of rank one, each of at most c = sup ℓ'' = 1/4, while ∇b is at least m(Λ+Δ): a factor
of at most (1 + c/(m(Λ+Δ)))². Both must fit into e^ε. The rank is what the proof stands on; Kifer,
Smith and Thakurta (2012) need more (Δ >= 2c/ε) for losses that are not linear in x. The proof is
about the exact minimiser, found here to a gradient of 10⁻⁹: in their favour.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import expm1, inf, log, sqrt

import numpy as np

from pdml._types import Array, Matrix
from pdml.accounting.profiles import epsilon_at, gaussian_mu, gaussian_profile
from pdml.numerics.admm import labels, rows
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import Noise, fit_sums
from pdml.research.baselines.task import LOSS, Guarantee, Task, regression
from pdml.research.paper.experiment import DELTA

RIDGE = 1e-3


def majority(task: Task, _: None, epsilon: float) -> Array:
    weights = np.zeros(task.width)
    weights[-1] = 1.0 if 2 * task.y.sum() > len(task.y) else -1.0  # the constant column
    return weights


def plain(task: Task, _: None, epsilon: float) -> Array:
    return regression(task.x, labels.label_mean(task.x, task.codes(inf), LOSS)[0], RIDGE)


def corrected(task: Task, _: None, epsilon: float) -> Array:
    return regression(task.x, labels.label_mean(task.x, task.codes(epsilon), LOSS)[0], RIDGE)


def uncorrected(task: Task, _: None, epsilon: float) -> Array:
    believed = labels.codes(task.reported(epsilon), inf, 2)
    return regression(task.x, labels.label_mean(task.x, believed, LOSS)[0], RIDGE)


def alone(task: Task, _: None, epsilon: float) -> Array:
    """One model per server, (n, d)."""
    return np.array(
        [
            regression(part, labels.label_mean(part, codes, LOSS)[0], RIDGE)
            for part, codes in _shares(task, epsilon)
        ]
    )


def alone_from_sums(task: Task, _: None, epsilon: float) -> Array:
    """One model per server, (n, d)."""
    still = Noise(label=0.0, square=0.0)
    return np.array(
        [
            fit_sums(statistics.exact(part, codes, LOSS), still, loss=LOSS).weights[0]
            for part, codes in _shares(task, epsilon)
        ]
    )


def _shares(task: Task, epsilon: float) -> Iterator[tuple[Matrix, Array]]:
    """What each server has been told: records and codes of reported labels."""
    codes = task.codes(epsilon)
    return ((rows.take(task.x, a, b), codes[a:b]) for a, b in task.cuts)


def nothing(task: Task, _: None, epsilon: float) -> Guarantee:
    return Guarantee(label_collector=inf, label_others=inf, features_others=inf)


def flipped(task: Task, _: None, epsilon: float) -> Guarantee:
    """Randomised on the device: ε against everybody. The features are in one place, and what is
    computed from them is plain.
    """
    return Guarantee(label_collector=epsilon, label_others=epsilon, features_others=inf)


def unshared(task: Task, _: None, epsilon: float) -> Guarantee:
    """Others see nothing, as long as no model leaves its server."""
    return Guarantee(label_collector=epsilon, label_others=0.0, features_others=0.0)


STEP = 4.0  # about 1/L, L = sup ℓ'' + ridge; any step below 2/L descends


@dataclass(frozen=True)
class Descent:
    """T steps; ``protects`` whole records, or labels only."""

    steps: int
    protects: str


STEPS = (10, 50, 200, 1000)
RECORDS = tuple(Descent(steps, "records") for steps in STEPS)
LABELS_ONLY = tuple(Descent(steps, "labels") for steps in STEPS)


def sensitivity(how: Descent, records: int) -> float:
    """How far one gradient of the mean loss moves."""
    shift = labels.record_shift if how.protects == "records" else labels.label_shift
    return shift(inf, 1.0, LOSS, 2) / records


def noise_scale(how: Descent, records: int, epsilon: float) -> float:
    """σ with which T steps are (ε, δ)-private."""
    return sqrt(how.steps) * sensitivity(how, records) / gaussian_mu(epsilon, DELTA)


def descend(task: Task, how: Descent, epsilon: float) -> Array:
    """The last iterate."""
    records, rng = len(task.y), task.generator(2)
    sigma = noise_scale(how, records, epsilon)
    mean = labels.label_mean(task.x, task.codes(inf), LOSS)[0]
    w = np.zeros(task.width)
    for _ in range(how.steps):
        slope = np.tanh((task.x @ w) / 2) / 2
        gradient = task.x.T @ slope / records - mean + RIDGE * w
        w = w - STEP * (gradient + sigma * rng.standard_normal(task.width))
    return w


def descent_guarantee(task: Task, how: Descent, epsilon: float) -> Guarantee:
    records = len(task.y)
    mu = (
        sqrt(how.steps)
        * sensitivity(Descent(how.steps, "labels"), records)
        / noise_scale(how, records, epsilon)
    )
    label = epsilon_at(gaussian_profile(mu), DELTA)
    return Guarantee(
        label_collector=inf,
        label_others=label,
        features_others=epsilon if how.protects == "records" else inf,
    )


RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)  # Λ


@dataclass(frozen=True)
class Perturbation:
    """How loud b must be: ζ, and the Δ added to the ridge where ε is too small for the determinant
    alone.
    """

    rate: float  # ζ: b has density ~ exp(-ζ|b|)
    extra: float  # Δ


def calibrate(epsilon: float, *, records: int, ridge: float, shift: float) -> Perturbation:
    """ε' = ε - 2 log(1 + c/(mΛ)) is left for the noise, ζ = ε'/S; where nothing is left, Δ makes
    the determinant cost ε/2.

    ``shift`` is S, how far a replaced record moves the sum of gradients: 2 for logistic loss and
    |x| <= 1.
    """
    curvature = LOSS.curvature_bound
    left, extra = epsilon - 2 * log(1 + curvature / (records * ridge)), 0.0
    if left <= 0:
        extra = curvature / (records * expm1(epsilon / 4)) - ridge
        left = epsilon / 2
    return Perturbation(rate=left / shift, extra=max(0.0, extra))


def radial_noise(rng: np.random.Generator, size: int, rate: float) -> Array:
    """A vector with density proportional to exp(-rate·|b|): a Gamma(size) length in a uniform
    direction.
    """
    direction = rng.standard_normal(size)
    return np.asarray(direction * (rng.gamma(size, 1 / rate) / np.linalg.norm(direction)))


def chaudhuri(task: Task, ridge: float, epsilon: float) -> Array:
    """The curator's published weights, with pure ε for every record."""
    records = len(task.y)
    noise = calibrate(
        epsilon, records=records, ridge=ridge, shift=labels.record_shift(np.inf, 1.0, LOSS, 2)
    )
    b = radial_noise(task.generator(1), task.width, noise.rate)
    mean = labels.label_mean(task.x, task.codes(np.inf), LOSS)[0]
    return regression(task.x, mean - b / records, ridge + noise.extra)


def perturbation_guarantee(task: Task, ridge: float, epsilon: float) -> Guarantee:
    """A flipped label leaves every ℓ'' as it is and moves b by 1: ζ alone."""
    noise = calibrate(
        epsilon,
        records=len(task.y),
        ridge=ridge,
        shift=labels.record_shift(np.inf, 1.0, LOSS, 2),
    )
    label = noise.rate * labels.label_shift(np.inf, 1.0, LOSS, 2)
    return Guarantee(label_collector=np.inf, label_others=label, features_others=epsilon)
