"""Noisy gradient descent by a trusted curator: DP-SGD (Abadi et al. 2016) with the whole data set
as its batch.

w ← w - s·(∇J(w) + N(0, σ²)), T times. A logistic gradient has norm at most |x| <= 1, so nothing
need be clipped; T steps are one Gaussian mechanism with μ = √T·D/σ. A full batch needs no account
of sampling, and on data of this size it is no slower.

- ``records``: D = 2/m, a record replaced by any other.
- ``labels``: D = 1/m, one label flipped; features are published as good as plain. Label-DP by
  gradient descent makes little sense for this loss: the label enters linearly, so that noise on one
  vector (the label mean), once, does for all steps. It is here as a yardstick.
"""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from pdml._types import Array
from pdml.accounting.profiles import epsilon_at, gaussian_mu, gaussian_profile
from pdml.numerics.admm import labels
from pdml.research.baselines.composition import Guarantee
from pdml.research.baselines.task import LOSS, Task
from pdml.research.paper.experiment import DELTA

RIDGE = 1e-3
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


def guarantee(task: Task, how: Descent, epsilon: float) -> Guarantee:
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
