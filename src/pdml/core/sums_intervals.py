"""How far noise moves each weight of the model from totals, told by the same totals: no record is
read, nothing more is released (docs/evaluating.md).

The law of what was added to Q and S is known: Gaussian noise, and in Q the reports' own, whose
covariance S tells. So the totals are moved a step along fresh noise e and a step back, and the
model is made anew at both ends: (f(totals + h e) - f(totals - h e))/2h, squared and averaged over a
few e, is the variance that noise gives each weight where f is near a straight line.
"""

from dataclasses import replace

import numpy as np

from pdml._types import Array
from pdml.core.losses import Loss
from pdml.core.sums import Sums
from pdml.core.sums_model import Noise, fit_measured, measured

# Chosen on synthetic populations, for 95% of intervals of 1.96 deviations to hold what the weights
# are on average over noise. A smaller step sees less of how f bends.
_STEP = 0.5
_PAIRS, _FEWER, _WIDE = 16, 8, 50  # of more columns each model takes longer


def deviations(
    totals: Sums, noise: Noise, *, loss: Loss, norm_bound: float = 1.0, intercept: bool = True
) -> Array:
    """The standard deviation of every weight of `fit_sums`'s model over noise.

    Parameters
    ----------
    totals, noise, loss, norm_bound, intercept
        As in `fit_sums`.

    Returns
    -------
    array of shape (C, d)
        Over the noise of the exchange, the flips of the labels, and the labels' own chance.

    Guarantees
    ----------
    - A function of its arguments alone: the fresh noise is always the same.

    Examples
    --------
    >>> from pdml.core.losses import LOGISTIC
    >>> totals = Sums(label_sum=np.array([[30.0, 5.0]]), square_sum=50 * np.eye(2), size=100.0)
    >>> loud = deviations(totals, Noise(label=9.0, square=1.0), loss=LOGISTIC)
    >>> quiet = deviations(totals, Noise(label=1.0, square=1.0), loss=LOGISTIC)
    >>> bool((loud > quiet).all())
    True
    """
    given = measured(totals, noise, loss=loss, norm_bound=norm_bound, intercept=intercept)
    s, width = fit_measured(given, loss).moments, totals.width
    root = np.linalg.cholesky(given.label**2 * np.eye(width) + given.report * s)
    rng, squares = np.random.default_rng(0), np.zeros_like(given.q)
    pairs = _PAIRS if width <= _WIDE else _FEWER
    for _ in range(pairs):
        label = _STEP * rng.normal(size=given.q.shape) @ root.T
        fresh = rng.normal(size=(width, width))
        fresh = _STEP * given.square * (fresh + fresh.T) / 2
        ends = [
            fit_measured(replace(given, q=given.q + side * label, s=given.s + side * fresh), loss)
            for side in (1, -1)
        ]
        squares += ((ends[0].weights - ends[1].weights) / (2 * _STEP)) ** 2
    return np.asarray(np.sqrt(squares / pairs) / norm_bound)
