"""Waves along random directions, the same to the bit in every language.

A cosine of the platform may differ in its last bit from machine to machine, and so may a generator
of random numbers: the waves are polynomials, and their directions come from a public seed by
integers and SHA-256.
"""

import hashlib

import numpy as np

from pdml._types import Array

TURN = 6.283185307179586  # 2π
_GRID = 65536.0  # directions are multiples of 1/65536 of a turn
_MEAN, _DEVIATION = 524280.0, 75674.0  # of the sum of sixteen words of 16 bits
_TERMS = 11  # of the cosine's series


def directions(seed: int, count: int, width: int, scale: float) -> Array:
    """w (count, width) in turns: entries like N(0, 1/(2π·scale)²).

    Entry (k, j) is the sum of the sixteen words of 16 bits in the SHA-256 of
    "pdml-fourier SEED K J" about its mean, over its deviation, rounded to 1/65536 of a turn. It is
    normal but for a kurtosis of 2.93.
    """
    sums = np.array(
        [[_words(f"pdml-fourier {seed} {k} {j}") for j in range(width)] for k in range(count)],
        dtype=np.float64,
    ).reshape(count, width)
    unit = _DEVIATION * TURN * scale
    return np.asarray(np.floor((sums - _MEAN) / unit * _GRID + 0.5) / _GRID)


def wave(t: Array) -> Array:
    """cos(2π t), to 1e-11, by the same operations in every language.

    With u = t - ⌊t⌋ - 1/2 it is -Σ_k (-(2π u)²)^k/(2k)!, summed from the last term.
    """
    u = t - np.floor(t) - 0.5
    v = u * u
    total = np.zeros_like(v)
    for k in range(_TERMS, 0, -1):
        total = (1.0 + total) * v * (-(TURN * TURN) / ((2 * k - 1) * (2 * k)))
    return np.asarray(-1.0 - total)


def _words(text: str) -> int:
    """The sum of the sixteen words of 16 bits of a text's SHA-256."""
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return sum(int.from_bytes(digest[k : k + 2], "big") for k in range(0, 32, 2))
