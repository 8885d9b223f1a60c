"""The linear model behind noisy sums: posterior mean under priors that the sums themselves weigh,
and how sure that model may be.

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

**Scale and offset.** A direction says which records are alike, not how far their margins spread nor
where one class begins. That follows from mean and variance of the margins, their covariance with
the labels and the share of each class. Totals tell all but the variance well: where noise hides S,
the direction lies where S *looks* small, and margins are several times as wide as S says. So it is
asked of S with its noise as well, and of the labels: a large covariance with them needs a large
variance.

The direction's own constant, by least squares, is a good one where the variance is known or classes
are equally large. Elsewhere it is far too small for margins that are far wider, and the model is
right less often than the majority-class baseline: there the shares of the classes set the offset,
as far as they can be seen.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np

from pdml import _math
from pdml._types import Array
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import Loss

_POWERS = np.array([0.0, 1.0, 2.0, 4.0])
_SIGNALS = np.geomspace(0.05, 1.2, 10)  # τ, relative to the labels' own deviation
_INTERCEPT = 0.1  # G, relative to τ²
_FREEDOM = 2.0  # of the Student-t weights
_EM_STEPS = 6
_POINTS = 512
_STEEPEST = 3.0  # root mean square margin: no totals tell that labels are surer than this
# Chosen on simulated data sets (docs/evaluation/choices.md):
_WIDER, _SPREAD = 2.0, 1.0  # of variances, beside what S without its noise says; log-normal
_EXPLAINED = 0.2  # correlation of margins and labels
_EQUAL = 20.0  # to 1, that classes are equally large
_UNEVEN = 0.6  # E y, where classes are not equally large
_BALANCE = 0.4  # E y about 0, where a fit in centred columns is uncertain of it
_CLIPPED = 0.05  # what E y may seem to be where rows of one class are clipped more
_HIDDEN = 0.5  # doubt about a variance beside it, from which shares count more than the direction
_RAREST = 0.02  # share of a class
_LOG_VARIANCES = np.linspace(-2.5, 3.5, 121)  # of log variances
_SURE = 1e-6  # nothing changes by what is less likely
_RIDGE = 1e-4  # so that a minimum exists whatever totals say


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
    mixed, first = np.zeros_like(vectors), len(_SIGNALS) if sparse else 0
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
    sizes = np.tile((moments.deviation * _SIGNALS) ** 2, len(shapes))  # τ² of every prior
    prior = sizes[:, None] * np.repeat(shapes, len(_SIGNALS), axis=0)  # τ²A_j, (K, d)
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

    flat = slice(len(_SIGNALS))  # j = 0
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
        for _ in range(_EM_STEPS):
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


@dataclass(frozen=True, kw_only=True)
class MarginMoments:
    """What totals tell of margins along C directions, and of labels' codes c·y."""

    mean: Array  # (C,)
    covariance: Array  # (C, C), by S without its noise
    noisy: float  # its trace, by S with its noise
    doubt: float  # deviation of that
    shared: float  # Σ cov(c y, z)
    classes: Array  # (C,): E c y, for more than two classes about equal ones
    blur: float  # deviation of these
    constant: Array  # (C,): the constant of the direction itself
    believed: Array  # (C,): E c y, by that direction
    offset: bool  # whether a model may have one


def fit_scale_and_offset(margins: MarginMoments, loss: Loss) -> tuple[float, Array]:
    """The scale k and the offsets b with which k·z + b minimises the loss.

    Guarantees
    ----------
    - Margins' root mean square is at most 3.
    - Without noise on S the offset is that of the direction itself, and the scale minimises the
      expected loss on Gaussian margins (with a ridge of 10^-4).
    """
    c, many = loss.label_weight, max(2, len(margins.mean))
    chance, classes = _uneven(margins, loss, many)
    codes = len(margins.mean) * labels.code_variance(inf, loss, many)
    points = _points(margins, max(codes - float(classes @ classes), 1e-2 * c**2))
    shared = max(margins.shared, 0.0)
    wanted = np.array([shared + float(margins.believed @ (margins.mean + margins.constant))])
    alone = max(float(_minimum((points + margins.constant)[:, :, None], wanted, loss)[0]), 0.0)
    equal = alone * np.append(1.0, margins.constant)
    if chance < _SURE:
        return float(equal[0]), equal[1:]
    uneven = _match_shares(margins, points, shared, classes, loss)
    parameters = (1 - chance) * equal + chance * uneven
    return max(float(parameters[0]), 0.0), parameters[1:]


def fit_scale_and_shares(margins: MarginMoments, loss: Loss) -> tuple[float, Array]:
    """The same where offsets follow from the shares of classes alone, as sure as these are."""
    c, many = loss.label_weight, max(2, len(margins.mean))
    prior = (_BALANCE * c) ** 2
    classes = _limit_shares(margins.classes * (prior / (prior + margins.blur**2)), c, many)
    codes = len(margins.mean) * labels.code_variance(inf, loss, many)
    points = _points(margins, max(codes - float(classes @ classes), 1e-2 * c**2))
    parameters = _match_shares(margins, points, max(margins.shared, 0.0), classes, loss)
    return max(float(parameters[0]), 0.0), parameters[1:]


def _match_shares(
    margins: MarginMoments, points: Array, shared: float, classes: Array, loss: Loss
) -> Array:
    """Scale and offsets under which classes are as frequent as in ``classes``."""
    identity = np.broadcast_to(np.eye(len(classes)), (len(points), len(classes), len(classes)))
    share = classes + (loss.label_weight / len(classes) if len(classes) > 1 else 0.0)
    target = np.append(shared + share @ margins.mean, share)
    return _minimum(np.concatenate([points[:, :, None], identity], axis=2), target, loss)


def _uneven(margins: MarginMoments, loss: Loss, many: int) -> tuple[float, Array]:
    """How much the shares of classes count, and E c y; none is rarer than one in fifty.

    The first is the chance that they are not equally large, times how well noise hides the
    margins' variance: where it is known, least squares need no Gaussian margins for a constant.
    """
    c = loss.label_weight
    if not margins.offset or not margins.doubt:
        return 0.0, margins.believed
    blur, spread = margins.blur**2 + (_CLIPPED * c) ** 2, (_UNEVEN * c) ** 2
    both = np.array([blur, blur + spread])
    logs = -0.5 * (margins.classes @ margins.classes / both + len(margins.classes) * np.log(both))
    odds = np.exp(logs - logs.max()) * (_EQUAL, 1.0)
    chance = float(odds[1] / odds.sum())
    class_means = chance * margins.classes * spread / (spread + blur)
    hidden = margins.doubt**2 / (
        margins.doubt**2 + (_HIDDEN * float(np.trace(margins.covariance))) ** 2
    )
    return chance * hidden, _limit_shares(class_means, c, many)


def _limit_shares(class_means: Array, c: float, many: int) -> Array:
    """E c y where no class is rarer than one in fifty."""
    if len(class_means) == 1:
        most = c * (1 - 2 * _RAREST)
        return np.asarray(np.clip(class_means, -most, most))
    shares = np.maximum(class_means / c + 1 / many, _RAREST)
    return np.asarray(c * (shares / shares.sum() - 1 / many))


def _points(margins: MarginMoments, room: float) -> Array:
    """Margins (512, C), as wide as is likely."""
    size = float(np.trace(margins.covariance))
    wider = _variance(margins, size, room) / size if size else 0.0
    root = root_of(margins.covariance * wider)
    return np.asarray(margins.mean + normals(len(margins.mean), _POINTS) @ root)


def _variance(margins: MarginMoments, size: float, room: float) -> float:
    """The posterior mean of the margins' variance; ``room``: that of the labels' codes."""
    variances = size * np.exp(_LOG_VARIANCES)
    doubt = max(margins.doubt, 1e-3 * size)
    logs = -0.5 * (
        ((_LOG_VARIANCES - np.log(_WIDER)) / _SPREAD) ** 2
        + ((margins.noisy - variances) / doubt) ** 2
        + margins.shared**2 / (variances * room) / _EXPLAINED**2
    )
    chance = np.exp(logs - logs.max())
    return float(chance @ variances / chance.sum())


def _minimum(moved: Array, target: Array, loss: Loss) -> Array:
    """The p that minimise E[g(moved @ p)] - p·target, for points (m, C, P): Newton's steps, halved
    until they help."""
    many, flat = len(moved), moved.reshape(-1, moved.shape[2])
    square = flat.T @ flat / many
    ridge = _RIDGE * loss.curvature_bound * square
    ridge += 1e-12 * max(float(np.trace(square)), 1e-300) * np.eye(len(square))

    def value(at: Array) -> float:
        return float(np.mean(loss.value(moved @ at)) - at @ target + at @ ridge @ at / 2)

    at = np.zeros(len(target))
    now = value(at)
    for _ in range(60):
        margins = moved @ at
        uphill = flat.T @ loss.slope(margins).ravel() / many + ridge @ at - target
        bent = flat.T @ (loss.curvature(margins) @ moved).reshape(flat.shape) / many + ridge
        step = np.linalg.solve(bent, uphill)
        while (then := value(at - step)) > now and np.abs(step).max() > 1e-15:
            step /= 2
        at, now = at - step, min(then, now)
        if np.abs(step).max() <= 1e-10 * (1 + np.abs(at).max()):  # the next would be its square
            break
    steepness = float(np.sqrt(np.mean(np.sum((moved @ at) ** 2, axis=1))))
    return np.asarray(at * min(1.0, _STEEPEST / max(steepness, 1e-300)))


@lru_cache(maxsize=32)
def normals(width: int, points: int) -> Array:
    """So many points (points, width) of independent normal variables: a Sobol sequence, so the same
    ones every time. In one dimension that is all multiples of 1/points, and scipy.stats takes
    longer to load than a training."""
    if width == 1:
        grid = np.arange(points)[:, None] / points
    else:
        from scipy.stats import qmc

        grid = qmc.Sobol(width, scramble=False).random(points)
    quantiles = np.asarray(_math.ndtri(grid + 0.5 / points))
    quantiles.flags.writeable = False
    return quantiles


def root_of(covariance: Array) -> Array:
    """The symmetric root of covariances (..., K, K), with what is below 0 counted as 0, so that
    points @ root have them. Which eigenvectors a library finds, and with which sign, makes no
    difference."""
    values, vectors = np.linalg.eigh(covariance)
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(scaled @ np.swapaxes(vectors, -1, -2))
