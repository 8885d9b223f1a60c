"""An operator stops a job that is under way: everybody hears of it, and the next job works."""

import json

import pytest

pytest.importorskip("nats")

from walking import Walk, poll, start_consortium

NAMES = ("north", "south")
LONG = ("--rounds", 4000, "--noise-scale", 50, "--noise-decay", 0.99999)  # minutes
SHORT = ("--rounds", 5)
PLAN = ("--objective-noise", "none")


def status(walk: Walk, name: str) -> dict:
    return json.loads(walk.pdml("node", "status", name, "--json"))


def released(walk: Walk, name: str, job: str) -> int:
    return sum(one["released"] for one in status(walk, name)["jobs"] if one["job"] == job)


def accept(walk: Walk, job: str) -> None:
    """South's operator is asked, reads the offer, and accepts it by its digest."""
    waiting: list[dict] = []

    def is_asked() -> bool:
        offers = json.loads(walk.pdml("node", "offers", "south", "--json"))["offers"]
        waiting[:] = [one for one in offers if (one["job"], one["state"]) == (job, "pending")]
        return bool(waiting)

    poll(is_asked, f"the offer of {job} at south")
    walk.pdml("node", "accept", "south", waiting[0]["digest"], "--yes")


def test_a_job_is_stopped_everywhere_and_the_next_one_works(walk: Walk) -> None:
    start_consortium(walk, NAMES)
    train = ("train", "study.toml", "--engine", "nodes", "--node", "north", *PLAN)
    long = walk.start(*train, *LONG, "--job", "long", "--out", "long")
    accept(walk, "long")
    poll(lambda: released(walk, "south", "long") > 0, "a release of south")
    assert "long is being stopped at every member" in walk.pdml("node", "stop", "south")
    assert long.wait(180) == 1
    log = (walk.folder / "train-study.toml---engine.log").read_text()
    assert "south ended the job: south stopped the job" in log and "Traceback" not in log
    assert not (walk.folder / "long").exists()
    for name in NAMES:
        poll(lambda name=name: not status(walk, name)["job"], f"the end of the job at {name}")
        result = walk.pdml("node", "status", name)
        assert "south stopped the job" in result and "job long: stopped, " in result, result
        assert 0 < released(walk, name, "long") < 4000
    assert "is in no job" in walk.pdml("node", "stop", "south", code=1)

    short = walk.start(*train, *SHORT, "--job", "short", "--out", "short")
    accept(walk, "short")
    assert short.wait(180) == 0
    walk.pdml("verify", "short", "--study", "study.toml")
