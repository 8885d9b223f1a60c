"""The setting of the paper's experiments (Section evaluation): ten servers, 13 links, equal groups,
logistic loss.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from pdml._types import Array, IntArray, Matrix
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.training.server import Server

SERVERS, LINKS = 10, 13
DELTA = 1e-6  # of every (ε, δ) that is shown


def graph(seed: int = 1) -> Graph:
    """A connected random graph of the paper's size; the paper does not say which one it used."""
    return Graph.random(SERVERS, LINKS, np.random.default_rng(seed))


def shuffled(x: Matrix, y: IntArray, seed: int) -> tuple[Matrix, IntArray]:
    """The records in random order: the files are sorted, and groups must be alike."""
    order = np.random.default_rng([seed, 77]).permutation(len(y))
    return x[order], y[order]


def bounded(x: Matrix) -> Matrix:
    """A constant column appended (the bias the paper's figures need), then rows clipped to norm
    1.
    """
    wide, _ = rows.clip(rows.append_bias(x), 1.0)
    return rows.as_rows(wide)


def members(
    x: Matrix, y: IntArray, joined: Graph, epsilon: float, source: Simulated
) -> list[Server]:
    """The servers of a graph with equal shares of the records, labels (class indices 0 and 1)
    randomised with ε; ε = ∞ keeps them.
    """
    return teams(x, y, joined, [epsilon], source)[epsilon]


def teams(
    x: Matrix,
    y: IntArray,
    joined: Graph,
    epsilons: Iterable[float],
    source: Simulated,
    *,
    norm_bound: float = 1.0,
) -> dict[float, list[Server]]:
    """`members` for each ε, on the same matrices, so that a sweep over ε shares its passes."""
    cuts = np.linspace(0, len(y), joined.n + 1).astype(np.int64)
    parts = [rows.take(x, int(a), int(b)) for a, b in pairwise(cuts)]
    rows_spec = RowSpec(width=x.shape[1], norm_bound=norm_bound)
    terms, servers = TrainingTerms.over(joined, rows_spec), {}
    for epsilon in dict.fromkeys(epsilons):
        codes = labels.codes(
            flip_labels(y, np.full(len(y), epsilon), 2, source.stream(LABELS)), epsilon, 2
        )
        servers[epsilon] = [
            Server(
                terms.server_spec(i, records=int(b - a), epsilons=(epsilon,)), part, codes[a:b], x
            )
            for i, (part, (a, b)) in enumerate(zip(parts, pairwise(cuts), strict=True))
        ]
    return servers


def accuracy(w: Array, x: Matrix, y: IntArray) -> float:
    """Per cent of records whose class is the sign of w·x."""
    return 100 * float(np.mean((x @ np.ravel(w) > 0) == (y == 1)))
