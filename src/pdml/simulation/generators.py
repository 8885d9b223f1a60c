"""Breiman's artificial problems, of which Rätsch's twonorm, ringnorm and waveform are z-scored
samples. The number of labels +1 is binomial, as in the published samples.
"""

from math import sqrt

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.errors import InvalidInput

_SHIFT = 2 / sqrt(20)  # a


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
    y = _signs(m, rng)
    return _SHIFT * y[:, None] + rng.standard_normal((m, 20)), y


def ringnorm(m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """x ~ N(0, 4 I₂₀) if y = +1, N(a 1, I₂₀) if y = -1, a = 2/√20, P(y = +1) = 1/2: one class
    surrounds the other.

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
    y = _signs(m, rng)
    wide = (y == 1)[:, None]
    return np.where(wide, 2, 1) * rng.standard_normal((m, 20)) + np.where(wide, 0, _SHIFT), y


def waveform(m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """x = u h_b + (1-u) h_c + N(0, I₂₁), u ~ U(0, 1), h_c(i) = max(6 - |i-c|, 0), i = 1..21.

    The pair (b, c) is (7, 15), (7, 11) or (15, 11) with probability 1/3 each; y = +1 for (7, 11),
    so that +1 is the rarer class.

    Parameters
    ----------
    m : int
        How many records.
    rng : numpy.random.Generator

    Returns
    -------
    x : array of shape (m, 21)
    y : array of m labels, -1 or +1
    """
    m, rng = _checked(m, rng)
    pair = rng.integers(3, size=m)
    u = rng.random((m, 1))
    first, second = _WAVES[[0, 0, 1]][pair], _WAVES[[1, 2, 2]][pair]
    return u * first + (1 - u) * second + rng.standard_normal((m, 21)), np.where(
        pair == 1, 1.0, -1.0
    )


_WAVES: Array = np.maximum(6.0 - np.abs(np.arange(1, 22) - np.array([[7], [15], [11]])), 0)


def _checked(m: int, rng: np.random.Generator) -> tuple[int, np.random.Generator]:
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(
            f"rng must be a numpy.random.Generator, got {rng!r}: a sample is reproducible "
            "from its generator"
        )
    return _validate.integer("m", m, low=1, why="it is the number of rows"), rng


def _signs(m: int, rng: np.random.Generator) -> Array:
    m, rng = _checked(m, rng)
    return rng.choice(np.array([-1.0, 1.0]), size=m)
