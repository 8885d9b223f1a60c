"""What is public of answers that go through a coin, and what the coins make of people's rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isinf

import numpy as np

from pdml import _validate
from pdml._types import Array, IntArray
from pdml.encoding import scaling
from pdml.mechanisms.label_flip import flip_labels, micro
from pdml.mechanisms.randomness import Stream
from pdml.numerics import coded_rows
from pdml.numerics.coded_rows import Block


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer of which devices send what chance has decided (docs/concepts/attributes.md)."""

    block: Block  # Where its code stands in a row, its levels and its scale: fixed by the study
    # That people are expected to choose, as their menu suggests; ∞: the answer as it is
    epsilon: float

    def __post_init__(self) -> None:
        why = "0 would report pure noise"
        _validate.real(f"epsilon of {self.block.name!r}", self.epsilon, low=1e-6, high=inf, why=why)

    @cached_property
    def weight(self) -> float:
        """w, by which a reported level is de-biased."""
        return (
            1.0
            if isinf(self.epsilon)
            else coded_rows.weight(micro(self.epsilon), self.block.levels)
        )

    @property
    def loudest(self) -> float:
        """w of the menu's smallest ε, for which the scale leaves room."""
        return self.block.length / self.block.true_length


def blocks_of(answers: Sequence[Answer]) -> tuple[Block, ...]:
    """Their places in a row."""
    return tuple(answer.block for answer in answers)


def encode_levels(levels: IntArray, block: Block, weight: float = 1.0) -> Array:
    """The columns of a block for people at these levels; with weight 1 their answers as they
    are."""
    return np.asarray(scaling.centred(levels, block.levels) * (block.scale * weight))


def randomise_rows(x: Array, answers: Sequence[Answer], stream: Stream) -> Array:
    """Rows of true answers as devices would report them, each answer by a coin of its own."""
    rows = np.array(x, dtype=float)
    for answer in answers:
        block = answer.block
        true = rows[:, block.columns].argmax(axis=1)
        levels = flip_labels(true, np.full(len(x), answer.epsilon), block.levels, stream)
        rows[:, block.columns] = encode_levels(levels, block, answer.weight)
    return rows


def reported_moment(square: Array, mean: Array, answers: Sequence[Answer]) -> Array:
    """E[x̂x̂ᵀ] of reported rows, which exceeds that of true ones where a code meets itself: a
    reported level has the distribution 1/L + (p - 1/L)/w, and its code is w times as long.
    """
    moment = square.copy()
    for answer in answers:
        block_moment = coded_rows.unbiased(square, mean / answer.weight, 1.0, [answer.block])
        at = answer.block.columns
        moment[at, at] = answer.weight**2 * block_moment[at, at]
    return moment
