"""The paper's matrices of a graph, and their extreme eigenvalues."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.numerics.admm.graph import Graph
from pdml.research.bounds.spectra import Spectra, minus, plus


@st.composite
def graphs(draw: st.DrawFn, max_n: int = 12) -> Graph:
    n = draw(st.integers(2, max_n))
    links = draw(st.integers(n - 1, n * (n - 1) // 2))
    return Graph.random(n, links, np.random.default_rng(draw(st.integers(0, 2**32))))


@given(graphs(max_n=7), st.integers(1, 3))
def test_matrices_are_those_of_the_paper(graph: Graph, d: int) -> None:
    """Section admm_alg: A₁, A₂ have one block row for each of the 2E arcs; the ½ cancels that each
    link is two arcs.
    """
    arcs = [*graph.edges, *((j, i) for i, j in graph.edges)]
    first, second = np.zeros((len(arcs), graph.n)), np.zeros((len(arcs), graph.n))
    for row, (i, j) in enumerate(arcs):
        first[row, i] = second[row, j] = 1
    A1, A2 = np.kron(first, np.eye(d)), np.kron(second, np.eye(d))
    assert A1.shape == (2 * graph.n_edges * d, graph.n * d)
    np.testing.assert_array_equal((A1 + A2).T @ (A1 + A2) / 2, np.kron(plus(graph), np.eye(d)))
    np.testing.assert_array_equal((A1 - A2).T @ (A1 - A2) / 2, np.kron(minus(graph), np.eye(d)))


@given(graphs())
def test_compact_iterations_are_the_local_ones(graph: Graph) -> None:
    """new_primal_local and new_dual_local per server: 2 N_i w_i - Σ (w_i + w_l) and Σ (w_i - w_l)
    are (L₊ + L₋) w - L₊ w and L₋ w.
    """
    w = np.random.default_rng(0).integers(-9, 9, size=(graph.n, 3)).astype(float)
    around = graph.sum_over_neighbours(w)
    own = graph.degrees[:, None] * w
    np.testing.assert_array_equal(plus(graph) @ w, own + around)
    np.testing.assert_array_equal(minus(graph) @ w, own - around)


@given(graphs())
def test_plus_and_minus_are_symmetric_psd_and_sum_to_twice_the_degrees(graph: Graph) -> None:
    for matrix in (plus(graph), minus(graph)):
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix).min() >= -1e-12 * graph.n
    np.testing.assert_array_equal(minus(graph) @ np.ones(graph.n), 0)
    np.testing.assert_array_equal(plus(graph) + minus(graph), 2 * np.diag(graph.degrees))


@given(graphs())
def test_spectra_are_the_extreme_nonzero_singular_values(graph: Graph) -> None:
    spectra = Spectra.of(graph)
    for matrix, smallest, largest in (
        (plus(graph), spectra.plus_min, spectra.plus_max),
        (minus(graph), spectra.minus_min, spectra.minus_max),
    ):
        values = np.linalg.svd(matrix, compute_uv=False)
        nonzero = values[values > 1e-9]  # n <= 12: every true eigenvalue is far above
        assert (smallest, largest) == pytest.approx((nonzero.min(), nonzero.max()), rel=1e-9)
    assert spectra.bipartite == (np.linalg.matrix_rank(plus(graph)) < graph.n)


def test_spectra_of_known_graphs() -> None:
    two, complete, ring = (
        Spectra.of(Graph.ring(2)),
        Spectra.of(Graph.complete(6)),
        Spectra.of(Graph.ring(5)),
    )
    assert two.bipartite and (two.plus_min, two.plus_max) == pytest.approx((2, 2))
    assert (complete.minus_min, complete.minus_max) == pytest.approx((6, 6))
    assert (complete.plus_min, complete.plus_max) == pytest.approx((4, 10))
    assert (ring.plus_min, ring.plus_max) == pytest.approx((2 - 2 * np.cos(np.pi / 5), 4))
    assert not ring.bipartite and Spectra.of(Graph.ring(6)).bipartite


@given(graphs())
def test_agrees_with_networkx(graph: Graph) -> None:
    other, spectra = nx.Graph(graph.edges), Spectra.of(graph)
    assert spectra.bipartite == nx.is_bipartite(other)
    assert spectra.minus_min == pytest.approx(nx.laplacian_spectrum(other)[1], rel=1e-9)
