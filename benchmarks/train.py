"""Figures of training between organisations: `python -m benchmarks.train [3 10 30]` (nodes), minutes each.

Time per round over FLARE against the same round in the local engine and against the bare exchange (the same bytes to the same
neighbours, nothing computed, signed or stored), start-up, memory, bytes, and a simulation of many organisations far apart.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "train"))

from federation import Federation, study_of
from threadpoolctl import threadpool_limits

from benchmarks.bare import BARE, TIMED, TIMES
from pdml.core.graph import Graph
from pdml.encoder import Encoder, Number
from pdml.frozen import FrozenWriter
from pdml.mechanisms.randomness import Simulated
from pdml.train import wire
from pdml.train.engines import local
from pdml.train.engines.flare import process
from pdml.train.plan import TrainingPlan

console = Console(width=150)
ROUNDS, WIDTH, RECORDS = 100, 105, 500
PLAN = TrainingPlan(rounds=ROUNDS, penalty=0.5, noise_scale=0.05)


class Wide(Federation):
    """d = 105, as in the paper's Adult; each kit also allows the two executors that take times."""

    def __init__(self, folder, n, **options):
        names = tuple(f"node{i}" for i in range(n))
        graph = Graph.random(n, max(n, round(1.3 * n)), np.random.default_rng(n)) if n > 3 else Graph.ring(n)
        edges = tuple((names[a], names[b]) for a, b in graph.edges)
        encoder = Encoder(attributes=tuple(Number(name=f"x{k}", low=0, high=1) for k in range(WIDTH - 1)))
        super().__init__(folder, study_of(names, edges=edges, plan=PLAN, encoder=encoder), freeze=freeze, **options)
        for name in names:
            path = self.kits[name] / "local" / "resources.json"
            content = json.loads(path.read_text())
            content["class_allow_list"] += [TIMED, BARE]
            path.write_text(json.dumps(content))


def freeze(study, name, folder, **_):
    rng = np.random.default_rng([*name.encode()])
    x = rng.uniform(0, 1, (RECORDS, study.width)).astype(np.float32)
    x /= 1.0001 * np.linalg.norm(x, axis=1, keepdims=True)
    labels = (x[:, 0] > x[:, 1]).astype(np.int32)
    names = {"study_hash": study.hash, "study_id": study.id, "server": name}
    with FrozenWriter(folder, width=study.width, classes=2, **names) as writer:
        writer.append(x, labels, np.full(RECORDS, study.epsilon_micro[1], dtype=np.int64))
        writer.finish(frozen_at="2026-03-01T14Z")


def over_flare(federation, job, executor):
    """Seconds from submission to the first round and per round (median over nodes and rounds), and memory."""
    for name in federation.names:
        federation.sites[name].path(TIMES).unlink(missing_ok=True)
    began = time.time()
    number = federation.submit(job, executors=dict.fromkeys(federation.names, executor), start_timeout=600, round_timeout=120)
    memory = []

    def each(_):
        memory.append([sum(p.memory_info().rss for p in process.members(federation.sites[name])) for name in federation.names])

    status = federation.desk.follow(number, each, timeout=1500)
    if executor == TIMED:
        federation.desk.result(number, federation.contract(job), status)
    times = [json.loads(federation.sites[name].path(TIMES).read_text()) for name in federation.names]
    gaps = [b - a for told in times for a, b in pairwise(told[1:])]
    return {
        "first": max(told[0] for told in times) - began,
        "round": statistics.median(gaps),
        "p95": float(np.quantile(gaps, 0.95)),
        "memory": statistics.median([m for seen in memory for m in seen]) / 1e6 if memory else float("nan"),
        "gaps": gaps,
    }


def by_local(federation):
    servers, graph = federation.servers(), federation.study.graph()
    local.train(graph, local.Run(PLAN, servers, Simulated(1)))
    with threadpool_limits(1):
        began = time.perf_counter()
        local.train(graph, local.Run(PLAN, servers, Simulated(1)))
    return (time.perf_counter() - began) / ROUNDS


def measure(n):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
        federation = Wide(Path(folder), n)
        try:
            began = time.time()
            federation.start(timeout=900)
            up = time.time() - began
            timed = over_flare(federation, "timed", TIMED)
            bare = over_flare(federation, "bare", BARE)
            alone = by_local(federation)
            links = federation.study.graph().n_edges
            payload = len(wire.packed(np.zeros((1, WIDTH))))
            contract = federation.contract("timed")
            identity = federation.sites["node0"].identity()
            peer = contract.neighbours("node0")[0]
            message = len(wire.vector(contract, identity, sender="node0", recipient=peer, t=1, payload=bytes(payload)))
            return {
                "nodes": n,
                "links": links,
                "all connected (s)": up,
                "first round after (s)": timed["first"],
                "round (s)": timed["round"],
                "p95 (s)": timed["p95"],
                "bare (s)": bare["round"],
                "local (s)": alone,
                "of bare": timed["round"] / bare["round"],
                "of local": timed["round"] / alone,
                "memory per node (MB)": timed["memory"],
                "message (B)": message,
                "of d floats": message / payload,
            }, timed["gaps"]
        finally:
            federation.close()


def relayed():
    """Bytes that reach the relay per release: FLARE's envelope, encryption and acknowledgements included, the job's start not."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
        federation = Wide(Path(folder), 3, tapped=True)
        try:
            federation.start(timeout=900)
            seen = []
            number = federation.submit("bytes", start_timeout=600, round_timeout=120)
            federation.desk.follow(number, lambda rounds: seen.append((min(rounds.values()), federation.tap.stat().st_size)), timeout=900)
            grown = [(t, size) for t, size in seen if 0 < t < ROUNDS]
            (first, before), (last, after) = grown[0], grown[-1]
            return (after - before) / (last - first) / 6 if last > first else float("nan")
        finally:
            federation.close()


def far_apart(gaps, n=100, *, rounds=100, links=130, seed=7, median_ms=40.0, spread=0.8):
    """Event by event: a node starts its next round when its neighbours' releases are there.

    Its own work is drawn from the rounds measured here; each way to the relay takes half a round trip, log-normal per site (median
    40 ms, 95% below 150 ms), and a message crosses two of them, and so does its acknowledgement.
    """
    rng = np.random.default_rng(seed)
    graph = Graph.random(n, links, rng)
    way = rng.lognormal(np.log(median_ms / 2e3), spread, n)
    finish = np.zeros(n)
    starts = []
    for _ in range(rounds):
        work = rng.choice(gaps, n)
        sent = finish + work
        arrive = [max(sent[k] + (way[k] + way[i]) * rng.lognormal(0, 0.2) for k in graph.neighbours(i)) for i in range(n)]
        told = [sent[i] + max(2 * (way[k] + way[i]) for k in graph.neighbours(i)) for i in range(n)]
        new = np.maximum(arrive, told)
        starts.append(new.max() - finish.max())
        finish = new
    return statistics.median(starts), float(finish.max())


def main():
    sizes = [int(text) for text in sys.argv[1:]] or [3, 10]
    lines, gaps = [], []
    for n in sizes:
        line, gaps = measure(n)
        lines.append(line)
        console.print(line)
    table = Table(title=f"d = {WIDTH}, m = {RECORDS} per node, T = {ROUNDS}; {os.cpu_count()} hyperthreads", title_justify="left")
    table.add_column("")
    for line in lines:
        table.add_column(str(line["nodes"]), justify="right")
    for name in lines[0]:
        table.add_row(name, *(f"{line[name]:.3g}" for line in lines))
    console.print(table)
    console.print(f"bytes at the relay per release, all included: {relayed():,.0f}")
    each, whole = far_apart([gap for gap in gaps if gap > 0])
    console.print(
        f"100 organisations, 130 links, round trips to the relay 40 ms (median): {each:.2f} s a round, {whole:.0f} s for 100 rounds"
    )


if __name__ == "__main__":
    main()
