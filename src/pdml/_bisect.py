"""Where a monotone condition stops holding: every search for a least or a largest number."""

from collections.abc import Callable
from math import sqrt


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
