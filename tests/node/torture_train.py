"""Long form of the faults: `python tests/node/torture_train.py KILLS NODES [NODES ...]`, so many kills in all, shared by the sizes.

Random processes (a job's, a whole site, the relay) are killed with kill -9 at random moments while jobs run and are resumed. Every
job must end with the local engine's bits, every failure with a sentence that names somebody, and nothing may hang.
"""

import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
from federation import PLAN, Federation, study_of

from pdml.node.flare import process
from pdml.node.flare.session import JobFailed

ROUNDS = 100
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
    federation.start(timeout=300)  # whoever an earlier attempt has killed
    number = federation.submit(job, resume=resume, start_timeout=60, round_timeout=10)
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
            return None, killed
    try:
        return federation.finish(number, job, timeout=LONGEST), killed
    except JobFailed as error:
        assert any(name in str(error) for name in federation.names), error  # a timeout of the whole job names nobody: it hung
        assert time.monotonic() - began < LONGEST
        print(f"  {error}", flush=True)
        return None, killed


def torture(nodes, kills, rng):
    """Jobs one after the other in one federation, until so many were killed; how many jobs that took."""
    names = tuple(f"node{i}" for i in range(nodes))
    folder = Path(tempfile.mkdtemp())  # kept, with all logs, if something fails
    federation = Federation(folder, study_of(names, plan=replace(PLAN, rounds=ROUNDS)))
    print(f"{nodes} nodes in {folder}", flush=True)
    try:
        federation.start(timeout=600)
        expected, killed, jobs = federation.expected(), 0, 0
        while killed < kills:
            jobs, tries, reports = jobs + 1, 0, None
            while reports is None:
                reports, dead = attempt(federation, f"job-{jobs}", rng, resume=tries > 0, deadly=tries < 6 and killed < kills)
                tries, killed = tries + 1, killed + dead
            np.testing.assert_array_equal(np.array([reports[name].vector for name in names]), expected)
            assert all(len(reports[name].earlier) == (jobs - 1) * (ROUNDS + 1) for name in names)  # the ledgers of all jobs before
            print(f"{nodes} nodes, job {jobs}: the right bits after {tries} submissions; {killed} of {kills} kills", flush=True)
    finally:
        federation.close()
    shutil.rmtree(folder)
    return jobs, killed


def main():
    kills, *sizes = (int(text) for text in sys.argv[1:])
    rng, total = random.Random(1), 0
    for nodes in sizes:
        jobs, killed = torture(nodes, -(-kills // len(sizes)), rng)
        total += killed
        print(
            f"{nodes} nodes: {killed} kills, {jobs} jobs, each ended with the local engine's bits and no round released twice", flush=True
        )
    print(f"{total} kills in all")


if __name__ == "__main__":
    main()
