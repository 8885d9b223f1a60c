"""Rademacher complexity of the classifiers {|w| <= W} on given records.

    Rad(W) = (1/m) E_ν sup_{|w| <= W} Σ_j ν_j w·x_j = (W/m) E_ν |Σ_j ν_j x_j| <= (W/m) sqrt(Σ_j
    |x_j|²),

the supremum by Cauchy-Schwarz, the inequality by Jensen and E ν_j ν_k = 0 (j ≠ k).
"""

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np
from scipy.optimize import brentq

from pdml import _validate
from pdml._types import Matrix
from pdml.errors import InvalidInput
from pdml.numerics.admm import rows

_BLOCK = 1 << 22  # signs drawn at a time


def closed_form(x: Matrix, radius: float) -> float:
    """(W/m) sqrt(Σ |x_j|²), at least the complexity; W·B/sqrt(m) if every record is as long as B
    allows.
    """
    lengths = rows.norms(_records(x))
    return _radius(radius) * float(np.linalg.norm(lengths)) / len(lengths)


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """A mean over drawn signs, and an interval that misses the true complexity with probability at
    most ``miss``.
    """

    value: float
    low: float
    high: float
    draws: int
    miss: float


def sampled(
    x: Matrix, radius: float, rng: np.random.Generator, *, draws: int = 200, miss: float = 0.01
) -> Sampled:
    """(W/m) times the mean of |Σ_j ν_j x_j| over ``draws`` vectors of random signs, with a
    central-limit interval.

    One draw of |Σ ν_j x_j| is sub-Gaussian (it is 2·sigma_max(X)-Lipschitz and convex in ν), so
    that the interval is honest from a few dozen draws on; it is not exact.
    """
    records = _records(x)
    draws = _validate.integer(
        "draws", draws, low=10, high=10**7, why="an interval needs several draws"
    )
    miss = _validate.real("miss", miss, low=0, high=1, open_low=True, open_high=True)
    m = records.shape[0]
    scale = _radius(radius) / m
    lengths = []
    for start in range(0, draws, step := max(1, _BLOCK // m)):
        signs = rng.choice(np.array([-1.0, 1.0]), size=(min(step, draws - start), m))
        lengths.append(np.linalg.norm(np.asarray(records.T @ signs.T), axis=0))
    norms = np.concatenate(lengths) * scale
    reach = (
        brentq(lambda z: erfc(z / sqrt(2)) - miss, 0, 40) * float(norms.std(ddof=1)) / sqrt(draws)
    )
    value = float(norms.mean())
    return Sampled(
        value=value, low=max(0.0, value - reach), high=value + reach, draws=draws, miss=miss
    )


def _radius(radius: float) -> float:
    return _validate.real(
        "radius",
        radius,
        low=0,
        high=1e12,
        open_low=True,
        why="the classifiers are the w with |w| <= radius",
    )


def _records(x: Matrix) -> Matrix:
    records = rows.as_rows(x)
    if records.shape[0] == 0:
        raise InvalidInput("x must hold at least one record, got none")
    return records
