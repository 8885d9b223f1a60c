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


def posterior(known: Moments) -> Array:
    """The posterior mean of β.

    Parameters
    ----------
    known : Moments
        What is known of β.

    Returns
    -------
    (C, d) array
    """
    return _found(known).mean


def gain(known: Moments) -> Array:
    """The linear map that `posterior` is once its priors are weighed: its row c is gain[c] @ q[c].

    Parameters
    ----------
    known : Moments
        As for `posterior`.

    Returns
    -------
    (C, d, d) array
        What noise in q goes through, as long as it does not change which priors count.
    """
    found, vectors = _found(known), known.vectors
    sparse = found.variances is not None  # which stands for j = 0
    mixed, first = np.zeros_like(vectors), len(_EXPLAINED) if sparse else 0
    for k in np.flatnonzero(found.chance[first:] > 1e-9) + first:
        mixed += found.chance[k] * found.priors.means(np.eye(len(vectors)), slice(k, k + 1))[0]
    every = np.repeat((vectors @ mixed.T @ vectors.T)[None], len(known.q), axis=0)
    if found.variances is not None:
        every += found.chance[:first].sum() * _maps(known, found.variances)
    return every


@dataclass(frozen=True)
class _Priors:
    """All priors at once, in the eigenvectors of S."""

    prior: Array  # τ²A_j, (K, d)
    values: Array
    own: Array  # e
    free: Array  # G
    spread: Array  # of z under each prior, without the intercept, (K, d)

    @property
    def constant(self) -> Array:
        """S e."""
        return self.values * self.own

    @property
    def length(self) -> Array:
        return np.asarray((self.constant**2 / self.spread).sum(axis=1))

    @property
    def weight(self) -> Array:
        return self.free / (1 + self.free * self.length)

    def means(self, along: Array, which: slice) -> Array:
        """Posterior means (K, C, d) under some of them, for moments (C, d)."""
        found = along / self.spread[which, None, :]
        offset = self.weight[which, None] * (found @ self.constant)
        # the intercept, less what other columns say of it
        found -= offset[:, :, None] * (self.constant / self.spread[which])[:, None, :]
        return np.asarray(
            (self.prior[which] * self.values)[:, None, :] * found + offset[:, :, None] * self.own
        )


@dataclass(frozen=True)
class _Found:
    mean: Array
    chance: Array  # what each prior counts
    priors: _Priors
    variances: Array | None  # (C, d): of the weights under the sparse prior, if it counts


def _found(known: Moments) -> _Found:
    q, values, vectors, intercept = known.q, known.values, known.vectors, known.intercept
    along = q @ vectors
    shapes = (values / values[-1]) ** _POWERS[:, None]
    shapes /= (shapes @ values)[:, None]
    sizes = np.tile((known.deviation * _EXPLAINED) ** 2, len(shapes))  # τ² of every prior
    prior = sizes[:, None] * np.repeat(shapes, len(_EXPLAINED), axis=0)  # τ²A_j, (K, d)
    own = vectors[-1] if intercept else np.zeros(len(values))  # e
    free = _INTERCEPT * sizes / max(float(own**2 @ values), 1e-300) if intercept else 0 * sizes  # G

    priors = _Priors(prior, values, own, free, prior * values**2 + _noise(known))
    found = along / priors.spread[:, None, :]  # (K, C, d): without the intercept
    told = found @ priors.constant  # (K, C)
    evidence = -0.5 * (
        len(q) * (np.log(priors.spread).sum(axis=1) + np.log1p(free * priors.length))
        + np.einsum("kcd,cd->k", found, along)
        - priors.weight * (told**2).sum(axis=1)
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
        sparse, variances = _student(known, scale)
        mean += anywhere * sparse @ vectors - np.einsum("k,kcd->cd", chance[flat], means[flat])
    return _Found(np.asarray(mean @ vectors.T), chance, priors, variances)


def _noise(known: Moments) -> Array:
    """N, in the eigenvectors of S."""
    return np.asarray(known.label**2 + known.report * known.values)


def _student(known: Moments, scale: Array) -> tuple[Array, Array]:
    """The means (C, d) of Student-t weights, and the variances D of the prior that they are under,
    by EM; the intercept's stays Gaussian.

    The posterior has the mean D^½ A⁻¹ D^½ S N⁻¹ q and the covariance D^½ A⁻¹ D^½, with A = I +
    D^½ S N⁻¹ S D^½: no eigenvalue of what is inverted lies below 1, whatever the noise.
    """
    from scipy.linalg.lapack import dpotrf, dpotri, dpotrs  # devices read plans without it

    means, variances = np.empty((2, *known.q.shape))
    told, news = _precision(known), _news(known, known.q.T).T
    for row, given in enumerate(news):
        variance = scale.copy()
        for _ in range(_STEPS):
            root = np.sqrt(variance)
            factor = dpotrf(_inverted(told, root).T, overwrite_a=1)[0]
            means[row] = root * dpotrs(factor, root * given)[0]
            variances[row], left = variance, variance * np.diag(dpotri(factor)[0])
            variance = (means[row] ** 2 + left + _FREEDOM * scale) / (_FREEDOM + 1)
            if known.intercept:
                variance[-1] = scale[-1]
    return means, variances


def _maps(known: Moments, variances: Array) -> Array:
    """The maps (C, d, d) from each row of q to its mean under these variances."""
    told, news = _precision(known), _news(known, np.eye(len(known.values)))
    maps = np.empty((len(variances), *news.shape))
    for row, root in enumerate(np.sqrt(variances)):
        maps[row] = root[:, None] * np.linalg.solve(_inverted(told, root), root[:, None] * news)
    return maps


def _precision(known: Moments) -> Array:
    """S N⁻¹ S."""
    return np.asarray((known.vectors * (known.values**2 / _noise(known))) @ known.vectors.T)


def _news(known: Moments, columns: Array) -> Array:
    """S N⁻¹ times ``columns``."""
    along = known.vectors.T @ columns
    return np.asarray(known.vectors @ ((known.values / _noise(known))[:, None] * along))


def _inverted(told: Array, root: Array) -> Array:
    """A."""
    return np.asarray(root[:, None] * told * root + np.eye(len(root)))
