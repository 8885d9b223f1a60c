"""How the seven sets of Table I become rows of bounded norm: as the paper most likely did it, and
without looking at the data.

The paper only says that vectors are normalised to a maximum norm of 1. Of what was tried, `THEIRS`
gives its column "without privacy protection" best; it takes each column's largest value from the
data set, which is itself a leak and stands in no ledger.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from pdml._types import Array
from pdml.numerics.admm import rows

RANGES = {"splice": (1.0, 4.0)}  # the codes of the four bases
STANDARDISED = (-3.0, 3.0)  # of the other sets: their columns come as z-scores


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """A way from columns to rows with a constant column, no longer than ``norm_bound``; ``ridge``
    is the a/n that goes with it.
    """

    name: str
    apply: Callable[[Array, str], Array]
    norm_bound: float  # B
    ridge: float  # a/n


def to_largest(x: Array, _: str) -> Array:
    """Columns divided by their largest |value|, rows clipped to norm 1, a constant 1 appended."""
    return _with_bias(x / np.abs(x).max(axis=0))


def to_declared(x: Array, name: str) -> Array:
    """Columns from their declared range to [-1, 1], cut there; rows clipped to norm 1, a constant 1
    appended, all divided by √2.

    Guarantees
    ----------
    - A row depends on its own record and on public numbers alone, so encoding tells nothing about
      other records.
    - Its norm is at most 1.
    """
    low, high = RANGES.get(name, STANDARDISED)
    centred = np.clip((2 * x - (low + high)) / (high - low), -1.0, 1.0)
    within, _ = rows.clip(_with_bias(centred) / sqrt(2), 1.0)
    return np.asarray(within)


def _with_bias(x: Array) -> Array:
    clipped, _ = rows.clip(x, 1.0)
    return np.asarray(rows.append_bias(clipped))


THEIRS = Preprocessing(name="theirs", apply=to_largest, norm_bound=sqrt(2), ridge=0.015)
OURS = Preprocessing(name="ours", apply=to_declared, norm_bound=1.0, ridge=0.0025)
BOTH = (THEIRS, OURS)
