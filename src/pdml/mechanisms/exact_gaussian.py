"""Gaussian noise on the grid 2^-40 from random 64-bit words: exactly the normal distribution,
rounded to the nearest grid point.

Why rounded, rather than the discrete Gaussian: with x on the grid, x + round(θ) = round(x + θ), so
a release is post-processing of the continuous Gaussian mechanism and the ledger's formulas hold to
the letter in every dimension, at every scale and under composition. (The discrete Gaussian obeys
them only up to e^(-2π²σ²), σ in grid steps.)

How a draw is made. |Z| = (k + u)/16 with a bin k and u uniform in [0, 1). A word's low 16 bits
choose the bin by a table in which bin k fills c_k of 2^16 slots; then z is kept with probability
a(z) = H·e^(-z²/2)/c_k, where c_k >= H·e^(-(k/16)²/2) makes a(z) <= 1. Kept values have density
c_k/2^16 · a(z), proportional to e^(-z²/2). Values beyond 40 are never proposed, which changes the
distribution by less than e^-800.

Why that is exact although it is fast. Random reals are known to 64 bits and extended only when a
question needs more. Most questions are answered by comparing integers; some by floating point, but
only where the answer is farther from the threshold than a margin that exceeds every rounding error;
the rest by integers and decimals of growing precision. Hence no answer ever depends on rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array
from pdml.errors import InvalidInput

Words = NDArray[np.uint64]
Entropy = Callable[[int], Words]
"""``entropy(count)``: that many independent uniform 64-bit words."""

BITS = 40
GRID = 2.0**-BITS
LIMIT = 2.0**12  # of noise and of what it is added to: their sum fits 53 bits exactly
LARGEST = 64.0  # standard deviation; 40 of them lie within LIMIT

STEPS, REACH, SLOTS, HEIGHT = 16, 40, 1 << 16, 3159  # bins per unit, largest |Z|, Σ c_k, H
SLOT_MASK, SIGN_BIT = np.uint64(SLOTS - 1), np.uint64(1 << 16)
TEST_SHIFT, TEST_BITS = np.uint64(17), 47
KEEP_MARGIN = 2.0**-30  # floating point computes a(z) to 2^-40
ROUND_MARGIN = 2.0**-50  # and σz to 2^-51 of itself


@dataclass(frozen=True)
class Tables:
    """``bins``: slot -> k. ``counts``: c_k. ``sure``: below this a 47-bit word is kept wherever in
    bin k its z lies."""

    bins: NDArray[np.uint16]
    counts: Array
    sure: Words


@lru_cache(maxsize=1)
def tables() -> Tables:
    with localcontext() as context:
        context.prec = 60
        heights = [
            HEIGHT * (-Decimal(k * k) / (2 * STEPS * STEPS)).exp() for k in range(STEPS * REACH + 1)
        ]
        counts = [int(height.to_integral_value(rounding=ROUND_CEILING)) for height in heights[:-1]]
        counts[0] += SLOTS - sum(counts)
        # The lowest acceptance of a bin is at its end; one less than its floor absorbs the 60
        # digits' own rounding.
        sure = [
            int((2**TEST_BITS * h / c).to_integral_value(rounding=ROUND_FLOOR)) - 1
            for h, c in zip(heights[1:], counts, strict=True)
        ]
    bins = np.repeat(np.arange(len(counts), dtype=np.uint16), counts)
    return Tables(
        bins,
        np.array(counts, dtype=float),
        np.array([max(value, 0) for value in sure], dtype=np.uint64),
    )


@dataclass(frozen=True)
class Normals:
    """Standard normal reals known to 2^-68: |Z| in [(k + u/2^64)/16, (k + (u+1)/2^64)/16).

    ``deep`` holds the few whose u is known to more than 64 bits, as index -> (u, bits).
    """

    k: NDArray[np.uint16]
    u: Words
    negative: NDArray[np.bool_]
    deep: dict[int, tuple[int, int]]


def standard_normals(count: int, entropy: Entropy) -> Normals:
    """``count`` independent standard normal reals."""
    parts = [_propose(count + count // 16 + 8, entropy)]
    while (missing := count - sum(len(part.k) for part in parts)) > 0:
        parts.append(_propose(missing + missing // 16 + 8, entropy))
    starts = np.cumsum([0, *(len(part.k) for part in parts)]).tolist()
    deep = {
        start + i: value
        for start, part in zip(starts, parts, strict=False)
        for i, value in part.deep.items()
    }
    return Normals(
        np.concatenate([part.k for part in parts])[:count],
        np.concatenate([part.u for part in parts])[:count],
        np.concatenate([part.negative for part in parts])[:count],
        {i: value for i, value in deep.items() if i < count},
    )


def _propose(count: int, entropy: Entropy) -> Normals:
    """Propose ``count`` values and keep each with probability a(z)."""
    words = entropy(2 * count)
    word, u = words[:count], words[count:]
    table = tables()
    k = table.bins[word & SLOT_MASK]
    test = word >> TEST_SHIFT
    keep = test < table.sure[k]
    deep: dict[int, tuple[int, int]] = {}
    open_ = np.flatnonzero(~keep)
    if open_.size:
        z = _floats(k[open_], u[open_])
        gap = (
            np.exp(-0.5 * z * z) * (HEIGHT / table.counts[k[open_]]) - test[open_] * 2.0**-TEST_BITS
        )
        keep[open_] = gap > 0
        for i in open_[np.abs(gap) <= KEEP_MARGIN].tolist():
            keep[i], deep[i] = keep_exactly(int(k[i]), int(u[i]), int(test[i]), entropy)
    kept = np.flatnonzero(keep)
    extra_bits = {
        int(np.searchsorted(kept, i)): value
        for i, value in deep.items()
        if keep[i] and value[1] > 64
    }
    return Normals(k[kept], u[kept], (word[kept] & SIGN_BIT) != 0, extra_bits)


def _floats(k: NDArray[np.uint16], u: Words) -> Array:
    return np.asarray((k + u * 2.0**-64) * (1 / STEPS))


def keep_exactly(k: int, u: int, test: int, entropy: Entropy) -> tuple[bool, tuple[int, int]]:
    """Is the real V that begins with ``test`` below a(z), z beginning with (k, u)? Also u with the
    bits it took."""
    bits, test_bits = 64, TEST_BITS
    count = int(tables().counts[k])
    while True:
        with localcontext() as context:
            context.prec = digits = 40 + test_bits // 2
            # of e^(-z²/2), relative: z² <= 1600, and Decimal rounds exp correctly
            error = Decimal(10) ** (6 - digits)
            unit = Decimal(STEPS << bits)
            far, near = (Decimal((k << bits) + u + end) / unit for end in (1, 0))
            low, high = (
                HEIGHT * (-z * z / 2).exp() / count * (1 + sign * error)
                for z, sign in ((far, -1), (near, 1))
            )
            scale = Decimal(1 << test_bits)
            if (test + 1) / scale * (1 + error) <= low:
                return True, (u, bits)
            if test / scale * (1 - error) >= high:
                return False, (u, bits)
        more = entropy(2)
        u, bits = u << 64 | int(more[0]), bits + 64
        test, test_bits = test << 64 | int(more[1]), test_bits + 64


def round_exactly(k: int, u: int, bits: int, sigma: float, entropy: Entropy) -> int:
    """The integer nearest to σ|Z|, |Z| beginning with (k, u)."""
    top, bottom = float(sigma).as_integer_ratio()
    while True:
        half = STEPS * bottom << bits  # σ|Z| + 1/2 lies in [low, high) / (2·half)
        low = 2 * top * ((k << bits) + u) + half
        nearest = low // (2 * half)
        if low + 2 * top <= (nearest + 1) * 2 * half:
            return nearest
        u, bits = u << 64 | int(entropy(1)[0]), bits + 64


def gaussian(shape: tuple[int, ...], stddev: Any, entropy: Entropy) -> Array:
    """Normal noise rounded to the grid; ``stddev`` is a number or broadcasts to ``shape``."""
    scales = np.asarray(stddev, dtype=float)
    if not (np.isfinite(scales).all() and (scales >= 0).all() and (scales <= LARGEST).all()):
        raise InvalidInput(
            f"the standard deviation of secure noise must lie in [0, {LARGEST:g}], got {stddev}: "
            f"with the grid of 2^-{BITS}, larger values do not fit the 53 bits of a number"
        )
    sigma = np.broadcast_to(scales / GRID, shape).ravel()
    draws = standard_normals(sigma.size, entropy)
    value = _floats(draws.k, draws.u) * sigma + 0.5
    nearest = np.floor(value)
    fraction = value - nearest
    margin = value * ROUND_MARGIN + sigma * 2.0**-67
    unsure = np.flatnonzero(np.minimum(fraction, 1 - fraction) <= margin).tolist()
    for i in {*unsure, *draws.deep}:
        u, bits = draws.deep.get(i, (int(draws.u[i]), 64))
        nearest[i] = round_exactly(int(draws.k[i]), u, bits, float(sigma[i]), entropy)
    nearest *= GRID
    np.negative(nearest, where=draws.negative, out=nearest)
    return nearest.reshape(shape)


def cells(bound: float) -> int:
    """The largest whole b with (b + 1/2)·2^-40 <= bound: grid points up to ±b are what a bound of
    that size leaves after rounding."""
    if not (isfinite(bound) and 0 < bound <= LIMIT):
        raise InvalidInput(f"the bound of secure noise must lie in (0, {LIMIT:g}], got {bound!r}")
    top, bottom = float(bound).as_integer_ratio()
    b = (2 * (top << BITS) - bottom) // (2 * bottom)
    if b < 1:
        raise InvalidInput(
            f"the bound of secure noise must span the grid of 2^-{BITS}, got {bound!r}"
        )
    return b


def truncated_gaussian(
    shape: tuple[int, ...], stddev: float, bound: float, entropy: Entropy
) -> Array:
    """A normal variable given |·| <= (b + 1/2)·2^-40 (`cells`), rounded to the grid; never beyond
    ``bound``."""
    farthest = cells(bound) * GRID
    if not stddev <= bound:
        raise InvalidInput(
            f"the bound of secure noise must be at least its standard deviation {stddev!r}, "
            f"got {bound!r}"
        )
    noise = gaussian(shape, stddev, entropy)
    while (outside := np.abs(noise) > farthest).any():
        noise[outside] = gaussian((int(outside.sum()),), stddev, entropy)
    return noise


def round_to_grid(values: Array) -> Array:
    """``values`` clipped to ± LIMIT and rounded to the grid, so that grid noise can be added
    without any rounding.

    Clipping moves two vectors no farther apart; rounding moves each coordinate by at most half a
    grid step. So two vectors at distance D are at most D + √size · 2^-40 apart afterwards
    (`rounding_shift`).

    A zero has no sign: it would tell from which side it was rounded.
    """
    if not np.isfinite(values).all():
        raise InvalidInput(
            "a vector to be protected by secure noise must hold finite numbers only: noise "
            "hides neither NaN nor infinity"
        )
    scaled = np.clip(values, -LIMIT, LIMIT) * 2.0**BITS
    return np.asarray(np.rint(scaled, out=scaled) * GRID + 0.0)


def on_grid(values: Array) -> bool:
    """Whether `round_to_grid` and noise from here can have made ``values``: they lie on the grid
    2^-40."""
    scaled = np.asarray(values) * 2.0**BITS
    return bool(np.all(np.abs(values) <= 2 * LIMIT) and np.all(scaled == np.rint(scaled)))


def rounding_shift(size: int) -> float:
    """√size · 2^-40: how much `round_to_grid` can add to the distance between two vectors of
    ``size`` coordinates."""
    return float(np.sqrt(size)) * GRID
