"""Keys that were pinned after people were asked: the sentence that refuses says what to do, and
that works.
"""

import pytest

pytest.importorskip("uvicorn")

from walking import Walk, free_ports, write_study

NAMES = ("north", "south")


def test_a_revision_takes_data_sets_from_before(walk: Walk) -> None:
    ports = dict(zip(NAMES, free_ports(2), strict=True))
    write_study(walk, ports)
    here = ("study.toml", "--server", "north")
    walk.start("collect", "serve", *here, "--port", ports["north"], "--open", ready="Collecting")
    rows = "\n".join(f"{18 + i % 50},day,{'yes' if i % 3 else 'no'}" for i in range(120))
    (walk.folder / "people.csv").write_text(f"age,shift,asleep\n{rows}\n")
    walk.pdml("contribute", *here, "--csv", "people.csv", "--label-column", "asleep")
    walk.pdml("collect", "export", *here, "--out", "north-data")
    asked = (walk.folder / "study.toml").read_text()
    (walk.folder / "asked.toml").write_text(asked)

    for name in NAMES:
        walk.pdml("node", "init", name, "--name", name)
    cards = [f"{name}/{name}.card" for name in NAMES]
    relay = ("relay", "config", "study.toml", "--address", f"127.0.0.1:{ports['south']}", "--out")
    walk.pdml("study", "add-server", "study.toml", *cards)
    walk.pdml(*relay, "relay")
    walk.pdml("node", "join", "north", "study.toml")
    refused = walk.pdml("node", "data", "north", "--from-collect", "north-data", code=1)
    assert "--revision" in refused and "--before" in refused

    (walk.folder / "study.toml").write_text(asked)
    walk.pdml("study", "add-server", "study.toml", *cards, "--revision")
    walk.pdml(*relay, "relay-again")
    walk.pdml("node", "join", "north", "study.toml", "--before", "asked.toml")
    assert "120 records" in walk.pdml("node", "data", "north", "--from-collect", "north-data")
