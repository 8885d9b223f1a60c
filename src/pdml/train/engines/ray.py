"""The servers of one trust domain on a Ray cluster: the steps of `node.py` in actors, with the
records where they live.

Actors pass noisy vectors among themselves; the driver sees those and figures about each round.
Nothing is ever restarted: a restarted actor would have lost its solver and its streams, and would
end with a wrong model that looks right.

    with connected("auto"):
        trained = train(graph, plan, source, shards)
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pdml._types import Array
from pdml.core.graph import Graph
from pdml.core.rows import stored
from pdml.core.solver import worth_compiling
from pdml.errors import EngineError, InvalidInput, PDMLError
from pdml.mechanisms.randomness import Source
from pdml.train.engines.local import Compiled, Inside, Observer, Run, Trained, diameters, workers
from pdml.train.node import Node, NodeState, Server
from pdml.train.plan import TrainingPlan

TIMEOUT = 600.0  # seconds a round may take
KNOCK = 10.0  # seconds in which the head of a cluster answers


@dataclass(frozen=True)
class Shard:
    """Servers that live on one machine. ``load`` is called there; ``resources`` (Ray's custom ones)
    name the machine.
    """

    servers: tuple[int, ...]
    load: Callable[[], Sequence[Server]]
    resources: dict[str, float] = field(default_factory=dict)


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """A connection to the cluster at ``address`` (or RAY_ADDRESS), else to a new one on this
    machine; an existing one is kept.
    """
    ray = library()
    if ray.is_initialized():
        yield
        return
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or address
    with _own_signals():
        _join(address)
    try:
        yield
    finally:
        ray.shutdown()


def _join(address: str | None) -> None:
    ray = library()
    try:
        if address is None:
            ray.init(
                num_cpus=workers(None),
                include_dashboard=False,
                log_to_driver=False,
                _node_ip_address="127.0.0.1",
            )
            return
        if address not in ("auto", "local"):
            _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, RuntimeError, ValueError, OverflowError, ray.exceptions.RayError) as error:
        reason = (
            "this machine belongs to none"
            if address == "auto"
            else " ".join((getattr(error, "strerror", None) or str(error)).split())
        )
        raise EngineError(f"there is no Ray cluster at {address!r}: {reason}") from None


def _knock(address: str) -> None:
    """An error at once if nobody listens there: Ray would try for minutes, and may end the
    process.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError("an address is HOST:PORT")
    if host in ("localhost", "127.0.0.1"):
        host = library().util.get_node_ip_address()  # which is where Ray will look
    socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray replaces the handler of SIGTERM; put back whose there was."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGTERM, before)


def shards_of(run: Run, count: int | None = None) -> list[Shard]:
    """Records that are in this process, dealt to ``count`` actors (one per core of the cluster by
    default).
    """
    ray = library()
    count = min(len(run.servers), count or max(1, int(ray.cluster_resources().get("CPU", 1))))
    groups = [group for group in np.array_split(np.arange(len(run.servers)), count) if len(group)]
    return [
        Shard(tuple(map(int, group)), _Shipped([_alone(run.servers[int(i)]) for i in group]))
        for group in groups
    ]


def train(
    graph: Graph,
    plan: TrainingPlan,
    source: Source,
    shards: Sequence[Shard],
    *,
    observe: Observer | None = None,
    timeout: float = TIMEOUT,
    use_numba: Compiled = None,
) -> Trained:
    """One training, equal to the local engine's with the same ``use_numba``.

    Observers see the releases only: iterates without noise stay in the actors.
    """
    ray = library()
    owners = _owners(graph, shards)
    actors: list[Any] = []
    try:
        layout = [shard.servers for shard in shards]
        for shard in shards:
            options = {
                "num_cpus": 1 if not shard.resources else 0,
                "resources": shard.resources,
                "max_restarts": 0,
                "max_task_retries": 0,
            }
            actors.append(
                ray.remote(_Worker).options(**options).remote(shard, layout, graph, plan, source)
            )
        sizes = _gather(
            [actor.load.remote() for actor in actors],
            shards,
            "while its records were loaded",
            timeout,
        )
        if use_numba is None:
            use_numba = worth_compiling(sum(sizes), plan.rounds)
        flags = [use_numba] * graph.n if isinstance(use_numba, bool) else list(use_numba)
        _gather(
            [actor.open.remote(flags) for actor in actors],
            shards,
            "before the first round",
            timeout,
        )
        return _rounds(graph, plan, shards, owners, actors, observe, timeout)
    finally:
        for actor in actors:
            ray.kill(actor)


def _rounds(
    graph: Graph,
    plan: TrainingPlan,
    shards: Sequence[Shard],
    owners: dict[int, int],
    actors: list[Any],
    observe: Observer | None,
    timeout: float,
) -> Trained:
    needed = [
        sorted(
            {owners[peer] for server in shard.servers for peer in graph.neighbours(server)} - {k}
        )
        for k, shard in enumerate(shards)
    ]
    order = np.argsort([server for shard in shards for server in shard.servers])
    consensus, certified = np.empty(plan.rounds), np.empty((plan.rounds, graph.n))
    passes = hessians = 0
    sent: list[Any] = [None] * len(shards)
    released = np.empty(0)
    for t in range(1, plan.rounds + 1):
        outcome = [
            actor.step.options(num_returns=2).remote(t, needed[k], *(sent[j] for j in needed[k]))
            for k, actor in enumerate(actors)
        ]
        sent = [release for release, _ in outcome]
        figures = _gather([figure for _, figure in outcome], shards, f"in round {t}", timeout)
        released = np.concatenate(_gather(sent, shards, f"in round {t}", timeout))[order]
        consensus[t - 1] = diameters(released)
        certified[t - 1] = np.concatenate([figure[0] for figure in figures])[order]
        passes, hessians = (sum(figure[k] for figure in figures) for k in (1, 2))
        if observe is not None:
            observe(t, released[None], released[None])
    return Trained(released, consensus, Inside(certified, passes, hessians))


class _Worker:
    """One actor: the nodes of a shard."""

    def __init__(
        self,
        shard: Shard,
        layout: Sequence[Sequence[int]],
        graph: Graph,
        plan: TrainingPlan,
        source: Source,
    ) -> None:
        self.layout = layout
        self.shard, self.graph, self.plan, self.source = shard, graph, plan, source
        self.servers: list[Server] = []
        self.nodes: list[Node] = []
        self.states: list[NodeState] = []

    def load(self) -> int:
        """Read the records, and say how many numbers they are."""
        self.servers = list(self.shard.load())
        if tuple(server.index for server in self.servers) != self.shard.servers:
            raise InvalidInput(
                f"the shard of servers {self.shard.servers} loaded "
                f"{[server.index for server in self.servers]}"
            )
        return sum(stored(server.matrix) for server in self.servers)

    def open(self, use_numba: Sequence[bool]) -> None:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
        self.nodes = [
            Node(server, self.plan, self.source, use_numba=use_numba[server.index])
            for server in self.servers
        ]
        self.states = [node.start() for node in self.nodes]

    def step(self, t: int, others: Sequence[int], *blocks: Array) -> Any:
        """Round t of every server here: the releases (for other actors), and figures about them
        (for the driver).
        """
        heard = {
            server: state.sent
            for server, state in zip(self.shard.servers, self.states, strict=True)
        }
        if t > 1:
            for other, block in zip(others, blocks, strict=True):
                heard |= dict(zip(self.layout[other], block, strict=True))
        stepped = [
            node.step(
                state,
                [heard[peer] for peer in self.graph.neighbours(node.server.index)] if t > 1 else [],
            )
            for node, state in zip(self.nodes, self.states, strict=True)
        ]
        self.states = [state for state, _ in stepped]
        work = np.sum([node.solver.state.work for node in self.nodes], axis=0).reshape(-1)
        figures = ([s.certified for s in self.states], int(work[0]), int(work[2]))
        return np.array([released for _, released in stepped]), figures


@dataclass(frozen=True)
class _Shipped:
    """Records that travel with the actor."""

    servers: Sequence[Server]

    def __call__(self) -> Sequence[Server]:
        return self.servers


def _alone(server: Server) -> Server:
    """A server without the matrix of all servers that its own is a slice of."""
    return replace(server, pooled=None)


def _owners(graph: Graph, shards: Sequence[Shard]) -> dict[int, int]:
    owners = {server: k for k, shard in enumerate(shards) for server in shard.servers}
    if sorted(server for shard in shards for server in shard.servers) != list(range(graph.n)):
        raise InvalidInput(f"shards must hold every server from 0 to {graph.n - 1} exactly once")
    return owners


def _gather(
    references: Sequence[Any], shards: Sequence[Shard], when: str, timeout: float
) -> list[Any]:
    """The values; if an actor is gone or late, one sentence that names its servers."""
    ray = library()
    _, late = ray.wait(
        list(references), num_returns=len(references), timeout=timeout, fetch_local=False
    )
    if late:
        names = ", ".join(_named(shards[references.index(reference)]) for reference in late[:3])
        raise EngineError(f"the actor of {names} did not answer within {timeout:g} s {when}")
    values = []
    for shard, reference in zip(shards, references, strict=True):
        try:
            values.append(ray.get(reference))
        except (
            ray.exceptions.RayTaskError
        ) as error:  # what the code in the actor raised, as it raised it
            raise (
                error.cause if isinstance(error.cause, PDMLError) else error.as_instanceof_cause()
            ) from None
        except ray.exceptions.RayError as error:
            raise EngineError(
                f"the actor of {_named(shard)} died {when} ({type(error).__name__}): "
                "nothing was restarted, start the training again"
            ) from None
    return values


def _named(shard: Shard) -> str:
    shown = ", ".join(str(server + 1) for server in shard.servers[:5])
    return (
        f"server{'s' if len(shard.servers) > 1 else ''} "
        f"{shown}{', ...' if len(shard.servers) > 5 else ''}"
    )


def library() -> Any:
    """Ray itself, or one sentence saying that it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise EngineError(
            "this needs Ray, which is not installed: pip install 'pdml[ray]'"
        ) from None
    return ray
