"""Two trainings fit into one budget, and the third is refused before anything is released: at the
nodes, whose journals add up.
"""

import pytest

pytest.importorskip("nats")

from walking import Walk, start_consortium

NAMES = ("north", "south")
PLAN = "\n[plan]\nrounds = 10\npenalty = 0.1\nobjective_bound = 0.2\nnoise_scale = 0.3\n"


def test_the_third_training_is_refused(walk: Walk) -> None:
    start_consortium(walk, NAMES, plan=PLAN, join=("--accept", "study"))
    train = ("train", "study.toml", "--engine", "nodes", "--node", "north")
    for job in ("first", "second"):
        walk.pdml(*train, "--job", job, "--out", job)
        walk.pdml("verify", job, "--study", "study.toml")
    refused = walk.pdml(*train, "--job", "third", "--out", "third", code=1)
    assert "budget" in refused and not (walk.folder / "third").exists()
    assert "third" not in walk.pdml("node", "status", "south")
