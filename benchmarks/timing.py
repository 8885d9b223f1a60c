"""Interleaved measurement: A, B, C, A, B, C, ... and medians, so that a noisy neighbour disturbs
all alike.
"""

import statistics
import subprocess
import sys
import time


def interleaved(sides, repeats):
    """{name: median seconds} of functions called in turn; one call each beforehand to warm up."""
    times = {name: [] for name in sides}
    for work in sides.values():
        work()
    for _ in range(repeats):
        for name, work in sides.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def fresh_process(code, repeats=5):
    """Median seconds of ``python -c code``, less an empty one."""
    sides = {"empty": "pass", "code": code}
    run = {
        name: (
            lambda text=text: subprocess.run(
                [sys.executable, "-c", text], check=True, capture_output=True
            )
        )
        for name, text in sides.items()
    }
    medians = interleaved(run, repeats)
    return medians["code"], medians["code"] - medians["empty"]
