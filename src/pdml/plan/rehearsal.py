"""What a training will be worth, before anybody releases anything: it is rehearsed on populations.

Every way to a model, joint or not, is judged by one yardstick: how often it chooses the class that
an unprotected model would (agreement), and how often the right one (accuracy), on records that
nobody trained on. The random parts are those of the real thing: flips of labels and privacy noise
of the planned size, and the same function from totals to a model. What both models share, which
people happened to take part, is in the population's own records.
"""

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from pdml._types import Array
from pdml.core import labels, sums
from pdml.core.losses import Loss
from pdml.core.sums_expectation import Range
from pdml.core.sums_model import Measured, Noise, fit_measured, fit_sums
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.plan.populations import Population
from pdml.plan.sizes import Sizes


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What to expect of a model: means over rehearsals, and where 80% of these lie.

    ``agreement`` is the share of records to which it and an unprotected model give one class. With
    public records the range is that of luck in one training; without, that of populations too.
    """

    agreement: Range
    accuracy: Range

    @classmethod
    def of(cls, judged: Array) -> "Forecast":
        """From pairs (agreement, accuracy), one for each rehearsal."""
        return cls(agreement=_range(judged[:, 0]), accuracy=_range(judged[:, 1]))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Plain values for JSON."""
        return {
            name: {"low": one.low, "middle": one.middle, "high": one.high}
            for name, one in (("agreement", self.agreement), ("accuracy", self.accuracy))
        }


def _range(found: Array) -> Range:
    low, high = np.quantile(found, [0.1, 0.9])
    return Range(low=float(low), middle=float(np.mean(found)), high=float(high))


def sums_judged(
    population: Population, sizes: Sizes, noise: Noise, loss: Loss, times: int
) -> list[tuple[float, float]]:
    """One exchange of sums, each time with fresh noise of the size that totals have."""
    q, s = _in_units(population, loss), population.square_moment
    weight = sizes.heard / float(labels.keep_weight(sizes.epsilon, sizes.classes)) ** 2  # V
    label = noise.label / (weight * sizes.norm_bound)
    square = noise.square / (weight * sizes.norm_bound**2)
    values, vectors = np.linalg.eigh(label**2 * np.eye(len(s)) + flip_variance(sizes, loss) * s)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rng = np.random.default_rng([1, len(population.y)])
    found = []
    for _ in range(times):
        fresh = rng.normal(size=s.shape) * square
        given = Measured(
            q=q + rng.normal(size=q.shape) @ root.T,
            s=s + (fresh + fresh.T) / 2,
            label=label,
            square=square,
            report=labels.code_variance(inf, loss, sizes.classes) / weight,
        )
        found.append(population.judged(fit_measured(given, loss).weights))
    return found


def alone_judged(
    population: Population, sizes: Sizes, loss: Loss, times: int
) -> list[tuple[float, float]]:
    """A server of mean size keeps its reports to itself and makes the most of them: its exact sums
    in the same function.
    """
    known = len(population.y)
    many = max(1, int(sizes.heard) // len(sizes.records))
    if many >= known:  # as many people as all of the population: its own moments
        alone = replace(sizes, records=(many,), reports=0.0)
        return sums_judged(population, alone, Noise(label=0.0, square=0.0), loss, times)
    rng, found = np.random.default_rng([2, known]), []
    for turn in range(times):
        own = rng.permutation(known)[:many]
        said = flip_labels(
            population.y[own],
            np.full(many, sizes.epsilon),
            sizes.classes,
            Simulated(turn).stream(LABELS),
        )
        codes = labels.codes(said, sizes.epsilon, sizes.classes)
        exact = sums.exact(population.x[own], codes, loss)
        model = fit_sums(exact, Noise(label=0.0, square=0.0), loss=loss)
        found.append(population.judged(model.weights))
    return found


def majority_judged(population: Population) -> tuple[float, float]:
    """Everybody is taken for a member of the largest class."""
    largest = int(np.bincount(population.y, minlength=population.classes).argmax())
    return population.compared(np.full(len(population.test_y), largest))


def flip_variance(sizes: Sizes, loss: Loss) -> float:
    """What flips add to the variance of q along a direction with E x² = 1, all records together."""
    both = (labels.code_variance(e, loss, sizes.classes) for e in (sizes.epsilon, inf))
    return max(0.0, next(both) - next(both)) / sizes.heard


def _in_units(population: Population, loss: Loss) -> Array:
    """q for the label weight c of ``loss``."""
    return population.label_moment * (loss.label_weight / population.loss.label_weight)
