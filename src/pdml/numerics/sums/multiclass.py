"""How good a model of more than two classes is, by the totals it was made from.

Scores z = Wx have one entry for each class, and the largest decides. Splits
(`numerics.sums.noise_split`) tell E[z_y] and E|z|² of them without bias. How the classes' means lie
to each other is taken from the model's own belief, *how far apart* they are is not: it is one
number, the correlation of scores with classes, of which the splits judge. Classes that are Gaussian
about their means then say how often the largest score is the right one.

Splits are small here, so that their models are nearly the released one. What fresh noise e alone
would then say of it, e·W/a, has the mean 0 and most of the variance: it is taken away (Stein's
formula, of which this is a finite difference).
"""

from dataclasses import dataclass

import numpy as np

from pdml._types import Array
from pdml.numerics.admm.losses import Loss
from pdml.numerics.interval import both
from pdml.numerics.sums.fit import NoisyMoments, SumsModel
from pdml.numerics.sums.noise_split import (
    ANY,
    CENTRE,
    SPREAD,
    VARIANCE,
    VISIBLE_DEVIATIONS,
    correlation_prior,
    deviation_factor,
    halves,
    noise_of_q,
)
from pdml.numerics.sums.posterior import normals, root_of

MOST = 50  # classes: what there is to compute grows with their cube
# What Gaussian classes, placed as the model believes, leave out (docs/evaluation/forecasts.md).
BEYOND = 0.1
_PART = 0.25  # a
_POINTS = 512  # of all classes together, and no fewer than `_FEWEST` of each
_FEWEST = 32
_DRAWS = 7  # of the shares of classes, and of where scores are centred
_CORRELATIONS = np.linspace(-0.3, 0.97, 33)
_VARIANCES = np.linspace(-1.0, 1.6, 11)
_PRIOR = correlation_prior(_CORRELATIONS)
_BALANCE = 0.6  # shares about equal ones
_HARDLY = 0.1  # of its size, that a belief has in favour of any class; 1 or more is usual
_RAREST = 0.02  # share of a class, of an equal one
_ROOM = 0.1  # of |z|², by which classes may lie farther apart than scores spread
_UNLIKELY = 1e-3  # beside the likeliest: not looked at


@dataclass(frozen=True, kw_only=True)
class AccuracyPosterior:
    """What is possible, and the chance of each."""

    chance: Array
    right: Array  # accuracy
    largest: Array  # the largest class's share
    confidence: float  # mean probability that the model gives to its own choices


def accuracy_posterior(
    moments: NoisyMoments, model: SumsModel, loss: Loss, splits: int
) -> AccuracyPosterior:
    """What totals leave possible.

    Guarantees
    ----------
    - A function of its arguments alone.
    """
    evidence = _judged(moments, model, loss, splits)
    w = model.weights - model.weights.mean(axis=0)
    size = float(np.sqrt(np.sum((w @ model.moments) * w)))
    outcomes = [_possible(evidence, size, *draw) for draw in _draw_shares(evidence)]
    logs = np.concatenate([outcome.logs for outcome in outcomes])
    chance = np.exp(logs - logs.max())
    chance /= chance.sum()
    many = [len(outcome.logs) for outcome in outcomes]
    return AccuracyPosterior(
        chance=chance,
        right=np.concatenate([outcome.right for outcome in outcomes]),
        largest=np.repeat([outcome.largest for outcome in outcomes], many),
        confidence=float(chance @ np.repeat([outcome.sure for outcome in outcomes], many)),
    )


@dataclass(frozen=True, kw_only=True)
class _ScoreEvidence:
    """Of scores z about their mean over classes, with E|z|² = 1 under the model's own S; pairs are
    measured numbers with their deviations."""

    label_score: tuple[float, float]  # E[z_y]
    square: tuple[float, float]  # E|z|²
    centre: tuple[Array, Array]  # (K,): E z
    shares: tuple[Array, Array]  # (K,): of the classes
    apart: Array  # (K, K): cov(1[y = k], z) as the model believes it
    spread: Array  # (K, K): cov(z), likewise


def _scores(weights: Array, s: Array) -> Array:
    """Weights whose scores add up to 0 and have E|z|² = 1."""
    w = weights - weights.mean(axis=0)
    return np.asarray(w / np.sqrt(max(float(np.sum((w @ s) * w)), 1e-300)))


def _judged(moments: NoisyMoments, model: SumsModel, loss: Loss, splits: int) -> _ScoreEvidence:
    s, many, noise = model.moments, len(moments.q), noise_of_q(moments, model.moments)
    model_weights, unit = _scores(model.weights, s), np.sqrt(s[-1, -1])
    label_scores, square, centre = [], [], []
    for half in halves(moments, model, loss, splits, part=_PART):
        w, q, square_noise = _scores(half.weights, s), moments.q - half.q, moments.s - half.s
        label_scores.append(np.sum(half.q * w) + np.sum(q * model_weights))
        square.append(
            np.sum((w @ half.s) * w) + np.sum((model_weights @ square_noise) * model_weights)
        )
        centre.append(w @ half.s[:, -1] + model_weights @ square_noise[:, -1])
    w, more = model_weights, deviation_factor(moments.report * many)
    constant = s[:, -1] / unit
    inner = s - np.outer(constant, constant)
    blur = more * np.sqrt(noise[-1, -1]) / unit
    beside = more * moments.square / np.sqrt(2) / unit * np.linalg.norm(w, axis=1)
    doubt = more * moments.square * np.linalg.norm(w @ w.T)
    centred = both(
        np.mean(centre, axis=0) / unit, beside, w @ constant, float(CENTRE / np.sqrt(many))
    )
    if moments.s[-1, -1] <= VISIBLE_DEVIATIONS * moments.square:
        centred = np.zeros(many), np.full(many, ANY / np.sqrt(many))
    return _ScoreEvidence(
        label_score=(
            float(np.mean(label_scores)),
            max(float(more * np.sqrt(np.sum((w @ noise) * w))), 1e-2),
        ),
        square=(float(np.mean(square)), max(float(doubt), 1e-2)),
        centre=centred,
        shares=both(
            1 / many + (moments.q[:, -1] - moments.q[:, -1].mean()) / unit,
            np.full(many, blur),
            np.full(many, 1 / many),
            _BALANCE / many,
        ),
        apart=_apart((model.linear - model.linear.mean(axis=0)) @ inner @ w.T),
        spread=w @ inner @ w.T,
    )


def _apart(believed: Array) -> Array:
    """How the classes lie to each other: as the model believes, or all alike where what it believes
    is that none scores higher for its own records."""
    if np.trace(believed) > _HARDLY * np.linalg.norm(believed):
        return believed
    return np.eye(len(believed)) - 1 / len(believed)


def _draw_shares(evidence: _ScoreEvidence) -> list[tuple[Array, Array]]:
    """Shares of classes and centres of scores that are possible: the likeliest, and pairs of others
    about it."""
    many, rng = len(evidence.spread), np.random.default_rng(0)
    fresh = rng.normal(size=(_DRAWS // 2, 2, many))
    draws = []
    for moved in (np.zeros((1, 2, many)), fresh, -fresh):
        for share, centre in moved:
            p = np.maximum(evidence.shares[0] + evidence.shares[1] * share, _RAREST / many)
            z = evidence.centre[0] + evidence.centre[1] * centre
            draws.append((p / p.sum(), z - z.mean()))
    return draws


@dataclass(frozen=True, kw_only=True)
class _Possible:
    """With given shares and centre, every correlation and variance that is not too unlikely."""

    logs: Array  # (N,): of its chance
    right: Array  # (N,): accuracy
    sure: float  # the model's confidence, with the likeliest of them
    largest: float  # share of a class


def _possible(evidence: _ScoreEvidence, size: float, shares: Array, centre: Array) -> _Possible:
    """``size``: root mean square of the model's scores, of which the softmax tells chances."""
    width, believed = float(np.trace(evidence.spread)), float(np.trace(evidence.apart))
    correlation, log_variance = (
        grid.ravel() for grid in np.meshgrid(_CORRELATIONS, _VARIANCES, indexing="ij")
    )
    variance = np.exp(log_variance)
    covariance = correlation * np.sqrt(variance * width * (1 - shares @ shares))
    logs = np.repeat(np.log(_PRIOR), len(_VARIANCES)) - 0.5 * (
        ((evidence.label_score[0] - covariance - shares @ centre) / evidence.label_score[1]) ** 2
        + ((evidence.square[0] - variance * width - centre @ centre) / evidence.square[1]) ** 2
        + ((log_variance - np.log(VARIANCE)) / SPREAD) ** 2
    )
    kept = logs > logs.max() + np.log(_UNLIKELY)
    variance = variance[kept, None, None]
    means = (
        (covariance[kept] / believed)[:, None, None] * evidence.apart / shares[:, None]
    )  # (N, K, K)
    within = variance * evidence.spread - np.swapaxes(means, 1, 2) @ (shares[:, None] * means)
    root = root_of(within)
    points = max(_FEWEST, 2 ** int(np.log2(_POINTS / len(shares))))
    inside = normals(len(shares), points) @ root  # (N, points, K)
    below = np.sum(root * root, axis=(1, 2)) - np.trace(within, axis1=1, axis2=2)
    logs = logs[kept] - 0.5 * (below / (_ROOM * variance[:, 0, 0] * width)) ** 2
    right, sure, likeliest = np.zeros(len(logs)), 0.0, logs.argmax()
    for k, share in enumerate(shares):
        z = inside + (centre + means[:, k])[:, None, :]
        right += share * np.mean(z.argmax(axis=2) == k, axis=1)
        sure += share * float(np.mean(_largest_chance(size * z[likeliest])))
    return _Possible(logs=logs, right=right, sure=sure, largest=float(shares.max()))


def _largest_chance(z: Array) -> Array:
    """Of the softmax."""
    return np.asarray(1 / np.exp(z - z.max(axis=-1, keepdims=True)).sum(axis=-1))
