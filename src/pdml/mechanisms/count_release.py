"""An evaluation as one release: how often a model is right, and how sure it was, counted with noise
(docs/guide/evaluate.md).

The table has a cell for each true class, each class that a model chose, and each bin of how sure it
was. A record stands in one cell, so that another record in its place, or another label, lowers one
count by one and raises another: √2 in Euclidean norm, whatever the model and the number of cells.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from pdml import _validate
from pdml._types import Array, IntArray
from pdml.accounting.events import CountsReleased
from pdml.accounting.profiles import gaussian_mu
from pdml.errors import InvalidInput
from pdml.mechanisms import integer_gaussian
from pdml.mechanisms.integer_gaussian import Units
from pdml.mechanisms.randomness import COUNTS, Source

SHIFT = sqrt(2)
BINS = 5  # of how sure a model was, where nobody says how many
MOST_BINS = 100


@dataclass(frozen=True, kw_only=True)
class Counting:
    """How one evaluation is released: public before anything is counted."""

    stddev: float  # Of the noise in every count
    classes: int  # K
    bins: int = BINS  # Of how sure the model was, from 1/K to 1

    def __post_init__(self) -> None:
        _validate.real("stddev", self.stddev, low=0, high=integer_gaussian.LARGEST)
        _validate.integer("classes", self.classes, low=2)
        _validate.integer("bins", self.bins, low=1, high=MOST_BINS)

    @classmethod
    def within(cls, epsilon: float, delta: float, *, classes: int, bins: int = BINS) -> "Counting":
        """The one with the least noise that is (ε, δ)-private."""
        why = "noise on counts cannot do with less"
        _validate.real("epsilon", epsilon, low=0, high=1e3, open_low=True, why=why)
        _validate.real("delta", delta, low=0, high=1, open_low=True, open_high=True, why=why)
        return cls(stddev=SHIFT / gaussian_mu(epsilon, delta), classes=classes, bins=bins)

    @property
    def shape(self) -> tuple[int, int, int]:
        """True class, chosen class, bin."""
        return self.classes, self.classes, self.bins

    @property
    def event(self) -> CountsReleased:
        """What one release spends."""
        return CountsReleased(stddev=self.stddev, shift=SHIFT)

    def exact(self, truth: IntArray, choice: IntArray, confidence: Array) -> IntArray:
        """The counts themselves: they never leave whoever has the records."""
        if not len(truth) == len(choice) == len(confidence):
            raise InvalidInput("truth, choice and confidence must have one entry for each record")
        bins = binned(confidence, self.classes, self.bins)
        cells = np.ravel_multi_index((truth, choice, bins), self.shape)
        return np.bincount(cells, minlength=int(np.prod(self.shape))).reshape(self.shape)

    def released(self, counts: IntArray, source: Source, server: int = 0) -> Units:
        """What is released of them, with fresh noise: whoever calls this twice releases twice.

        Guarantees
        ----------
        - With a secure source every number is exactly a normal variable about its count, rounded to
          the grid: post-processing of the Gaussian mechanism that `event` names.
        """
        if counts.shape != self.shape:
            raise InvalidInput(f"counts must have the shape {self.shape}, got {counts.shape}")
        noise = integer_gaussian.sample(
            np.full(self.shape, self.stddev), source.stream(COUNTS, server)
        )
        return integer_gaussian.quantize(counts.astype(float)) + noise


def edges(classes: int, bins: int) -> Array:
    """The ends of the bins: from 1/K, the least sure that a model can be of its own choice, to
    certainty."""
    return np.linspace(1 / classes, 1.0, bins + 1)


def binned(confidence: Array, classes: int, bins: int) -> IntArray:
    """The bin of each record, by how sure the model was."""
    inner = edges(classes, bins)[1:-1]
    return np.asarray(np.searchsorted(inner, confidence, side="right"))
