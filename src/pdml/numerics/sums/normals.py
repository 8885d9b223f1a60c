"""Points that stand for a Gaussian, the same ones on every machine."""

from functools import lru_cache

import numpy as np

from pdml import _math
from pdml._types import Array


@lru_cache(maxsize=32)
def normals(width: int, points: int) -> Array:
    """So many points (points, width) of independent normal variables: a Sobol sequence, so the same
    ones every time. In one dimension that is all multiples of 1/points, and scipy.stats takes
    longer to load than a training."""
    if width == 1:
        grid = np.arange(points)[:, None] / points
    else:
        from scipy.stats import qmc

        grid = qmc.Sobol(width, scramble=False).random(points)
    quantiles = np.asarray(_math.ndtri(grid + 0.5 / points))
    quantiles.flags.writeable = False
    return quantiles


def root_of(covariance: Array) -> Array:
    """The symmetric root of covariances (..., K, K), with what is below 0 counted as 0, so that
    points @ root have them. Which eigenvectors a library finds, and with which sign, makes no
    difference."""
    values, vectors = np.linalg.eigh(covariance)
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(scaled @ np.swapaxes(vectors, -1, -2))
