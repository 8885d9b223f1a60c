"""Sums and their noise in whole numbers: units of 2^-24, so that totals are exact.

A sum over millions of records is far longer than an iterate, and its noise far coarser: here the
grid is 2^-24 and reaches to ±2^28. A draw is one of `exact_gaussian` on its own grid 2^-40 of a
deviation 2^16 times smaller, read in the larger unit: still exactly a normal variable, rounded to
the nearest grid point. Sums of such numbers are sums of integers: nothing is ever rounded again,
in whatever order, and they can be masked modulo 2^64 (`masks`).
"""

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.mechanisms import exact_gaussian
from pdml.mechanisms.randomness import SecureStream, Stream

BITS = 24
UNIT = 2.0**-BITS
LIMIT = 2.0**28  # of any one sum: with its noise it still fits the 53 bits of a number
LARGEST = exact_gaussian.LARGEST * 2.0 ** (exact_gaussian.BITS - BITS)  # standard deviation

Units = NDArray[np.int64]


def quantize(values: Array) -> Units:
    """Sums as whole numbers of units, each rounded to the nearest."""
    numbers = np.asarray(values, dtype=float)
    if not np.isfinite(numbers).all() or (np.abs(numbers) > LIMIT).any():
        raise InvalidInput(
            f"a sum to be protected by noise must be a number within ±{LIMIT:g}: noise hides "
            "neither NaN nor what does not fit"
        )
    return np.asarray(np.rint(numbers * 2.0**BITS), dtype=np.int64)


def dequantize(units: Units) -> Array:
    """What whole numbers of units stand for: exact up to ±2^29."""
    return np.asarray(units, dtype=float) * UNIT


def sample(stddevs: Array, stream: Stream) -> Units:
    """Independent normal noise, rounded to whole units.

    Guarantees
    ----------
    - From a `SecureStream`, exactly the normal distribution rounded to the nearest unit: a sum of
      it and of a settled value is post-processing of a real Gaussian mechanism.
    """
    scales = np.asarray(stddevs, dtype=float)
    if not (np.isfinite(scales) & (scales >= 0) & (scales <= LARGEST)).all():
        raise InvalidInput(
            f"the noise of a sum must have a standard deviation in [0, {LARGEST:g}], got "
            f"{float(scales.max()):g}"
        )
    if isinstance(stream, SecureStream):
        fine = stream.gaussian(np.empty_like(scales), scales * exact_gaussian.GRID / UNIT)
        return np.asarray(fine / exact_gaussian.GRID, dtype=np.int64)
    return np.asarray(np.rint(stream.standard_normal(scales.shape) * scales / UNIT), dtype=np.int64)


def rounding_shift(size: int) -> float:
    """√size · 2^-24: how much `quantize` can add to the distance of two vectors of ``size``
    coordinates."""
    return float(np.sqrt(size)) * UNIT
