"""Graphs for n servers, and what each does: for the paper's condition, for the bound that needs
none, and for training itself.

The contraction is exact for quadratic risks of equal Hessian: in an eigenvector of curvature h the
servers run (D_i = 1/(h + a/n + 2βN_i))

    w' = D(2β Adj w - γ),        γ' = γ + βL₋w        with Σ_i γ_i = 0,

a linear map whose spectral radius is the factor that an error keeps per round (the same iteration
as `train.forecast`, as a matrix).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np

from pdml import _validate, extras
from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC
from pdml.research.bounds.printed import Curvature, condition
from pdml.research.bounds.spectra import Spectra, minus

PENALTIES = tuple(float(beta) for beta in np.geomspace(1e-3, 1, 7))
MOST_SERVERS = 100  # eigenvalues of 2n x 2n matrices, one for each graph, penalty and curvature


def candidates(n: int, rng: np.random.Generator) -> dict[str, Graph]:
    """Well-known graphs on n servers; those that do not exist for this n are left out, and equal
    ones are listed once.
    """
    n = _validate.integer(
        "n", n, low=2, high=MOST_SERVERS, why="every graph is judged by its eigenvalues"
    )
    ways: dict[str, Callable[[], Graph | None]] = {
        "complete": lambda: Graph.complete(n),
        "complete bipartite": lambda: Graph.from_edges(
            [(i, j) for i in range(n // 2) for j in range(n // 2, n)]
        ),
        "hypercube": lambda: _hypercube(n),
        "random, 4 links each": lambda: _regular(n, 4, rng),
        "random, 3 links each": lambda: _regular(n, 3, rng),
        "random, 1.3n links": lambda: Graph.random(
            n, min(max(round(1.3 * n), n - 1), n * (n - 1) // 2), rng
        ),
        "grid": lambda: Graph.grid(n),
        "ring": lambda: Graph.ring(n),
        "star": lambda: Graph.star(n),
    }
    graphs: dict[str, Graph] = {}
    for name, make in ways.items():
        graph = make()
        if graph is not None and graph not in graphs.values():
            graphs[name] = graph
    return graphs


def _hypercube(n: int) -> Graph | None:
    if n < 4 or n & (n - 1):
        return None
    return Graph.from_edges(
        [(i, i ^ (1 << k)) for i in range(n) for k in range(n.bit_length() - 1) if i < i ^ (1 << k)]
    )


def _regular(n: int, degree: int, rng: np.random.Generator) -> Graph | None:
    """A random regular graph, an expander with high probability."""
    if n <= degree + 1 or n * degree % 2:
        return None
    with extras.needed():
        import networkx as nx  # here, because it takes long to import

    for _ in range(100):
        sample = nx.random_regular_graph(degree, n, seed=rng)
        if nx.is_connected(sample):
            return Graph.from_edges(sorted(sample.edges))
    return None


def contraction(graph: Graph, *, penalty: float, ridge: float, curvature: float) -> float:
    """The factor by which an error shrinks per round, in the long run: the spectral radius of the
    map above, where Σγ = 0.
    """
    n = graph.n
    degree = np.asarray(graph.degrees, dtype=float)
    scale = 1 / (curvature + ridge + 2 * penalty * degree)
    # the γ with Σγ = 0
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]
    step: Array = np.block(
        [
            [2 * penalty * scale[:, None] * graph.adjacency.toarray(), -scale[:, None] * basis],
            [penalty * basis.T @ minus(graph), np.eye(n - 1)],
        ]
    )
    return float(np.abs(np.linalg.eigvals(step)).max())


@dataclass(frozen=True, kw_only=True)
class GraphScore:
    """One graph, by everything that depends on it."""

    name: str
    graph: Graph
    spread: float  # σ_max/σ_min of L₊
    gap: float  # λ₂(L₋)
    ratio: float  # of Lemma 5's condition, at this a
    best_ratio: float  # over every a, with the constants as printed
    true_ratio: float  # over every a, with the constants of the stacked J̃
    penalty: float  # the β of `PENALTIES` at which errors fade fastest
    contraction: float

    @property
    def links(self) -> int:
        """Each carries two messages a round."""
        return self.graph.n_edges

    @property
    def rounds_per_digit(self) -> float:
        """Rounds until an error is a tenth."""
        return log(10) / -log(self.contraction) if 0 < self.contraction < 1 else inf

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        rounds = self.rounds_per_digit
        return {
            "graph": self.name,
            "links": self.links,
            "sigma_ratio": self.spread,
            "gap": self.gap,
            "condition": self.ratio,
            "condition_best": self.best_ratio,
            "condition_best_corrected": self.true_ratio,
            "penalty": self.penalty,
            "contraction": self.contraction,
            "rounds_per_digit": None if rounds == inf else rounds,
            "edges": [list(edge) for edge in self.graph.edges],
        }


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What the judged graphs come to: ``graphs`` are sorted, fastest first."""

    graphs: tuple[GraphScore, ...]

    @property
    def fastest(self) -> GraphScore:
        """Errors fade fastest on it."""
        return self.graphs[0]

    @property
    def closest(self) -> GraphScore:
        """Comes closest to the paper's condition."""
        return max(self.graphs, key=lambda candidate: candidate.best_ratio)

    @property
    def cheapest(self) -> GraphScore:
        """The fewest links within twice the rounds of the fastest."""
        within = (e for e in self.graphs if e.contraction**2 <= self.fastest.contraction)
        return min(within, key=lambda candidate: (candidate.links, candidate.rounds_per_digit))

    def meeting(self, *, corrected: bool) -> list[str]:
        """The graphs that meet Lemma 5's condition for some a, its constants as printed or not."""
        ratios = ((e.name, e.true_ratio if corrected else e.best_ratio) for e in self.graphs)
        return [name for name, ratio in ratios if ratio > 1]


def suggest(
    servers: int, *, regularization: float, norm_bound: float = 1.0, seed: int = 0
) -> Advice:
    """Judge well-known graphs for so many servers.

    Parameters
    ----------
    servers : int
        n, at most `MOST_SERVERS`.
    regularization : float
        a.
    norm_bound : float
        B, the longest a record may be.
    seed : int
        Draws the random ones among the graphs.

    Returns
    -------
    Advice

    Examples
    --------
    >>> suggest(2, regularization=1.0).fastest.name
    'complete'
    """
    curvature = LOGISTIC.curvature_bound * norm_bound**2
    judged = [
        judge(name, graph, regularization=regularization, curvature_bound=curvature)
        for name, graph in candidates(servers, np.random.default_rng([seed, 7])).items()
    ]
    return Advice(graphs=tuple(sorted(judged, key=lambda candidate: candidate.rounds_per_digit)))


def judge(
    name: str,
    graph: Graph,
    *,
    regularization: float,
    curvature_bound: float,
    penalties: Sequence[float] = PENALTIES,
) -> GraphScore:
    """``curvature_bound`` is c₃, the most that the risk can curve; a tenth of it is tried too, as
    records do not all point one way.
    """
    if not penalties:
        raise InvalidInput("penalties must hold at least one number, got none")
    s, ridge = Spectra.of(graph), regularization / graph.n
    curvatures = (curvature_bound / 10, curvature_bound)
    rates = {
        beta: max(contraction(graph, penalty=beta, ridge=ridge, curvature=h) for h in curvatures)
        for beta in penalties
    }
    best = min(rates, key=rates.__getitem__)

    def ratio(a: float, shared: int) -> float:
        return condition(
            graph,
            Curvature(convexity=a / shared, smoothness=(graph.n * curvature_bound + a) / shared),
        ).ratio

    # φ grows with κ̂/ϱ², which is largest where a = n·c₃, both as printed (shared = 1) and stacked
    # (shared = n).
    largest = graph.n * curvature_bound
    return GraphScore(
        name=name,
        graph=graph,
        spread=s.plus_max / s.plus_min,
        gap=s.minus_min,
        ratio=ratio(regularization, 1),
        best_ratio=ratio(largest, 1),
        true_ratio=ratio(largest, graph.n),
        penalty=best,
        contraction=rates[best],
    )
