"""Randomised answers as rows and sums take them (docs/concepts/attributes.md).

An answer with L levels is reported as l' by L-ary randomised response with ε. Its centred and
de-biased code

    c = w·(e_l' - 1/L),        w = (e^ε + L - 1)/(e^ε - 1) >= 1,

has the expectation e_l - 1/L, which is how a level in the clear enters a row. Rows hold g·c: the
scale g is public and such that the longest code, that of the menu's smallest ε, fits into the row's
norm. Nothing is clipped by what a person answered, which would bias it.

**Sums.** Responses to different questions, the label's too, are independent: Q and S are unbiased
but for the block of S in which a code meets itself. There the expectation is known, because
e_l e_lᵀ = diag(e_l): the block is replaced by what is linear in c,

    (e_l - 1/L)(e_l - 1/L)ᵀ = E[diag(c) + I/L - (c1ᵀ + 1cᵀ)/L - 11ᵀ/L²].

That never moves S farther than the block that it replaces (w >= 1), so that every bound on one
record's influence stays (docs/proofs/attributes.md has the proof).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from functools import lru_cache
from math import sqrt

import numpy as np

from pdml._types import Array, IntArray

CONSTANT = 0.2  # the last entry of a row, for the intercept
MARGIN = 1 - 2.0**-20  # the longest norm: outweighs the rounding of every entry to float32
_MILLION = 1_000_000
_UNIT = 1 << 40
_UNEVEN = 4.0  # chosen on simulated data sets (docs/proofs/attributes.md)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Where one randomised answer stands in a row."""

    name: str  # The question's
    start: int  # Its first column
    levels: int  # L, its columns
    scale: float  # g
    length: float  # The norm of its longest code, which is that of the smallest ε
    epsilon: float  # The largest ε that people may have chosen

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + self.levels)

    @property
    def true_length(self) -> float:
        """The norm of an answer as it is, not randomised."""
        return self.scale * sqrt(1.0 - 1.0 / self.levels)


@lru_cache(maxsize=4096)
def weight(micro_epsilon: int, levels: int) -> float:
    """w = 1 + L/(e^ε - 1), rounded down to a multiple of 2^-40: the same bits on every device."""
    with localcontext() as context:
        context.prec = 80
        odds = (Decimal(micro_epsilon) / _MILLION).exp()
        exact = (odds + levels - 1) / (odds - 1)
        return int((exact * _UNIT).to_integral_value(rounding=ROUND_FLOOR)) / _UNIT


def weights(micro_epsilons: IntArray, levels: int) -> Array:
    """w of each ε."""
    distinct, which = np.unique(micro_epsilons, return_inverse=True)
    return np.array([weight(micro, levels) for micro in distinct.tolist()])[which.ravel()]


def layout_blocks(
    start: int, mass: float, questions: Sequence[tuple[str, float, Sequence[int], int]]
) -> tuple[Block, ...]:
    """Blocks one after the other from column ``start`` on; each has the part of a row's squared
    norm that its mass is of all masses."""
    blocks = []
    for name, question_mass, menu, levels in questions:
        length = MARGIN * sqrt((1.0 - CONSTANT * CONSTANT) * (question_mass / mass))
        loudest = weight(menu[0], levels) * sqrt(1.0 - 1.0 / levels)
        block = Block(
            name=name,
            start=start,
            levels=levels,
            scale=length / loudest,
            length=length,
            epsilon=menu[-1] / _MILLION,
        )
        blocks.append(block)
        start += levels
    return tuple(blocks)


def unbiased(square_sum: Array, first: Array, size: float, blocks: Sequence[Block]) -> Array:
    """S with every code's own block replaced by its expectation's estimate."""
    estimate = square_sum.copy()
    for block in blocks:
        code, share = first[block.columns] / block.scale, 1 / block.levels
        expectation = (
            np.diag(code + size * share) - share * np.add.outer(code, code) - size * share**2
        )
        estimate[block.columns, block.columns] = block.scale**2 * expectation
    return estimate


def variance(blocks: Sequence[Block], width: int) -> float:
    """V times the variance that randomised answers leave in S/V, for `numerics.sums.fit`: the
    mean over a coded column and any other, in rows of norm at most 1, and some more, because
    entries have it unevenly. A huge ε leaves none."""
    if not blocks:
        return 0.0
    codes = sum(block.length**2 - block.true_length**2 for block in blocks)
    mean = max(0.0, codes) / sum(block.levels for block in blocks)
    return min(1.0, _UNEVEN * mean / width)
