"""How sure a model from totals may be: its scale and its offset along directions already found.

A direction says which records are alike, not how far their margins spread nor where one class
begins. That follows from mean and variance of the margins, their covariance with the labels and
the share of each class. Totals tell all but one of these well. The variance they do not: where
noise hides S, the direction lies where S *looks* small, and margins are several times as wide as S
says. So it is asked of S with its noise as well, and of the labels: a large covariance with them
needs a large variance.

The direction has a constant of its own, by least squares. It is a good one where the variance is
known or classes are equally large. Where they are not and the variance is hidden, it is far too
small for margins that are far wider, and the model is right less often than the
majority-class baseline: there the shares of the classes set the offset, as far as they can be seen.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from pdml._types import Array
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import Loss
from pdml.numerics.sums.normals import normals, root_of

_POINTS = 512
_STEEPEST = 3.0  # root mean square margin: no totals tell that labels are surer than this
# Chosen on simulated data sets (docs/evaluation/choices.md):
_WIDER, _SPREAD = 2.0, 1.0  # of variances, beside what S without its noise says; log-normal
_EXPLAINED = 0.2  # correlation of margins and labels
_EQUAL = 20.0  # to 1, that classes are equally large
_UNEVEN = 0.6  # E y, where classes are not equally large
_CLIPPED = 0.05  # what E y may seem to be where rows of one class are clipped more
_HIDDEN = 0.5  # doubt about a variance beside it, from which shares count more than the direction
_RAREST = 0.02  # share of a class
_STEPS = np.linspace(-2.5, 3.5, 121)  # of log variances
_SURE = 1e-6  # nothing changes by what is less likely
_RIDGE = 1e-4  # so that a minimum exists whatever totals say


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
    identity = np.broadcast_to(np.eye(len(classes)), (len(points), len(classes), len(classes)))
    share = classes + (c / many if len(classes) > 1 else 0.0)
    target = np.append(shared + share @ margins.mean, share)
    uneven = _minimum(np.concatenate([points[:, :, None], identity], axis=2), target, loss)
    parameters = (1 - chance) * equal + chance * uneven
    return max(float(parameters[0]), 0.0), parameters[1:]


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
    chance *= hidden
    if len(class_means) == 1:
        most = c * (1 - 2 * _RAREST)
        return chance, np.asarray(np.clip(class_means, -most, most))
    shares = np.maximum(class_means / c + 1 / many, _RAREST)
    return chance, np.asarray(c * (shares / shares.sum() - 1 / many))


def _points(margins: MarginMoments, room: float) -> Array:
    """Margins (512, C), as wide as is likely."""
    size = float(np.trace(margins.covariance))
    wider = _variance(margins, size, room) / size if size else 0.0
    root = root_of(margins.covariance * wider)
    return np.asarray(margins.mean + normals(len(margins.mean), _POINTS) @ root)


def _variance(margins: MarginMoments, size: float, room: float) -> float:
    """The posterior mean of the margins' variance; ``room``: that of the labels' codes."""
    variances = size * np.exp(_STEPS)
    doubt = max(margins.doubt, 1e-3 * size)
    logs = -0.5 * (
        ((_STEPS - np.log(_WIDER)) / _SPREAD) ** 2
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
