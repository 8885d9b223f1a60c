"""From samples of two worlds to a lower bound on ε that holds with a stated probability.

(ε, δ)-privacy says P(A) <= e^ε Q(A) + δ for every event A, so an event chosen beforehand gives ε >= ln((P(A) - δ)/Q(A)).
The event is learnt on one part of the samples and counted on the rest, with Clopper-Pearson limits for both
probabilities: whatever was learnt, the bound is sound; learning badly only makes it weak.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from pdml._types import Array
from pdml.audit.finding import FALSE_ALARM

CALIBRATION = 0.3  # the share of samples from which the event is learnt
FLOOR = 1e-12  # of the largest eigenvalue: directions without any noise count, but do not divide by zero


def at_least(hits: Array | int, trials: int, alpha: float) -> Array:
    """Clopper-Pearson: the probability of a hit is not below this, but for a chance of ``alpha``."""
    k = np.asarray(hits, dtype=float)
    return np.where(k <= 0, 0.0, betaincinv(np.maximum(k, 1e-9), trials - k + 1, alpha))


def at_most(hits: Array | int, trials: int, alpha: float) -> Array:
    """Clopper-Pearson: the probability of a hit is not above this, but for a chance of ``alpha``."""
    return 1 - at_least(trials - np.asarray(hits, dtype=float), trials, alpha)


def epsilon_bound(hits: Array | int, trials: int, false_hits: Array | int, false_trials: int, delta: float, alpha: float) -> Array:
    """ε >= ln((P(A) - δ)/Q(A)), and 0 where that says nothing, but for a chance of ``alpha``."""
    gained = at_least(hits, trials, alpha / 2) - delta
    return np.log(np.maximum(1.0, np.maximum(gained, 0.0) / at_most(false_hits, false_trials, alpha / 2)))


@dataclass(frozen=True)
class Separation:
    """How well two worlds could be told apart."""

    epsilon: float  # the lower bound
    accuracy: float  # of guessing the world at even odds with the same event, as counted


def separate(first: Array, second: Array, delta: float, alpha: float = FALSE_ALARM) -> Separation:
    """The lower bound on ε from transcripts (samples, numbers) of two worlds, all drawn independently."""
    cut_first, cut_second = int(CALIBRATION * len(first)), int(CALIBRATION * len(second))
    direction = fisher(first[:cut_first], second[:cut_second])
    scores = [first @ direction, second @ direction]
    learnt, counted = [scores[0][:cut_first], scores[1][:cut_second]], [scores[0][cut_first:], scores[1][cut_second:]]
    sign, threshold = _event(learnt, delta, alpha)
    inside, outside = (counted[1], counted[0]) if sign > 0 else (-counted[0], -counted[1])
    hits, false_hits = int((inside > threshold).sum()), int((outside > threshold).sum())
    bound = float(epsilon_bound(hits, len(inside), false_hits, len(outside), delta, alpha))
    middle = (float(np.median(learnt[0])) + float(np.median(learnt[1]))) / 2
    return Separation(bound, (float((counted[1] > middle).mean()) + float((counted[0] <= middle).mean())) / 2)


def fisher(first: Array, second: Array) -> Array:
    """Σ⁻¹(mean₂ - mean₁): for Gaussian noise of one covariance the likelihood ratio test, and it sees correlated noise."""
    centred = [np.asarray(side - side.mean(axis=0)) for side in (first, second)]
    covariance = sum(side.T @ side for side in centred) / (len(first) + len(second))
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    scale = np.where(scale > 1e-12 * max(1.0, float(np.abs(first).max())), scale, 1.0)  # a constant: leave its unit alone
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    values = np.maximum(values, FLOOR * max(float(values[-1]), FLOOR))
    difference = (second.mean(axis=0) - first.mean(axis=0)) / scale
    return np.asarray((vectors @ ((vectors.T @ difference) / values)) / scale)


def _event(scores: list[Array], delta: float, alpha: float) -> tuple[int, float]:
    """The side and threshold with the largest bound on these samples alone: their few hits count with all their uncertainty."""
    best = (-1.0, 1, 0.0)
    for sign in (1, -1):
        inside, outside = (scores[1], scores[0]) if sign > 0 else (-scores[0], -scores[1])
        candidates = np.unique(np.concatenate([inside, outside]))
        candidates = candidates[np.linspace(0, len(candidates) - 1, min(400, len(candidates))).astype(int)]
        hits = len(inside) - np.searchsorted(np.sort(inside), candidates, side="right")
        false_hits = len(outside) - np.searchsorted(np.sort(outside), candidates, side="right")
        bounds = epsilon_bound(hits, len(inside), false_hits, len(outside), delta, alpha)
        k = int(np.argmax(bounds))
        if bounds[k] > best[0]:
            best = (float(bounds[k]), sign, float(candidates[k]))
    return best[1], best[2]
