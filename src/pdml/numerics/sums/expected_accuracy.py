"""How good the model from totals is, told by the same totals: no record is read, nothing more is
released (docs/concepts/sums.md, "A forecast after the exchange").

Totals whose noise is split (`numerics.sums.noise_split`) tell E[y z], E[z²] and E[z] of a model's
margins z without bias. A posterior of these numbers and of E[y], and classes that are Gaussian
along z, give accuracy and AUC with their intervals; of more than two classes,
`numerics.sums.multiclass`.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from pdml import _math
from pdml._types import Array
from pdml.numerics.admm.losses import Loss
from pdml.numerics.interval import UNKNOWN, Number, Range, both, ranged
from pdml.numerics.sums import multiclass
from pdml.numerics.sums.fit import NoisyMoments, SumsModel
from pdml.numerics.sums.noise_split import (
    ANY,
    SPLITS,
    VISIBLE_DEVIATIONS,
    correlation_prior,
    halves,
    noise_of_q,
)

# Chosen on synthetic populations, for 80% of true values within the intervals:
_NEAR = _BEYOND = 0.025  # what Gaussian classes leave out
_BALANCE = 0.4  # E[y] about 0
_MOST = 0.95  # |E[y]|
_DRIFTS = (0.7, 0.4), (0.3, 1.0)  # E[z] about the model's own: chances and deviations
_TYPICAL, _BELOW, _ABOVE = 0.05, 0.4, 1.2  # log variance of z, of the one that is typical
_LEAST = 0.02  # of that estimate
_FLAT, _HUMP = 0.04, 0.1  # what rows of one norm take from Gaussian classes
_POINTS = 5
_PART = 0.25  # a
_MORE = 1.3  # deviations: what is left of the difference between the models of splits
_ANY = (0.0, ANY)  # mean of labels, where the constant column cannot be seen
_FARTHEST = 1e3  # root mean square margins: nobody lies beyond
_WIDER = 2.0  # as `_ABOVE`: columns of few ones have a few long margins
_CORRELATIONS = np.linspace(-0.3, 0.97, 52)
_PRIOR = correlation_prior(_CORRELATIONS)
_WIDTHS, _STEPS, _FAR = (-2.0, 3.0), 36, 4.0  # log E[z²]; deviations from what is measured


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What to expect of a model on records like those it was made from.

    ``auc`` is None for more than two classes. ``confidence`` is the mean probability that the model
    gives to its own choices: where it lies above ``accuracy`` the model is overconfident.
    """

    accuracy: Range
    auc: Range | None
    confidence: float


def supports_classes(classes: int) -> bool:
    """Whether totals of so many classes are asked how good their model is."""
    return classes <= multiclass.MOST


def expect(moments: NoisyMoments, model: SumsModel, loss: Loss) -> Expectation:
    """Accuracy, AUC and calibration of a model.

    Guarantees
    ----------
    - A function of its arguments alone: the noise that splits the totals is always the same.
    """
    many, size = len(moments.q) > 1, _size(model)
    if not size:  # no label said anything
        auc = None if many else UNKNOWN
        return Expectation(accuracy=UNKNOWN, auc=auc, confidence=1 / max(2, len(moments.q)))
    if many:
        outcomes = multiclass.accuracy_posterior(moments, model, loss, SPLITS)
        accuracy = ranged(outcomes.right, outcomes.chance, multiclass.BEYOND)
        return Expectation(accuracy=accuracy, auc=None, confidence=outcomes.confidence)
    believed = _margin_posterior(_judged(moments, model, loss, SPLITS))
    gap = believed.gap / (np.sqrt(2) * believed.within)
    return Expectation(
        accuracy=_span(believed.right, believed),
        auc=_span(_math.ndtr(gap), believed),
        confidence=_confidence(size, believed),
    )


def gain(moments: NoisyMoments, model: SumsModel, loss: Loss) -> Range:
    """How much more often a model is right than the majority-class baseline, which the
    same totals tell."""
    if not _size(model):
        return Range(low=-1.0, middle=0.0, high=1.0)
    many = len(moments.q) > 1
    posterior, beyond = (
        (multiclass.accuracy_posterior, multiclass.BEYOND)
        if many
        else (_cautious_posterior, _BEYOND)
    )
    for splits, enough in ((1, 0.0), (SPLITS, _NEAR)):  # one alone has a wider interval
        believed = posterior(moments, model, loss, splits)
        interval = ranged(believed.right - believed.largest, believed.chance, beyond, least=-1.0)
        if interval.low > enough:
            return interval
    return replace(interval, low=min(interval.low, 0.0))


def line(
    moments: NoisyMoments,
    model: SumsModel,
    loss: Loss,
    *,
    sensitivity: float | None = None,
    specificity: float | None = None,
) -> float | None:
    """By how much the constant's weight must fall for the mean of what is possible of sensitivity,
    or of specificity, to be this; None where no label said anything.
    """
    size, unit = _size(model), float(np.sqrt(model.moments[-1, -1]))
    if not (size and unit):
        return None
    believed = _margin_posterior(_judged(moments, model, loss, SPLITS))
    chance = (believed.chance + believed.even) / 2
    share = (1 - believed.positive) if specificity is None else -believed.positive
    mean = believed.centre + believed.gap * share
    wanted = 1 - specificity if specificity is not None else sensitivity

    def excess(at: float) -> float:
        return float(np.sum(chance * _math.ndtr((mean - at) / believed.within))) - (wanted or 0.0)

    return float(brentq(excess, -_FARTHEST, _FARTHEST)) * size / unit


def _cautious_posterior(
    moments: NoisyMoments, model: SumsModel, loss: Loss, splits: int
) -> "_MarginPosterior":
    """What is possible where nothing is taken for typical that cannot be seen."""
    evidence = _judged(moments, model, loss, splits)
    visible = moments.s[-1, -1] > VISIBLE_DEVIATIONS * moments.square
    balance = evidence.counted if visible else _ANY
    if moments.constant:  # then shares can be read where the constant itself cannot
        balance = both(*evidence.counted, *_ANY)
    return _margin_posterior(replace(evidence, balance=balance), below=_WIDER, above=_WIDER)


def _size(model: SumsModel) -> float:
    """Root mean square margin."""
    return float(np.sqrt(np.sum((model.weights @ model.moments) * model.weights)))


@dataclass(frozen=True, kw_only=True)
class _MarginPosterior:
    """What is possible, and the chance of each: axes are correlation of y and z, log variance of
    z, mean of y, mean of z."""

    chance: Array
    even: Array  # the same, if no E[y z] and no wide margins are likelier than others beforehand
    right: Array  # accuracy
    positive: Array  # the second class's share
    largest: Array  # the larger class's
    inner: Array  # variance of z
    within: Array  # its deviation inside a class
    gap: Array  # between the means of the classes
    centre: Array  # mean of z


def _margin_posterior(
    evidence: "_MarginEvidence", *, below: float = _BELOW, above: float = _ABOVE
) -> _MarginPosterior:
    """``below``, ``above``: how far the log variance of z may lie from what is typical."""
    correlation, square = _CORRELATIONS[:, None, None, None], _squares(evidence)[:, None, None]
    balance, balanced = _nodes(*evidence.balance)
    balance, balanced = balance[:, None].clip(-_MOST, _MOST), balanced[:, None]
    usual, rest = max(1 - evidence.model_centre**2, _LEAST), 1 - correlation**2  # variance of z
    wider = np.sqrt(np.maximum(square - evidence.model_centre**2, _LEAST) * rest / usual)
    centre, centred = _centres(evidence, wider)
    inner = np.maximum(square - centre**2, _LEAST * square)
    typical = usual * (1 + evidence.unseen * correlation**2 / rest)
    wide, mixed = np.log(inner / typical) - _TYPICAL, 1 - balance**2
    shared = correlation * np.sqrt(inner * mixed)  # cov(y, z)
    blur = np.sqrt(evidence.label_product[1] ** 2 + evidence.report * square)
    log = np.log(square / inner / blur) - 0.5 * (  # dlog(inner)/dlog(square)
        ((evidence.label_product[0] - shared - balance * centre) / blur) ** 2
        + ((evidence.square[0] - square) / evidence.square[1]) ** 2
    )
    log = np.where(square > centre**2, log, -np.inf)
    # E[y z] is measured with normal noise: by a prior even in it, quantiles are confidence limits.
    slope = np.gradient(_CORRELATIONS * np.sqrt(typical.ravel()), _CORRELATIONS)
    nodes = balanced * centred
    chance = _weigh(log - 0.5 * (wide / np.where(wide > 0, above, below)) ** 2, _PRIOR, nodes)
    even = _weigh(log - 0.5 * (wide / below) ** 2, slope, nodes)

    positive, gap = (1 + balance) / 2, 2 * shared / mixed
    within = np.sqrt(inner * (1 - (1 - evidence.humps) * correlation**2))
    right = positive * _math.ndtr((centre + gap * (1 - positive)) / within)
    right += (1 - positive) * _math.ndtr(-(centre - gap * positive) / within)
    return _MarginPosterior(
        chance=chance,
        even=even,
        right=right,
        positive=positive,
        largest=np.maximum(positive, 1 - positive),
        inner=inner,
        within=within,
        gap=gap,
        centre=centre,
    )


def _weigh(log: Array, prior: Array, nodes: Array) -> Array:
    """Chances by their logarithms, ``prior`` of correlations and the weights of nodes."""
    chance = np.exp(log - log.max()) * prior[:, None, None, None] * nodes
    return np.asarray(chance / chance.sum())


def _span(values: Array, believed: _MarginPosterior) -> Range:
    """What holds whether or not a model that has learnt nothing is likely: that decides where noise
    hides what was learnt, and nothing that was released can tell."""
    ranges = [ranged(values, chance, _BEYOND) for chance in (believed.chance, believed.even)]
    return Range(
        low=min(part.low for part in ranges),
        middle=sum(part.middle for part in ranges) / len(ranges),
        high=max(part.high for part in ranges),
    )


def _confidence(size: float, believed: _MarginPosterior) -> float:
    """The mean of e^|z|/(1 + e^|z|)."""
    chance, centre = believed.chance, believed.centre
    typical = _math.ndtri((np.arange(512) + 0.5) / 512)
    mean = float(np.sum(chance * centre))
    spread = np.sqrt(max(float(np.sum(chance * (believed.inner + centre**2))) - mean**2, 0.0))
    return float(np.mean(1 / (1 + np.exp(-size * np.abs(mean + spread * typical)))))


def _nodes(mean: Number, deviation: Number) -> tuple[Array, Array]:
    """Points and weights that stand for a normal variable."""
    at, weights = np.polynomial.hermite_e.hermegauss(_POINTS)
    return mean + deviation * at, weights / weights.sum()


def _squares(evidence: "_MarginEvidence") -> Array:
    """E[z²] that are possible, evenly in their logarithms: finely where it was measured well. None
    is smaller than E[z]², whatever noise says of both."""
    (value, deviation), (centre, blur) = evidence.square, evidence.centre
    most = max(value + _FAR * deviation, (abs(centre) + _FAR * blur) ** 2)
    ends = np.log(np.maximum([value - _FAR * deviation, most], 1e-9))
    low, high = np.clip(ends, *_WIDTHS)
    return np.exp(np.linspace(low, max(high, low + 0.1), _STEPS))


def _centres(evidence: "_MarginEvidence", wider: Array) -> tuple[Array, Array]:
    """The same for E[z], which may lie far from the model's own estimate: columns whose means noise
    hides can add up along the weights. ``wider``: than the model has it, the deviation of z."""
    points, weights, (value, deviation) = [], [], evidence.centre
    for chance, drift in _DRIFTS:
        away, blur = (value - evidence.model_centre) / wider, deviation / wider
        at, weight = _nodes(*both(away, blur, np.zeros_like(wider), drift))
        total = np.hypot(drift * wider, deviation)
        points.append(evidence.model_centre + wider * at)
        weights.append(
            weight * chance * np.exp(-0.5 * ((value - evidence.model_centre) / total) ** 2) / total
        )
    return np.concatenate(points, axis=-1), np.concatenate(weights, axis=-1)


@dataclass(frozen=True, kw_only=True)
class _MarginEvidence:
    """What totals say of margins z with E[z²] = 1 under the model's own S: pairs are measured
    numbers with their deviations."""

    label_product: tuple[float, float]  # E[y z]; the deviation without what `report` adds
    report: float  # variance that labels' own noise adds to E[y z], of E[z²]
    square: tuple[float, float]  # E[z²]
    centre: tuple[float, float]  # E[z]
    model_centre: float  # the same, as the model has it
    balance: tuple[float, float]  # E[y]
    counted: tuple[float, float]  # the same, whatever is typical
    humps: float  # by how much Gaussian classes are too far apart
    unseen: float  # how little of what lies between classes the model's S can have


def _judged(moments: NoisyMoments, model: SumsModel, loss: Loss, splits: int) -> _MarginEvidence:
    s, c, noise = model.moments, loss.label_weight, noise_of_q(moments, model.moments)
    model_weights, unit = _margins(model.weights, s), float(np.sqrt(s[-1, -1]))
    label_products, square, centre = [], [], []
    for half in halves(moments, model, loss, splits, part=_PART):
        w, q, square_noise = _margins(half.weights, s), moments.q - half.q, moments.s - half.s
        label_products.append(half.q[0] @ w + q[0] @ model_weights)
        square.append(w @ half.s @ w + model_weights @ square_noise @ model_weights)
        centre.append(w @ half.s[:, -1] + model_weights @ square_noise[:, -1])
    length = float(np.linalg.norm(model_weights))
    alone = moments.square * length**2  # deviation of E[z²]
    blurred = np.sqrt(noise[-1, -1]) / unit / c
    counted = float(moments.q[0, -1] / unit / c), float(_MORE * blurred)
    beside = moments.square * length / np.sqrt(2) / unit
    return _MarginEvidence(
        label_product=(
            float(np.mean(label_products)) / c,
            max(_MORE * moments.label * length / c, 1e-2),
        ),
        report=_MORE**2 * moments.report / c**2,
        square=(float(np.mean(square)), max(_MORE * alone, 1e-2)),
        centre=(float(np.mean(centre)) / unit, float(_MORE * beside)),
        model_centre=float(model_weights @ s[:, -1] / unit),
        balance=both(*counted, 0.0, _BALANCE),
        counted=counted,
        humps=_humps(s),
        unseen=alone**2 / (1 + alone**2),
    )


def _margins(weights: Array, s: Array) -> Array:
    """Weights whose margins have E[z²] = 1."""
    w = weights[0]
    return np.asarray(w / np.sqrt(max(float(w @ s @ w), 1e-300)))


def _humps(s: Array) -> float:
    """What Gaussian classes lack: rows that are all clipped to one norm leave no long margins, and
    two humps where columns are few, so that classes with the same moments overlap more."""
    inner, norms = s[:-1, :-1], float(np.trace(s))  # 1 if all rows are as long as they may be
    columns = float(np.trace(inner)) ** 2 / max(float(np.sum(inner * inner)), 1e-300)
    return max(0.0, 2 * norms - 1) * (_FLAT + _HUMP / columns)
