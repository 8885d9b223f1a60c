"""Long form of the faults: `python tests/train/torture_train.py [kills] [nodes] [seed]`; 200 kills at 3 to 10 nodes is the aim.

Random processes (a job's, a whole site, the relay) are killed with kill -9 at random moments while jobs run and are resumed. Every
job must end with the local engine's bits, every failure with a sentence, and nothing may hang.
"""

import contextlib
import random
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
from federation import PLAN, Federation, study_of

from pdml.train.engines.flare import process
from pdml.train.engines.flare.session import JobFailed

LONGEST = 300.0  # seconds from submission to an end, whatever it is


def victims(federation, rng):
    """Processes to kill: a job's at one or two nodes, a whole site, or the relay with its job."""
    kind = rng.choices(("job", "site", "relay"), (6, 3, 1))[0]
    if kind == "relay":
        return kind, process.members(federation.sites["relay"])
    chosen = rng.sample(federation.names, rng.choice((1, 2)))
    pick = federation.job_processes if kind == "job" else lambda name: process.members(federation.sites[name])
    return f"{kind} of {', '.join(chosen)}", [each for name in chosen for each in pick(name)]


def pause(federation, rng):
    """A node that does not answer for a while, as behind a slow link: its neighbours wait and send again."""
    frozen = federation.job_processes(rng.choice(federation.names))
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for each in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(number)
        time.sleep(rng.uniform(0, 5) if number == signal.SIGSTOP else 0)


def attempt(federation, job, rng, *, resume, deadly):
    """One submission; the reports, or None if it failed (with how many were killed)."""
    number = federation.submit(job, resume=resume, start_timeout=120, round_timeout=10)
    killed, began = 0, time.monotonic()
    if deadly:
        time.sleep(rng.uniform(3, 15))
        pause(federation, rng)
        kind, processes = victims(federation, rng)
        for each in processes:
            try:
                each.kill()
                killed += 1
            except psutil.NoSuchProcess:
                pass
        psutil.wait_procs(processes, timeout=10)
        print(f"  {killed} killed: {kind}", flush=True)
        if kind == "relay":
            federation.start(timeout=300)
            return None, killed
    try:
        return federation.finish(number, job, timeout=LONGEST), killed
    except JobFailed as error:
        assert str(error) and time.monotonic() - began < LONGEST + 60
        print(f"  {error}", flush=True)
        federation.start(timeout=300)
        return None, killed


def main():
    kills, nodes, seed = (int(text) for text in [*sys.argv[1:], *("200", "3", "1")[len(sys.argv) - 1 :]])
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        names = tuple(f"node{i}" for i in range(nodes))
        federation = Federation(Path(folder), study_of(names, plan=replace(PLAN, rounds=100)))
        try:
            federation.start(timeout=600)
            expected, killed, jobs = federation.expected(), 0, 0
            while killed < kills:
                jobs, tries, reports = jobs + 1, 0, None
                while reports is None:
                    reports, dead = attempt(federation, f"job-{jobs}", rng, resume=tries > 0, deadly=tries < 6 and killed < kills)
                    tries, killed = tries + 1, killed + dead
                np.testing.assert_array_equal(np.array([reports[name].vector for name in names]), expected)
                print(f"job {jobs}: the right bits after {tries} submissions; {killed} of {kills} kills", flush=True)
        finally:
            federation.close()


if __name__ == "__main__":
    main()
