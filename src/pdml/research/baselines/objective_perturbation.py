"""Objective perturbation by a trusted curator: Chaudhuri, Monteleoni and Sarwate (2011), Algorithm
2.

w = argmin (1/m) Σ_j ℓ(y_j, w·x_j) + (Λ + Δ)/2 |w|² + b·w/m, where b has a density proportional to
exp(-ζ|b|).

Why it is private (their Theorem 9, for replaced records and linear models). b is a function of the
w that comes out, b(w) = -(Σ_j ∇ℓ_j(w) + m(Λ+Δ)w), so that w has density ν(b(w))·|det ∇b(w)|. A
replaced record moves b(w) by at most S, twice the largest slope: a factor e^(ζS). It changes ∇b by
two matrices of rank one, each of at most c = sup ℓ'' = 1/4, while ∇b is at least m(Λ+Δ): a factor
of at most (1 + c/(m(Λ+Δ)))². Both must fit into e^ε. The rank is what the proof stands on; Kifer,
Smith and Thakurta (2012) need more (Δ >= 2c/ε) for losses that are not linear in x, which is not
the case here.

The proof is about the exact minimiser. Here it is found to a gradient of 10⁻⁹, and that error is
not counted: in their favour.
"""

from dataclasses import dataclass
from math import expm1, log

import numpy as np

from pdml._types import Array
from pdml.numerics.admm import labels
from pdml.research.baselines.composition import Guarantee
from pdml.research.baselines.task import LOSS, Task, regression

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


def guarantee(task: Task, ridge: float, epsilon: float) -> Guarantee:
    """A flipped label leaves every ℓ'' as it is and moves b by 1: ζ alone."""
    noise = calibrate(
        epsilon,
        records=len(task.y),
        ridge=ridge,
        shift=labels.record_shift(np.inf, 1.0, LOSS, 2),
    )
    label = noise.rate * labels.label_shift(np.inf, 1.0, LOSS, 2)
    return Guarantee(label_collector=np.inf, label_others=label, features_others=epsilon)
