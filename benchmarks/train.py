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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "node"))

from federation import Federation, study_of
from threadpoolctl import threadpool_limits

from benchmarks import far
from benchmarks.bare import BARE, TIMED, TIMES
from pdml.core.graph import Graph
from pdml.encoder import Encoder, Number
from pdml.frozen import FrozenWriter
from pdml.mechanisms.randomness import Simulated
from pdml.node import wire
from pdml.node.flare import process
from pdml.train.engines import local
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


def usage(site):
    """Bytes in memory and processor seconds of a site's processes."""
    members = process.members(site)
    return sum(p.memory_info().rss for p in members), sum(sum(p.cpu_times()[:2]) for p in members)


def over_flare(federation, job, executor):
    """Seconds from submission to the first round and per round (median over nodes and rounds), and memory."""
    for name in federation.names:
        federation.sites[name].path(TIMES).unlink(missing_ok=True)
    began = time.time()
    number = federation.submit(job, executors=dict.fromkeys(federation.names, executor), start_timeout=600, round_timeout=120)
    memory, seen = [], []

    def each(rounds):
        used = {name: usage(federation.sites[name]) for name in ("relay", *federation.names)}
        memory.append([used[name][0] for name in federation.names])
        nodes = statistics.mean(used[name][1] for name in federation.names)
        seen.append((statistics.mean(rounds.values()), nodes, used["relay"][1], 4 * federation.study.graph().n_edges))

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
        **work(seen),
    }


def work(seen):
    """Processor seconds per round of a node, and per message of the relay, which carries a release and its acknowledgement."""
    steady = [each for each in seen if 0 < each[0] < ROUNDS]
    if len(steady) < 2:
        return {"node": float("nan"), "relay": float("nan")}
    (first, nodes_before, relay_before, messages), (last, nodes, relay, _) = steady[0], steady[-1]
    return {"node": (nodes - nodes_before) / (last - first), "relay": (relay - relay_before) / (last - first) / messages}


def by_local(federation):
    servers, graph = federation.servers(), federation.study.graph()
    local.train(graph, local.Run(PLAN, servers, Simulated(1)))
    with threadpool_limits(1):
        began = time.perf_counter()
        local.train(graph, local.Run(PLAN, servers, Simulated(1)))
    return (time.perf_counter() - began) / ROUNDS


def measure(n, *, way=0.0):
    """One column of the table; ``way``: seconds between each node and the relay."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
        federation = Wide(Path(folder), n)
        if way:
            far.Distant(federation, [way] * n)
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
                "a node's work (s)": timed["node"],
                "relay's work per message (s)": timed["relay"],
                "message (B)": message,
                "of d floats": message / payload,
            }
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


def far_apart(line, n=100):
    """What organisations around a continent and around the world would see, with the work measured in ``line``."""
    work = {"node_work": line["a node's work (s)"], "relay_work": line["relay's work per message (s)"], "rounds": ROUNDS}
    graph = Graph.random(n, round(1.3 * n), np.random.default_rng(7))
    for where, cities, relay in (("Europe", far.EUROPE, "Frankfurt"), ("the world", far.CITIES, "Washington DC")):
        each, whole = far.simulate(graph, far.ways(cities, relay, n), **work)
        console.print(f"{n} organisations in {where}, relay in {relay}: {each:.2f} s a round, {whole:.0f} s for {ROUNDS} rounds")


def check_simulation(line, way=0.05):
    """Three real nodes, each 100 ms (there and back) from their relay, against the simulation of them."""
    real = measure(3, way=way)["round (s)"]
    work = {"node_work": line["a node's work (s)"], "relay_work": line["relay's work per message (s)"], "rounds": ROUNDS}
    simulated, _ = far.simulate(Graph.ring(3), [way] * 3, **work)
    console.print(
        f"3 nodes, {2e3 * way:.0f} ms from the relay: {real:.3f} s a round, simulated {simulated:.3f} s ({simulated / real:.2f} times)"
    )


def main():
    sizes = [int(text) for text in sys.argv[1:]] or [3, 10]
    lines = []
    for n in sizes:
        line = measure(n)
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
    check_simulation(lines[0])
    far_apart(lines[0])


if __name__ == "__main__":
    main()
