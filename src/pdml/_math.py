"""Mathematics that accounting and numerics share: what we use of scipy.special, loaded when it is
first called, the search for where a condition stops holding, and the weight of a report.

Devices know plans and budgets by their names and never compute with them: `pip install pdml` leaves
scipy out, and a device starts without it.
"""

from collections.abc import Callable
from functools import cache
from math import inf, sqrt
from typing import Any

import numpy as np

from pdml import extras
from pdml._types import Array


def _late(name: str) -> Callable[..., Any]:
    @cache
    def loaded() -> Any:
        with extras.needed():
            from scipy import special
        return getattr(special, name)

    def call(*values: Any, **options: Any) -> Any:
        return loaded()(*values, **options)

    return call


betainc, expit = _late("betainc"), _late("expit")
log_ndtr, ndtr, ndtri = _late("log_ndtr"), _late("ndtr"), _late("ndtri")
logsumexp, softmax = _late("logsumexp"), _late("softmax")


def arithmetic(a: float, b: float) -> float:
    """The middle on a line."""
    return (a + b) / 2


def geometric(a: float, b: float) -> float:
    """The middle of two positive numbers on a logarithmic scale."""
    return sqrt(a * b)


def whole(a: float, b: float) -> float:
    """The middle of two whole numbers, which is one too; to be searched to 1."""
    return (a + b) // 2


def bisect(
    holds: Callable[[float], bool],
    good: float,
    bad: float,
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
    middle: Callable[[float, float], float] = arithmetic,
) -> float:
    """The end of what holds, as seen from ``good``, which holds; ``bad``, on either side, does not.

    Neither end is tried. The search ends once they lie no farther apart than ``absolute``, or
    ``relative`` times the larger one; what it returns has been seen to hold, so that an answer is
    on the safe side of the truth.

    >>> bisect(lambda x: x * x <= 2, 0.0, 2.0, absolute=1e-12)
    1.414213562372...
    >>> bisect(lambda n: n * n >= 50, 100, 0, absolute=1, middle=whole)
    8
    """
    while abs(bad - good) > max(absolute, relative * max(good, bad)):
        between = middle(good, bad)
        if holds(between):
            good = between
        else:
            bad = between
    return good


def keep_weight(epsilon: Array | float, classes: int) -> Array:
    """(e^ε + K - 1)/(e^ε - 1) = 1 + K/(e^ε - 1): how much louder a report must speak to be right on
    average; for K = 2 this is κ(ε).
    """
    with np.errstate(over="ignore"):
        return np.asarray(1 + classes / np.expm1(np.asarray(epsilon, dtype=float)))


def report_weight(epsilon: Array | float, classes: int, cap: float = inf) -> Array:
    """v = 1/κ(min(ε, cap))²: how much a report counts in sums, from near 0 up to 1."""
    return np.asarray(keep_weight(np.minimum(epsilon, cap), classes) ** -2.0)
