"""Breiman's artificial problems beside `twonorm`, of which Rätsch's ringnorm and waveform are
z-scored samples.
"""

import numpy as np

from pdml._types import Array
from pdml.simulation.generators import SHIFT, check_arguments, draw_signs


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
    y = draw_signs(m, rng)
    wide = (y == 1)[:, None]
    return np.where(wide, 2, 1) * rng.standard_normal((m, 20)) + np.where(wide, 0, SHIFT), y


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
    m, rng = check_arguments(m, rng)
    pair = rng.integers(3, size=m)
    u = rng.random((m, 1))
    first, second = _WAVES[[0, 0, 1]][pair], _WAVES[[1, 2, 2]][pair]
    return u * first + (1 - u) * second + rng.standard_normal((m, 21)), np.where(
        pair == 1, 1.0, -1.0
    )


_WAVES: Array = np.maximum(6.0 - np.abs(np.arange(1, 22) - np.array([[7], [15], [11]])), 0)
