"""What every rival is given: records for training and for testing, dealt to the servers of one
graph.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np

from pdml import _validate
from pdml._types import Array, IntArray, Matrix
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.losses import binary_loss
from pdml.planning.search.planner import Sizes
from pdml.research.datasets.catalogue import DATASETS, Dataset
from pdml.research.paper import experiment

LOSS = binary_loss("logistic")


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
    if isinstance(dataset, str):
        dataset = DATASETS[_validate.choice("name", dataset, tuple(DATASETS))]
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
