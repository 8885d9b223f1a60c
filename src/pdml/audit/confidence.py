"""From samples of two worlds to a lower bound on ε that holds with a stated probability, and the
finding that holds it against a claim.

(ε, δ)-privacy says P(A) <= e^ε Q(A) + δ for every event A, so an event chosen beforehand gives
ε >= ln((P(A) - δ)/Q(A)). The event is learnt on one part of the samples and counted on the rest,
with Clopper-Pearson limits for both probabilities: the bound is sound whatever was learnt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isinf
from typing import Any

import numpy as np
from scipy.special import betaincinv

from pdml._types import Array

FALSE_ALARM = 1e-6  # the chance that a true claim is reported as violated, per finding


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One claim and the attack on it.

    ``measured_lower_bound`` holds with probability ``confidence``; a claim below it is violated.
    ``quantity`` says what both are: an "epsilon", or a "ratio" to a bound that claims at most 1.
    """

    name: str
    claim: float
    measured_lower_bound: float
    confidence: float
    passed: bool
    sentence: str
    quantity: str = "epsilon"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; infinity as the string "inf"."""
        numbers = {"claim": self.claim, "measured_lower_bound": self.measured_lower_bound}
        return {
            "name": self.name,
            "quantity": self.quantity,
            **{name: "inf" if isinf(value) else value for name, value in numbers.items()},
            "confidence": self.confidence,
            "passed": self.passed,
            "sentence": self.sentence,
        }


def compare(
    name: str,
    claim: float,
    measured: float,
    sentence: str,
    *,
    quantity: str = "epsilon",
    confidence: float = 1 - FALSE_ALARM,
) -> Finding:
    """A finding that passes unless the measured lower bound is above the claim."""
    return Finding(
        name=name,
        claim=float(claim),
        measured_lower_bound=float(measured),
        confidence=confidence,
        passed=bool(measured <= claim),
        sentence=sentence,
        quantity=quantity,
    )


def require_ledger_rows(finding: Finding, sent: int, charged: int) -> Finding:
    """The same, but that every message must have its row of the ledger."""
    if sent == charged:
        return finding
    sentence = f"{sent} messages were sent, but the ledger has rows for {charged}"
    return replace(finding, passed=False, sentence=sentence)


# points of a claimed profile: small ones need many samples, and at large ones a claim that is
# false by little is false by much
DELTAS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
# a smaller claim counts as this where a point is chosen: an expected bound of little may be none
LEAST = 0.1
CALIBRATION = 0.3  # the share of samples from which the event is learnt
# of the largest eigenvalue: directions without any noise count, but do not divide by zero
FLOOR = 1e-12


def at_least(hits: Array | int, trials: int, alpha: float) -> Array:
    """Clopper-Pearson: the probability of a hit is not below this, but for a chance of
    ``alpha``.
    """
    k = np.asarray(hits, dtype=float)
    return np.where(k <= 0, 0.0, betaincinv(np.maximum(k, 1e-9), trials - k + 1, alpha))


def at_most(hits: Array | int, trials: int, alpha: float) -> Array:
    """Clopper-Pearson: the probability of a hit is not above this, but for a chance of
    ``alpha``.
    """
    return 1 - at_least(trials - np.asarray(hits, dtype=float), trials, alpha)


def epsilon_bound(
    hits: Array | int,
    trials: int,
    false_hits: Array | int,
    false_trials: int,
    delta: float,
    alpha: float,
) -> Array:
    """ε >= ln((P(A) - δ)/Q(A)), and 0 where that says nothing, but for a chance of ``alpha``."""
    gained = at_least(hits, trials, alpha / 2) - delta
    return np.log(
        np.maximum(1.0, np.maximum(gained, 0.0) / at_most(false_hits, false_trials, alpha / 2))
    )


@dataclass(frozen=True)
class Separation:
    """How well two worlds could be told apart."""

    epsilon: float  # the lower bound
    delta: float  # at which it holds
    accuracy: float  # of guessing the world at even odds with the same event, as counted


def separate(first: Array, second: Array, delta: float, alpha: float = FALSE_ALARM) -> Separation:
    """The lower bound on ε from transcripts (samples, numbers) of two worlds, all drawn
    independently.
    """
    return contradict(first, second, {delta: 1.0}, alpha)


def contradict(
    first: Array,
    second: Array,
    claims: Mapping[float, float],
    alpha: float = FALSE_ALARM,
) -> Separation:
    """The same where the first samples come closest to contradicting a profile, δ -> ε.

    Like the event, the point is chosen before the counting, so that the bound is sound.
    """
    cut_first, cut_second = int(CALIBRATION * len(first)), int(CALIBRATION * len(second))
    direction = fisher(first[:cut_first], second[:cut_second])
    scores = [first @ direction, second @ direction]
    learnt, counted = (
        [scores[0][:cut_first], scores[1][:cut_second]],
        [scores[0][cut_first:], scores[1][cut_second:]],
    )
    trials = min(map(len, counted))
    events = {delta: _event(learnt, delta, alpha, trials) for delta in claims}
    delta = max(claims, key=lambda candidate: events[candidate][0] / max(claims[candidate], LEAST))
    _, sign, threshold = events[delta]
    inside, outside = (counted[1], counted[0]) if sign > 0 else (-counted[0], -counted[1])
    hits, false_hits = int((inside > threshold).sum()), int((outside > threshold).sum())
    bound = float(epsilon_bound(hits, len(inside), false_hits, len(outside), delta, alpha))
    middle = (float(np.median(learnt[0])) + float(np.median(learnt[1]))) / 2
    right = float((counted[1] > middle).mean()) + float((counted[0] <= middle).mean())
    return Separation(bound, delta, right / 2)


def strongest_separation(
    tests: Sequence[tuple[Array, Array]],
    claims: Mapping[float, float],
    alpha: float = FALSE_ALARM,
) -> Separation:
    """Of several tests of the same worlds, what comes closest to contradicting a profile; each has
    its part of the false-alarm rate.
    """
    separations = [contradict(*worlds, claims, alpha / len(tests)) for worlds in tests]
    return max(
        separations,
        key=lambda separation: (
            separation.epsilon > claims[separation.delta],
            separation.epsilon / max(claims[separation.delta], LEAST),
        ),
    )


def fisher(first: Array, second: Array) -> Array:
    """Σ⁻¹(mean₂ - mean₁): for Gaussian noise of one covariance the likelihood ratio test, and it
    sees correlated noise.
    """
    centred = [np.asarray(side - side.mean(axis=0)) for side in (first, second)]
    covariance = sum(side.T @ side for side in centred) / (len(first) + len(second))
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    scale = np.where(
        scale > 1e-12 * max(1.0, float(np.abs(first).max())), scale, 1.0
    )  # a constant: leave its unit alone
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    values = np.maximum(values, FLOOR * max(float(values[-1]), FLOOR))
    difference = (second.mean(axis=0) - first.mean(axis=0)) / scale
    return np.asarray((vectors @ ((vectors.T @ difference) / values)) / scale)


def _event(
    scores: list[Array],
    delta: float,
    alpha: float,
    trials: int,
) -> tuple[float, int, float]:
    """The largest bound to expect from ``trials`` more samples, and its side and threshold.

    A false hit more than was seen: else a threshold beyond all samples would look best.
    """
    best = (-1.0, 1, 0.0)
    for sign in (1, -1):
        inside, outside = (scores[1], scores[0]) if sign > 0 else (-scores[0], -scores[1])
        candidates = np.unique(np.concatenate([inside, outside]))
        candidates = candidates[
            np.linspace(0, len(candidates) - 1, min(400, len(candidates))).astype(int)
        ]
        hits = len(inside) - np.searchsorted(np.sort(inside), candidates, side="right")
        false_hits = len(outside) - np.searchsorted(np.sort(outside), candidates, side="right")
        rate, false_rate = hits / (len(inside) + 1), (false_hits + 1) / (len(outside) + 1)
        bounds = epsilon_bound(rate * trials, trials, false_rate * trials, trials, delta, alpha)
        k = int(np.argmax(bounds))
        if bounds[k] > best[0]:
            best = (float(bounds[k]), sign, float(candidates[k]))
    return best
