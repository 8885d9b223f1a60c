"""Two trainings fit into one budget, and the third is refused before anything is released: at the
nodes, whose journals add up.
"""

import pytest

pytest.importorskip("nats")

from walking import Walk, free_ports, write_study

NAMES = ("north", "south")
PLAN = "\n[plan]\nrounds = 10\npenalty = 0.1\nobjective_bound = 0.2\nnoise_scale = 0.3\n"


def test_the_third_training_is_refused(walk: Walk) -> None:
    ports = dict(zip(NAMES, free_ports(2), strict=True))
    write_study(walk, ports)
    with open(walk.folder / "study.toml", "a") as file:
        file.write(PLAN)
    for name in NAMES:
        walk.pdml("node", "init", name, "--name", name)
    walk.pdml("study", "add-server", "study.toml", *(f"{name}/{name}.card" for name in NAMES))
    (port,) = free_ports(1)
    walk.pdml("relay", "config", "study.toml", "--out", "relay", "--address", f"127.0.0.1:{port}")
    shifts = ("day", "evening", "night")
    rows = [f"{18 + i % 50},{shifts[i % 3]},{'yes' if i % 3 else 'no'}" for i in range(600)]
    (walk.folder / "people.csv").write_text("\n".join(["age,shift,asleep", *rows]) + "\n")
    for name in NAMES:
        walk.pdml("node", "join", name, "study.toml", "--accept", "study")
        table = ("--csv", "people.csv", "--label", "asleep", "--epsilon", 1, "--randomise")
        walk.pdml("node", "data", name, *table)
    walk.start("relay", "run", "relay")
    for name in NAMES:
        walk.start("node", "run", name)
    train = ("train", "study.toml", "--engine", "nodes", "--node", "north")
    for job in ("first", "second"):
        walk.pdml(*train, "--job", job, "--out", job)
        walk.pdml("verify", job, "--study", "study.toml")
    refused = walk.pdml(*train, "--job", "third", "--out", "third", code=1)
    assert "budget" in refused and not (walk.folder / "third").exists()
    assert "third" not in walk.pdml("node", "status", "south")
