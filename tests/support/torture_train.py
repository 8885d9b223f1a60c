"""Long form of the faults: `python tests/support/torture_train.py KILLS NODES [NODES ...] [rounds]
[sums] [masked]`, so many kills in all, shared by the sizes and the methods (by default all three).

Random nodes and the relay are killed with kill -9 at random moments and started again, as a service
manager does, while jobs run. Every job of rounds must end with the local engine's bits at every
member. Sums have secure noise, which nobody can draw a second time: at every member the same rows,
and of each node one. Every failure must name somebody, and nothing may hang.
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
from federation import MASKED, PLAN, SUMS, Ended, Federation, study_of

from pdml.consortium.job_client import load_job_result
from pdml.node.storage.control_db import ENDED, OfferState
from pdml.node.storage.journal import JobState

PLANS = {"rounds": replace(PLAN, rounds=100), "sums": SUMS, "masked": MASKED}
LONGEST = 120.0  # seconds from an offer to an end, whatever it is


def pause(federation, rng):
    """A node that does not answer for a while, as behind a slow link: its neighbours wait and send
    again.
    """
    name = rng.choice(federation.names)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        with contextlib.suppress(ProcessLookupError):
            federation.processes[name].send_signal(number)
        time.sleep(rng.uniform(0, 1) if number == signal.SIGSTOP else 0)


def attempt(federation, job, rng, *, resume, kills):
    """One offer, with so many kills while it lasts; whether it is done, and how many were
    killed.
    """
    by, killed = rng.choice(federation.names), 0
    offered = federation.offer(job, by=by, resume=resume, start_timeout=30, round_timeout=30)
    known = time.monotonic() + 5  # killed as it took the wish, the offerer has forgotten it
    while not federation.state(offered, by)[0] and time.monotonic() < known:
        time.sleep(0.02)
    deadline = time.monotonic() + LONGEST
    while killed < kills:
        time.sleep(rng.uniform(0, 0.4))
        if rng.random() < 0.1:
            pause(federation, rng)
        victims = (
            rng.sample(federation.names, rng.choice((1, 1, 2)))
            if rng.random() < 0.85
            else ["relay"]
        )
        for name in victims:
            federation.kill(name)
            killed += 1
        federation.start(*victims, timeout=60)
        if all(ended(federation, offered, name) for name in federation.names):
            break
    federation.wait(
        lambda: all(ended(federation, offered, name) for name in federation.names),
        deadline - time.monotonic(),
        "the job",
    )
    said = {name: federation.state(offered, name) for name in federation.names}
    done = all(finished(federation, job, name) for name in federation.names)
    for name, (state, sentence) in said.items():
        if state == OfferState.FAILED:
            assert any(other in sentence for other in federation.names), (name, sentence)
    return done, killed


def ended(federation, attempt, name):
    return federation.state(attempt, name)[0] in (*ENDED, "")


def finished(federation, job, name):
    with contextlib.suppress(Exception), federation.journal(name) as journal:
        return journal.job(job).state == JobState.FINISHED
    return False


def torture(nodes, kills, rng, method):
    """Jobs one after the other in one consortium, until so many were killed; how many jobs that
    took.
    """
    names, plan = tuple(f"node{i}" for i in range(nodes)), PLANS[method]
    folder = Path(tempfile.mkdtemp())  # kept, with all logs, if something fails
    noise = {} if method == "rounds" else {"seed": None}
    federation = Federation(folder, study_of(names, plan=plan), **noise)
    print(f"{nodes} nodes, {method}, in {folder}", flush=True)
    with federation:
        federation.start(timeout=120)
        expected = federation.expected() if method == "rounds" else None
        killed, jobs = 0, 0
        while killed < kills:
            jobs, tries, done = jobs + 1, 0, False
            while not done:
                more = min(kills - killed, 8) if tries < 6 else 0
                try:
                    done, dead = attempt(
                        federation, f"job-{jobs}", rng, resume=tries > 0, kills=more
                    )
                except Ended as error:
                    done, dead = False, 0
                    print(f"  {error}", flush=True)
                tries, killed = tries + 1, killed + dead
            check(federation, f"job-{jobs}", jobs, expected)
            print(
                f"{nodes} nodes, {method}, job {jobs}: right after {tries} offers; {killed} of "
                f"{kills} kills",
                flush=True,
            )
    shutil.rmtree(folder)
    return jobs, killed


def check(federation, job, jobs, expected):
    """The right bits, one release of each node and round, and statements that agree."""
    rows = federation.released(job) if expected is None else expected
    assert load_job_result(federation.homes[federation.names[0]], job).problem == ""
    for name in federation.names:
        np.testing.assert_array_equal(federation.released(job, name), rows)
        with federation.journal(name) as journal:
            released = journal.releases(federation.homes[name].load_training_data().dataset)
            assert released == jobs * federation.study.plan.rounds


def main():
    words = sys.argv[1:]
    methods = [word for word in words if word in PLANS] or list(PLANS)
    kills, *sizes = (int(word) for word in words if word not in PLANS)
    rng, total = random.Random(1), 0
    for nodes in sizes:
        for method in methods:
            jobs, killed = torture(nodes, -(-kills // (len(sizes) * len(methods))), rng, method)
            total += killed
            print(
                f"{nodes} nodes, {method}: {killed} kills, {jobs} jobs, each ended right and no "
                "release was made twice",
                flush=True,
            )
    print(f"{total} kills in all")


if __name__ == "__main__":
    main()
