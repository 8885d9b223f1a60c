"""Figures of training between organisations: `python -m benchmarks.train [3 10 30]` (nodes); with
`--sums` those of sums alone.

Time per round over NATS against the same round in the local engine and against the bare exchange
(the same bytes to the same neighbours over the same relay, nothing computed, signed, sealed or
stored), start-up, memory, bytes, one exchange of sums from its offer to its end, and a simulation
of many organisations far apart.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from federation import Federation, freeze, study_of
from threadpoolctl import threadpool_limits

from benchmarks import far
from benchmarks.bare import TIMES
from pdml.encoding.encoder import Encoder, Number
from pdml.mechanisms.randomness import Simulated
from pdml.node.protocol import wire_messages
from pdml.node.storage.journal import JobState
from pdml.numerics.admm.graph import Graph
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine

console = Console(width=150)
ROUNDS, WIDTH, RECORDS = 100, 105, 500
PLAN = TrainingPlan(rounds=ROUNDS, penalty=0.5, noise_scale=0.05)


class Wide(Federation):
    """d = 105, as in the paper's Adult; its nodes are the programs of `bare`."""

    def __init__(self, folder, n, mode, *, way=0.0, plan=PLAN):
        names = tuple(f"node{i}" for i in range(n))
        graph = (
            Graph.random(n, max(n, round(1.3 * n)), np.random.default_rng(n))
            if n > 3
            else Graph.ring(n)
        )
        edges = tuple((names[a], names[b]) for a, b in graph.edges)
        encoder = Encoder(
            attributes=tuple(Number(name=f"x{k}", low=0, high=1) for k in range(WIDTH - 1))
        )
        super().__init__(
            folder,
            study_of(names, edges=edges, plan=plan, encoder=encoder),
            records=RECORDS,
            freeze=freeze,
        )
        self.program = [sys.executable, "-m", "benchmarks.bare", mode]
        self.distant = far.Distant(self.study.relay, [way] * n) if way else None

    def command(self, name):
        known = super().command(name)
        return (
            [*known, "--relay", self.distant.address(self.names.index(name))]
            if self.distant and name != "relay"
            else known
        )


def usage(pid):
    """Megabytes in memory and processor seconds of a process."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024, (
            int(fields[11]) + int(fields[12])
        ) / os.sysconf("SC_CLK_TCK")
    return float("nan"), float("nan")


def over_nats(n, mode, *, way=0.0):
    """Seconds until all are connected, to the first round and per round (median over nodes and
    rounds), and memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
        with Wide(Path(folder), n, mode, way=way) as federation:
            began = time.time()
            federation.start(timeout=900)
            up = time.time() - began
            work = {name: usage(process.pid)[1] for name, process in federation.processes.items()}
            began = time.time()
            federation.finish(
                federation.offer("job", start_timeout=600, round_timeout=120), timeout=1500
            )
            used = {name: usage(process.pid) for name, process in federation.processes.items()}
            federation.wait(
                lambda: all(
                    federation.homes[name].path(TIMES).exists() for name in federation.names
                )
            )
            times = [
                json.loads(federation.homes[name].path(TIMES).read_text())
                for name in federation.names
            ]
            gaps = [b - a for told in times for a, b in pairwise(told[1:])]
            messages = 2 * federation.study.graph().n_edges * ROUNDS
            found = {
                "all connected": up,
                "first": max(told[0] for told in times) - began,
                "round": statistics.median(gaps),
                "p95": float(np.quantile(gaps, 0.95)),
                "memory": statistics.median(used[name][0] for name in federation.names),
                "node": statistics.mean(used[name][1] - work[name] for name in federation.names)
                / ROUNDS,
                "relay": (used["relay"][1] - work["relay"]) / messages,
                "links": federation.study.graph().n_edges,
            }
            if mode == "timed":
                np.testing.assert_array_equal(federation.released("job"), federation.expected())
                found["local"] = by_local(federation)
                found["message"] = message(federation)
            return found


def exchanged(n, plan, jobs=5):
    """Seconds from the offer of one exchange of sums until every node has everybody's statement,
    the first job's and the median of the others'."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
        with Wide(Path(folder), n, "timed", plan=plan) as federation:
            federation.start(timeout=900)
            took = []
            for job in map(str, range(1 + jobs)):
                began = time.monotonic()
                federation.offer(job, start_timeout=600, round_timeout=120)
                federation.wait(lambda job=job: _finished(federation, job), 600)
                took.append(time.monotonic() - began)
            total = federation.rows().sum(axis=0)
            np.testing.assert_array_equal(federation.total("1"), total)
            return took[0], statistics.median(took[1:])


def _finished(federation, job):
    for name in federation.names:
        with federation.journal(name) as journal:
            known = journal.job(job)
            if known is None or known.state != JobState.FINISHED:
                return False
    return True


def by_local(federation):
    servers, graph = federation.servers(), federation.study.graph()
    local_engine.train(graph, local_engine.Run(PLAN, servers, Simulated(1)))
    with threadpool_limits(1):
        began = time.perf_counter()
        local_engine.train(graph, local_engine.Run(PLAN, servers, Simulated(1)))
    return (time.perf_counter() - began) / ROUNDS


def message(federation):
    """Bytes of one signed release, before it is sealed."""
    job_terms, home = federation.job_terms("job"), federation.homes["node0"]
    payload = bytes(len(wire_messages.encode_vector(np.zeros((1, WIDTH)))))
    about = {"sender": "node0", "recipient": job_terms.neighbours("node0")[0], "t": 1}
    return len(wire_messages.vector(job_terms, home.identity(), payload=payload, **about))


def started(n=3):
    """Processor seconds of one node from its start to its connection."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Federation(Path(folder), study_of()) as federation,
    ):
        federation.start("relay", timeout=60)
        command = [
            sys.executable,
            "-m",
            "benchmarks.bare",
            "timed",
            str(federation.homes["alice"].folder),
            "--simulated-noise",
            "1",
        ]
        process = federation.processes["alice"] = subprocess.Popen(
            command, stderr=subprocess.DEVNULL
        )
        federation.wait(lambda: federation.connected("alice"), 60)
        return usage(process.pid)[1]


def measure(n, *, way=0.0):
    """One column of the table; ``way``: seconds between each node and the relay."""
    timed, bare = over_nats(n, "timed", way=way), over_nats(n, "bare", way=way)
    return {
        "nodes": n,
        "links": timed["links"],
        "all connected (s)": timed["all connected"],
        "first round after the offer (s)": timed["first"],
        "round (s)": timed["round"],
        "p95 (s)": timed["p95"],
        "bare (s)": bare["round"],
        "local (s)": timed["local"],
        "of bare": timed["round"] / bare["round"],
        "of local": timed["round"] / timed["local"],
        "memory per node (MB)": timed["memory"],
        "a node's work (s)": timed["node"],
        "relay's work per message (s)": timed["relay"],
        "message (B)": timed["message"],
        "of d floats": timed["message"] / (8 * WIDTH),
    }


def measure_sums(n):
    """What one exchange takes, masked or not."""
    for words, colluding in (("every row seen", None), ("masked", 1)):
        plan = TrainingPlan(method="sums", label_noise=5.0, square_noise=9.0, colluding=colluding)
        first, later = exchanged(n, plan)
        console.print(
            f"{n} nodes, one exchange of sums, {words}: {first:.2f} s from its offer to "
            f"everybody's statement, {later:.2f} s for further jobs"
        )


def far_apart(line, n=100):
    """What organisations around a continent and around the world would see, with the work measured
    in ``line``.
    """
    work = {
        "node_work": line["a node's work (s)"],
        "relay_work": line["relay's work per message (s)"],
        "rounds": ROUNDS,
    }
    graph = Graph.random(n, round(1.3 * n), np.random.default_rng(7))
    for where, cities, relay in (
        ("Europe", far.EUROPE, "Frankfurt"),
        ("the world", far.CITIES, "Washington DC"),
    ):
        way = far.ways(cities, relay, n)
        each, whole = far.simulate(graph, way, **work)
        slowest = max(2 * (way[a] + way[b]) for a, b in graph.edges) + work["node_work"]
        console.print(
            f"{n} organisations in {where}, relay in {relay}: {each:.3f} s a round, "
            f"{whole:.0f} s for {ROUNDS} rounds; {each / slowest:.2f} times the slowest link's "
            "round trip and a node's work"
        )


def check_simulation(line, way=0.05):
    """Three real nodes, each 100 ms (there and back) from their relay, against the simulation of
    them.
    """
    real = measure(3, way=way)["round (s)"]
    work = {
        "node_work": line["a node's work (s)"],
        "relay_work": line["relay's work per message (s)"],
        "rounds": ROUNDS,
    }
    simulated, _ = far.simulate(Graph.ring(3), [way] * 3, **work)
    console.print(
        f"3 nodes, {2e3 * way:.0f} ms from the relay: {real:.3f} s a round, simulated "
        f"{simulated:.3f} s ({simulated / real:.2f} times)"
    )


def main():
    sizes = [int(text) for text in sys.argv[1:] if text.isdecimal()] or [3, 10]
    lines = []
    for n in sizes:
        measure_sums(n)
    if "--sums" in sys.argv:
        return
    for n in sizes:
        line = measure(n)
        lines.append(line)
        console.print(line)
    table = Table(
        title=f"d = {WIDTH}, m = {RECORDS} per node, T = {ROUNDS}; {os.cpu_count()} hyperthreads",
        title_justify="left",
    )
    table.add_column("")
    for line in lines:
        table.add_column(str(line["nodes"]), justify="right")
    for name in lines[0]:
        table.add_row(name, *(f"{line[name]:.3g}" for line in lines))
    console.print(table)
    console.print(f"processor time of a node from its start to its connection: {started():.2f} s")
    check_simulation(lines[0])
    far_apart(lines[0])


if __name__ == "__main__":
    main()
