"""One server's perturbed objective: J̃_i(w) = (1/m_i) Σ_j ℓ̂ + (a/n)·|w|²/2 + (1/n) η_iᵀw
(`per_obj`, `modified_objective`).

By linear-oddness it is G(w) + (a/2n)|w|² - linear·w, where G depends on the features only and
``linear`` = q_i - η_i/n holds everything that labels and objective noise contribute.
"""

import numpy as np

from pdml._types import Array, Matrix
from pdml.numerics.admm import rows
from pdml.numerics.admm.losses import Loss


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
