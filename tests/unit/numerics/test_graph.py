"""The graph of servers: what is refused, and what the random constructors
promise.
"""

import pickle
from collections import Counter
from collections.abc import Callable
from copy import copy
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pdml.errors import GraphError, InvalidInput
from pdml.numerics.admm.graph import TOPOLOGIES, Graph, Topology, build, register

FALSE_ALARM = 1e-6


@st.composite
def graphs(draw: st.DrawFn, max_n: int = 12) -> Graph:
    n = draw(st.integers(2, max_n))
    links = draw(st.integers(n - 1, n * (n - 1) // 2))
    return Graph.random(n, links, np.random.default_rng(draw(st.integers(0, 2**32))))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(graphs())
def test_agrees_with_networkx(graph: Graph) -> None:
    other = nx.Graph(graph.edges)
    order = range(graph.n)
    assert nx.is_connected(other)
    np.testing.assert_array_equal(
        graph.adjacency.toarray(), nx.to_numpy_array(other, nodelist=order)
    )
    assert graph.adjacency.format == "csr" and graph.adjacency.dtype == np.float64
    assert graph.degrees.tolist() == [other.degree[i] for i in order]
    assert [graph.neighbours(i) for i in order] == [tuple(sorted(other[i])) for i in order]


# Sums over neighbours


@given(graphs(), st.lists(st.integers(1, 4), max_size=2))
def test_sum_over_neighbours_is_the_loop_bit_for_bit(graph: Graph, trailing: list[int]) -> None:
    values = rng().standard_normal((graph.n, *trailing))
    expected = np.zeros_like(values)
    for i in range(graph.n):
        for j in graph.neighbours(i):
            expected[i] += values[j]
    np.testing.assert_array_equal(graph.sum_over_neighbours(values), expected)


def test_sum_over_neighbours_keeps_one_servers_trouble_among_its_neighbours() -> None:
    values = np.array([[np.inf], [1.0], [1.0], [1.0]])
    np.testing.assert_array_equal(
        Graph.ring(4).sum_over_neighbours(values), [[2.0], [np.inf], [2.0], [np.inf]]
    )


def test_sum_over_neighbours_refuses_a_wrong_number_of_rows() -> None:
    for values in (np.ones((3, 4)), np.array(1.0)):
        with pytest.raises(InvalidInput, match="one row for each of the 4 servers"):
            Graph.ring(4).sum_over_neighbours(values)


# What a graph is


def test_edges_are_normalised_and_compare_equal() -> None:
    graph = Graph(4, ((3, 2), (1, 0), (2, 1)))
    assert graph.edges == ((0, 1), (1, 2), (2, 3))
    assert graph == Graph.from_edges([[0, 1], [2, 1], [2, 3]])
    assert hash(graph) == hash(pickle.loads(pickle.dumps(graph)))


def test_cached_arrays_cannot_be_written() -> None:
    graph = Graph.ring(4)
    for array in (graph.degrees, graph.adjacency.data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    with pytest.raises(AttributeError):
        graph.n = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("n", "edges", "message"),
    [
        (6, ((0, 1), (1, 2), (3, 4)), r"no path from server 0 to 3, 4, 5 \(without any link: 5\)"),
        (3, ((1, 2),), r"no path from server 1 to 0 \(without any link: 0\)"),
        (3, (), "no path"),
        (100, ((0, 1),), "10, 11 and 88 more"),
        (3, ((0, 0), (0, 1), (1, 2)), "from server 0 to itself"),
        (3, ((0, 1), (1, 2), (1, 0)), "between servers 0 and 1 more than once"),
        (3, ((0, 1), (1, 3)), r"join servers 0 to 2, got \(1, 3\)"),
        (3, ((0, 1), (-1, 2)), r"join servers 0 to 2, got \(-1, 2\)"),
        (3, ((0, 1), (1, 2.0)), "pairs of server numbers"),
        (3, ((0, 1), (1,)), "pairs of server numbers"),
        (3, ((0, 1, 2),), "pairs of server numbers"),
        (3, (("a", "b"),), "pairs of server numbers"),
        (3, 5, "pairs of server numbers"),
    ],
)
def test_refuses_what_is_no_connected_simple_graph(n: int, edges: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph(n, edges)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 0, -3, 2.0, "3", True, None])
def test_refuses_a_number_of_servers_below_two(n: object) -> None:
    makers: list[Callable[[Any], Graph]] = [
        Graph.ring,
        Graph.complete,
        Graph.star,
        Graph.grid,
        lambda n: Graph(n, ((0, 1),)),
        lambda n: Graph.random(n, 1, rng()),
    ]
    makers += [lambda n: Graph.small_world(n, 2, 0.1, rng()), lambda n: build("ring", n, rng())]
    for maker in makers:
        with pytest.raises(InvalidInput, match="n must be a whole number >= 2"):
            maker(n)


def test_neighbours_refuses_an_unknown_server() -> None:
    for i in (-1, 4):
        with pytest.raises(InvalidInput, match="numbered from 0"):
            Graph.ring(4).neighbours(i)


# Constructors


@given(
    st.integers(2, 9).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(n - 1, n * (n - 1) // 2))
    ),
    st.integers(0, 2**32),
)
def test_random_has_exactly_the_links_asked_for_and_follows_its_seed(
    size: tuple[int, int], seed: int
) -> None:
    graph = Graph.random(*size, rng(seed))
    assert (graph.n, graph.n_edges) == size
    assert graph == Graph.random(*size, rng(seed))


@pytest.mark.parametrize("links", [999, 1000, 1300, 250_000, 499_500])
def test_random_ends_for_every_density_at_a_thousand_servers(links: int) -> None:
    assert Graph.random(1000, links, rng()).n_edges == links


def test_random_draws_graphs_in_proportion_to_their_spanning_trees() -> None:
    """n = 4: 16 trees alike with 3 links; with 4, 3 rings (4 trees each) and 12 tailed triangles (3
    each). Chi-square, 1e-6 each.
    """
    draws, source = 8000, rng(7)
    trees = Counter(Graph.random(4, 3, source).edges for _ in range(draws // 4))
    assert len(trees) == 16 and stats.chisquare(list(trees.values())).pvalue > FALSE_ALARM
    four = Counter(Graph.random(4, 4, source).edges for _ in range(draws))
    weights = {edges: 4 if Graph(4, edges).degrees.max() == 2 else 3 for edges in four}
    assert len(four) == 15 and sum(weights.values()) == 48
    assert (
        stats.chisquare(
            [four[e] for e in weights], [draws * w / 48 for w in weights.values()]
        ).pvalue
        > FALSE_ALARM
    )
    assert (
        stats.chisquare([four[e] for e in weights], [draws / 15] * 15).pvalue < FALSE_ALARM
    )  # and not uniform over graphs


@pytest.mark.parametrize("links", [8, 46, 13.0, None])
def test_random_refuses_infeasible_links(links: object) -> None:
    with pytest.raises(InvalidInput, match="links must be a whole number >= 9 and <= 45"):
        Graph.random(10, links, rng())  # type: ignore[arg-type]


def test_random_constructors_refuse_anything_but_a_generator() -> None:
    makers: list[Callable[[Any], Graph]] = [
        lambda s: Graph.random(5, 5, s),
        lambda s: Graph.small_world(5, 2, 0.1, s),
    ]
    makers += [lambda s: build("random", 5, s), lambda s: build("small_world", 5, s)]
    for source in (None, 3, np.random.RandomState(3)):
        for maker in makers:
            with pytest.raises(InvalidInput, match=r"rng must be a numpy\.random\.Generator"):
                maker(source)


@given(st.integers(2, 40))
def test_regular_topologies(n: int) -> None:
    assert sorted(Graph.star(n).degrees.tolist()) == sorted([1] * (n - 1) + [n - 1])
    assert set(Graph.complete(n).degrees.tolist()) == {n - 1}
    assert set(Graph.ring(n).degrees.tolist()) == {1 if n == 2 else 2}
    rows = max(r for r in range(1, n + 1) if n % r == 0 and r * r <= n)
    assert nx.is_isomorphic(nx.Graph(Graph.grid(n).edges), nx.grid_2d_graph(rows, n // rows))


@given(
    st.integers(2, 30).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(1, n // 2).map(lambda h: 2 * h))
    ),
    st.integers(0, 2**32),
)
def test_small_world_keeps_the_number_of_links_and_follows_its_seed(
    size: tuple[int, int], seed: int
) -> None:
    n, k = size
    graph = Graph.small_world(n, k, 0.2, rng(seed))
    assert graph.n_edges == (n * (n - 1) // 2 if k == n else n * k // 2)
    assert graph == Graph.small_world(n, k, 0.2, rng(seed))


def test_small_world_refuses_bad_settings() -> None:
    for k, p, message in [
        (3, 0.1, "k must be even"),
        (12, 0.1, "k must be"),
        (0, 0.1, "k must be"),
        (4, 1.5, "p must be"),
        (4, float("nan"), "p must"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            Graph.small_world(10, k, p, rng())


def test_small_world_gives_up_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdml.numerics.admm.graph._CONNECTED_TRIES", 1)
    with pytest.raises(GraphError, match="raise k or lower p"):
        for seed in range(
            100
        ):  # a ring of 200 rewired at random is connected about once in ten draws
            Graph.small_world(200, 2, 1.0, rng(seed))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1), (2, 3)], "no path from server 0 to 2, 3"),
        ([(0, 2)], r"no path from server 0 to 1 \(without any link: 1\)"),
        ([(0, 1), (1, 0)], "between servers 0 and 1 more than once"),
        ([(0, 0), (0, 1)], "from server 0 to itself"),
        ([], "no path"),
        ([0, 1], "pairs of server numbers"),
        ([("a", "b")], "pairs of server numbers"),
        (None, "pairs of server numbers"),
    ],
)
def test_from_edges_refuses_what_is_no_graph(edges: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph.from_edges(edges)  # type: ignore[arg-type]


# build


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 97])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_build_knows_every_topology_at_every_size(topology: str, n: int) -> None:
    graph = build(topology, n, rng(3))
    assert graph.n == n and nx.is_connected(nx.Graph(graph.edges))
    assert graph == build(topology, n, rng(3))
    assert n > 2 or graph.edges == ((0, 1),)


@pytest.mark.parametrize(("n", "links"), [(2, 1), (3, 3), (4, 5), (10, 13), (1000, 1300)])
def test_build_gives_thirteen_links_to_ten_servers(n: int, links: int) -> None:
    assert build("random", n, rng()).n_edges == links


def test_build_passes_links_graphs_and_lists_through() -> None:
    assert build("random", 10, rng(), links=20).n_edges == 20
    ring = Graph.ring(4)
    assert build(ring, 4) is ring
    assert build([(3, 0), (0, 1), (1, 2), (2, 3)], 4) == ring


@pytest.mark.parametrize(
    ("topology", "links", "message"),
    [
        ("mesh", None, "topology must be one of 'random'"),
        (None, None, "topology must be one of random"),
        ("ring", 5, 'unless topology is "random"'),
        (Graph.ring(4), None, "must have 5 servers, got a graph of 4"),
        ([(0, 1)], None, "no path from server 0 to 2, 3, 4"),
        ([("a", "b")], None, "pairs of server numbers"),
    ],
)
def test_build_refuses(topology: object, links: int | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build(topology, 5, rng(), links=links)  # type: ignore[arg-type]


def test_a_topology_of_ones_own_has_a_name(monkeypatch):
    monkeypatch.setattr("pdml.numerics.admm.graph.TOPOLOGIES", copy(TOPOLOGIES))

    def wheel(n, rng):
        return Graph.from_edges([*Graph.star(n).edges, *((i, i + 1) for i in range(1, n - 1))])

    own = Topology("wheel", wheel)
    assert build(own, 5) == wheel(5, None)
    with pytest.raises(InvalidInput, match="topology must be one of"):
        build("wheel", 5)
    register(own)
    assert build("wheel", 6) == wheel(6, None)
    with pytest.raises(GraphError, match="topology must have 4 servers"):
        build(Topology("small", lambda n, rng: Graph.ring(3)), 4)
    with pytest.raises(InvalidInput, match="a name of its own, got 'ring'"):
        register(Topology("ring", wheel))
