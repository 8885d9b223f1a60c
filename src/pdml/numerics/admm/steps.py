"""One server's round as three pure functions (`wi_update`, `wi_perturb`, `gammai_update`).

``heard`` is the sum of what the neighbours sent, Σ_{l in N_i} w̃_l, added in ascending order of l:
every engine adds in that order, so that all engines agree to the last bit. Shapes: (..., C, d), one
leading axis per training run or server.

One server's perturbed objective: J̃_i(w) = (1/m_i) Σ_j ℓ̂ + (a/n)·|w|²/2 + (1/n) η_iᵀw
(`per_obj`, `modified_objective`).

By linear-oddness it is G(w) + (a/2n)|w|² - linear·w, where G depends on the features only and
``linear`` = q_i - η_i/n holds everything that labels and objective noise contribute.
"""

import numpy as np

from pdml._types import Array, Matrix
from pdml.numerics.admm import rows
from pdml.numerics.admm.losses import Loss

Degree = float | Array  # a number, or an array that broadcasts over servers


def sum_messages(messages: list[Array], like: Array) -> Array:
    """Σ_l w̃_l in the order given, starting from zero."""
    total = np.zeros_like(like)
    for message in messages:
        total += message
    return total


def dual_step(
    dual: Array, sent: Array, neighbour_sum: Array, *, degree: Degree, penalty: float
) -> Array:
    """γ_i + β Σ_l (w̃_i - w̃_l)."""
    return dual + penalty * (degree * sent - neighbour_sum)


def primal_target(
    linear: Array, dual: Array, sent: Array, neighbour_sum: Array, *, degree: Degree, penalty: float
) -> Array:
    """The b for which wi_update reads argmin G(w) + (μ_i/2)|w|² - b·w, μ_i = a/n + 2βN_i.

    β Σ_l |w - (w̃_i + w̃_l)/2|² contributes βN_i|w|² - β Σ_l (w̃_i + w̃_l)·w. What was released is
    added up first: that sum is the same whatever the records are. So what depends on them is
    rounded once, and the solver's certificate holds a share for it; otherwise long messages that
    cancel would leave their roundings in b.
    """
    return linear + (penalty * (degree * sent + neighbour_sum) - dual)


def release_step(point: Array, noise: Array) -> Array:
    """w̃_i = w_i + θ_i: the only thing that ever leaves the server.

    Adding 0 turns -0 into 0: the sign of a zero would tell from which side w_i was rounded.
    """
    return point + noise + 0.0


def feature_risk(matrix: Matrix, loss: Loss, points: Array) -> Array:
    """G(w) = (1/m) Σ_j g(x_j·w) for points (P, C, d), in blocks of rows."""
    count, codes, width = points.shape
    flat = points.reshape(-1, width).T
    total = np.zeros(count)
    for block in rows.blocks(matrix):
        margins = np.asarray(block @ flat).reshape(-1, count, codes)
        total += loss.value(margins).sum(axis=0)
    return np.asarray(total / matrix.shape[0])


def risk(matrix: Matrix, loss: Loss, label_mean: Array, weight: float, points: Array) -> Array:
    """Ĵ_i(w) for points (P, C, d): the corrected empirical risk of one server, ``weight`` = a/n."""
    inner = np.einsum("pcd,cd->p", points, label_mean)
    squared = np.einsum("pcd,pcd->p", points, points)
    return np.asarray(feature_risk(matrix, loss, points) - inner + weight / 2 * squared)
