"""Ray beside the local engine: `python -m benchmarks.cluster [10 100 1000]`, seconds per round on a
cluster of this machine.

Every server has 200 records of 105 features; the servers are dealt to as many actors as there are
cores. A round's time is taken between observations, so that starting actors and loading records is
told apart.
"""

import os
import statistics
import sys
import time
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine, ray_engine
from pdml.training.ray_engine import connected
from pdml.training.server import Server

RECORDS, WIDTH = 200, 105
PLAN = TrainingPlan(rounds=20)


def problem(n):
    rng = np.random.default_rng(n)
    graph = Graph.random(n, round(1.3 * n), rng)
    servers, terms = [], TrainingTerms.over(graph, RowSpec(width=WIDTH))
    for i in range(n):
        x = rng.standard_normal((RECORDS, WIDTH))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-9)
        codes = labels.codes(rng.integers(2, size=RECORDS), 1.0, 2)
        servers.append(Server(terms.server_spec(i, records=RECORDS, epsilons=(1.0,)), x, codes))
    return graph, local_engine.Run(PLAN, servers, Simulated(1))


def rounds_of(train):
    """(seconds until the first round is done, median seconds of the others, what came out)."""
    start, marks = time.perf_counter(), []
    out = train(lambda *_: marks.append(time.perf_counter()))
    return marks[0] - start, statistics.median(b - a for a, b in pairwise(marks)), out


def cluster(sizes=(10, 100, 1000)):
    """Seconds per round at these numbers of servers."""
    table = Table(
        "servers",
        "local, first",
        "local, round",
        "ray, first",
        "ray, round",
        "ratio",
        title="Ray against the local engine, seconds",
    )
    with connected():
        for n in sizes:
            graph, run = problem(n)
            here = rounds_of(
                lambda observe, graph=graph, run=run: local_engine.train(
                    graph, run, observe=observe, use_numba=False
                )
            )
            shards = ray_engine.shards_of(run)
            there = rounds_of(
                lambda observe, graph=graph, run=run, shards=shards: ray_engine.train(
                    graph, run.plan, run.source, shards, observe=observe, use_numba=False
                )
            )
            same = np.array_equal(here[2].released, there[2].released)
            figures = (*here[:2], *there[:2])
            table.add_row(
                str(n),
                *(f"{value:.4f}" for value in figures),
                f"{there[1] / here[1]:.1f}" + ("" if same else " DIFFERENT"),
            )
    Console(width=140).print(table)


if __name__ == "__main__":
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.2f}")
    cluster(tuple(map(int, sys.argv[1:])) or (10, 100, 1000))
