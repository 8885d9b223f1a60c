"""Breiman's twonorm, on which the demo trains."""

from math import sqrt

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.errors import InvalidInput

SHIFT = 2 / sqrt(20)  # a


def twonorm(m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """x ~ N(y a 1, I₂₀), a = 2/√20, P(y = +1) = 1/2: the best classifier is linear and errs with
    probability Φ(-2).

    Parameters
    ----------
    m : int
        How many records.
    rng : numpy.random.Generator

    Returns
    -------
    x : array of shape (m, 20)
    y : array of m labels, -1 or +1
    """
    y = draw_signs(m, rng)
    return SHIFT * y[:, None] + rng.standard_normal((m, 20)), y


def check_arguments(m: int, rng: np.random.Generator) -> tuple[int, np.random.Generator]:
    """Refuse what is no number of records, or no generator."""
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(
            f"rng must be a numpy.random.Generator, got {rng!r}: a sample is reproducible "
            "from its generator"
        )
    return _validate.integer("m", m, low=1, why="it is the number of rows"), rng


def draw_signs(m: int, rng: np.random.Generator) -> Array:
    """Labels; how many are +1 is binomial, as in the published samples."""
    m, rng = check_arguments(m, rng)
    return rng.choice(np.array([-1.0, 1.0]), size=m)
