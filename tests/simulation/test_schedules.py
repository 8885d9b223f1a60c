"""A consortium and a collection in one thread under schedules drawn from seeds: kills, power cuts, a
bad network.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nats")

from mistakes import seeds_until_found
from run import CORPUS
from scenes import PLANS
from schedule import Schedule, draw, execute

SEEDS, GROUPS = 500, 20
CALM = ((0.0, "offer", "alice", 1, False), (3.0, "offer", "bob", 2, False))


def check(schedule):
    outcome = execute(schedule)
    assert outcome.violation is None, f"seed {schedule.seed}: {outcome.violation}"
    return outcome


@pytest.mark.parametrize("method", PLANS)
def test_a_calm_job_is_done_by_all_and_is_the_local_engines_to_the_bit(method):
    outcome = check(Schedule(seed=1, method=method, operations=CALM))
    assert set(outcome.jobs) == {"done"} and outcome.jobs["done"] == 9
    assert not outcome.faults and outcome.seconds < 10


def test_a_member_that_is_not_there_ends_the_offer_by_the_simulated_clock():
    away = ((0.0, "kill", "carol"), (0.0, "offer", "alice", 1, False), (7.0, "heal"))
    outcome = execute(Schedule(seed=1, operations=away), trace=True)
    assert outcome.violation is None and outcome.jobs["failed"] and 6 < outcome.seconds < 30


def test_new_keys_and_another_version_at_all_members_keep_no_job_from_being_done():
    changes = ((0.0, "rotate", "bob"), (6.0, "offer", "alice", 1, False), (2.0, "upgrade_all"))
    outcome = check(Schedule(seed=1, operations=(*changes, (1.0, "offer", "carol", 2, False))))
    assert set(outcome.jobs) == {"done"} and outcome.jobs["done"] == 9


def test_a_calm_collection_exports_all_but_who_has_withdrawn():
    steps = ((0.0, "report", 5, False), (1.0, "report", 5, True), (1.0, "repeat", 2))
    steps += ((1.0, "withdraw", 1), (1.0, "take_out", 7), (1.0, "export", True))
    steps += ((0.0, "report", 1, False), (1.0, "withdraw", 3))
    outcome = execute(Schedule(seed=1, method="", collects=True, operations=steps), trace=True)
    answers = [line.split()[2:] for line in outcome.trace if " answer " in line]
    assert outcome.violation is None
    assert sum(answer[1:] == ["Receipt", "True"] for answer in answers) == 10
    assert ["2", "Receipt", "False"] in answers and ["1", "Withdrawn"] in answers
    assert ["10", "Problem", "False"] in answers and ["3", "Problem"] in answers  # frozen


@pytest.mark.parametrize(
    "mistake", ["counted twice", "withdrawal only promised", "exported without freezing"]
)
def test_a_planted_mistake_is_found(mistake):
    """All of them: `tests/simulation/mistakes.py`."""
    assert seeds_until_found(mistake, 200)[0]


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_schedule_breaks_an_invariant(group):
    for seed in range(group, SEEDS, GROUPS):
        check(draw(seed))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_what_failed_once_fails_no_more(path):
    check(Schedule.load(path))


def test_the_same_seed_gives_the_same_history(tmp_path):
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from schedule import draw, execute\n"
        "print(*(execute(draw(seed)).history for seed in range(40, 44)))\n"
    )
    here = Path(__file__).parent
    histories = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script, str(here), str(here.parent / "support")],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    here = " ".join(execute(draw(seed)).history for seed in range(40, 44))
    assert histories == {f"{here}\n"}
