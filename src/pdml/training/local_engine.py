"""All servers in one process: the default engine, and the oracle of the others. Results depend
neither on the number of threads nor on their order: each server has its own solver and stream.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdml._threads import single_thread
from pdml._types import Array, IntArray, Matrix
from pdml.errors import InvalidInput
from pdml.mechanisms.integer_gaussian import Units
from pdml.mechanisms.iterate_noise import draw_round
from pdml.mechanisms.randomness import ITERATES, Source
from pdml.numerics.admm import rows, steps
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.rows import stored
from pdml.numerics.admm.solver import ManySolvers, ServerMap, worth_compiling
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release
from pdml.training.server import Server

Observer = Callable[[int, Array, Array], None]
"""Called after each round with t, the releases and the un-noised iterates, both (runs, n, C, d).
The latter never leave a server in a deployment: an observer is for simulation and tests."""

Compiled = bool | Sequence[bool] | None

ENGINES = ("local", "ray")
Loader = Callable[[], Sequence[Server]]  # of a server's records, called where an actor runs


@dataclass(frozen=True)
class Run:
    """One training of a sweep."""

    plan: TrainingPlan
    servers: Sequence[Server]
    source: Source


@dataclass(frozen=True)
class SolverFigures:
    """How the solves went: functions of records without noise, never to be published."""

    certified: Array  # (T, n): gradient norms reached by the primal solves
    passes: int  # over one server's records, summed over servers and rounds
    hessians: int


@dataclass(frozen=True)
class RoundsOutcome:
    """What came out of one training. All but ``solver`` is a function of the releases."""

    released: Array  # (n, C, d): w̃_i(T)
    consensus: Array  # (T,): largest distance between two servers' releases
    solver: SolverFigures


def train(
    graph: Graph,
    run: Run,
    *,
    observe: Observer | None = None,
    threads: int | None = None,
    use_numba: Compiled = None,
) -> RoundsOutcome:
    """One training over ``graph``."""
    return sweep(graph, [run], observe=observe, threads=threads, use_numba=use_numba)[0]


def exchange(
    run: Run, *, local_models: bool = False, intercept: bool = True, threads: int | None = None
) -> sums_release.SumsExchange:
    """One exchange of sums: one pass over each server's records, a few thousand at a time."""
    plan, n = run.plan, len(run.servers)
    with single_thread(), _pool(workers(threads), n) as map_servers:

        def release(i: int) -> Units:
            sums = sums_release.exact(run.servers[i], plan)
            return sums_release.release_sums(sums, run.servers[i], plan, run.source)

        released = np.array(map_servers(release))
        if not local_models:
            return sums_release.SumsExchange(released=released)
        total = released.sum(axis=0)

        def local_weights(i: int) -> Array:
            return sums_release.local_weights(
                run.servers[i], released[i], total, plan, intercept=intercept
            )

        weights = tuple(map_servers(local_weights))
        return sums_release.SumsExchange(released=released, local_models=weights)


def train_by(
    engine: str,
    graph: Graph,
    run: Run,
    observe: Observer,
    *,
    loaders: Sequence[Loader] | None = None,
    use_numba: Compiled = None,
) -> RoundsOutcome:
    """`train` in this process, or on a Ray cluster, by ``loaders`` where records are to stay."""
    if engine == "local":
        return train(graph, run, observe=observe, use_numba=use_numba)
    from pdml.training import ray_engine

    options: dict[str, Any] = {"observe": observe, "use_numba": use_numba}
    with ray_engine.cluster_shards(run, loaders) as shards:
        return ray_engine.train(graph, run.plan, run.source, shards, **options)


def exchange_by(
    engine: str,
    run: Run,
    *,
    loaders: Sequence[Loader] | None = None,
    local_models: bool = False,
    intercept: bool = True,
) -> sums_release.SumsExchange:
    """`exchange` in this process, or on a Ray cluster, as `train_by`."""
    options = {"local_models": local_models, "intercept": intercept}
    if engine == "local":
        return exchange(run, **options)
    from pdml.training import ray_engine

    with ray_engine.cluster_shards(run, loaders) as shards:
        return ray_engine.exchange(run.plan, run.source, shards, **options)


def sweep(
    graph: Graph,
    runs: Sequence[Run],
    *,
    observe: Observer | None = None,
    threads: int | None = None,
    use_numba: Compiled = None,
) -> list[RoundsOutcome]:
    """Several trainings over the same graph, records, a, β, T and loss, which share every pass over
    the data. ``use_numba`` says for all servers or for each whether its loops are compiled; None
    decides by the size of all records.
    """
    plan = _common_plan(runs)
    first = runs[0].servers
    if len(first) != graph.n:
        raise InvalidInput(f"the graph joins {graph.n} servers, but {len(first)} brought records")
    loss = plan.loss_for(first[0].spec.classes)
    if use_numba is None:
        use_numba = worth_compiling(
            sum(stored(server.matrix) for server in first), plan.rounds * len(runs)
        )
    flags = [use_numba] * graph.n if isinstance(use_numba, bool) else list(use_numba)
    size = workers(threads) if all(flags) else 1
    with single_thread(), _pool(size, graph.n) as map_servers:
        pooled, cuts = pool_records(first)
        ridges = np.array([plan.ridge(server.spec.degree, graph.n) for server in first])
        solvers = ManySolvers(
            pooled,
            cuts,
            loss,
            ridges,
            codes=first[0].codes.shape[1],
            runs=len(runs),
            threads=size,
            use_numba=flags,
            map_servers=map_servers,
        )
        return _rounds(graph, runs, solvers, observe)


def _rounds(
    graph: Graph, runs: Sequence[Run], solvers: ManySolvers, observe: Observer | None
) -> list[RoundsOutcome]:
    plan, n = runs[0].plan, graph.n
    loss = plan.loss_for(runs[0].servers[0].spec.classes)
    linear = np.array(
        [[server.linear(run.plan, loss, run.source) for server in run.servers] for run in runs]
    )
    shape = linear.shape  # (runs, n, C, d)
    tolerances = np.array(
        [min(run.plan.tolerance_for(run.servers[i].spec) for run in runs) for i in range(n)]
    )
    noises = [[run.plan.iterates(i, n) for i in range(n)] for run in runs]
    streams = [[run.source.stream(ITERATES, i) for i in range(n)] for run in runs]
    degree = np.asarray(graph.degrees, dtype=float)[None, :, None, None]
    settings: dict[str, Any] = {"degree": degree, "penalty": plan.penalty}
    sent, dual, noise = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    consensus = np.empty((len(runs), plan.rounds))
    certified = np.empty((len(runs), plan.rounds, n))
    recent: list[Array] = []

    for t in range(1, plan.rounds + 1):
        neighbour_sums = graph.sum_over_neighbours(sent.swapaxes(0, 1)).swapaxes(0, 1)
        dual = steps.dual_step(dual, sent, neighbour_sums, **settings)
        target = steps.primal_target(linear, dual, sent, neighbour_sums, **settings)
        points, norms = solvers.solve(target.swapaxes(0, 1), tolerances)
        point, certified[:, t - 1] = points.swapaxes(0, 1), norms.T
        for k in range(len(runs)):
            draw_round(noises[k], t, noise[k], streams[k])
        sent = steps.release_step(
            np.array([run.source.settle(point[k]) for k, run in enumerate(runs)]), noise
        )
        recent.append(sent)
        if len(recent) == 20 or t == plan.rounds:
            consensus[:, t - len(recent) : t] = diameters(np.array(recent)).T
            recent.clear()
        if observe is not None:
            observe(t, sent, point)
    work = solvers.states.work.sum(axis=0)
    passes, hessians = int(work[0]), int(work[2])
    return [
        RoundsOutcome(sent[k].copy(), consensus[k], SolverFigures(certified[k], passes, hessians))
        for k in range(len(runs))
    ]


def diameters(points: Array) -> Array:
    """The largest Euclidean distance between two servers' vectors, (..., n, C, d) -> (...).
    From 200 servers on twice the largest distance from their mean: between it and twice it.
    """
    flat = points.reshape(*points.shape[:-2], -1)
    if flat.shape[-2] > 200:
        return np.asarray(
            2 * np.linalg.norm(flat - flat.mean(axis=-2, keepdims=True), axis=-1).max(axis=-1)
        )
    largest = np.zeros(flat.shape[:-2])
    for i in range(1, flat.shape[-2]):
        gap = flat[..., :i, :] - flat[..., i : i + 1, :]
        np.maximum(largest, np.einsum("...d,...d->...", gap, gap).max(axis=-1), out=largest)
    return np.sqrt(largest)


def _common_plan(runs: Sequence[Run]) -> TrainingPlan:
    if not runs:
        raise InvalidInput("a sweep needs at least one training")
    plan = runs[0].plan
    for run in runs[1:]:
        for name in ("rounds", "regularization", "penalty", "loss"):
            if getattr(run.plan, name) != getattr(plan, name):
                raise InvalidInput(
                    f"the trainings of a sweep must agree on {name}, got "
                    f"{getattr(plan, name)} and {getattr(run.plan, name)}"
                )
        if any(a.matrix is not b.matrix for a, b in zip(run.servers, runs[0].servers, strict=True)):
            raise InvalidInput(
                "the trainings of a sweep must share their records: pass the same matrices"
            )
    return plan


def pool_records(servers: Sequence[Server]) -> tuple[Matrix, IntArray]:
    """The servers' rows one below the other, not copied if they are slices of one matrix. Rows that
    each server brought by itself stay as they are stored: at a node nobody sees the others' zeros.
    """
    cuts = np.cumsum([0, *(server.spec.records for server in servers)]).astype(np.int64)
    whole = servers[0].pooled
    if (
        whole is None
        or whole.shape[0] != cuts[-1]
        or any(server.pooled is not whole for server in servers)
    ):
        whole = rows.stack([server.matrix for server in servers])
    return rows.compact(whole) if servers[0].pooled is not None else whole, cuts


def workers(threads: int | None) -> int:
    """As many threads as this process may use."""
    if threads is not None:
        return threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _pool(size: int, servers: int) -> Iterator[ServerMap]:
    """``map_servers(work, jobs)``: whichever thread is free takes the next job."""
    if size == 1:
        yield lambda work, jobs=range(servers): list(map(work, jobs))
        return
    with ThreadPoolExecutor(size) as pool:
        yield lambda work, jobs=range(servers): list(pool.map(work, jobs))
