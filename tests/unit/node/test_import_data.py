"""Records come into a node's folder: checked, shuffled, private, and with one budget."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pdml.node.protocol.job_terms import JobTerms

pytest.importorskip("cryptography")

from joined import STUDY, join, people, spend

from pdml.errors import DataError, InvalidInput, JournalError
from pdml.node.job.participant import check_budget
from pdml.node.job.training_data import import_frozen, import_table
from pdml.node.operator.status import read_status
from pdml.node.protocol.redaction import public_message
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.training_plan import TrainingPlan
from pdml.tables import Table

PLAN = TrainingPlan(method="sums", label_noise=20.0, square_noise=20.0)


@pytest.fixture
def alice(tmp_path: Path) -> NodeDirectory:
    return join(tmp_path)


def test_a_table_becomes_a_data_set_for_its_owner_alone(alice: NodeDirectory) -> None:
    held = import_table(alice, people(), label="diagnosed", epsilon_column="eps", randomise=False)
    assert (held.server.spec.records, held.server.spec.epsilons) == (150, (2.0,))
    assert all(path.stat().st_mode & 0o077 == 0 for path in alice.path("data").rglob("*"))
    found = read_status(NodeDirectory.open(alice.folder))
    assert (found.records, found.running, found.jobs) == (150, False, ())


def test_labels_that_are_randomised_here_change(alice: NodeDirectory) -> None:
    """At ε = 1 each is flipped with probability 0.27: none of 150 with probability 10^-20."""
    seen = []
    for randomise in (False, True):
        import_table(alice, people(), label="diagnosed", epsilon=1.0, randomise=randomise)
        data = NodeDirectory.open(alice.folder).frozen()
        seen.append(
            sorted(zip(map(tuple, data.features.tolist()), data.labels.tolist(), strict=True))
        )
    assert seen[0] != seen[1] and len(seen[0]) == len(seen[1]) == 150


def test_two_imports_of_one_table_draw_anew(tmp_path: Path) -> None:
    """Labels and sensitive answers: by a seed that stays the same everybody could take the draws
    back. At ε = 1 all 150 agree in one of the two with a chance below 10^-30.
    """
    sensitive = 'levels = ["female", "male"]\nepsilon = { menu = [1], default = 1 }\n'
    text = STUDY.replace('levels = ["female", "male"]\n', sensitive)
    alice = join(tmp_path, "[encoder]\nversion = 1\n\n" + text)
    table = Table(columns={**people().columns, "age": np.linspace(18, 100, 150)})
    seen = []
    for _ in range(2):
        import_table(alice, table, label="diagnosed", epsilon=1.0, randomise=True)
        data = NodeDirectory.open(alice.folder).frozen()
        order = np.argsort(data.features[:, 0])  # by age, which everybody has another
        seen.append((data.labels[order], data.features[order, 1] > data.features[order, 2]))
    for one, other in zip(*seen, strict=True):
        assert len(one) == 150 and (one != other).any()


def test_the_order_of_the_rows_tells_nothing(alice: NodeDirectory) -> None:
    """Two imports agree in all 150 places with a probability of 1/150!."""
    ages = []
    for _ in range(2):
        import_table(alice, people(), label="diagnosed", epsilon=1.0, randomise=False)
        ages.append(np.array(NodeDirectory.open(alice.folder).frozen().features[:, 0]))
    assert not np.array_equal(*ages) and np.array_equal(*map(np.sort, ages))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"label": "diagnosed", "epsilon": 3.0}, r"on the study's menu \(1, 2\)"),
        ({"label": "diagnosed"}, "give one of --epsilon and --epsilon-column"),
        ({"label": "diagnosed", "epsilon": 1.0, "epsilon_column": "eps"}, "give one of"),
        ({"label": "none", "epsilon": 1.0}, "label must name a column"),
        (
            {"label": "sex", "epsilon": 1.0},
            r"column 'sex' must hold one of the study's classes .* row 1",
        ),
    ],
)
def test_what_does_not_fit_the_study_is_refused(
    alice: NodeDirectory, how: dict, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        import_table(alice, people(), randomise=False, **how)
    assert not NodeDirectory.open(alice.folder).config.data
    assert not list(alice.folder.glob(".pdml-*"))


def test_too_few_records_are_refused(alice: NodeDirectory) -> None:
    table: Table = people(99)
    with pytest.raises(DataError, match="fewer than the 100"):
        import_table(alice, table, label="diagnosed", epsilon=1.0, randomise=False)


def test_another_data_set_after_a_training_is_taken_only_for_new_participants(
    alice: NodeDirectory,
) -> None:
    """Else the same people would have their budget again, by importing their table twice."""
    how = {"label": "diagnosed", "epsilon": 1.0, "randomise": False}
    for _ in range(2):  # before a training nothing is lost by changing one's mind
        import_table(alice, people(), **how)
    before = NodeDirectory.open(alice.folder)
    spend(before)
    before = NodeDirectory.open(alice.folder)
    with pytest.raises(InvalidInput, match="--new-participants if nobody's record is in both"):
        import_table(before, people(), **how)
    assert NodeDirectory.open(alice.folder).config.data == before.config.data
    import_frozen(before, before.path(before.config.data))  # the same is the same
    import_table(before, people(), **how, new_participants=True)
    assert NodeDirectory.open(alice.folder).config.data != before.config.data


def test_a_lost_journal_is_no_fresh_start(alice: NodeDirectory) -> None:
    how = {"label": "diagnosed", "epsilon": 1.0, "randomise": False}
    import_table(alice, people(), **how)
    spend(NodeDirectory.open(alice.folder))
    assert read_status(NodeDirectory.open(alice.folder)).datasets[0].ledger.source == "secure"
    for path in alice.folder.glob("journal.db*"):
        path.unlink()
    gone = "is gone: without it nobody can say what alice has released"
    with pytest.raises(JournalError, match=gone):
        read_status(NodeDirectory.open(alice.folder))
    with pytest.raises(JournalError, match=gone):
        import_table(NodeDirectory.open(alice.folder), people(), **how)


def test_a_data_set_on_which_a_job_only_began_has_released_nothing(alice: NodeDirectory) -> None:
    """A job began on v1 and sent nothing; then v2 of the same people was trained on."""
    how = {"label": "diagnosed", "epsilon": 1.0, "randomise": False}
    first = import_table(alice, people(), **how)
    home = NodeDirectory.open(alice.folder)
    names = {"server": "alice", "dataset": first.dataset, "source": "secure"}
    with closing(home.journal()) as journal:
        journal.begin("begun", terms="", sealed=b"", plan="", **names)
    v1 = home.path(home.config.data)
    import_table(home, people(), **how)
    spend(NodeDirectory.open(alice.folder))
    with pytest.raises(InvalidInput, match="would begin with a whole budget"):
        import_frozen(NodeDirectory.open(alice.folder), v1)
    held = import_frozen(NodeDirectory.open(alice.folder), v1, new_participants=True)
    assert held.apart_from and held.dataset == first.dataset
    assert NodeDirectory.open(alice.folder).load_training_data().apart_from == held.apart_from, (
        "it is remembered"
    )


def test_the_operators_word_covers_what_was_released_before_it(alice: NodeDirectory) -> None:
    """People whose data set was new are counted under another name: they are not new any more."""
    how = {"label": "diagnosed", "epsilon": 1.0, "randomise": False}
    held = import_table(alice, people(), **how, new_participants=True)
    home = NodeDirectory.open(alice.folder)
    job_terms = JobTerms.for_study(home.study(), PLAN, "later")
    with closing(home.journal()) as journal:
        account = {"journal": journal, "budget": home.study().budget}
        check_budget(job_terms, "alice", held, **account)
        names = {"terms": "", "server": "alice", "source": "secure", "payload": b""}
        journal.release("counted", **names, dataset="the same people", events=[])
        with pytest.raises(InvalidInput, match="would begin with a whole budget"):
            check_budget(job_terms, "alice", held, **account)
    folder = home.path(home.config.data)
    with pytest.raises(InvalidInput, match="would begin with a whole budget"):
        import_frozen(NodeDirectory.open(alice.folder), folder)
    again = import_frozen(NodeDirectory.open(alice.folder), folder, new_participants=True)
    assert again.apart_from == {"the same people"}


def test_a_training_asks_whatever_was_imported_first(alice: NodeDirectory) -> None:
    """The table was imported, then its people were counted under another name."""
    how = {"label": "diagnosed", "epsilon": 1.0, "randomise": False}
    held = import_table(alice, people(), **how)
    home = NodeDirectory.open(alice.folder)
    job_terms = JobTerms.for_study(home.study(), PLAN, "later")
    account = {"journal": home.journal(), "budget": home.study().budget}
    with closing(account["journal"]) as journal:
        check_budget(job_terms, "alice", held, **account)
        journal.release(
            "counted",
            terms="",
            server="alice",
            dataset="counted people",
            source="secure",
            payload=b"",
            events=[],
        )
        with pytest.raises(InvalidInput, match="would begin with a whole budget") as refused:
            check_budget(job_terms, "alice", held, **account)
        assert public_message(refused.value, "alice") == str(refused.value)  # others hear why,
        assert held.dataset[:12] not in str(refused.value)  # and no digest to try records against
        check_budget(job_terms, "alice", replace(held, apart_from={"counted people"}), **account)
