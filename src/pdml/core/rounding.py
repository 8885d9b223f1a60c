"""What rounding can do to a certificate: the constants of the theorem that docs/solver.md states and proves.

Each counts roundings along the longest way through a computation, whatever the order of its sums, so that BLAS, SciPy,
NumPy's pairwise sums and the compiled loops are covered alike. T = (1/m) Σ|x_j|² is the mean square of the rows' lengths.
"""

from math import inf, sqrt

import numpy as np

from pdml._types import Matrix
from pdml.core import rows
from pdml.core.kernel import SAFE, TINY, UNIT, Limits
from pdml.core.losses import Loss

LARGEST = 2**29  # roundings in a row up to which their products with one another vanish in `SAFE`


def limits(matrix: Matrix, loss: Loss, ridge: float, codes: int) -> Limits:
    """The constants of `kernel.advance` for these records, this loss and C = ``codes`` score vectors."""
    m, d = matrix.shape
    size = codes * d
    if m + 2 * size > LARGEST:
        return Limits(inf, inf, inf, inf, inf, inf, inf)
    lengths = rows.norms(matrix)
    longest, square = float(lengths.max(initial=0.0)), float(np.square(lengths).mean()) if m else 0.0
    bent = loss.curvature_bound * square  # at least the norm of |∇²G|
    slopes, curvatures = evaluation(codes)
    per_point = (d + 2) * bent + 5 * ridge
    if loss.slope_bound < inf:
        fixed = (m + 8 + slopes) * loss.slope_bound * sqrt(square)
    else:  # the square loss: slopes grow with the margins, and are exact given them
        fixed, per_point = 0.0, per_point + (m + 8) * bent
    return Limits(
        bend=SAFE * loss.third_bound * longest,
        fixed=SAFE * UNIT * fixed + TINY,
        per_point=SAFE * UNIT * per_point,
        per_step=SAFE * UNIT * ((m + size + 12 + curvatures) * bent + 5 * ridge),
        per_anchor=SAFE * UNIT * d * loss.third_bound * longest * square,
        slack=SAFE * UNIT * (m + 2 * d + codes + 16) * square + TINY**2,
        nudge=SAFE * UNIT * sqrt(square),
    )


def evaluation(codes: int) -> tuple[int, int]:
    """Roundings in a slope and in a curvature, given the margins, in units of sup|g'| and sup g''.

    They hold if the libraries' exp, tanh and power are right to four units in the last place.
    """
    return 32 + 2 * codes, 128 + 12 * codes
