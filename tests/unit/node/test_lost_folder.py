"""A member whose disk is lost makes a new folder with new keys, and the others agree on a revision:
its people have no second budget unless its operator says that they are other people.
"""

from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pdml.node.protocol.job_terms import JobTerms

pytest.importorskip("cryptography")

from joined import join, people

from pdml.cli.render import node_tables
from pdml.errors import PeerError
from pdml.mechanisms.randomness import Simulated
from pdml.node.job.participant import Participant
from pdml.node.job.training_data import import_table
from pdml.node.operator.status import read_consortium_status
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.training_plan import TrainingPlan
from pdml.study.schema import template

PLAN = TrainingPlan(method="sums", label_noise=20.0, square_noise=20.0)
HOW = {"label": "diagnosed", "epsilon": 1.0, "randomise": False}
REFUSAL = "restore alice's folder from a copy, or, if nobody's record is in both, .*--new-part"


@dataclass
class Pair:
    """Alice and bob, their folders and their study."""

    folder: Path
    homes: dict[str, NodeDirectory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        join(self.folder)
        for name in ("alice", "bob"):
            import_table(NodeDirectory.open(self.folder / name), people(), **HOW)
            self.homes[name] = NodeDirectory.open(self.folder / name)

    def revise(self, alice: NodeDirectory) -> None:
        """A study that pins these keys of alice, at both."""
        file, old = self.folder / "study.toml", self.folder / "old-study.toml"
        old.write_bytes(file.read_bytes())
        template.pin_in_file(file, [alice.card().entry("")], revision=True)
        alice.join_file(file, before=[old])
        self.homes = {"alice": alice, "bob": self.homes["bob"].join_file(file)}

    def begin_anew(self, **word: bool) -> None:
        """A new folder of alice with new keys, and the same table."""
        alice = NodeDirectory.create(self.folder / "alice-anew", "alice")
        self.revise(alice)
        import_table(alice, people(), **HOW, **word)
        self.homes["alice"] = NodeDirectory.open(alice.folder)

    def train(self, job: str) -> None:
        """One exchange of sums, up to both statements."""
        with ExitStack() as stack:
            made = {}
            for name, home in self.homes.items():
                study = home.checked_study()
                made[name] = Participant(
                    JobTerms.for_study(study, PLAN, job),
                    name,
                    home.load_training_data(),
                    journal=stack.enter_context(closing(home.journal())),
                    identity=home.identity(),
                    keys=study.signing_keys,
                    source=Simulated(3),
                    budget=study.budget,
                )
            alice, bob = made.values()
            bob.welcome("alice", alice.hello("bob"))
            alice.welcome("bob", bob.hello("alice"))
            assert bob.welcome("alice", alice.hello("bob"))
            assert alice.welcome("bob", bob.hello("alice"))
            for party in made.values():
                party.advance()
            for one, other in ((alice, bob), (bob, alice)):
                one.accept(other.name, other.message(one.name, 1))
            for one, other in ((alice, bob), (bob, alice)):
                one.store_statement(other.name, other.statement())
            for party in made.values():
                party.finish()
        self.homes = {name: NodeDirectory.open(home.folder) for name, home in self.homes.items()}

    def releases(self, name: str) -> list[tuple[int, bool]]:
        """Of each data set of ``name``, as bob sees it, and whether its former keys signed."""
        found = read_consortium_status(self.homes["bob"])
        assert found.unread == ()
        mine = [each for each in found.released if each.server == name]
        return sorted((each.releases, each.former_keys) for each in mine)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(tmp_path)
    for job in ("first", "second"):
        made.train(job)
    return made


def test_a_new_folder_with_the_same_table_is_refused(pair: Pair) -> None:
    pair.begin_anew()
    with pytest.raises(PeerError, match=REFUSAL):
        pair.train("third")
    with closing(pair.homes["alice"].journal()) as journal:
        assert not journal.released_datasets(), "nothing was released before the refusal"
    assert pair.releases("alice") == [(2, True)], "what the lost folder released still counts"


def test_with_the_operators_word_it_is_taken_and_everybody_sees_it(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    pair.begin_anew(new_participants=True)
    pair.train("third")
    assert pair.releases("alice") == [(1, False), (2, True)]
    assert pair.releases("bob") == [(3, False)]
    found = read_consortium_status(pair.homes["bob"])
    assert found.to_dict()["several_data_sets"] == {"alice": 3}
    node_tables.show_members(found)
    shown = " ".join(capsys.readouterr().out.split())
    assert "alice has begun anew with new keys: of 2 data sets it has released" in shown
    assert "3 vectors together. Each has a budget of its own, on the word of its operator" in shown
    assert "bob has begun anew" not in shown
    pair.train("fourth")  # it is known by now


def test_renewed_keys_in_the_same_folder_go_on_with_one_account(pair: Pair) -> None:
    pair.revise(NodeDirectory.renew(pair.homes["alice"].folder))
    assert pair.releases("alice") == [(2, True)]
    pair.train("third")
    assert pair.releases("alice") == [(3, False)]
    assert not read_consortium_status(pair.homes["bob"]).several


def test_an_older_copy_with_renewed_keys_is_noticed(pair: Pair, tmp_path: Path) -> None:
    """New keys do not make the others forget."""
    alice = pair.homes["alice"]
    copies = {path: path.read_bytes() for path in alice.folder.glob("journal.db*")}
    pair.train("third")
    for path in alice.folder.glob("journal.db*"):
        path.unlink()
    for path, content in copies.items():
        path.write_bytes(content)
    pair.revise(NodeDirectory.renew(alice.folder))
    with pytest.raises(PeerError, match="alice's journal was rolled back"):
        pair.train("fourth")
