"""Graphs for n servers: they are what they are called, and their contraction is that of the real
iteration.
"""

from math import comb

import numpy as np
import pytest

from pdml.errors import InvalidInput
from pdml.numerics.admm.graph import Graph
from pdml.research.bounds.spectra import minus, plus
from pdml.research.bounds.topology import candidates, contraction, judge


@pytest.mark.parametrize("n", [2, 3, 5, 8, 10, 16])
def test_candidates_are_different_connected_graphs_of_n_servers(n: int) -> None:
    graphs = candidates(n, np.random.default_rng(0))
    assert all(graph.n == n for graph in graphs.values())
    assert len(set(graphs.values())) == len(graphs)
    assert graphs["complete"].n_edges == comb(n, 2)
    assert ("hypercube" in graphs) is (n in (8, 16))
    if "random, 3 links each" in graphs:
        assert set(graphs["random, 3 links each"].degrees) == {3}


def test_spectra_that_are_known() -> None:
    graphs = candidates(16, np.random.default_rng(0))
    result = {
        name: judge(name, graphs[name], regularization=0.1, curvature_bound=0.25)
        for name in ("complete", "star", "hypercube")
    }
    assert result["complete"].spread == pytest.approx(30 / 14) and result[
        "complete"
    ].gap == pytest.approx(16)
    assert result["star"].spread == pytest.approx(16) and result["star"].gap == pytest.approx(1)
    assert result["hypercube"].spread == pytest.approx(4) and result[
        "hypercube"
    ].gap == pytest.approx(2)


@pytest.mark.parametrize(
    "graph", [Graph.ring(6), Graph.star(5), Graph.complete(4)], ids=["ring", "star", "complete"]
)
@pytest.mark.parametrize("penalty", [0.01, 0.3])
def test_contraction_is_what_training_does(graph: Graph, penalty: float) -> None:
    """Run the updates on quadratic risks h/2(w - c_i)², and measure how an error shrinks from round
    400 to 440.
    """
    h, ridge = 0.1, 0.02
    rng = np.random.default_rng(1)
    c = rng.normal(size=graph.n)
    wanted = h * c.mean() / (h + ridge)
    w, dual = np.zeros(graph.n), np.zeros(graph.n)
    state = []
    best = h * (c - wanted) - ridge * wanted  # γ at the optimum
    for _ in range(440):
        dual = dual + penalty * minus(graph) @ w
        w = (h * c - dual + penalty * plus(graph) @ w) / (h + ridge + 2 * penalty * graph.degrees)
        state.append(
            np.linalg.norm(np.concatenate([w - wanted, dual + penalty * minus(graph) @ w - best]))
        )
    rate = contraction(graph, penalty=penalty, ridge=ridge, curvature=h)
    if state[-1] > 1e-11:
        assert (state[-1] / state[-41]) ** (1 / 40) == pytest.approx(rate, rel=0.02)
    else:  # too fast to be measured so late: from round 20 to 60
        assert (state[59] / state[19]) ** (1 / 40) == pytest.approx(rate, rel=0.05)


def test_the_best_a_is_the_best() -> None:
    graph = Graph.complete(6)
    result = judge("complete", graph, regularization=0.1, curvature_bound=0.25)
    tried = [
        judge(
            "complete", graph, regularization=float(a), curvature_bound=0.25, penalties=(0.1,)
        ).ratio
        for a in np.geomspace(1e-3, 1e3, 60)
    ]
    assert max(tried) <= result.best_ratio < 1.01 * max(tried)
    assert result.best_ratio < result.true_ratio


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="n must"):
        candidates(1, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="penalties must"):
        judge("ring", Graph.ring(4), regularization=1.0, curvature_bound=0.25, penalties=())
