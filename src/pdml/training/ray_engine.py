"""The servers of one trust domain on a Ray cluster, which may be this machine alone: the steps of
`server.py` in actors, with the records where they live. Nothing is ever restarted: a restarted
actor would have lost its solver and its streams, and would end with a wrong model that looks right.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from pdml import extras
from pdml._types import Array
from pdml.errors import EngineError, InvalidInput, PDMLError
from pdml.mechanisms.integer_gaussian import Units
from pdml.mechanisms.randomness import Source
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.rows import stored
from pdml.numerics.admm.solver import worth_compiling
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release
from pdml.training.local_engine import (
    Compiled,
    Loader,
    Observer,
    RoundsOutcome,
    Run,
    SolverFigures,
    diameters,
    workers,
)
from pdml.training.server import Node, NodeState, Server

TIMEOUT = 600.0  # seconds a round may take
KNOCK = 10.0  # seconds in which the head of a cluster answers


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """A connection to the cluster at ``address`` (or RAY_ADDRESS), else to a new one of this
    machine; an existing one is kept.
    """
    ray = library()
    if ray.is_initialized():
        yield
        return
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or address
    with _preserve_signals():
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
    """Fail at once if nobody listens there: Ray tries for minutes, and may end the process."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError("an address is HOST:PORT")
    if host in ("localhost", "127.0.0.1"):
        host = library().util.get_node_ip_address()  # which is where Ray will look
    socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()


@contextmanager
def _preserve_signals() -> Iterator[None]:
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


def library() -> Any:
    """Ray itself, or one sentence saying that it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with extras.needed():
        import ray
    return ray


@dataclass(frozen=True)
class Shard:
    """Servers that live on one machine, which ``resources`` (Ray's custom ones) name."""

    servers: tuple[int, ...]
    load: Loader
    resources: dict[str, float] = field(default_factory=dict)


def shards_of(run: Run, count: int | None = None) -> list[Shard]:
    """Records that are in this process, for ``count`` actors (by default one per core)."""
    count = count or max(1, int(library().cluster_resources().get("CPU", 1)))
    groups = np.array_split(np.arange(len(run.servers)), min(len(run.servers), count))
    return [
        Shard(
            tuple(map(int, group)),
            # without the matrix of all servers that theirs are slices of
            partial(_shipped, [replace(run.servers[int(i)], pooled=None) for i in group]),
        )
        for group in groups
    ]


@contextmanager
def cluster_shards(run: Run, loaders: Sequence[Loader] | None) -> Iterator[list[Shard]]:
    """On a cluster, one shard for each loader; without any, records of this process."""
    with connected():
        yield (
            shards_of(run)
            if loaders is None
            else [Shard((i,), load) for i, load in enumerate(loaders)]
        )


def train(
    graph: Graph,
    plan: TrainingPlan,
    source: Source,
    shards: Sequence[Shard],
    *,
    observe: Observer | None = None,
    timeout: float = TIMEOUT,
    use_numba: Compiled = None,
) -> RoundsOutcome:
    """One training, equal to the local engine's with the same ``use_numba``; iterates without noise
    stay in the actors, and observers see releases alone.
    """
    owners = _owners(graph.n, shards)
    layout = [shard.servers for shard in shards]
    with _actors(_Worker, shards, layout, graph, plan, source) as actors:
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


def exchange(
    plan: TrainingPlan,
    source: Source,
    shards: Sequence[Shard],
    *,
    local_models: bool = False,
    intercept: bool = True,
    timeout: float = TIMEOUT,
) -> sums_release.SumsExchange:
    """One exchange of sums, equal to the local engine's: exact sums stay in the actors."""
    n = sum(len(shard.servers) for shard in shards)
    _owners(n, shards)
    with _actors(_Summing, shards, plan, source) as actors:
        done = [actor.released.remote() for actor in actors]
        released = _ordered(shards, _gather(done, shards, "before it sent its sums", timeout))
        rows = np.array(released)
        if not local_models:
            return sums_release.SumsExchange(released=rows)
        kept = [actor.local_models.remote(rows.sum(axis=0), intercept) for actor in actors]
        local_weights = _ordered(shards, _gather(kept, shards, "over its own model", timeout))
        return sums_release.SumsExchange(released=rows, local_models=tuple(local_weights))


def _ordered(shards: Sequence[Shard], values: Sequence[Sequence[Any]]) -> list[Any]:
    """The values of the servers of each shard, in the order of all servers."""
    servers = [server for shard in shards for server in shard.servers]
    flat = [value for part in values for value in part]
    return [value for _, value in sorted(zip(servers, flat, strict=True), key=itemgetter(0))]


@contextmanager
def _actors(kind: type, shards: Sequence[Shard], *settings: Any) -> Iterator[list[Any]]:
    """One actor for each shard, gone at the end."""
    ray = library()
    actors: list[Any] = []
    try:
        for shard in shards:
            options = {
                "num_cpus": 1 if not shard.resources else 0,
                "resources": shard.resources,
                "max_restarts": 0,
                "max_task_retries": 0,
            }
            actors.append(ray.remote(kind).options(**options).remote(shard, *settings))
        yield actors
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
) -> RoundsOutcome:
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
    return RoundsOutcome(released, consensus, SolverFigures(certified, passes, hessians))


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
        self.servers = _loaded(self.shard)
        return sum(stored(server.matrix) for server in self.servers)

    def open(self, use_numba: Sequence[bool]) -> None:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
        self.nodes = [
            Node(server, self.plan, self.source, use_numba=use_numba[server.spec.server])
            for server in self.servers
        ]
        self.states = [node.start() for node in self.nodes]

    def step(self, t: int, others: Sequence[int], *blocks: Array) -> Any:
        """Round t of every server here: the releases, and figures about them for the driver."""
        messages = {
            server: state.sent
            for server, state in zip(self.shard.servers, self.states, strict=True)
        }
        if t > 1:
            for other, block in zip(others, blocks, strict=True):
                messages |= dict(zip(self.layout[other], block, strict=True))
        stepped = [
            node.step(
                state,
                [messages[peer] for peer in self.graph.neighbours(node.server.spec.server)]
                if t > 1
                else [],
            )
            for node, state in zip(self.nodes, self.states, strict=True)
        ]
        self.states = [state for state, _ in stepped]
        work = np.sum([node.solver.state.work for node in self.nodes], axis=0).reshape(-1)
        figures = ([s.certified for s in self.states], int(work[0]), int(work[2]))
        return np.array([released for _, released in stepped]), figures


class _Summing:
    """One actor: the sums of a shard, which stay here without their noise."""

    def __init__(self, shard: Shard, plan: TrainingPlan, source: Source) -> None:
        self.shard, self.plan, self.source = shard, plan, source
        self.rows: list[Units] = []

    def released(self) -> list[Units]:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
        for server in _loaded(self.shard):
            sums = sums_release.exact(server, self.plan)
            self.rows.append(sums_release.release_sums(sums, server, self.plan, self.source))
        return self.rows

    def local_models(self, total: Units, intercept: bool) -> list[Array]:
        return [
            sums_release.local_weights(server, row, total, self.plan, intercept=intercept)
            for server, row in zip(_loaded(self.shard), self.rows, strict=True)
        ]


def _loaded(shard: Shard) -> list[Server]:
    servers = list(shard.load())
    if (numbers := tuple(server.spec.server for server in servers)) != shard.servers:
        raise InvalidInput(f"the shard of servers {shard.servers} loaded {list(numbers)}")
    return servers


def _shipped(servers: Sequence[Server]) -> Sequence[Server]:
    return servers


def _owners(n: int, shards: Sequence[Shard]) -> dict[int, int]:
    owners = {server: k for k, shard in enumerate(shards) for server in shard.servers}
    if sorted(server for shard in shards for server in shard.servers) != list(range(n)):
        raise InvalidInput(f"shards must hold every server from 0 to {n - 1} exactly once")
    return owners


def _gather(
    references: Sequence[Any], shards: Sequence[Shard], when: str, timeout: float
) -> list[Any]:
    """The values; of an actor that is gone or late one sentence that names its servers."""
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
        except ray.exceptions.RayTaskError as error:  # raised by the code in the actor
            ours = isinstance(error.cause, PDMLError)
            raise (error.cause if ours else error.as_instanceof_cause()) from None
        except ray.exceptions.RayError as error:
            raise EngineError(
                f"the actor of {_named(shard)} died {when} ({type(error).__name__}): "
                "nothing was restarted, start the training again"
            ) from None
    return values


def _named(shard: Shard) -> str:
    numbers = ", ".join(str(server + 1) for server in shard.servers[:5])
    return (
        f"server{'s' if len(shard.servers) > 1 else ''} "
        f"{numbers}{', ...' if len(shard.servers) > 5 else ''}"
    )
