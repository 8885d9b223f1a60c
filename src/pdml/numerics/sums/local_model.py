"""A server's local model: its own exact sums with the others' noisy ones, as far as its own reports
bear them out (docs/concepts/sums.md, "A local model").

Where organisations differ, the others' sums are of other people. So there are three candidates:

- *joint*: own and others' sums together (`numerics.sums.fit.fit_local_model`);
- *re-centred*: its margins z as a·z + b, where a and b minimise the loss of own reports with a
  ridge about (1, 0): another share of classes moves b, another slope a;
- *alone*: own exact sums.

Each is judged by own reports that it was not made from, in `FOLDS` parts, by the likelihood of
reports under randomised response, and weights are averaged by these likelihoods. Beforehand the
joint model is somewhat likelier than each of the others.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdml import _math
from pdml._types import Array, Matrix
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX, Loss
from pdml.numerics.coded_rows import Block
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import Noise, fit_local_model, fit_sums
from pdml.numerics.sums.statistics import Sums

FOLDS = 10
_SLOPE, _OFFSET = 0.5, 4.5  # twice the variances of a and b, in the loss of one report
_ALIKE = 1.0  # in favour of the joint model, beforehand: log odds
_STEPS = 50


def fit_by_own_reports(
    x: Matrix,
    codes: Array,
    others: Sums,
    noise: Noise,
    *,
    loss: Loss,
    norm_bound: float = 1.0,
    intercept: bool = True,
    constant: float = 0.0,
    blocks: Sequence[Block] = (),
    cap_weight: float = 1.0,
) -> Array:
    """Weights (C, d) of a local model, by a server's rows and codes and the others' sums.

    Guarantees
    ----------
    - Nothing is released: a function of what the server has and of what was released to all.
    - Without the two losses of classes, or with fewer than two records in a fold: the joint model.
    """
    parts = [
        statistics.exact(x[fold::FOLDS], codes[fold::FOLDS], loss, blocks, cap_weight=cap_weight)
        for fold in range(min(FOLDS, len(codes)))
    ]
    own = statistics.total(parts)

    def candidates(sums: Sums, rows: Matrix, reports: Array) -> Array:
        """(3, C, d): joint, re-centred and alone."""
        settings: dict[str, Any] = {"loss": loss, "norm_bound": norm_bound, "intercept": intercept}
        joint = fit_local_model(sums, others, noise, constant=constant, **settings).weights
        exact = Noise(label=0.0, square=0.0, coded=noise.coded)  # but for randomised answers
        alone = fit_sums(sums, exact, constant=constant, **settings).weights
        return np.stack([joint, _recentre(joint, rows, reports, loss, intercept), alone])

    if loss not in (LOGISTIC, SOFTMAX) or len(codes) < 2 * FOLDS:
        return np.asarray(candidates(own, x, codes)[0])
    likelihoods = np.array([_ALIKE, 0.0, 0.0])
    for fold, part in enumerate(parts):
        kept = np.arange(len(codes)) % FOLDS != fold
        rest = statistics.total([other for other in parts if other is not part])
        for k, weights in enumerate(candidates(rest, x[kept], codes[kept])):
            margins = np.asarray(x[~kept] @ weights.T)
            likelihoods[k] += _log_likelihood(margins, codes[~kept])
    chances = np.exp(likelihoods - likelihoods.max())
    models = candidates(own, x, codes)
    return np.asarray(np.einsum("k,kcd->cd", chances / chances.sum(), models))


def _log_likelihood(margins: Array, codes: Array) -> float:
    """Of reports: 1/κ of the model's chance, and else any class alike."""
    loud = statistics.loudness(codes)
    if codes.shape[1] == 1:
        chance = _math.expit(np.sign(codes[:, 0]) * margins[:, 0])
    else:
        chance = _math.softmax(margins, axis=1)[np.arange(len(codes)), codes.argmax(axis=1)]
    return float(np.sum(np.log((1 - 1 / loud) / max(2, codes.shape[1]) + chance / loud)))


def _recentre(weights: Array, x: Matrix, codes: Array, loss: Loss, intercept: bool) -> Array:
    """Weights whose margins are a·z + b, by Newton's steps; b is the constant column's."""
    margins, classes = np.asarray(x @ weights.T), len(weights)
    design = margins[:, :, None]
    if intercept:
        column = np.asarray(x[:, [-1]].todense() if hasattr(x, "todense") else x[:, [-1]])
        unit = float(column.mean())
        offsets = (column / unit)[:, :, None] * np.eye(classes)
        design = np.concatenate([design, offsets], axis=2)
    origin = np.zeros(design.shape[2])
    origin[0] = 1.0
    ridge = np.array([2 / _SLOPE, *np.full(len(origin) - 1, 2 / _OFFSET)])
    counted = statistics.report_weights(codes)[:, None]
    target = np.einsum("mcp,mc->p", design, counted * loss.label_weight * codes)

    def value(at: Array) -> float:
        fit = float(np.sum(counted[:, 0] * loss.value(design @ at))) - float(at @ target)
        return fit + float(ridge @ (at - origin) ** 2) / 2

    at = origin
    for _ in range(_STEPS):
        z = design @ at
        slope = np.einsum("mcp,mc->p", design, counted * loss.slope(z.copy()))
        curved = counted[:, :, None] * loss.curvature(z)
        bent = np.einsum("mcp,mcl,mlq->pq", design, curved, design) + np.diag(ridge)
        step = np.linalg.solve(bent, slope - target + ridge * (at - origin))
        while value(at - step) > value(at) and np.abs(step).max() > 1e-12:
            step /= 2
        at = at - step
        if np.abs(step).max() < 1e-9:
            break
    moved = at[0] * weights
    if intercept:
        moved[:, -1] += at[1:] / unit
    return np.asarray(moved)
