"""Totals that judge their own model. A model judged by the totals it was made from looks better
than it is. But Gaussian noise of known size can be *split*: with fresh noise e of the same law,
totals + a·e and totals - e/a are independent. Models from the first are judged by the second,
without bias.

**Deviations of weights.** How far noise moves each weight of the model, by the same totals
(docs/guide/evaluate.md). The law of what was added is known, so that

- in Q, the noise of the exchange and of the reports, it goes through the map that the model is
  once priors and scale are settled: w = k(G + r)q, Var w = k²(G + r)N(G + r)ᵀ, in closed form. To
  let fresh noise settle them anew would not do: where they have all but given the signal up, fresh
  noise would find them so too, and its spread would be as small as the weights;
- in S, it decides how columns are told apart. The totals are moved a step along fresh noise e and
  a step back, and the model made anew at both ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

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

SPLITS = 6  # pairs that are averaged
VISIBLE_DEVIATIONS = 2.0  # deviations of noise from which the constant column can be seen
PART = 0.7  # a
# Chosen on synthetic populations, for 80% of true values within the intervals:
_INFLATION = 1.1  # of the deviations: a split's model is not quite the released one
_FEW = 15.0  # and more so with few records: by this many records' share
VARIANCE, SPREAD = 1.25, 0.4  # of margins, relative to the estimate that the model relied on
CENTRE = 0.2  # mean of margins, about the model's own estimate
_STEP, _PAIRS = 0.5, 8  # of `deviations`
ANY = 0.6  # the same, where the constant column cannot be seen


@dataclass(frozen=True, kw_only=True)
class Half:
    """A model of one half of the noise, and what the other half says."""

    weights: Array  # (C, d)
    q: Array  # (C, d)
    s: Array  # (d, d)


def noise_of_q(moments: NoisyMoments, s: Array) -> Array:
    """The covariance (d, d) of noise in each row of q; ``s``: S without its noise."""
    return np.asarray(moments.label**2 * np.eye(len(s)) + moments.report * s)


def halves(
    moments: NoisyMoments, model: SumsModel, loss: Loss, many: int, *, part: float = PART
) -> Iterator[Half]:
    """So many splits of what totals say, by noise that is always the same."""
    codes, width = moments.q.shape
    root, rng = np.linalg.cholesky(noise_of_q(moments, model.moments)), np.random.default_rng(0)
    louder = 1 + part**2
    for _ in range(many):
        label = _resize(rng.normal(size=(codes, width)), codes * width) @ root.T
        fresh = rng.normal(size=(width, width))
        fresh = _resize((fresh + fresh.T) / 2, width * (width + 1) / 2) * moments.square
        first = replace(
            moments,
            q=moments.q + part * label,
            s=moments.s + part * fresh,
            label=moments.label * np.sqrt(louder),
            square=moments.square * np.sqrt(louder),
            report=moments.report * louder,
        )
        yield Half(
            weights=fit_moments(first, loss).weights,
            q=moments.q - label / part,
            s=moments.s - fresh / part,
        )


def _resize(draws: Array, square: float) -> Array:
    """Draws with the sum of squares that is expected of them: of few columns, noise that happens
    to be short would find too little of what a model owes to its own noise."""
    return np.asarray(draws * np.sqrt(square / np.sum(draws**2)))


def deviation_factor(record: float) -> float:
    """By how much what splits say varies more than noise alone makes it; ``record``: one record's
    share of what totals tell."""
    return _INFLATION * (1 + _FEW * record)


def correlation_prior(correlations: Array) -> Array:
    """How likely each correlation of margins with classes is before anything is told: a model may
    have learnt nothing, or anything."""
    return np.asarray(4 * np.exp(-0.5 * (correlations / 0.1) ** 2) + (correlations > 0))


def deviations(
    moments: NoisyMoments, model: SumsModel, loss: Loss, along: Array | None = None
) -> Array:
    """The standard deviation that noise gives every weight of a model, or the margin of each row of
    ``along`` (m, d): (C, d) or (C, m).

    Guarantees
    ----------
    - A function of its arguments alone: the fresh noise is always the same.
    """
    rows = np.eye(moments.q.shape[1]) if along is None else along
    variances = _of_labels(moments, model, loss, rows) + _of_squares(moments, loss, rows)
    return np.asarray(np.sqrt(variances))


def _of_labels(moments: NoisyMoments, model: SumsModel, loss: Loss, rows: Array) -> Array:
    """Variances by noise in Q."""
    codes, width = moments.q.shape
    maps = gain(moments_of(moments, model.moments, loss))
    maps = rows @ (maps + model.share * without_constant(np.eye(width), moments.intercept))
    noise = moments.label**2 * np.eye(width) + moments.report * model.moments
    centred = 1.0 if codes == 1 else 1 - 1 / codes
    return np.asarray(
        centred * model.scale**2 * np.einsum("cij,jk,cik->ci", maps, noise, maps, optimize=True)
    )


def _of_squares(moments: NoisyMoments, loss: Loss, rows: Array) -> Array:
    """Variances by noise in S."""
    rng, variances = np.random.default_rng(0), np.zeros((len(moments.q), len(rows)))
    for _ in range(_PAIRS if moments.square else 0):
        fresh = rng.normal(size=moments.s.shape)
        fresh = _STEP * moments.square * (fresh + fresh.T) / 2
        ends = (
            fit_moments(replace(moments, s=moments.s + side * fresh), loss).weights @ rows.T
            for side in (1, -1)
        )
        variances += (np.subtract(*ends) / (2 * _STEP)) ** 2
    return variances / _PAIRS
