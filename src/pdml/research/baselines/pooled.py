"""Rivals without noise on what is computed: everything pooled, or nothing shared at all. Logistic
regression with ridge 10⁻³.

- ``majority``: always the larger class. Whoever stays below it has learnt nothing.
- ``plain``: one curator sees true labels and features.
- ``corrected``: labels randomised on the device, then the paper's corrected loss on pooled records:
  Phase 1 alone.
- ``uncorrected``: the same reports taken at face value. This is LP-1ST of Ghazi et al. (2021):
  randomised response, then plain training.
- ``alone``: each server trains on its own people's reports (corrected) and sends nothing to
  anybody.
- ``alone_from_sums``: the same reports, made the most of: their exact sums in the estimator that
  turns an exchange of sums into a model.
"""

from collections.abc import Iterator
from math import inf

import numpy as np

from pdml._types import Array, Matrix
from pdml.numerics.admm import labels, rows
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import Noise, fit_sums
from pdml.research.baselines.composition import Guarantee
from pdml.research.baselines.task import LOSS, Task, regression

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
