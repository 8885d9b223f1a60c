"""Two organisations that have joined a study and have no records yet, and a table of people."""

from pathlib import Path

import numpy as np

from pdml.node.daemon.relay_server import set_up
from pdml.node.storage.node_dir import NodeDirectory
from pdml.study.schema import template
from pdml.tables import Table

STUDY = """\
[study]
id = "tutorial"
title = "Who is at risk?"
min_records = 100

[label]
question = "Were you diagnosed?"
classes = ["no", "yes"]
epsilon = { menu = [1, 2], default = 1 }

[[attributes]]
name = "age"
kind = "number"
range = [18, 100]

[[attributes]]
name = "sex"
kind = "category"
levels = ["female", "male"]

[[servers]]
name = "alice"
url = "https://alice.example"

[[servers]]
name = "bob"
url = "https://bob.example"

[topology]
kind = "complete"

[budget]
features = { epsilon = 20, delta = 1e-6 }
"""


def join(
    folder: Path, text: str = STUDY, names: tuple[str, ...] = ("alice", "bob")
) -> NodeDirectory:
    """The folder of alice, in the study of ``folder``/study.toml with bob."""
    file = folder / "study.toml"
    file.write_text(text)
    homes = [NodeDirectory.create(folder / name, name) for name in names]
    template.pin_in_file(file, [home.card().entry("") for home in homes])
    set_up(file, folder / "relay", address="127.0.0.1:4870")
    joined = [home.join_file(file) for home in homes]
    return joined[0]


def people(count: int = 150) -> Table:
    """Everybody's label was or will be randomised with ε = 2."""
    return Table(
        columns={
            "age": np.array([18.0 + i % 80 for i in range(count)]),
            "sex": np.array(["female" if i % 3 else "male" for i in range(count)]),
            "diagnosed": np.array(["yes" if i % 2 else "no" for i in range(count)]),
            "eps": np.full(count, 2.0),
        }
    )


def spend(home: NodeDirectory) -> None:
    """One release from the node's present data set, as a job would enter it."""
    journal, dataset = home.journal(), home.load_training_data().dataset
    names = {"server": home.name, "dataset": dataset, "source": "secure"}
    journal.begin("job", terms="", sealed=b"", plan="", **names)
    journal.commit("job", 1, payload=b"", events=[])
    journal.close()
