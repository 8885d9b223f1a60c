"""The linear model behind noisy sums: posterior mean under priors that the sums themselves weigh.

In units of one record, q = S·β + noise with covariance N = σ_Q² I + v·S/V (v: mean square of one
report's code, `labels.code_variance`). Nothing is known of β in advance, so a small family of
priors is tried and weighted by how well each explains q:

    β ~ N(0, τ²·(A_j + g·eeᵀ)),    A_j ∝ S^j,    tr(A_j S) = 1,

j in {0, 1, 2, 4}: the larger j, the more the signal lies where the data vary (j = 0 anywhere, j = 4
in the leading directions alone). τ² is the share of the labels' variance that the features explain.
e is the constant column, and g what it explains beside them.
Where j = 0 wins, few columns may matter: the weights become Student-t by a few steps of EM.

All matrices but the intercept's are functions of S: in its eigenvectors they are diagonal, and the
intercept is one more direction (Sherman and Morrison).
"""

import numpy as np

from pdml._types import Array

_POWERS = np.array([0.0, 1.0, 2.0, 4.0])
_EXPLAINED = np.geomspace(0.05, 1.2, 10)  # τ, relative to the labels' own deviation
_INTERCEPT = 0.1  # G, relative to τ²
_FREEDOM = 2.0  # of the Student-t weights
_STEPS = 6


def posterior(
    q: Array,
    values: Array,
    vectors: Array,
    *,
    label: float,
    report: float,
    deviation: float,
    intercept: bool = True,
) -> Array:
    """The posterior mean of β, (C, d).

    Parameters
    ----------
    q : (C, d) array
        Label moments.
    values, vectors : arrays
        Eigenvalues (ascending, positive) and eigenvectors of S, which is taken as exact.
    label, report : float
        N = label² I + report·S is the covariance of each row of q.
    deviation : float
        What τ is relative to: the deviation of one label's code.
    intercept : bool
        Whether the last column is the constant one, e.

    Returns
    -------
    (C, d) array
    """
    along, noise = q @ vectors, label**2 + report * values
    shapes = (values / values[-1]) ** _POWERS[:, None]
    shapes /= (shapes @ values)[:, None]
    sizes = np.tile((deviation * _EXPLAINED) ** 2, len(shapes))  # τ² of every prior
    prior = sizes[:, None] * np.repeat(shapes, len(_EXPLAINED), axis=0)  # τ²A_j, (K, d)
    own = vectors[-1] if intercept else np.zeros(len(values))  # e
    free = _INTERCEPT * sizes / max(float(own**2 @ values), 1e-300) if intercept else 0 * sizes  # G

    spread = prior * values**2 + noise
    found = along / spread[:, None, :]  # (K, C, d): without the intercept
    constant = values * own  # S e
    told = found @ constant  # (K, C)
    length = (constant**2 / spread).sum(axis=1)
    weight = free / (1 + free * length)
    evidence = -0.5 * (
        len(q) * (np.log(spread).sum(axis=1) + np.log1p(free * length))
        + np.einsum("kcd,cd->k", found, along)
        - weight * (told**2).sum(axis=1)
    )
    chance = np.exp(evidence - evidence.max())
    chance /= chance.sum()
    offset = weight[:, None] * told  # (K, C): the intercept, less what other columns say of it
    found -= offset[:, :, None] * (constant / spread)[:, None, :]
    means = (prior * values)[:, None, :] * found + offset[:, :, None] * own
    mean = np.einsum("k,kcd->cd", chance, means)

    flat = slice(len(_EXPLAINED))  # j = 0
    anywhere = float(chance[flat].sum())
    if anywhere > 0.02:
        scale = np.full(len(values), float(chance[flat] @ prior[flat, 0]) / anywhere)
        scale[-1] += float(chance[flat] @ free[flat]) / anywhere
        sparse = _student(q, values, vectors, noise, scale, intercept)
        mean += anywhere * (sparse @ vectors) - np.einsum("k,kcd->cd", chance[flat], means[flat])
    return np.asarray(mean @ vectors.T)


def _student(
    q: Array, values: Array, vectors: Array, noise: Array, scale: Array, intercept: bool
) -> Array:
    """Means under Student-t weights of the prior's variances, the intercept's kept Gaussian."""
    s, known = (vectors * values) @ vectors.T, (vectors * noise) @ vectors.T
    found = np.empty_like(q)
    for row, target in enumerate(q):
        variance = scale.copy()
        for _ in range(_STEPS):
            reach = s * variance
            gain = np.linalg.solve(reach @ s + known, reach)
            found[row] = gain.T @ target
            left = variance - np.einsum("ij,ij->j", gain, reach)
            variance = (found[row] ** 2 + left + _FREEDOM * scale) / (_FREEDOM + 1)
            if intercept:
                variance[-1] = scale[-1]
    return found
