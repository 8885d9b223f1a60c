"""The second moments S/V behind a noisy sum of squares (docs/concepts/sums.md, "S without its
noise").

Privacy noise on S is a symmetric Gaussian matrix: deviation σ on the diagonal, σ/√2 beside it. Its
spectrum is a semicircle of radius R = √(2d)·σ, often wider than all of S. Three estimates, each
right about another kind of data, are averaged:

- *entrywise*: columns are declared one by one, so most pairs are nearly uncorrelated and a few are
  not: every entry shrunk by the posterior mean under a scale mixture of normals, whose weights the
  entries choose (empirical Bayes), none beyond what a correlation can be;
- *spiked*: a few common factors on top of the diagonal: eigenvalues x of S - diag beyond the edge
  become ±√(x² - R²), which is x times the squared overlap of its eigenvector with the truth;
- *rotated*: the same about a multiple of the identity, for data whose columns mean nothing.

All know that S is positive, that its trace is at most 1 (rows of norm <= 1), and whether the last
column is the constant one. Without noise each returns S. How large that constant is, an encoder
knows: among many columns its square is hidden by noise as any other, and an intercept in wrong
units is a wrong one.
"""

import numpy as np

from pdml._types import Array

_TYPICAL, _SPREAD = 0.8, 0.3  # of the trace: rows are shrunk to norm 1, and few stay much shorter
_FLOOR = 0.2  # of the mean eigenvalue: below it an inverse would amplify what was only estimated
_EDGE = 1.05  # in small matrices the largest eigenvalue of noise passes R a little
_NULL = 10.0  # entries that are known to be zero, for a prior learnt from few
_ROWS = 0.5  # of the constant's square: how far rows differ from a typical one
_SCALES = 2.0 ** -np.arange(8)
_QUANTILES = 512


def radius(width: int, stddev: float) -> float:
    """R = √(2d)·σ: the largest eigenvalue of the noise."""
    return float(np.sqrt(2 * width) * stddev)


def estimate_moments(
    noisy: Array, stddev: float, *, intercept: bool = True, constant: float = 0.0
) -> Array:
    """A positive definite estimate of S/V from its noisy version.

    Guarantees
    ----------
    - With stddev = 0 the result is ``noisy`` (up to rounding, if that is positive definite).
    - Any order of the columns but the last gives the same matrix in that order.
    """
    diagonal = _diagonal(noisy, stddev)
    floor = _floor(diagonal.sum(), len(noisy), stddev)
    if stddev == 0:  # all three return it
        return _positive(noisy, floor)
    by_columns = (
        _entrywise(noisy, diagonal, stddev, intercept),
        _spiked(noisy, diagonal, stddev),
    )
    parts = [*(_positive(part, floor) for part in by_columns), _rotated(noisy, stddev, floor)]
    estimate = np.asarray(sum(parts) / len(parts))
    return _with_constant(estimate, noisy, stddev, constant) if intercept and constant else estimate


def _with_constant(estimate: Array, noisy: Array, stddev: float, constant: float) -> Array:
    """The same with the constant's square as it is measured and as it is typical, weighted by
    their precisions; the column is scaled as a whole, so that the matrix stays positive.
    """
    typical, current = constant**2, float(estimate[-1, -1])
    trust = 1 / (1 + (stddev / (_ROWS * typical)) ** 2)
    square = max(typical + trust * (noisy[-1, -1] - typical), _FLOOR * min(typical, current))
    scale = np.append(np.ones(len(estimate) - 1), np.sqrt(square / current))
    return np.asarray(estimate * scale * scale[:, None])


def _floor(trace: float, width: int, stddev: float) -> float:
    """No eigenvalue below this: a share of the mean one, less where the noise is smaller."""
    mean = trace / width
    return float(max(_FLOOR * min(mean, radius(width, stddev)), 1e-9 * mean))


def _positive(matrix: Array, floor: float) -> Array:
    return _composed(*np.linalg.eigh(matrix), floor)


def _composed(values: Array, vectors: Array, floor: float = -np.inf) -> Array:
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def _trace(noisy: Array, stddev: float) -> float:
    """The noisy trace and what is typical, weighted by their precisions; never above 1."""
    width = len(noisy)
    noise, typical = 1 / max(width * stddev**2, 1e-18), 1 / _SPREAD**2
    mean = (noise * np.trace(noisy) + typical * _TYPICAL) / (noise + typical)
    return float(np.clip(mean, 1e-3, 1.0))


def _diagonal(noisy: Array, stddev: float) -> Array:
    """Column moments shrunk to their mean by how much they differ beyond noise."""
    diagonal, trace, width = np.diag(noisy), _trace(noisy, stddev), len(noisy)
    spread = max(float(diagonal.var()) - stddev**2 * (1 - 1 / width), 0.0)
    trust = spread / (spread + stddev**2) if spread else 0.0
    shrunk = trace / width + trust * (diagonal - diagonal.mean())
    shrunk = np.maximum(shrunk, _floor(trace, width, stddev))
    return np.asarray(shrunk * (trace / shrunk.sum()))


def _entrywise(noisy: Array, diagonal: Array, stddev: float, intercept: bool) -> Array:
    """Entries beside the diagonal by `_shrink_entries`: means (the constant's row) apart from the
    rest.
    """
    width, roots = len(noisy) - intercept, np.sqrt(diagonal)
    result = np.zeros_like(noisy)
    means = [(np.arange(width), np.full(width, width))] if intercept else []
    for pairs in (np.triu_indices(width, 1), *means):
        result[pairs] = _shrink_entries(noisy[pairs], stddev / np.sqrt(2), float(diagonal.mean()))
    result += result.T
    most = np.outer(roots, roots)
    return np.asarray(np.clip(result, -most, most) + np.diag(diagonal))


def _shrink_entries(values: Array, stddev: float, largest: float) -> Array:
    """Posterior means under Σ_k π_k N(0, g_k²), g_0 = 0, π by 30 steps of EM on quantiles."""
    if not len(values):
        return values
    scales = np.concatenate([[0.0], largest * _SCALES])
    variance = scales**2 + max(stddev, 1e-9 * largest) ** 2
    squares = np.sort(values**2)
    chosen = squares[np.linspace(0, len(squares) - 1, min(len(squares), _QUANTILES)).astype(int)]
    likely, null = _likely(chosen, variance), np.zeros(len(scales))
    null[0] = _NULL
    weights = np.full(len(scales), 1 / len(scales))
    for _ in range(30):
        responsibilities = likely @ (
            1 / (weights @ likely)
        )  # Σ of the chance of each scale, over its weight
        counts = weights * responsibilities * (len(values) / len(chosen)) + null
        weights = counts / counts.sum()
    likely = _likely(values**2, variance)
    return np.asarray(values * ((weights * scales**2 / variance) @ likely) / (weights @ likely))


def _likely(squares: Array, variance: Array) -> Array:
    """Of each square (m,) under each variance (K,), relative to the likeliest: (K, m)."""
    logs = -0.5 * (squares / variance[:, None] + np.log(variance)[:, None])
    logs -= logs.max(axis=0)
    return np.asarray(np.exp(logs, out=logs))


def _spiked(noisy: Array, diagonal: Array, stddev: float) -> Array:
    values, vectors = np.linalg.eigh(noisy - np.diag(diagonal))
    edge = _EDGE * radius(len(noisy), stddev)
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    result = _composed(kept, vectors)
    np.fill_diagonal(result, diagonal)
    return np.asarray(result)


def _rotated(noisy: Array, stddev: float, floor: float) -> Array:
    """Eigenvalues above the bulk shrunk, all others equal, so that the trace is kept; positive."""
    values, vectors = np.linalg.eigh(noisy)
    edge, width = _EDGE * radius(len(noisy), stddev), len(noisy)
    bulk = float(values.mean())
    for _ in range(10 * width):
        lower = float(values[values <= max(bulk + edge, values[0])].mean())
        if lower >= bulk:
            break
        bulk = lower
    spikes = np.sqrt(np.maximum((values - bulk) ** 2 - edge**2, 0.0)) * (values > bulk)
    rest = max((_trace(noisy, stddev) - spikes.sum()) / width, 0.0)
    return _composed(spikes + rest, vectors, floor)
