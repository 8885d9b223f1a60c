"""From noisy totals to a model: the one function that turns (Q, S), their noise levels and public
sizes into weights (docs/concepts/sums.md).

Everything here is post-processing of what was released: it may be repeated and changed at will, and
costs no privacy.

1. S/V without its noise (below), then the posterior of the linear model β
   (`numerics.sums.posterior`).
2. A share of Q's own direction is added, as large as the noise of S is beside S itself: where S
   tells little, its leading directions are known worse than Q's, and β took them for exact.
3. Scale and offset (`numerics.sums.posterior`): β predicts labels as a linear function. The loss
   itself, minimised along that direction on Gaussian margins with the moments found, gives weights
   whose probabilities mean something.

**Moments.** The second moments S/V behind a noisy sum of squares (docs/concepts/sums.md, "S
without its noise").

Privacy noise on S is a symmetric Gaussian matrix: deviation σ on the diagonal, σ/√2 beside it. Its
spectrum is a semicircle of radius R = √(2d)·σ, often wider than all of S. Three estimates, each
right about another kind of data, are averaged:

- *entrywise*: columns are declared one by one, so most pairs are nearly uncorrelated and a few are
  not: every entry shrunk by the posterior mean under a scale mixture of normals, whose weights the
  entries choose (empirical Bayes), none beyond what a correlation can be;
- *spiked*: a few common factors on top of the diagonal: eigenvalues x of S - diag beyond the edge
  become ±√(x² - R²), which is x times the squared overlap of its eigenvector with the truth;
- *rotated*: the same about a multiple of the identity, for data whose columns mean nothing.

All know that S is positive, that its trace is at most 1 (rows of norm <= 1), and whether the last
column is the constant one. Without noise each returns S. How large that constant is, an encoder
knows: among many columns its square is hidden by noise as any other, and an intercept in wrong
units is a wrong one.
"""

from dataclasses import dataclass, replace
from math import hypot, inf, sqrt

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import Loss
from pdml.numerics.sums.posterior import (
    MarginMoments,
    Moments,
    fit_scale_and_offset,
    fit_scale_and_shares,
    posterior,
)
from pdml.numerics.sums.statistics import Sums

_TYPICAL, _SPREAD = 0.8, 0.3  # of the trace: rows are clipped to norm 1, few stay much shorter
_FLOOR = 0.2  # of the mean eigenvalue: below it an inverse would amplify what was only estimated
_EDGE = 1.05  # in small matrices the largest eigenvalue of noise passes R a little
_NULL = 10.0  # entries that are known to be zero, for a prior learnt from few
_ROWS = 0.5  # of the constant's square: how far rows differ from a typical one
_LEAST = 1e-12  # of the trace: the variance of a column that is the same in all records
_SCALES = 2.0 ** -np.arange(8)
_QUANTILES = 512


def radius(width: int, stddev: float) -> float:
    """R = √(2d)·σ: the largest eigenvalue of the noise."""
    return float(np.sqrt(2 * width) * stddev)


def estimate_moments(
    noisy: Array, stddev: float, *, intercept: bool = True, constant: float = 0.0
) -> Array:
    """A positive definite estimate of S/V from its noisy version.

    Guarantees
    ----------
    - With stddev = 0 the result is ``noisy`` (up to rounding, if that is positive definite).
    - Any order of the columns but the last gives the same matrix in that order.
    """
    diagonal = _diagonal(noisy, stddev)
    floor = _floor(diagonal.sum(), len(noisy), stddev)
    if stddev == 0:  # all three return it
        return _positive(noisy, floor)
    by_columns = (
        _entrywise(noisy, diagonal, stddev, intercept),
        _spiked(noisy, diagonal, stddev),
    )
    parts = [*(_positive(part, floor) for part in by_columns), _rotated(noisy, stddev, floor)]
    estimate = np.asarray(sum(parts) / len(parts))
    return _with_constant(estimate, noisy, stddev, constant) if intercept and constant else estimate


def _with_constant(estimate: Array, noisy: Array, stddev: float, constant: float) -> Array:
    """The same with the constant's square as it is measured and as it is typical, weighted by
    their precisions; the column is scaled as a whole, so that the matrix stays positive."""
    typical, current = constant**2, float(estimate[-1, -1])
    trust = 1 / (1 + (stddev / (_ROWS * typical)) ** 2)
    square = max(typical + trust * (noisy[-1, -1] - typical), _FLOOR * min(typical, current))
    scale = np.append(np.ones(len(estimate) - 1), np.sqrt(square / current))
    return np.asarray(estimate * scale * scale[:, None])


def _floor(trace: float, width: int, stddev: float) -> float:
    """No eigenvalue below this: a share of the mean one, less where the noise is smaller."""
    mean = trace / width
    return float(max(_FLOOR * min(mean, radius(width, stddev)), 1e-9 * mean))


def _positive(matrix: Array, floor: float) -> Array:
    return _composed(*np.linalg.eigh(matrix), floor)


def _composed(values: Array, vectors: Array, floor: float = -np.inf) -> Array:
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def _trace(noisy: Array, stddev: float) -> float:
    """The noisy trace and what is typical, weighted by their precisions; never above 1."""
    width = len(noisy)
    noise, typical = 1 / max(width * stddev**2, 1e-18), 1 / _SPREAD**2
    mean = (noise * np.trace(noisy) + typical * _TYPICAL) / (noise + typical)
    return float(np.clip(mean, 1e-3, 1.0))


def _diagonal(noisy: Array, stddev: float) -> Array:
    """Column moments shrunk to their mean by how much they differ beyond noise."""
    diagonal, trace, width = np.diag(noisy), _trace(noisy, stddev), len(noisy)
    spread = max(float(diagonal.var()) - stddev**2 * (1 - 1 / width), 0.0)
    trust = spread / (spread + stddev**2) if spread else 0.0
    shrunk = trace / width + trust * (diagonal - diagonal.mean())
    shrunk = np.maximum(shrunk, _floor(trace, width, stddev))
    return np.asarray(shrunk * (trace / shrunk.sum()))


def _entrywise(noisy: Array, diagonal: Array, stddev: float, intercept: bool) -> Array:
    """Entries beside the diagonal by `_shrink_entries`: means (the constant's row) apart from the
    rest."""
    width, roots = len(noisy) - intercept, np.sqrt(diagonal)
    result = np.zeros_like(noisy)
    means = [(np.arange(width), np.full(width, width))] if intercept else []
    for pairs in (np.triu_indices(width, 1), *means):
        result[pairs] = _shrink_entries(noisy[pairs], stddev / np.sqrt(2), float(diagonal.mean()))
    result += result.T
    most = np.outer(roots, roots)
    return np.asarray(np.clip(result, -most, most) + np.diag(diagonal))


def _shrink_entries(values: Array, stddev: float, largest: float) -> Array:
    """Posterior means under Σ_k π_k N(0, g_k²), g_0 = 0, π by 30 steps of EM on quantiles."""
    if not len(values):
        return values
    scales = np.concatenate([[0.0], largest * _SCALES])
    variance = scales**2 + max(stddev, 1e-9 * largest) ** 2
    squares = np.sort(values**2)
    chosen = squares[np.linspace(0, len(squares) - 1, min(len(squares), _QUANTILES)).astype(int)]
    likely, null = _likely(chosen, variance), np.zeros(len(scales))
    null[0] = _NULL
    weights = np.full(len(scales), 1 / len(scales))
    for _ in range(30):
        # Σ of the chance of each scale, over its weight
        responsibilities = likely @ (1 / (weights @ likely))
        counts = weights * responsibilities * (len(values) / len(chosen)) + null
        weights = counts / counts.sum()
    likely = _likely(values**2, variance)
    return np.asarray(values * ((weights * scales**2 / variance) @ likely) / (weights @ likely))


def _likely(squares: Array, variance: Array) -> Array:
    """Of each square (m,) under each variance (K,), relative to the likeliest: (K, m)."""
    logs = -0.5 * (squares / variance[:, None] + np.log(variance)[:, None])
    logs -= logs.max(axis=0)
    return np.asarray(np.exp(logs, out=logs))


def _spiked(noisy: Array, diagonal: Array, stddev: float) -> Array:
    values, vectors = np.linalg.eigh(noisy - np.diag(diagonal))
    edge = _EDGE * radius(len(noisy), stddev)
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    result = _composed(kept, vectors)
    np.fill_diagonal(result, diagonal)
    return np.asarray(result)


def _rotated(noisy: Array, stddev: float, floor: float) -> Array:
    """Eigenvalues above the bulk shrunk, all others equal, so that the trace is kept; positive."""
    values, vectors = np.linalg.eigh(noisy)
    edge, width = _EDGE * radius(len(noisy), stddev), len(noisy)
    bulk = float(values.mean())
    for _ in range(10 * width):
        lower = float(values[values <= max(bulk + edge, values[0])].mean())
        if lower >= bulk:
            break
        bulk = lower
    spikes = np.sqrt(np.maximum((values - bulk) ** 2 - edge**2, 0.0)) * (values > bulk)
    rest = max((_trace(noisy, stddev) - spikes.sum()) / width, 0.0)
    return _composed(spikes + rest, vectors, floor)


_SHARE = 0.6  # of Q's direction, where noise is as large as S


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of the noise in totals: ``label`` of every entry of Q, ``square`` of S's
    diagonal (S is symmetric, and ``square``/√2 beside the diagonal). ``coded``: V times the
    variance that randomised answers leave in S/V (`numerics.coded_rows.variance`)."""

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
    <= 1, per record)."""

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
    if moments.intercept and not moments.label and len(moments.s) > 1:
        return fit_centred(moments, loss)
    s = estimate_moments(
        moments.s, moments.square, intercept=moments.intercept, constant=moments.constant
    )
    linear, share, direction = _fit_direction(moments, s, loss)
    q = _centre_codes(moments.q)
    scale, offsets = fit_scale_and_offset(
        _compute_margin_moments(direction, linear, q, s, moments), loss
    )
    weights = scale * direction
    if moments.intercept:
        weights[:, -1] = offsets / np.sqrt(s[-1, -1])
    return SumsModel(weights=weights, moments=s, linear=linear, share=share, scale=scale)


def fit_centred(moments: NoisyMoments, loss: Loss) -> SumsModel:
    """The same of an exact Q, in columns about their own means and with an intercept that no prior
    pulls to 0.

    Guarantees
    ----------
    - Without noise, margins depend neither on the centre that was declared for a column nor on the
      size of the constant.
    """
    q, s = _centre_codes(moments.q), moments.s
    unit = float(np.sqrt(s[-1, -1]))
    means = s[:-1, -1] / unit**2
    inner = replace(
        moments,
        q=q[:, :-1] - np.outer(q[:, -1], means),
        s=s[:-1, :-1] - np.outer(means, s[-1, :-1]) + _LEAST * np.trace(s) * np.eye(len(means)),
        intercept=False,
    )
    within = estimate_moments(inner.s, inner.square, intercept=False)
    linear, share, direction = _fit_direction(inner, within, loss)
    believed = q[:, -1] / unit
    margins = MarginMoments(
        mean=np.zeros(len(q)),
        covariance=direction @ within @ direction.T,
        noisy=float(np.sum((direction @ inner.s) * direction)),
        doubt=inner.square * float(np.linalg.norm(direction.T @ direction)),
        shared=float(np.sum((linear @ within) * direction)),
        classes=believed,
        constant=believed,
        believed=believed,
        blur=sqrt(moments.report),
        offset=True,
    )
    scale, offsets = fit_scale_and_shares(margins, loss)
    weights, square = (
        scale * direction,
        np.block(
            [[within + np.outer(means, means) * unit**2, s[:-1, -1:]], [s[-1:, :-1], s[-1:, -1:]]]
        ),
    )
    return SumsModel(
        weights=np.column_stack([weights, offsets / unit - weights @ means]),
        moments=np.asarray(square),
        linear=np.column_stack([linear, believed / unit - linear @ means]),
        share=share,
        scale=scale,
    )


def _fit_direction(moments: NoisyMoments, s: Array, loss: Loss) -> tuple[Array, float, Array]:
    """β, the share of q beside it, and their sum without the constant column."""
    label_moments = moments_of(moments, s, loss)
    linear = posterior(label_moments)
    doubt = min(1.0, radius(len(s), moments.square) / float(label_moments.values[-1]))
    share = _share(linear, label_moments.q, s, moments.intercept) * _SHARE * doubt
    return linear, share, without_constant(linear + share * label_moments.q, moments.intercept)


def _compute_margin_moments(
    direction: Array, linear: Array, q: Array, s: Array, moments: NoisyMoments
) -> MarginMoments:
    """What totals tell of margins along directions without the constant column, which is taken for
    the same in every row."""
    unit = float(np.sqrt(s[-1, -1]))
    constant = s[:, -1] / unit if moments.intercept else np.zeros(len(s))
    centred, mean = s - np.outer(constant, constant), direction @ constant
    offsets = linear[:, -1] * unit if moments.intercept else np.zeros(len(linear))
    return MarginMoments(
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
    q = _centre_codes(moments.q)
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


def _centre_codes(q: Array) -> Array:
    """q of codes that add up to 0."""
    return q if len(q) == 1 else np.asarray(q - q.mean(axis=0))


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


def fit_local_model(
    local: Sums,
    others: Sums,
    noise: Noise,
    *,
    loss: Loss,
    norm_bound: float = 1.0,
    intercept: bool = True,
    constant: float = 0.0,
) -> SumsModel:
    """The local model of a server: its own exact sums together with the others' noisy ones.

    Both are unbiased measurements of the same moments, each weighted by its precision, Q and S
    apart. Nothing is released by using it inside.

    Guarantees
    ----------
    - As the others' noise grows, they count for less and less.
    """
    exact = Noise(label=0.0, square=0.0, coded=noise.coded)  # but for randomised answers
    local_moments = normalise_totals(local, exact, loss=loss, norm_bound=norm_bound)
    theirs = normalise_totals(others, noise, loss=loss, norm_bound=norm_bound)
    features = np.diag(local_moments.s)[: local.width - intercept]
    typical = float(features.mean()) if features.size else 1.0  # of x_i x_k
    label = _their_weight(local_moments.report * typical, theirs.report * typical + theirs.label**2)
    here, there = typical**2 + noise.coded / 2, theirs.square**2 / 2
    square = _their_weight(here / local.size, typical**2 / others.size + there)
    both = NoisyMoments(
        q=(1 - label) * local_moments.q + label * theirs.q,
        s=(1 - square) * local_moments.s + square * theirs.s,
        label=label * theirs.label,
        square=hypot((1 - square) * local_moments.square, square * theirs.square),
        report=(1 - label) ** 2 * local_moments.report + label**2 * theirs.report,
        intercept=intercept,
        constant=constant,
    )
    model = fit_moments(both, loss)
    return replace(model, weights=model.weights / norm_bound)


def _their_weight(local: float, theirs: float) -> float:
    """The weight of theirs in the mean with the least variance."""
    return local / (local + theirs) if local + theirs else 0.5
