"""How far noise moves each weight of the model from totals, told by the same totals: no record is
read, nothing more is released (docs/guide/evaluate.md).

The law of what was added is known, so that

- in Q, the noise of the exchange and of the reports, it goes through the map that the model is
  once priors and scale are settled: w = k(G + r)q, Var w = k²(G + r)N(G + r)ᵀ, in closed form. To
  let fresh noise settle them anew would not do: where they have all but given the signal up, fresh
  noise would find them so too, and its spread would be as small as the weights;
- in S, it decides how columns are told apart. The totals are moved a step along fresh noise e and
  a step back, and the model made anew at both ends.
"""

from dataclasses import replace

import numpy as np

from pdml._types import Array
from pdml.numerics.admm.losses import Loss
from pdml.numerics.sums.fit import (
    NoisyMoments,
    SumsModel,
    fit_moments,
    moments_of,
    without_constant,
)
from pdml.numerics.sums.posterior import gain

_STEP, _PAIRS = 0.5, 8


def deviations(moments: NoisyMoments, model: SumsModel, loss: Loss) -> Array:
    """The standard deviation that noise gives every weight of a model.

    Guarantees
    ----------
    - A function of its arguments alone: the fresh noise is always the same.
    """
    return np.asarray(np.sqrt(_of_labels(moments, model, loss) + _of_squares(moments, loss)))


def _of_labels(moments: NoisyMoments, model: SumsModel, loss: Loss) -> Array:
    """Variances by noise in Q."""
    codes, width = moments.q.shape
    maps = gain(moments_of(moments, model.moments, loss))
    maps = maps + model.share * without_constant(np.eye(width), moments.intercept)
    noise = moments.label**2 * np.eye(width) + moments.report * model.moments
    centred = 1.0 if codes == 1 else 1 - 1 / codes
    return np.asarray(
        centred * model.scale**2 * np.einsum("cij,jk,cik->ci", maps, noise, maps, optimize=True)
    )


def _of_squares(moments: NoisyMoments, loss: Loss) -> Array:
    """Variances by noise in S."""
    rng, variances = np.random.default_rng(0), np.zeros_like(moments.q)
    for _ in range(_PAIRS if moments.square else 0):
        fresh = rng.normal(size=moments.s.shape)
        fresh = _STEP * moments.square * (fresh + fresh.T) / 2
        ends = (
            fit_moments(replace(moments, s=moments.s + side * fresh), loss).weights
            for side in (1, -1)
        )
        variances += (np.subtract(*ends) / (2 * _STEP)) ** 2
    return variances / _PAIRS
