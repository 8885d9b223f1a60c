"""Many schedules, over all cores: `python tests/simulation/run.py --seeds 1000`.

A failing one is shrunk and written to `corpus/`, which the tests replay for ever.
"""

import argparse
import os
import signal
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

CORPUS = HERE / "corpus"


def one(seed: int):
    from schedule import draw, execute

    warnings.simplefilter("ignore")
    outcome = execute(draw(seed))
    found = outcome.violation
    violation = None if found is None else (found.invariant, found.sentence)
    return seed, violation, outcome.states, outcome.faults, outcome.jobs, outcome.seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--keep", action="store_true", help="write failing schedules to corpus/")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    began, states, faults, jobs, seconds = time.monotonic(), set(), Counter(), Counter(), 0.0
    failures: list[tuple[int, tuple[str, str]]] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also in the background
    with ProcessPoolExecutor(options.processes) as pool:
        results = pool.map(one, seeds, chunksize=5)
        try:
            for done, (seed, violation, met, more, ended, simulated) in enumerate(results, start=1):
                states |= met
                faults += more
                jobs += ended
                seconds += simulated
                if violation is not None:
                    failures.append((seed, violation))
                    print(f"\nseed {seed}: {': '.join(violation)}", flush=True)
                if done % 20 == 0 or done == len(seeds):
                    spent = time.monotonic() - began
                    line = f"{done}/{len(seeds)} seeds, {len(states)} states"
                    line = f"{line}, {len(failures)} failures, {spent:.0f} s"
                    print(f"\r{line}", end="", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
    print(f"\nsimulated seconds: {seconds:,.0f}")
    print("faults:", ", ".join(f"{name} {count:,}" for name, count in faults.most_common()))
    print("attempts:", ", ".join(f"{name} {count:,}" for name, count in jobs.most_common()))
    if options.keep:
        for seed, (invariant, _) in failures[:5]:
            keep(seed, invariant)
    return 1 if failures else 0


def keep(seed: int, invariant: str) -> None:
    from schedule import draw, shrink

    smaller = shrink(draw(seed), invariant)
    path = CORPUS / f"{invariant.replace(' ', '-')}-{seed}.json"
    path.write_text(smaller.to_json())
    print(f"{path}: {len(smaller.operations)} operations")


if __name__ == "__main__":
    sys.exit(main())
