"""Three node daemons in one thread, on a simulated clock and transport: the same job as between
processes, and the same bits every time.
"""

import threading
import time
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("nats")

from federation import MASKED, NAMES, PLAN, SEED, SUMS, Federation, study_of
from simulated import Simulation

from pdml.node.storage.control_db import ENDED, OfferState


def train(federation, job):
    """One job over the daemons; whether it is done, and how long it took by the simulated clock."""
    with closing(Simulation(federation.homes, seed=SEED)) as simulation:
        attempt = federation.offer(job)
        simulation.run(lambda: all(federation.state(attempt, name)[0] in ENDED for name in NAMES))
        states = {federation.state(attempt, name)[0] for name in NAMES}
        return states == {OfferState.DONE}, simulation.clock.time


@pytest.mark.parametrize("plan", [PLAN, SUMS, MASKED])
def test_a_job_in_one_thread_is_that_of_real_processes(tmp_path, plan):
    federation, threads = Federation(tmp_path, study_of(plan=plan)), threading.active_count()
    began = time.monotonic()
    done, simulated = train(federation, "first")
    assert done and threading.active_count() == threads
    assert simulated < 30 and time.monotonic() - began < 30
    for name in NAMES:
        if plan is PLAN:
            np.testing.assert_array_equal(federation.released("first", name), federation.expected())
        assert federation.signed("first", name) == federation.signed("first")


def test_the_same_seed_gives_the_same_history(tmp_path):
    histories = []
    for folder in ("one", "two"):
        federation = Federation(tmp_path / folder, study_of(plan=PLAN))
        done, simulated = train(federation, "first")
        assert done
        histories.append((simulated, federation.released("first").tobytes()))
    assert histories[0] == histories[1]


def test_a_member_that_is_not_there_ends_the_offer_by_the_simulated_clock(tmp_path):
    federation = Federation(tmp_path, study_of())
    homes = {name: federation.homes[name] for name in ("alice", "bob")}
    began = time.monotonic()
    with closing(Simulation(homes, seed=SEED)) as simulation:
        attempt = federation.offer("absent", start_timeout=300.0)
        simulation.run(lambda: federation.state(attempt)[0] in ENDED, limit=400.0)
        assert simulation.clock.time > 300 and time.monotonic() - began < 30
    state, sentence = federation.state(attempt)
    assert state == OfferState.FAILED
    assert "not accepted by all within 300 s (carol: it does not answer)" in sentence
