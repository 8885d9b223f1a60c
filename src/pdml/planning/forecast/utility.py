"""What a training will be worth, forecast on populations before anybody releases anything.

Every way to a model, joint or not, is judged by the same yardsticks on records that nobody trained
on. The random parts are those of the real thing: label flips, noise of the planned size, the same
fit.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from math import inf

import numpy as np
from scipy.special import stdtrit

from pdml._math import report_weight
from pdml._types import Array, IntArray
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, SUMS, Simulated
from pdml.numerics import coded_rows
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import Loss
from pdml.numerics.interval import Range
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import (
    Noise,
    fit_local_model,
    fit_moments,
    fit_sums,
    normalise_totals,
)
from pdml.numerics.sums.statistics import Sums
from pdml.planning.forecast.synthetic import Population, randomise_rows
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.sizes import Sizes, blocks_of


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What to expect of a model by every yardstick: means over runs and their 80% intervals (of
    luck alone on public records, of populations too without).
    """

    ranges: Mapping[Yardstick, Range]

    @classmethod
    def of(cls, scores: Array) -> "Forecast":
        """From scores (runs, yardsticks)."""
        return cls(ranges={by: _range(scores[:, by.column]) for by in Yardstick})

    @property
    def agreement(self) -> Range:
        """How often it chooses the class that the unprotected model does."""
        return self.ranges[Yardstick.AGREEMENT]

    @property
    def accuracy(self) -> Range:
        """How often it is right."""
        return self.ranges[Yardstick.ACCURACY]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Plain values for JSON."""
        return {by.replace(" ", "_"): asdict(interval) for by, interval in self.ranges.items()}


class Verdict(StrEnum):
    """What may be said of joining before anybody has."""

    PAYS = "pays"
    PAYS_NOT = "does not pay"
    OPEN = "too close to say"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How far one way to a model is ahead of another on the same data sets: 95% interval."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, better: Array, worse: Array) -> "Gain":
        """From scores (data sets, times): data sets differ by far more than repetitions."""
        pairs = better.mean(axis=1) - worse.mean(axis=1)
        if len(pairs) == 1:  # public records: of luck alone
            pairs = better[0] - worse[0].mean()
        middle, reach = float(pairs.mean()), inf
        if len(pairs) > 1:
            quantile = float(stdtrit(len(pairs) - 1, 0.975))
            reach = quantile * float(pairs.std(ddof=1)) / len(pairs) ** 0.5
        return cls(low=middle - reach, middle=middle, high=middle + reach)

    @property
    def verdict(self) -> Verdict:
        """What the interval says."""
        if self.low > 0:
            return Verdict.PAYS
        return Verdict.PAYS_NOT if self.high <= 0 else Verdict.OPEN


def _range(values: Array) -> Range:
    low, high = np.quantile(values, [0.1, 0.9])
    return Range(low=float(low), middle=float(np.mean(values)), high=float(high))


def score_sums(
    population: Population,
    sizes: Sizes,
    noise: Noise,
    loss: Loss,
    times: int,
    *,
    cap: float | None = None,
) -> list[tuple[float, ...]]:
    """One exchange of sums that counts reports up to ``cap``, each time with fresh noise of the
    size that totals have."""
    rng, scores = np.random.default_rng([1, len(population.y)]), []
    for turn in range(times):
        totals, of_rows = _draw_totals(population, sizes, noise, loss, rng, turn, cap)
        measurement = normalise_totals(totals, of_rows, loss=loss)
        scores.append(population.score(fit_moments(measurement, loss).weights))
    return scores


def score_local(
    population: Population,
    sizes: Sizes,
    noise: Noise,
    loss: Loss,
    times: int,
    *,
    cap: float | None = None,
) -> list[tuple[float, ...]]:
    """The local model of a server of mean size: its exact sums with the others' totals, which have
    ``noise``."""
    rng, scores = np.random.default_rng([3, len(population.y)]), []
    others = replace(sizes, records=(_mean_size(sizes),) * (len(sizes.records) - 1))
    for turn in range(times):
        server_sums = _draw_server_sums(population, sizes, loss, rng, turn, cap)
        totals, of_rows = _draw_totals(population, others, noise, loss, rng, turn + times, cap)
        scores.append(
            population.score(fit_local_model(server_sums, totals, of_rows, loss=loss).weights)
        )
    return scores


def _draw_totals(
    population: Population,
    sizes: Sizes,
    noise: Noise,
    loss: Loss,
    rng: np.random.Generator,
    turn: int,
    cap: float | None,
) -> tuple[Sums, Noise]:
    """Totals of so many people like the population's, and their noise, of rows with norm <= 1."""
    q, s = _in_units(population, loss), population.square_moment
    size, bound = sizes.counted_people(cap), sizes.norm_bound
    of_rows = replace(noise, label=noise.label / bound, square=noise.square / bound**2)
    flips = flip_variance(sizes, loss, cap) * population.reported_moment
    values, vectors = np.linalg.eigh((of_rows.label / size) ** 2 * np.eye(len(s)) + flips)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    fresh = rng.normal(size=s.shape) * (of_rows.square / size)
    noisy_q, noisy_s = q + rng.normal(size=q.shape) @ root.T, s + (fresh + fresh.T) / 2
    if population.answers:
        of_q, of_s = _sample_attribute_noise(population, sizes, loss, turn)
        noisy_q, noisy_s = noisy_q + of_q, noisy_s + of_s
    return Sums(label_sum=size * noisy_q, square_sum=size * noisy_s, size=size), of_rows


def _sample_attribute_noise(
    population: Population, sizes: Sizes, loss: Loss, turn: int
) -> tuple[Array, Array]:
    """What randomised answers move q and S by, scaled from the population to the people there are.
    Label flips come on top: they are independent, and 0 on average.
    """
    people = len(population.y)
    rows = randomise_rows(population.x, population.answers, Simulated(turn).stream(SUMS))
    codes = labels.codes(population.y, inf, population.classes)
    sums = statistics.exact(rows, codes, loss, blocks_of(population.answers))
    share = float(np.sqrt(people / sum(sizes.records)))
    of_q = sums.label_sum / people - _in_units(population, loss)
    return share * of_q, share * (sums.square_sum / people - population.square_moment)


def score_alone(
    population: Population, sizes: Sizes, loss: Loss, times: int
) -> list[tuple[float, ...]]:
    """A server of mean size makes the most of its own reports, by its exact sums."""
    rng, scores = np.random.default_rng([2, len(population.y)]), []
    exactly = _exactly(sizes)
    for turn in range(times):
        server_sums = _draw_server_sums(population, sizes, loss, rng, turn)
        scores.append(population.score(fit_sums(server_sums, exactly, loss=loss).weights))
    return scores


def _draw_server_sums(
    population: Population,
    sizes: Sizes,
    loss: Loss,
    rng: np.random.Generator,
    turn: int,
    cap: float | None = None,
) -> Sums:
    """The exact sums of a server of mean size."""
    many = _mean_size(sizes)
    if many >= len(population.y):  # all of the population: its own moments
        alone = replace(sizes, records=(many,))
        return _draw_totals(population, alone, _exactly(sizes), loss, rng, turn, cap)[0]
    members = rng.permutation(len(population.y))[:many]
    x, stream = population.x[members], Simulated(turn).stream(LABELS)
    levels, shares = sizes.expected_choices
    epsilons = rng.permutation(levels[_divide(many, shares)])
    reports = flip_labels(population.y[members], epsilons, sizes.classes, stream)
    codes = labels.codes(reports, epsilons, sizes.classes)
    if population.answers:
        x = randomise_rows(x, population.answers, Simulated(turn).stream(SUMS))
    most = report_weight(inf if cap is None else cap, sizes.classes)
    return statistics.exact(x, codes, loss, blocks_of(population.answers), cap_weight=float(most))


def _mean_size(sizes: Sizes) -> int:
    return max(1, sum(sizes.records) // len(sizes.records))


def _exactly(sizes: Sizes) -> Noise:
    """Of sums that nobody adds noise to."""
    coded = coded_rows.variance(blocks_of(sizes.answers), sizes.width)
    return Noise(label=0.0, square=0.0, coded=coded)


def _divide(many: int, shares: Array) -> IntArray:
    """Which of the kinds each of so many people is, in order: as many of each as its share."""
    ranks = (np.arange(many) + 0.5) / many
    return np.searchsorted(np.cumsum(shares[:-1]), ranks)


def flip_variance(sizes: Sizes, loss: Loss, cap: float | None = None) -> float:
    """What flips add to the variance of q along a direction with E x² = 1, all records together:
    Σ v²(κ² - 1)/V², for two classes."""
    epsilons, shares = sizes.expected_choices
    weights = report_weight(epsilons, sizes.classes, inf if cap is None else cap)
    variances = [labels.code_variance(e, loss, sizes.classes) for e in (*epsilons.tolist(), inf)]
    noisy, true = np.array(variances[:-1]), variances[-1]
    people = float(sum(sizes.records))
    moved, counted = shares @ (weights**2 * (noisy - true)), shares @ weights
    return float(moved / (people * counted**2))


def _in_units(population: Population, loss: Loss) -> Array:
    """q for the label weight c of ``loss``."""
    return population.label_moment * (loss.label_weight / population.loss.label_weight)
