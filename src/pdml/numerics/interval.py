"""What is expected of a number that nobody has measured: an estimate with its interval."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pdml import _math
from pdml._types import Array

LEVEL, QUANTILE = 0.95, 1.959963984540054  # of an interval, and its reach in deviations
_TENTH = -1.2815515655446004  # below it lies a tenth of a normal variable

Number = TypeVar("Number", float, Array)


@dataclass(frozen=True, kw_only=True)
class Range:
    """An estimate, and the interval in which the truth lies in 80% of trainings."""

    low: float
    middle: float
    high: float

    @property
    def none(self) -> float:
        """The chance that the truth is 0 or less, as if what lies below the middle were normal."""
        return float(_math.ndtr(self.middle * _TENTH / max(self.middle - self.low, 1e-9)))


UNKNOWN = Range(low=0.0, middle=0.5, high=1.0)


def ranged(values: Array, chance: Array, beyond: float, least: float = 0.0) -> Range:
    """Mean and the 10% and 90% quantiles of what is possible."""
    values = np.broadcast_to(values, chance.shape)
    order = np.argsort(values, axis=None)
    shares = np.cumsum(chance.ravel()[order])
    low, high = np.interp([0.1, 0.9], shares, values.ravel()[order])
    middle = float(np.sum(chance * values))
    return Range(
        low=max(least, middle - float(np.hypot(middle - low, beyond))),
        middle=middle,
        high=min(1.0, middle + float(np.hypot(high - middle, beyond))),
    )


def both(value: Number, deviation: Number, typical: Number, spread: float) -> tuple[Number, Number]:
    """A measured number and what is typical, weighted by their precisions; with its deviation."""
    trust = spread**2 / (spread**2 + deviation**2)
    return typical + trust * (value - typical), np.sqrt(trust) * deviation
