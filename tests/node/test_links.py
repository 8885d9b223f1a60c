"""Three organisations behind links of their own, slow and cut: FLARE over real network namespaces."""

import contextlib
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("nvflare")

import networks
from federation import NAMES, PLAN, Federation, released, study_of

from pdml.node.flare.session import JobFailed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flare")]

ROUNDS = 8
SLOW = "96kbit"  # more than a second a round: at one node it paces all of them
WAITED = 15  # seconds for one answer, which a slow link may need some of


@pytest.fixture(scope="module")
def network():
    if reason := networks.missing():
        pytest.skip(reason)
    with networks.Network(NAMES) as made:
        yield made


@pytest.fixture(scope="module")
def federation(tmp_path_factory, network):
    patch = pytest.MonkeyPatch()
    patch.setenv("NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT", "5")  # for the last word of a node that is cut off
    made = Federation(tmp_path_factory.mktemp("links"), study_of(plan=replace(PLAN, rounds=ROUNDS)), network=network)
    try:
        made.start()
        yield made
    finally:
        made.close()
        patch.undo()


def in_mid_job(deed):
    """A follower that does something once, as soon as every node has released."""
    done = []

    def each(rounds):
        if not done and min(rounds.values()) >= 1:
            assert max(rounds.values()) < ROUNDS - 1
            done.append(rounds)
            deed()

    return each, done


def right(federation, job, reports):
    """The local engine's bits, each round released once."""
    np.testing.assert_array_equal(released(reports), federation.expected())
    for name in NAMES:
        assert federation.rounds_spent(name, job) == list(range(1, ROUNDS + 1))


def test_a_slow_link_changes_nothing(federation, network):
    with network.slow("alice", SLOW):
        reports = federation.train("slow")
        assert network.held_back("alice") > ROUNDS  # in every round, on the way there and back
    right(federation, "slow", reports)


def test_a_link_cut_for_a_moment_is_waited_for(federation, network):
    """Shorter than the round's timeout: nobody fails, and what was lost is sent again."""
    came = []

    def cut():
        network.cut("bob")
        came.append(network.carried("bob"))
        time.sleep(4)
        came.append(network.carried("bob"))
        network.join("bob")
        pace.close()

    each, done = in_mid_job(cut)
    with contextlib.ExitStack() as pace:
        pace.enter_context(network.slow("alice", SLOW))
        reports = federation.finish(federation.submit("cut", round_timeout=60), "cut", each=each)
    assert done and came[0] == came[1]
    right(federation, "cut", reports)


def test_who_stays_cut_off_is_named_and_can_come_back(federation, network):
    each, done = in_mid_job(lambda: network.cut("bob"))
    try:
        with network.slow("alice", SLOW), pytest.raises(JobFailed, match=rf"(alice|carol) waited {WAITED} s for .*\bbob\b"):
            federation.finish(federation.submit("gone", round_timeout=WAITED), "gone", timeout=90, each=each)
        assert done
        with pytest.raises(JobFailed, match="the job has not begun within 3 s: the relay does not hear from bob"):
            federation.train("gone", resume=True, start_timeout=3)
    finally:
        network.join("bob")
    federation.start()
    for name in NAMES:
        assert 0 < len(federation.rounds_spent(name, "gone")) < ROUNDS
    right(federation, "gone", federation.train("gone", resume=True))
