"""The linear model behind noisy sums: posterior mean under priors that the sums themselves weigh.

In units of one record, q = S·β + noise with covariance N = σ_Q² I + v·S/V (v: mean square of one
report's code, `labels.code_variance`). Nothing is known of β in advance, so a small family of
priors is tried and weighted by how well each explains q:

    β ~ N(0, τ²·(A_j + g·eeᵀ)),    A_j ∝ S^j,    tr(A_j S) = 1,

j in {0, 1, 2, 4}: the larger j, the more the signal lies where the data vary (j = 0 anywhere, j = 4
in the leading directions alone). τ² is the share of the labels' variance that the features explain.
e is the constant column, and g what it explains beside them.
Where j = 0 wins, few columns may matter: the weights become Student-t by a few steps of EM.

All matrices but the intercept's are functions of S: in its eigenvectors they are diagonal, and the
intercept is one more direction (Sherman and Morrison).
"""

from dataclasses import dataclass

import numpy as np

from pdml._types import Array

_POWERS = np.array([0.0, 1.0, 2.0, 4.0])
_EXPLAINED = np.geomspace(0.05, 1.2, 10)  # τ, relative to the labels' own deviation
_INTERCEPT = 0.1  # G, relative to τ²
_FREEDOM = 2.0  # of the Student-t weights
_STEPS = 6


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Label moments with their noise, and the S that they belong to, which is taken as exact."""

    q: Array  # (C, d)
    values: Array  # of S, ascending and positive
    vectors: Array  # of S
    label: float  # each row of q has the covariance label² I + report·S
    report: float
    deviation: float  # of one label's code: what τ is relative to
    intercept: bool = True  # whether the last column is the constant one, e


def posterior(moments: Moments) -> Array:
    """The posterior mean of β."""
    return _compute_posterior(moments).mean


def gain(moments: Moments) -> Array:
    """The linear map that `posterior` is once its priors are weighed: row c is gain[c] @ q[c]."""
    estimate, vectors = _compute_posterior(moments), moments.vectors
    sparse = estimate.variances is not None  # which stands for j = 0
    mixed, first = np.zeros_like(vectors), len(_EXPLAINED) if sparse else 0
    for k in np.flatnonzero(estimate.chance[first:] > 1e-9) + first:
        mixed += (
            estimate.chance[k] * estimate.priors.means(np.eye(len(vectors)), slice(k, k + 1))[0]
        )
    every = np.repeat((vectors @ mixed.T @ vectors.T)[None], len(moments.q), axis=0)
    if estimate.variances is not None:
        every += estimate.chance[:first].sum() * _maps(moments, estimate.variances)
    return every


@dataclass(frozen=True)
class _Priors:
    """All priors at once, in the eigenvectors of S."""

    prior: Array  # τ²A_j, (K, d)
    values: Array
    intercept_vector: Array  # e
    free: Array  # G
    spread: Array  # of z under each prior, without the intercept, (K, d)

    @property
    def constant(self) -> Array:
        """S e."""
        return self.values * self.intercept_vector

    @property
    def length(self) -> Array:
        return np.asarray((self.constant**2 / self.spread).sum(axis=1))

    @property
    def weight(self) -> Array:
        return self.free / (1 + self.free * self.length)

    def means(self, along: Array, which: slice) -> Array:
        """Posterior means (K, C, d) under some of them, for moments (C, d)."""
        terms = along / self.spread[which, None, :]
        offset = self.weight[which, None] * (terms @ self.constant)
        # the intercept, less what other columns say of it
        terms -= offset[:, :, None] * (self.constant / self.spread[which])[:, None, :]
        return np.asarray(
            (self.prior[which] * self.values)[:, None, :] * terms
            + offset[:, :, None] * self.intercept_vector
        )


@dataclass(frozen=True)
class _Posterior:
    mean: Array
    chance: Array  # what each prior counts
    priors: _Priors
    variances: Array | None  # (C, d): of the weights under the sparse prior, if it counts


def _compute_posterior(moments: Moments) -> _Posterior:
    q, values, vectors, intercept = moments.q, moments.values, moments.vectors, moments.intercept
    along = q @ vectors
    shapes = (values / values[-1]) ** _POWERS[:, None]
    shapes /= (shapes @ values)[:, None]
    sizes = np.tile((moments.deviation * _EXPLAINED) ** 2, len(shapes))  # τ² of every prior
    prior = sizes[:, None] * np.repeat(shapes, len(_EXPLAINED), axis=0)  # τ²A_j, (K, d)
    intercept_vector = vectors[-1] if intercept else np.zeros(len(values))  # e
    free = (
        _INTERCEPT * sizes / max(float(intercept_vector**2 @ values), 1e-300)
        if intercept
        else 0 * sizes
    )  # G

    priors = _Priors(prior, values, intercept_vector, free, prior * values**2 + _noise(moments))
    terms = along / priors.spread[:, None, :]  # (K, C, d): without the intercept
    offsets = terms @ priors.constant  # (K, C)
    evidence = -0.5 * (
        len(q) * (np.log(priors.spread).sum(axis=1) + np.log1p(free * priors.length))
        + np.einsum("kcd,cd->k", terms, along)
        - priors.weight * (offsets**2).sum(axis=1)
    )
    chance = np.exp(evidence - evidence.max())
    chance /= chance.sum()
    means = priors.means(along, slice(None))
    mean = np.einsum("k,kcd->cd", chance, means)

    flat = slice(len(_EXPLAINED))  # j = 0
    anywhere, variances = float(chance[flat].sum()), None
    if anywhere > 0.02:
        scale = np.full(len(values), float(chance[flat] @ prior[flat, 0]) / anywhere)
        scale[-1] += float(chance[flat] @ free[flat]) / anywhere
        sparse, variances = _student(moments, scale)
        mean += anywhere * sparse @ vectors - np.einsum("k,kcd->cd", chance[flat], means[flat])
    return _Posterior(np.asarray(mean @ vectors.T), chance, priors, variances)


def _noise(moments: Moments) -> Array:
    """N, in the eigenvectors of S."""
    return np.asarray(moments.label**2 + moments.report * moments.values)


def _student(moments: Moments, scale: Array) -> tuple[Array, Array]:
    """The means (C, d) of Student-t weights, and the variances D of the prior that they are under,
    by EM; the intercept's stays Gaussian.

    The posterior has the mean D^½ A⁻¹ D^½ S N⁻¹ q and the covariance D^½ A⁻¹ D^½, with A = I +
    D^½ S N⁻¹ S D^½: no eigenvalue of what is inverted lies below 1, whatever the noise.
    """
    from scipy.linalg.lapack import dpotrf, dpotri, dpotrs  # devices read plans without it

    means, variances = np.empty((2, *moments.q.shape))
    precision, news = _precision(moments), _news(moments, moments.q.T).T
    for row, news_row in enumerate(news):
        variance = scale.copy()
        for _ in range(_STEPS):
            root = np.sqrt(variance)
            factor = dpotrf(_inverted(precision, root).T, overwrite_a=1)[0]
            means[row] = root * dpotrs(factor, root * news_row)[0]
            variances[row], left = variance, variance * np.diag(dpotri(factor)[0])
            variance = (means[row] ** 2 + left + _FREEDOM * scale) / (_FREEDOM + 1)
            if moments.intercept:
                variance[-1] = scale[-1]
    return means, variances


def _maps(moments: Moments, variances: Array) -> Array:
    """The maps (C, d, d) from each row of q to its mean under these variances."""
    precision, news = _precision(moments), _news(moments, np.eye(len(moments.values)))
    maps = np.empty((len(variances), *news.shape))
    for row, root in enumerate(np.sqrt(variances)):
        maps[row] = root[:, None] * np.linalg.solve(
            _inverted(precision, root), root[:, None] * news
        )
    return maps


def _precision(moments: Moments) -> Array:
    """S N⁻¹ S."""
    return np.asarray((moments.vectors * (moments.values**2 / _noise(moments))) @ moments.vectors.T)


def _news(moments: Moments, columns: Array) -> Array:
    """S N⁻¹ times ``columns``."""
    along = moments.vectors.T @ columns
    return np.asarray(moments.vectors @ ((moments.values / _noise(moments))[:, None] * along))


def _inverted(precision: Array, root: Array) -> Array:
    """A."""
    return np.asarray(root[:, None] * precision * root + np.eye(len(root)))
