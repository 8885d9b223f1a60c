"""What secure randomness costs: labels on the device, and noise per round beside everything else in
a round.
"""

from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.problems import HARD, adult_records, federation
from benchmarks.timing import interleaved
from pdml.mechanisms.iterate_noise import draw_round
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import ITERATES, LABELS, Secure, Simulated
from pdml.numerics.admm import steps
from pdml.training import local_engine


def noise_speed(repeats=9):
    """Adult, n = 10, d = 105: noise of a round, simulated and secure, against a round without
    noise; and 10^6 labels.

    Returns secure noise as a fraction of the rest of a round; at most 0.25 is asked for.
    """
    x, y = adult_records("csr")
    base = federation(x, y)
    plan = replace(
        HARD, objective_noise="truncated_gaussian", noise_decay=0.95
    )  # the ball is for simulation only
    silent = replace(plan, noise_scale=0.0)
    n, d, rounds = base.graph.n, x.shape[1], plan.rounds
    point, out = np.random.default_rng(0).normal(size=(n, 1, d)), np.empty((n, 1, d))

    def noise(source):
        noises = [plan.iterates(i, n) for i in range(n)]
        streams = [source.stream(ITERATES, i) for i in range(n)]
        for t in range(1, rounds + 1):
            steps.release_step(source.settle(point), draw_round(noises, t, out, streams))

    def train(plan, source):
        local_engine.train(base.graph, local_engine.Run(plan, base.run.servers, source))

    truth, epsilons = np.arange(10**6) % 2, np.full(10**6, 1.0)
    sides = {
        "round without noise": lambda: train(silent, Simulated(0)),
        "noise of a round, simulated": lambda: noise(Simulated(0)),
        "noise of a round, secure": lambda: noise(Secure()),
        "whole round, simulated": lambda: train(plan, Simulated(0)),
        "whole round, secure": lambda: train(plan, Secure()),
    }
    flips = {
        "10^6 labels, simulated": lambda: flip_labels(
            truth, epsilons, 2, Simulated(0).stream(LABELS)
        ),
        "10^6 labels, secure": lambda: flip_labels(truth, epsilons, 2, Secure().stream(LABELS)),
    }
    with threadpool_limits(1):
        times = {name: seconds / rounds for name, seconds in interleaved(sides, repeats).items()}
        times |= interleaved(flips, repeats)
    rest = times["round without noise"]
    table = Table(
        "",
        "ms",
        "of a round without noise",
        title="Secure randomness at Adult's size (ten vectors of 105 a round)",
        title_justify="left",
    )
    for name, seconds in times.items():
        table.add_row(
            name, f"{seconds * 1e3:.3g}", f"{seconds / rest:.1%}" if "round" in name else ""
        )
    Console(width=160).print(table)
    return times["noise of a round, secure"] / rest


if __name__ == "__main__":
    noise_speed()
