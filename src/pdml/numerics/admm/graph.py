"""Who talks to whom: the undirected, connected graph of servers (Section pro_formulation, "Network
Model").
"""

import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pdml import _validate, extras
from pdml._registry import Registry
from pdml._types import Array, IntArray, Matrix
from pdml.errors import GraphError, InvalidInput

_CONNECTED_TRIES = 100  # small worlds drawn before giving up
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True)
class Graph:
    """n servers and the E links between them, each once as (i, l) with i < l, in order.

    A graph that exists is connected: the local constraint w_i = z_il = w_l implies global consensus
    only then (constraint).
    """

    n: int
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        n, _ = _servers(self.n)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "edges", _checked(n, self.edges))

    @property
    def n_edges(self) -> int:
        """E."""
        return len(self.edges)

    @cached_property
    def adjacency(self) -> Matrix:
        """n x n CSR matrix: 1 where two servers share a link."""
        return _adjacency(self.n, np.asarray(self.edges))

    @cached_property
    def degrees(self) -> IntArray:
        """N_i for every server."""
        return _frozen(np.diff(self.adjacency.indptr).astype(np.int64))

    def neighbours(self, i: int) -> tuple[int, ...]:
        """N_i in increasing order."""
        i = _validate.integer("i", i, high=self.n - 1, why="servers are numbered from 0")
        start, stop = self.adjacency.indptr[i : i + 2]
        return tuple(self.adjacency.indices[start:stop].tolist())

    def sum_over_neighbours(self, values: Array) -> Array:
        """Σ_{l ∈ N_i} values_l for every server i: shape (n, ...) in, the same shape out.

        Always by CSR, which adds neighbours in increasing order: bit for bit what server i gets by
        adding what it hears. A dense product saves 3 µs at n = 10, but reorders the sum, and one
        server's inf would turn into NaN (0 · inf) at servers it does not talk to.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim == 0 or values.shape[0] != self.n:
            raise InvalidInput(
                f"values must have one row for each of the {self.n} servers, got shape "
                f"{values.shape}"
            )
        total: Array = self.adjacency @ values.reshape(self.n, -1)
        return total.reshape(values.shape)

    @classmethod
    def random(cls, n: int, links: int, rng: np.random.Generator) -> Self:
        """Random connected graph with exactly ``links`` links: a uniform random spanning tree, then
        uniform random further links.

        A graph is drawn with probability proportional to its number of spanning trees. Unlike
        drawing until connected, this ends for every feasible ``links``, also at n - 1.
        """
        n, pairs = _servers(n)
        links = _validate.integer(
            "links",
            links,
            low=n - 1,
            high=pairs,
            why=f"{n} servers need a tree and have {pairs} pairs",
        )
        tree = np.sort(np.asarray(_random_tree(n, _generator(rng))), axis=1)
        # pairs (j, ·) with j < i; pairs are ranked (0,1), (0,2), ..., (n-2,n-1)
        before = np.arange(n) * (2 * n - np.arange(n) - 1) // 2
        taken = np.sort(before[tree[:, 0]] + tree[:, 1] - tree[:, 0] - 1)
        free = rng.choice(pairs - n + 1, size=links - n + 1, replace=False, shuffle=False)
        # the free-th pair outside the tree
        rank = free + np.searchsorted(taken - np.arange(n - 1), free, side="right")
        first = np.searchsorted(before, rank, side="right") - 1
        further = np.stack([first, rank - before[first] + first + 1], axis=1)
        return cls(n, _pairs(np.concatenate([tree, further])))

    @classmethod
    def ring(cls, n: int) -> Self:
        """Each server linked to the next, the last to the first; two servers share one link."""
        n, _ = _servers(n)
        return cls(n, tuple((i, (i + 1) % n) for i in range(n if n > 2 else 1)))

    @classmethod
    def complete(cls, n: int) -> Self:
        """Every server linked to every other."""
        return cls(n, _pairs(np.stack(np.triu_indices(_servers(n)[0], k=1), axis=1)))

    @classmethod
    def star(cls, n: int) -> Self:
        """Server 0 linked to every other."""
        return cls(n, tuple((0, i) for i in range(1, _servers(n)[0])))

    @classmethod
    def grid(cls, n: int) -> Self:
        """rows x columns = n as close to square as n divides: 10 gives 2 x 5, a prime gives a
        line."""
        n, _ = _servers(n)
        columns = n // max(rows for rows in range(1, int(n**0.5) + 1) if n % rows == 0)
        right = [(i, i + 1) for i in range(n - 1) if (i + 1) % columns]
        return cls(n, tuple(right + [(i, i + columns) for i in range(n - columns)]))

    @classmethod
    def small_world(cls, n: int, k: int, p: float, rng: np.random.Generator) -> Self:
        """Watts-Strogatz, given that it is connected: a ring with k neighbours each, one end of
        every link moved with probability p."""
        n, _ = _servers(n)
        k = _validate.integer(
            "k",
            k,
            low=2,
            high=n,
            why="each server starts with k/2 neighbours on either side of the ring",
        )
        if k % 2:
            raise InvalidInput(
                f"k must be even, got {k}: each server starts with k/2 neighbours on either "
                "side of the ring"
            )
        p = _validate.real("p", p, low=0, high=1, why="it is the probability of moving a link")
        with extras.needed():
            # here, because it takes longer to import than everything else in this room
            import networkx as nx

        try:
            network = nx.connected_watts_strogatz_graph(
                n, k, p, tries=_CONNECTED_TRIES, seed=_generator(rng)
            )
        except nx.NetworkXError as error:
            settings = f"{n} servers with k = {k}, p = {p:g}"
            raise GraphError(
                f"no small world of {settings} was connected in {_CONNECTED_TRIES} draws: "
                "raise k or lower p"
            ) from error
        return cls(n, tuple(network.edges))

    @classmethod
    def from_edges(cls, edges: Iterable[Sequence[int]]) -> Self:
        """Graph over servers 0 to the largest number."""
        array = _as_pairs(edges)
        return cls(int(array.max(initial=1)) + 1, _pairs(array))


@dataclass(frozen=True)
class Topology:
    """A name for graphs of any number of servers.

    Parameters
    ----------
    name : str
        What a plan or a command line calls it.
    build : callable
        (n, generator) -> `Graph` of n servers; the generator may be None where nothing is random.
    """

    name: str
    build: Callable[[int, Any], Graph]


def _random(n: int, rng: Any) -> Graph:
    """1.3 n links: 13 for the paper's 10 servers (Section evaluation)."""
    return Graph.random(n, min(max(round(1.3 * n), n - 1), _servers(n)[1]), _generator(rng))


TOPOLOGIES: Registry[Topology] = Registry(
    "topology",
    Topology,
    (
        Topology("random", _random),
        Topology("ring", lambda n, _: Graph.ring(n)),
        Topology("complete", lambda n, _: Graph.complete(n)),
        Topology("star", lambda n, _: Graph.star(n)),
        Topology("grid", lambda n, _: Graph.grid(n)),
        Topology(
            "small_world",
            lambda n, rng: Graph.small_world(n, min(4, n - n % 2), 0.1, _generator(rng)),
        ),
    ),
)


def register(topology: Topology) -> Topology:
    """Make a topology known by its name, in this process. Organisations agree on links, so that
    nobody else needs to know it."""
    return TOPOLOGIES.register(topology)


def build(
    topology: "str | Topology | Graph | Iterable[Sequence[int]]",
    n: int,
    rng: np.random.Generator | None = None,
    links: int | None = None,
) -> Graph:
    """The graph a plan asks for: one of ``TOPOLOGIES``, a ready graph, or a list of links.

    ``links`` belongs to "random" alone and is 1.3 n by default.
    """
    n, _ = _servers(n)
    if links is not None:
        if topology != "random":
            raise InvalidInput(
                f'links must be None unless topology is "random", got {links!r}: every other '
                "topology fixes its own links"
            )
        return Graph.random(n, links, _generator(rng))
    if isinstance(topology, str):
        topology = TOPOLOGIES.resolve(topology)
    if isinstance(topology, Topology):
        topology = topology.build(n, rng)
    if isinstance(topology, Graph):
        if topology.n != n:
            raise GraphError(f"topology must have {n} servers, got a graph of {topology.n}")
        return topology
    if not isinstance(topology, Iterable):  # whatever the types say, people pass None
        raise InvalidInput(
            f"topology must be one of {_listed(TOPOLOGIES)}, a Graph or a list of "
            f"links, got {topology!r}",
            setting="topology",
        )
    return Graph(n, _checked(n, topology))


def _servers(n: int) -> tuple[int, int]:
    """n, once checked, and the number of pairs of servers."""
    n = _validate.integer("n", n, low=2, why="servers train together")
    return n, n * (n - 1) // 2


def _generator(rng: Any) -> np.random.Generator:
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(
            f"rng must be a numpy.random.Generator, got {rng!r}: a random graph is "
            "reproducible from its generator"
        )
    return rng


def _frozen(values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Cached arrays are shared by every caller, so nobody may write to them."""
    values.setflags(write=False)
    return values


def _pairs(edges: IntArray) -> tuple[tuple[int, int], ...]:
    return tuple((i, j) for i, j in edges.tolist())


def _listed(items: Iterable[object]) -> str:
    words = [str(item) for item in items]
    return ", ".join(words[:10]) + (f" and {len(words) - 10} more" if len(words) > 10 else "")


def _as_pairs(edges: Any) -> IntArray:
    try:
        links = list(edges)
        array = np.asarray(links) if links else np.empty((0, 2), dtype=np.int64)
    except (TypeError, ValueError):  # no list, or a ragged one
        array = np.empty(0)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise GraphError(f"edges must be pairs of server numbers, got {reprlib.repr(edges)}")
    return array.astype(np.int64)


def _checked(n: int, edges: Iterable[Any]) -> tuple[tuple[int, int], ...]:
    """Edges as (i, l) with i < l, in order; refuse self loops, doubles, unknown servers and graphs
    in several pieces."""
    array = np.sort(_as_pairs(edges), axis=1)
    array = array[np.lexsort((array[:, 1], array[:, 0]))]
    outside = array[(array[:, 0] < 0) | (array[:, 1] >= n)]
    if outside.size:
        raise GraphError(f"edges must join servers 0 to {n - 1}, got {_listed(_pairs(outside))}")
    for i, _ in array[array[:, 0] == array[:, 1]]:
        raise GraphError(f"edges must join different servers, got a link from server {i} to itself")
    for i, j in array[1:][(array[1:] == array[:-1]).all(axis=1)]:
        raise GraphError(
            f"edges must name each link once, got the link between servers {i} and {j} more than "
            "once"
        )
    piece = components(n, array)
    root = int(np.bincount(piece).argmax())  # the first server of the largest piece
    lost = np.flatnonzero(piece != root)
    if lost.size:
        isolated = [i for i in lost.tolist() if not (array == i).any()]
        without = f" (without any link: {_listed(isolated)})" if isolated else ""
        raise GraphError(
            f"edges must connect all servers, got no path from server {root} to "
            f"{_listed(lost.tolist())}{without}"
        )
    return _pairs(array)


def _adjacency(n: int, edges: IntArray) -> Matrix:
    from scipy import sparse  # here, because devices check a study's links without it

    rows, columns = np.concatenate([edges, edges[:, ::-1]]).T
    matrix = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    matrix.sort_indices()
    _frozen(matrix.data)
    return matrix


def components(n: int, edges: IntArray) -> IntArray:
    """For every server the first server of its connected piece: the least number spreads over
    links, and along the numbers it has met."""
    first, (i, j) = np.arange(n), edges.T
    while True:
        spread = first.copy()
        np.minimum.at(spread, i, first[j])
        np.minimum.at(spread, j, first[i])
        spread = spread[spread]
        if np.array_equal(spread, first):
            return first
        first = spread


def _random_tree(n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Uniform over the n^(n-2) trees: decode a random Prüfer sequence."""
    sequence = rng.integers(n, size=n - 2).tolist()
    degree = [1] * n
    for parent in sequence:
        degree[parent] += 1
    pointer = leaf = degree.index(1)
    edges = []
    for parent in sequence:
        edges.append((leaf, parent))
        degree[parent] -= 1
        if degree[parent] == 1 and parent < pointer:
            leaf = parent
        else:
            pointer = leaf = degree.index(1, pointer + 1)
    return [*edges, (leaf, n - 1)]
