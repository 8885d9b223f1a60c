"""What every rival is given, what it proves, and how guarantees of single rounds add up to it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import exp, log1p

import numpy as np
from scipy.special import gammaln

from pdml import _validate
from pdml._math import bisect
from pdml._types import Array, IntArray, Matrix
from pdml.accounting.profiles import Profile, Values
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.losses import LOGISTIC
from pdml.planning.search.planner import Sizes
from pdml.research.datasets.catalogue import DATASETS, Dataset
from pdml.research.paper import experiment
from pdml.research.paper.experiment import DELTA

LOSS = LOGISTIC


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


@dataclass(frozen=True)
class Task:
    """Rows of norm at most 1 with their constant column, and true class indices 0 and 1; ``seed``
    fixes all randomised responses and noise.
    """

    x: Matrix
    y: IntArray
    test_x: Matrix
    test_y: IntArray
    seed: int

    @cached_property
    def cuts(self) -> list[tuple[int, int]]:
        """Where each server's records begin and end."""
        return list(
            pairwise(np.linspace(0, len(self.y), experiment.SERVERS + 1).astype(int).tolist())
        )

    @property
    def width(self) -> int:
        return int(self.x.shape[1])

    def codes(self, epsilon: float) -> Array:
        """De-biased codes of the labels as reported with ε; ε = ∞ reports the truth. The same
        people flip in every rival.
        """
        return labels.codes(self.reported(epsilon), epsilon, 2)

    def reported(self, epsilon: float) -> IntArray:
        """The labels as their owners report them."""
        return flip_labels(
            self.y, np.full(len(self.y), epsilon), 2, Simulated(self.seed).stream(LABELS)
        )

    def sizes(self, epsilon: float) -> Sizes:
        return Sizes(records=tuple(b - a for a, b in self.cuts), width=self.width, epsilon=epsilon)

    def generator(self, rival: int) -> np.random.Generator:
        """Noise of a rival's own."""
        return np.random.default_rng([self.seed, 78, rival])

    def accuracy(self, weights: Array) -> float:
        return experiment.accuracy(weights, self.test_x, self.test_y)


@cache
def _bounded(dataset: Dataset) -> tuple[Matrix, IntArray]:
    x, y = dataset.load()
    return experiment.bounded(x), y


def load(dataset: str | Dataset, seed: int) -> Task:
    """A set split at random into training and test records."""
    dataset = DATASETS.resolve(dataset)
    x, y = experiment.shuffled(*_bounded(dataset), seed)
    tested = dataset.test_records
    return Task(rows.as_rows(x[tested:]), y[tested:], rows.as_rows(x[:tested]), y[:tested], seed)


def regression(x: Matrix, mean: Array, ridge: float) -> Array:
    """argmin (1/m) Σ log(2 cosh(w·x/2)) - mean·w + (ridge/2)|w|²: logistic regression, its labels
    folded into ``mean``.
    """
    from pdml.numerics.admm.solver import PrimalSolver

    weights, _ = PrimalSolver(x, LOSS, ridge).solve(mean.reshape(1, 1, -1), 1e-9)
    return np.asarray(weights[0, 0])
