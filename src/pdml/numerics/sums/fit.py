"""From noisy totals to a model: the one function that turns (Q, S), their noise levels and public
sizes into weights (docs/concepts/sums.md).

Everything here is post-processing of what was released: it may be repeated and changed at will, and
costs no privacy.

1. S/V without its noise (`numerics.sums.denoise`), then the posterior of the linear model β
   (`numerics.sums.posterior`).
2. A share of Q's own direction is added, as large as the noise of S is beside S itself: where S
   tells little, its leading directions are known worse than Q's, and β took them for exact.
3. Scale and offset (`numerics.sums.scale_offset`): β predicts labels as a linear function. The loss
itself,
   minimised along that direction on Gaussian margins with the moments found, gives weights whose
   probabilities mean something.
"""

from dataclasses import dataclass, replace
from math import hypot, inf, sqrt

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import Loss
from pdml.numerics.sums import denoise, scale_offset
from pdml.numerics.sums.posterior import Moments, posterior
from pdml.numerics.sums.statistics import Sums

_SHARE = 0.6  # of Q's direction, where noise is as large as S


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of the noise in totals: ``label`` of every entry of Q, ``square`` of S's
    diagonal (S is symmetric, and ``square``/√2 beside the diagonal). ``coded``: V times the
    variance of what people's own coins leave in S/V (`numerics.coded_rows.variance`).
    """

    label: float
    square: float
    coded: float = 0.0

    def __post_init__(self) -> None:
        _validate.real("label", self.label, low=0, high=1e300)
        _validate.real("square", self.square, low=0, high=1e300)
        _validate.real("coded", self.coded, low=0, high=1.0)


@dataclass(frozen=True, kw_only=True)
class NoisyMoments:
    """Totals per record, in units of rows with norm <= 1, and the deviations of what was added."""

    q: Array  # (C, d): Q/V
    s: Array  # (d, d): S/V
    label: float  # deviation of privacy noise in every entry of q
    square: float  # of S's diagonal
    report: float  # the labels' own noise in q has the covariance report·S
    intercept: bool = True  # whether the last column is the constant one
    constant: float = 0.0  # that of a typical row; 0 where nothing is known of it


@dataclass(frozen=True, kw_only=True)
class SumsModel:
    """What the totals tell: the model, and the beliefs it was made of (in units of rows with norm
    <= 1, per record).
    """

    weights: Array  # (C, d): margins are weights @ x
    moments: Array  # (d, d): S/V without its noise
    linear: Array  # (C, d): β, Q/V = S/V β
    share: float  # of Q/V itself, beside β, in the direction of the weights
    scale: float  # of that direction, in all columns but the constant one


def fit_sums(
    totals: Sums,
    noise: Noise,
    *,
    loss: Loss,
    norm_bound: float = 1.0,
    intercept: bool = True,
    constant: float = 0.0,
) -> SumsModel:
    """The model that noisy totals tell best.

    Guarantees
    ----------
    - A function of its arguments alone: the same totals give the same weights.
    - Columns other than the last may come in any order.
    - Without noise and with growing V, β tends to S⁻¹Q, and for features with elliptical
      distribution the weights tend to the minimiser of the loss.
    """
    moments = normalise_totals(
        totals, noise, loss=loss, norm_bound=norm_bound, intercept=intercept, constant=constant
    )
    model = fit_moments(moments, loss)
    return replace(model, weights=model.weights / norm_bound)


def normalise_totals(
    totals: Sums,
    noise: Noise,
    *,
    loss: Loss,
    norm_bound: float = 1.0,
    intercept: bool = True,
    constant: float = 0.0,
) -> NoisyMoments:
    """Totals as `fit_moments` takes them; parameters as in `fit_sums`."""
    _check(totals, norm_bound)
    size, codes = totals.size * norm_bound, len(totals.label_sum)
    return NoisyMoments(
        q=totals.label_sum / size,
        s=totals.square_sum / (size * norm_bound),
        label=noise.label / size,
        square=hypot(noise.square / (size * norm_bound), sqrt(noise.coded / totals.size)),
        report=labels.code_variance(inf, loss, max(2, codes)) / totals.size,  # 1/κ² of κ²
        intercept=intercept,
        constant=constant,
    )


def fit_moments(moments: NoisyMoments, loss: Loss) -> SumsModel:
    """`fit_sums` for moments per record, of rows with norm <= 1."""
    s = denoise.estimate_moments(
        moments.s, moments.square, intercept=moments.intercept, constant=moments.constant
    )
    label_moments = moments_of(moments, s, loss)
    q, linear = label_moments.q, posterior(label_moments)
    doubt = min(1.0, denoise.radius(len(s), moments.square) / float(label_moments.values[-1]))
    share = _share(linear, q, s, moments.intercept) * _SHARE * doubt
    direction = without_constant(linear + share * q, moments.intercept)
    scale, offsets = scale_offset.fit_scale_and_offset(
        _compute_margin_moments(direction, linear, q, s, moments), loss
    )
    weights = scale * direction
    if moments.intercept:
        weights[:, -1] = offsets / np.sqrt(s[-1, -1])
    return SumsModel(weights=weights, moments=s, linear=linear, share=share, scale=scale)


def _compute_margin_moments(
    direction: Array, linear: Array, q: Array, s: Array, moments: NoisyMoments
) -> scale_offset.MarginMoments:
    """What totals tell of margins along directions without the constant column, which is taken for
    the same in every row.
    """
    unit = float(np.sqrt(s[-1, -1]))
    constant = s[:, -1] / unit if moments.intercept else np.zeros(len(s))
    centred, mean = s - np.outer(constant, constant), direction @ constant
    offsets = linear[:, -1] * unit if moments.intercept else np.zeros(len(linear))
    return scale_offset.MarginMoments(
        mean=mean,
        covariance=direction @ centred @ direction.T,
        noisy=float(np.sum((direction @ moments.s) * direction) - mean @ mean),
        doubt=moments.square * float(np.linalg.norm(direction.T @ direction)),
        shared=float(np.sum((linear @ centred) * direction)),
        classes=q[:, -1] / unit,
        constant=offsets,
        believed=linear @ constant,
        blur=hypot(moments.label / unit, sqrt(moments.report)),
        offset=moments.intercept,
    )


def moments_of(moments: NoisyMoments, s: Array, loss: Loss) -> Moments:
    """What `posterior` takes, of moments whose S without noise is ``s``."""
    q = (
        moments.q if len(moments.q) == 1 else moments.q - moments.q.mean(axis=0)
    )  # codes add up to 1
    values, vectors = np.linalg.eigh(s)
    return Moments(
        q=q,
        values=values,
        vectors=vectors,
        label=moments.label,
        report=moments.report,
        deviation=float(np.sqrt(labels.code_variance(inf, loss, max(2, len(q))))),
        intercept=moments.intercept,
    )


def _check(totals: Sums, norm_bound: float) -> None:
    _validate.real("norm_bound", norm_bound, low=0, high=1e12, open_low=True)
    _validate.real("size", totals.size, low=0, high=1e300, open_low=True)
    wide = (totals.width, totals.width)
    if totals.square_sum.shape != wide or totals.label_sum.shape[1:] != wide[:1]:
        raise InvalidInput(
            "totals must be Q (C, d) and S (d, d), got shapes "
            f"{totals.label_sum.shape} and {totals.square_sum.shape}",
            setting="totals",
        )
    if not (np.isfinite(totals.label_sum).all() and np.isfinite(totals.square_sum).all()):
        raise InvalidInput("totals must be finite numbers", setting="totals")


def _share(linear: Array, q: Array, s: Array, intercept: bool) -> float:
    """How much of q is as long as β, in all columns but the constant one."""
    parts = (without_constant(vectors, intercept) for vectors in (linear, q))
    mean, news = (float(np.sqrt(np.sum((part @ s) * part))) for part in parts)
    return mean / news if news else 0.0


def without_constant(rows: Array, intercept: bool) -> Array:
    """Rows with zeros in the constant column, if there is one."""
    columns = np.arange(rows.shape[-1]) < rows.shape[-1] - intercept
    return np.asarray(rows * columns)
