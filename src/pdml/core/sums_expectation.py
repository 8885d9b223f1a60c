"""How good the model from totals is, told by the same totals: no record is read, nothing more is
released (docs/sums.md, "A forecast after the exchange").

Totals whose noise is split (`core.splitting`) tell E[y z], E[z²] and E[z] of a model's margins z
without bias. A posterior of these numbers and of E[y], and classes that are Gaussian along z, give
accuracy and AUC with their intervals; of more than two classes, `core.many_classes`.
"""

from dataclasses import dataclass, replace

import numpy as np

from pdml import _special
from pdml._types import Array
from pdml.core import many_classes
from pdml.core.losses import Loss
from pdml.core.ranges import UNKNOWN, Range, both, ranged
from pdml.core.splitting import (
    ANY,
    CENTRE,
    PART,
    SEEN,
    SPLITS,
    SPREAD,
    VARIANCE,
    halves,
    learnt,
    noise_of_q,
    widened,
)
from pdml.core.sums_model import Measured, SumsModel

# Chosen on synthetic populations, for 80% of true values within the intervals:
_NEAR = _BEYOND = 0.025  # what Gaussian classes leave out
_BALANCE = 0.4  # E[y] about 0
_POINTS = 5
_ANY = (0.0, ANY)  # mean of margins or labels, where the constant column cannot be seen
_WIDER = 2.0  # of margins, as `SPREAD`: columns of few ones have a few long margins
_ALIKE = 0.999  # where all rows are nearly one, margins hardly differ, and little can be gained
_CORRELATIONS = np.linspace(-0.3, 0.97, 52)
_PRIOR = learnt(_CORRELATIONS)
_VARIANCES = np.linspace(-1.0, 1.6, 27)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What to expect of a model on records like those it was made from.

    ``auc`` is None for more than two classes. ``confidence`` is the mean probability that the model
    gives to its own choices: where it lies above ``accuracy`` the model is overconfident.
    """

    accuracy: Range
    auc: Range | None
    confidence: float


def tells(classes: int) -> bool:
    """Whether totals of so many classes are asked how good their model is."""
    return classes <= many_classes.MOST


def expect(given: Measured, model: SumsModel, loss: Loss) -> Expectation:
    """Accuracy, AUC and calibration of a model.

    Parameters
    ----------
    given : Measured
        Totals, with a constant column; of classes that `tells` allows.
    model : SumsModel
        What `fit_measured` made of them.
    loss : Loss
        As in `fit_sums`.

    Returns
    -------
    Expectation

    Guarantees
    ----------
    - A function of its arguments alone: the noise that splits the totals is always the same.
    """
    many, size = len(given.q) > 1, _size(model)
    if not size:  # no label said anything
        auc = None if many else UNKNOWN
        return Expectation(accuracy=UNKNOWN, auc=auc, confidence=1 / max(2, len(given.q)))
    if many:
        found = many_classes.believed(given, model, loss, SPLITS)
        accuracy = ranged(found.right, found.chance, many_classes.BEYOND)
        return Expectation(accuracy=accuracy, auc=None, confidence=found.confidence)
    believed = _believed(_judged(given, model, loss, SPLITS))
    gap = believed.gap / (np.sqrt(2) * believed.within)
    return Expectation(
        accuracy=ranged(believed.right, believed.chance, _BEYOND),
        auc=ranged(_special.ndtr(gap), believed.chance, _BEYOND),
        confidence=_confidence(size, believed),
    )


def gain(given: Measured, model: SumsModel, loss: Loss) -> Range:
    """How much more often a model is right than whoever always says the largest class, which the
    same totals tell.

    Parameters
    ----------
    given : Measured
        Totals, with a constant column.
    model : SumsModel
        What `fit_measured` made of them.
    loss : Loss
        As in `fit_sums`.

    Returns
    -------
    Range
        Of the difference between two shares, with an interval that holds the truth in about 80% of
        trainings. Where that is not clearly above 0 it reaches down to it: less than 2.5 points
        are within what Gaussian classes leave out.
    """
    if not _size(model):
        return Range(low=-1.0, middle=0.0, high=1.0)
    many = len(given.q) > 1
    known, beyond = (many_classes.believed, many_classes.BEYOND) if many else (_doubted, _BEYOND)
    for splits, enough in ((1, 0.0), (SPLITS, _NEAR)):  # one alone has a wider interval
        believed = known(given, model, loss, splits)
        found = ranged(believed.right - believed.largest, believed.chance, beyond, least=-1.0)
        if found.low > enough:
            return found
    return replace(found, low=min(found.low, 0.0))


def _doubted(given: Measured, model: SumsModel, loss: Loss, splits: int) -> "_Believed":
    """What is possible where nothing is taken for typical that cannot be seen."""
    said = _judged(given, model, loss, splits)
    seen = given.s[-1, -1] > SEEN * given.square
    balance = said.counted if seen else _ANY
    if given.constant:  # then shares can be read where the constant itself cannot
        balance = both(*said.counted, *_ANY)
    said = replace(said, balance=balance)
    said = said if seen else replace(said, centre=_ANY)
    return _believed(said, most=_ALIKE, spread=_WIDER)


def _size(model: SumsModel) -> float:
    """Root mean square margin."""
    return float(np.sqrt(np.sum((model.weights @ model.moments) * model.weights)))


@dataclass(frozen=True, kw_only=True)
class _Believed:
    """What is possible, and the chance of each: axes are correlation of y and z, log variance of
    z, mean of y, mean of z.
    """

    chance: Array
    right: Array  # accuracy
    largest: Array  # the larger class's share
    inner: Array  # variance of z
    within: Array  # its deviation inside a class
    gap: Array  # between the means of the classes
    centre: Array  # mean of z


def _believed(said: "_Said", *, most: float = 0.95, spread: float = SPREAD) -> _Believed:
    """``most``: the largest mean of a margin, of its root mean square; ``spread``: how far margins
    may be wider than is typical.
    """
    correlation, log_variance = _CORRELATIONS[:, None, None, None], _VARIANCES[:, None, None]
    balance, balanced = _nodes(*said.balance)
    balance, balanced = balance[:, None], balanced[:, None]
    centre, centred = _nodes(*said.centre, most)
    inner, mixed = (1 - centre**2) * np.exp(log_variance), 1 - balance**2
    shared = correlation * np.sqrt(inner * mixed)  # cov(y, z)
    log = -0.5 * (
        ((said.told[0] - shared - balance * centre) / said.told[1]) ** 2
        + ((said.square[0] - inner - centre**2) / said.square[1]) ** 2
        + ((log_variance - np.log(VARIANCE)) / spread) ** 2
    )
    chance = np.exp(log - log.max()) * _PRIOR[:, None, None, None] * balanced * centred
    chance /= chance.sum()

    positive, gap = (1 + balance) / 2, 2 * shared / mixed
    within = np.sqrt(inner * (1 - correlation**2))
    right = positive * _special.ndtr((centre + gap * (1 - positive)) / within)
    right += (1 - positive) * _special.ndtr(-(centre - gap * positive) / within)
    return _Believed(
        chance=chance,
        right=right,
        largest=np.maximum(positive, 1 - positive),
        inner=inner,
        within=within,
        gap=gap,
        centre=centre,
    )


def _confidence(size: float, believed: _Believed) -> float:
    """The mean of e^|z|/(1 + e^|z|)."""
    chance, centre = believed.chance, believed.centre
    typical = _special.ndtri((np.arange(512) + 0.5) / 512)
    mean = float(np.sum(chance * centre))
    spread = np.sqrt(max(float(np.sum(chance * (believed.inner + centre**2))) - mean**2, 0.0))
    return float(np.mean(1 / (1 + np.exp(-size * np.abs(mean + spread * typical)))))


def _nodes(mean: float, deviation: float, most: float = 0.95) -> tuple[Array, Array]:
    """Points and weights that stand for a normal variable, none beyond ``most``."""
    at, weights = np.polynomial.hermite_e.hermegauss(_POINTS)
    return np.clip(mean + deviation * at, -most, most), weights / weights.sum()


@dataclass(frozen=True, kw_only=True)
class _Said:
    """What totals say of margins z with E[z²] = 1 under the model's own S: each with its
    deviation.
    """

    told: tuple[float, float]  # E[y z]
    square: tuple[float, float]  # E[z²]
    centre: tuple[float, float]  # E[z]
    balance: tuple[float, float]  # E[y]
    counted: tuple[float, float]  # the same, whatever is typical


def _judged(given: Measured, model: SumsModel, loss: Loss, splits: int) -> _Said:
    s, c, noise = model.moments, loss.label_weight, noise_of_q(given, model.moments)
    told, square, centre = [], [], []
    for half in halves(given, model, loss, splits):
        w = half.weights[0] / np.sqrt(half.weights[0] @ s @ half.weights[0])
        told.append(half.q[0] @ w / c)
        square.append(w @ half.s @ w)
        centre.append(w @ half.s[:, -1])
    w = model.weights[0] / np.sqrt(model.weights[0] @ s @ model.weights[0])
    unit, more = np.sqrt(s[-1, -1]), widened(given.report / c**2)
    more *= np.sqrt(1 + 1 / (PART**2 * splits))  # the other half's own noise
    blurred = np.sqrt(noise[-1, -1]) / unit / c
    counted = float(given.q[0, -1] / unit / c), float(more * blurred)
    beside = given.square * np.linalg.norm(w) / np.sqrt(2) / unit
    return _Said(
        told=(float(np.mean(told)), max(more * np.sqrt(w @ noise @ w) / c, 1e-2)),
        square=(float(np.mean(square)), max(more * given.square * (w @ w), 1e-2)),
        centre=both(np.mean(centre) / unit, more * beside, w @ s[:, -1] / unit, CENTRE),
        balance=both(*counted, 0.0, _BALANCE),
        counted=counted,
    )
