"""Two sums are all that a linear model needs of the records (docs/concepts/sums.md).

    Q = Σ_j v_j c ŷ_j x_jᵀ  (C, d),        S = Σ_j v_j x_j x_jᵀ  (d, d),        V = Σ_j v_j

with de-biased label codes ŷ_j (`numerics.admm.labels`). Both are unbiased for what they would be
with true labels, they add up over servers, and any model is post-processing of their totals.

**Weights.** With several ε the least noisy unbiased sum weights a report by v_j = 1/κ(ε_j)². S
takes the same weights: (Q, S) are then the two moments of one population, the one in which record j
counts v_j times, and S⁻¹Q estimates that population's linear model even where people's choice of ε
has to do with their features; an unweighted S would describe another population than Q. The price
is an S of Σv instead of m records. A gain is that S tells the covariance of the label noise in Q:
Σ_j v_j² κ_j² x_j x_jᵀ = S, because v_j κ_j² = 1 for everybody. Another is that nobody's report
moves Q by more than 2c/κ: the more private it is, the quieter.

**Cap.** With weights 1/κ² the loudest person sets the noise for all. So a plan may count reports up
to an ε*, v_j = 1/κ(min(ε_j, ε*))²: whoever chose a larger ε moves S as much as somebody with ε*,
and Q less. The covariance of the label noise in Q is then at most S.

**K classes.** Codes enter without their mean 1/K, which is the same for everybody and tells
nothing: they are κ·(e_y' - 1/K), all of one length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from pdml._types import Array, Matrix
from pdml.errors import DataError, InvalidInput
from pdml.numerics import coded_rows
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import Loss
from pdml.numerics.coded_rows import Block

_PART = 1 << 15  # rows at a time: what is copied on the way stays at a few megabytes


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Q, S and V of some records, exact or with noise: they are added, never averaged."""

    label_sum: Array  # Q: one row for two classes, K rows for K > 2
    square_sum: Array  # S, symmetric
    size: float  # V: m/κ² where all have the same ε

    @property
    def width(self) -> int:
        """d, with the constant column."""
        return int(self.square_sum.shape[0])

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            label_sum=self.label_sum + other.label_sum,
            square_sum=self.square_sum + other.square_sum,
            size=self.size + other.size,
        )


def total(parts: Sequence[Sums]) -> Sums:
    """The sums of all records together, added in the order given."""
    if not parts:
        raise InvalidInput("parts must hold at least one server's sums, got none", setting="parts")
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return whole


@dataclass(frozen=True, kw_only=True)
class Shifts:
    """How far one person can move a server's sums, in Euclidean (Frobenius) norm."""

    label: float  # Q, by another reported label
    record: float  # Q, by another record
    square: float  # S, by another record


def shifts(epsilon: float, norm_bound: float, loss: Loss, classes: int = 2) -> Shifts:
    """How far a person whose label has ``epsilon``, no larger than the cap, can move the sums."""
    loud = float(labels.keep_weight(epsilon, classes))
    square = sqrt(2) * norm_bound**2 / loud**2
    if classes == 2:
        both = 2 * loss.label_weight * norm_bound / loud
        return Shifts(label=both, record=both, square=square)
    return Shifts(
        label=sqrt(2) * norm_bound / loud,
        record=2 * sqrt(1 - 1 / classes) * norm_bound / loud,
        square=square,
    )


def rounding(records: int) -> float:
    """What rounding in `exact` can add to the distance of two neighbours' sums, as a share of what
    one record can do there.

    A part adds `_PART` products, and parts are added one by one: every product is rounded at most
    _PART + m/_PART + 4 times by 2^-53, weights and codes included, on both neighbours.
    """
    return (_PART + records / _PART + 4) * records * 2.0**-52


def report_weights(codes: Array, cap_weight: float = 1.0) -> Array:
    """v = 1/κ(ε)², at most that of the cap: how much a report counts, from near 0 up to 1.

    Guarantees
    ----------
    - v_j κ_j <= 1/κ_j <= 1: up to the cap the most private report is also the quietest, so nobody
      gains influence by claiming a smaller ε.
    """
    return np.asarray(np.minimum(loudness(codes) ** -2.0, cap_weight))


def loudness(codes: Array) -> Array:
    """κ of each record: how far its code is from the codes of other classes."""
    if codes.shape[1] == 1:
        return np.abs(codes[:, 0])
    return np.asarray(codes.max(axis=1) - codes.min(axis=1))


def exact(
    x: Matrix, codes: Array, loss: Loss, blocks: Sequence[Block] = (), *, cap_weight: float = 1.0
) -> Sums:
    """Q, S and V of records in one pass over them; ``cap_weight``: the most that a report counts.

    Guarantees
    ----------
    - ``square_sum`` is symmetric to the bit.
    - What is copied on the way does not grow with the number of records.
    """
    from pdml.numerics.admm import rows  # with scipy, which a plan does without

    records, width = x.shape
    if len(codes) != records:
        raise DataError(f"codes must be one per record ({records} of them), got {len(codes)}")
    label_sum, square_sum, size = np.zeros((codes.shape[1], width)), np.zeros((width, width)), 0.0
    first = np.zeros(width)
    for start in range(0, records, _PART):
        part = rows.take(x, start, min(start + _PART, records))
        part_codes = codes[start : start + _PART]
        counted = report_weights(part_codes, cap_weight)
        if codes.shape[1] > 1:
            part_codes = part_codes - 1 / codes.shape[1]
        label_sum += np.asarray(part.T @ (loss.label_weight * counted[:, None] * part_codes)).T
        if (counted == counted[0]).all():
            square_sum += counted[0] * rows.gram(part)
        else:
            square_sum += rows.gram(part, counted)
        if blocks:
            first += np.asarray(part.T @ counted)
        size += float(counted.sum())
    square_sum = coded_rows.unbiased((square_sum + square_sum.T) / 2, first, size, blocks)
    return Sums(label_sum=label_sum, square_sum=square_sum, size=size)
