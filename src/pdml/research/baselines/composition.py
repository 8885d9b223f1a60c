"""What a rival proves, and how guarantees of single rounds add up to it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log1p

import numpy as np
from scipy.special import gammaln

from pdml import _validate
from pdml._math import bisect
from pdml.accounting.profiles import Profile, Values
from pdml.research.paper.experiment import DELTA


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """ε of one person's label and features against whoever may see something; infinite where
    nothing holds.

    The collector receives the record itself (a person's server, or a curator), so that it has the
    features in every case; others see what is sent or published. Against others ε holds at δ =
    `DELTA`, against the collector at δ = 0.
    """

    label_collector: float
    label_others: float
    features_others: float


def repeated_profile(alpha: float, rounds: int) -> Profile:
    """The exact δ(ε) of T pure α-private rounds of which nothing else is known (Kairouz, Oh,
    Viswanath 2015).

    The worst such rounds are T randomised responses: δ(ε) = Σ_k [P(k) - e^ε P(T-k)]₊, P binomial(T,
    e^α/(1 + e^α)). It holds for rounds that depend on earlier ones.
    """
    _validate.real("alpha", alpha, low=0)
    _validate.integer("rounds", rounds, low=1)
    k = np.arange(rounds + 1)
    ways = gammaln(rounds + 1) - gammaln(k + 1) - gammaln(rounds - k + 1)
    likely = ways - k * log1p(exp(-alpha)) - (rounds - k) * (alpha + log1p(exp(-alpha)))

    def delta(epsilon: Values) -> Values:
        second = np.exp(np.minimum(700.0, np.asarray(epsilon)[..., None] + likely[::-1]))
        excess = np.maximum(0.0, np.exp(likely) - second).sum(axis=-1)
        return np.where(epsilon >= rounds * alpha, 0.0, excess)[()]

    return delta


def per_round(epsilon: float, rounds: int) -> float:
    """The largest α with which T rounds are (ε, `DELTA`)-private; at least ε/T, by which they are
    ε-private.
    """
    return _largest(
        lambda alpha: repeated_profile(alpha, rounds)(epsilon) <= DELTA, epsilon / rounds, epsilon
    )


def _largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number that holds, to 10⁻¹² and rounded down; ``low`` does."""
    if holds(high):
        return high
    return bisect(holds, low, high, absolute=1e-12, relative=1e-12)
