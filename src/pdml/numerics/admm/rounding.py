"""What rounding can do to a certificate: constants of the theorem that docs/proofs/solver.md
proves.

Each counts roundings along the longest way through a computation, whatever the order of its sums,
so that BLAS, SciPy, NumPy's pairwise sums and the compiled loops are covered alike.
"""

from math import inf, sqrt

import numpy as np

from pdml._types import Matrix
from pdml.numerics.admm import rows
from pdml.numerics.admm.kernel import SAFE, TINY, UNIT, Limits
from pdml.numerics.admm.losses import Loss

LARGEST = 2**29  # roundings in a row whose products with one another vanish in `SAFE`


def limits(matrix: Matrix, loss: Loss, ridge: float, codes: int) -> Limits:
    """The constants by which `kernel.advance` certifies."""
    m, d = matrix.shape
    size = codes * d
    if m + 2 * size > LARGEST:
        return Limits(inf, inf, inf, inf, inf, inf, inf)
    lengths = rows.norms(matrix)
    longest = float(lengths.max(initial=0.0))  # B
    square = float(np.square(lengths).sum()) / max(m, 1)  # T, the mean of |x|²
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
    """How well slopes and curvatures are computed, given the margins.

    Guarantees
    ----------
    They hold where the libraries' exp, tanh and power are right to four units in the last place.
    """
    return 32 + 2 * codes, 128 + 12 * codes
