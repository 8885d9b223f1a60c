"""A released model evaluated by those who made it: each once, with noise, in its own journal."""

import contextlib
import json
from contextlib import closing
from dataclasses import replace
from math import exp, sqrt
from pathlib import Path

import numpy as np
import pytest
from disk import FULL, Disk
from joined import STUDY, join, people, spend
from scipy.stats import norm

from pdml.consortium.signed_evaluation import (
    SignedCounts,
    combine_evaluations,
    evaluate_at_node,
    evaluate_study,
)
from pdml.errors import BudgetExceeded, DataError, InvalidInput, JournalError
from pdml.mechanisms.count_release import SHIFT
from pdml.model.model import Model
from pdml.node.job.training_data import import_table
from pdml.node.operator.status import read_status
from pdml.node.storage.node_dir import NodeDirectory


def released(home: NodeDirectory) -> Model:
    """What the study's members are taken to have trained."""
    study = home.study()
    return Model(
        classes=study.classes,
        coefficients=np.array([[1.0, 0.5, -0.5]]),
        intercepts=np.zeros(1),
        norm_bound=1.0,
        fit_intercept=True,
        feature_names=study.encoder.feature_names,
        encoder=study.encoder.to_dict(),
        provenance={"study_hash": study.hash},
    )


def evaluated(home: NodeDirectory, **changes):
    how = {"label": "diagnosed", "job": "checked", "epsilon": 1.0} | changes
    return evaluate_at_node(
        home, how.pop("model", released(home)), how.pop("table", people()), **how
    )


def test_counts_are_debited_once_and_given_again_not_drawn_again(tmp_path: Path) -> None:
    home = join(tmp_path)
    first, again = evaluated(home), evaluated(home)
    assert first == again and first.evaluation.source == "secure"
    line = first.ledger(1e-6).row("features", "other servers")
    assert line.epsilon == pytest.approx(1.0, rel=1e-3)
    assert first.ledger(1e-6).row("label", "own server").epsilon == np.inf
    with closing(home.committed()) as journal:
        (job,) = journal.jobs()
        assert (job.job, job.round, len(journal.spent(job.dataset))) == ("checked", 1, 1)
    other = evaluated(home, job="again")
    assert other.counts != first.counts
    assert other.ledger(1e-6).row("features", "other servers").epsilon > 1.3, "two releases"
    (account,) = [each for each in read_status(home).datasets if each.releases]
    assert account.releases == 2
    shuffled = people()
    order = np.random.default_rng(0).permutation(150)
    table = type(shuffled)(columns={n: c[order] for n, c in shuffled.columns.items()})
    third = evaluated(home, job="shuffled", table=table)
    assert third.ledger(1e-6).row("features", "other servers").epsilon > 1.6, "the same records"


@pytest.fixture
def disk():
    made = Disk("evaluations", default=True)
    yield made
    made.close()


def refuse_writes(after: int):
    """A disk that takes so many more writes of the journal, and is full then."""
    left = [after]

    def fails(operation: str, file: str) -> int:
        if operation != "write" or not file.startswith("journal.db"):
            return 0
        left[0] -= 1
        return FULL if left[0] < 0 else 0

    return fails


@pytest.mark.parametrize("epsilon", [1.2, 20.0])
def test_full_disks_do_not_let_evaluations_past_the_budget(disk, tmp_path, epsilon) -> None:
    """Four evaluations, whose disk was full after 0, 1, 2, ... writes, are asked for again: what
    was returned is recounted here, by the closed form of Gaussians that add up, and stays within
    the budget, of which one such evaluation needs more than half.
    """
    home = join(tmp_path, STUDY.replace("epsilon = 20", f"epsilon = {epsilon:g}"))
    names = [f"attempt-{i}" for i in range(4)]
    failures = 0
    for writes in range(12):
        disk.fails = refuse_writes(writes)
        for name in names:
            try:
                evaluated(NodeDirectory.open(home.folder), job=name, epsilon=1.0)
            except (JournalError, BudgetExceeded) as error:
                failures += isinstance(error, JournalError)
    disk.fails = lambda operation, file: 0
    assert failures >= 4, "the disk was full often enough to begin four of them"
    seen = []
    for name in names:
        with contextlib.suppress(BudgetExceeded):
            seen.append(evaluated(NodeDirectory.open(home.folder), job=name, epsilon=1.0))
    assert len({tuple(each.counts) for each in seen}) == len(seen) == (4 if epsilon > 2 else 1)
    mu = sqrt(sum(SHIFT**2 / each.stddev**2 for each in seen))
    delta = norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta <= 1e-6, "what an adversary has seen"
    with closing(home.committed()) as journal:
        (dataset,) = journal.datasets()
        assert journal.releases(dataset) == len(journal.spent(dataset)) == len(seen)


def test_the_study_s_budget_ends_evaluations(tmp_path: Path) -> None:
    home = join(tmp_path, STUDY.replace("epsilon = 20", "epsilon = 1.2"))
    evaluated(home)
    with pytest.raises(BudgetExceeded, match="2 evaluations would spend"):
        evaluated(home, job="second")
    with closing(home.committed()) as journal:
        assert [job.job for job in journal.jobs()] == ["checked"]


SENSITIVE = 'kind = "category"\nepsilon = { menu = [1, 2], default = 1 }\n'
STUDIES = {
    "answers as they are": STUDY,
    "a randomised answer": STUDY.replace('kind = "category"\n', SENSITIVE),
}


def aged(ages):
    table = people(len(ages))
    return replace(table, columns={**table.columns, "age": np.asarray(ages, dtype=float)})


EVERYBODY = aged(18 + np.arange(150) * 0.25)  # no two of one age
YEARS = aged(40 + np.arange(150) % 5)  # thirty of each age


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize(
    ("trained", "table"),
    [(EVERYBODY, EVERYBODY), (EVERYBODY, aged(18 + np.arange(30) * 0.25)), (YEARS, YEARS)],
    ids=["the table", "a part of it", "the table, of people alike"],
)
def test_who_was_trained_on_is_not_evaluated_whatever_the_operator_says(
    tmp_path: Path, study: str, trained, table
) -> None:
    """The budget of these people would count the training and the evaluation, each alone. No word
    is asked for that would be false.
    """
    home = join(tmp_path, STUDIES[study])
    import_table(home, trained, label="diagnosed", epsilon=2.0, randomise=True)
    home = NodeDirectory.open(home.folder)
    spend(home)
    for word in (False, True):
        with pytest.raises(InvalidInput, match="has trained on these records") as refused:
            evaluated(home, table=table, new_participants=word)
        assert "held back" in str(refused.value)
        assert "--new-participants" not in str(refused.value)
    with closing(home.committed()) as journal:
        assert len(journal.jobs()) == 1, "nothing was released"


@pytest.mark.parametrize(
    ("trained", "others"),
    [(EVERYBODY, aged(18.1 + np.arange(100) * 0.25)), (YEARS, aged(40 + np.arange(40) % 5))],
    ids=["others", "others who are alike"],
)
def test_who_was_held_back_is_evaluated_at_the_operators_word(
    tmp_path: Path, trained, others
) -> None:
    home = join(tmp_path)
    import_table(home, trained, label="diagnosed", epsilon=2.0, randomise=True)
    home = NodeDirectory.open(home.folder)
    spend(home)
    with pytest.raises(InvalidInput, match=r"one budget, which counts both.*--new-participants"):
        evaluated(home, table=others)
    found = evaluated(home, table=others, new_participants=True)
    assert found.evaluation.records == others.n_rows


def test_records_have_one_account_whatever_a_model_reads_of_them(tmp_path: Path) -> None:
    """A file that says other ranges than the study makes no other people."""
    home = join(tmp_path)
    model = released(home)
    wider = replace(home.study().encoder.attributes[0], high=200.0)
    encoder = replace(
        home.study().encoder, attributes=(wider, *home.study().encoder.attributes[1:])
    )
    evaluated(home, model=model)
    found = evaluated(home, model=replace(model, encoder=encoder.to_dict()), job="again")
    assert len(found.spent) == 2


def test_what_does_not_fit_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    home = join(tmp_path)
    model = released(home)

    with pytest.raises(DataError, match="must be a result of the study"):
        evaluated(home, model=replace(model, provenance={"study_hash": "0" * 64}))
    with pytest.raises(DataError, match="must be a result of the study"):
        evaluated(home, model=replace(model, local="alice"))
    evaluated(home)
    with pytest.raises(JournalError, match="another name"):
        evaluated(home, epsilon=0.5)
    with pytest.raises(JournalError, match="simulated"):
        evaluated(home, job="other", simulated_noise=1)
    with closing(home.journal()), pytest.raises(JournalError, match="another process"):
        evaluated(home, job="held")


def test_members_files_add_up_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    alice = join(tmp_path)
    bob = NodeDirectory.open(tmp_path / "bob")
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    parts = [evaluated(home, table=people(100 + 50 * i)) for i, home in enumerate((alice, bob))]
    for part, path in zip(parts, paths, strict=True):
        part.save(path)
        assert path.stat().st_mode & 0o777 == 0o600
    found = combine_evaluations(alice.study(), paths).evaluation
    assert found.records == 250
    np.testing.assert_allclose(found.counts, sum(part.evaluation.counts for part in parts))
    assert found.counting.stddev == pytest.approx(np.sqrt(2) * parts[0].stddev)
    with pytest.raises(DataError, match="alice is in two of the files"):
        combine_evaluations(alice.study(), [paths[0], paths[0]])
    told = json.loads(paths[0].read_text())
    for change in ({"records": 101}, {"server": "bob"}, {"signature": "zz"}, {"study": "0" * 64}):
        paths[1].write_text(json.dumps(told | change))
        with pytest.raises(DataError, match="not signed by a member"):
            combine_evaluations(alice.study(), [paths[1]])
    paths[1].write_text("{}")
    with pytest.raises(DataError, match="is no evaluation"):
        combine_evaluations(alice.study(), [paths[1]])
    with pytest.raises(DataError, match="cannot be read"):
        combine_evaluations(alice.study(), [tmp_path / "none.json"])


def test_models_are_not_mixed(tmp_path: Path) -> None:

    alice, bob = join(tmp_path), NodeDirectory.open(tmp_path / "bob")
    other = replace(released(bob), coefficients=np.array([[2.0, 0.5, -0.5]]))
    evaluated(alice).save(tmp_path / "a.json")
    evaluated(bob, model=other).save(tmp_path / "b.json")
    with pytest.raises(DataError, match="one model"):
        combine_evaluations(alice.study(), [tmp_path / "a.json", tmp_path / "b.json"])
    bad = SignedCounts(
        study="",
        server="x",
        job="",
        model="",
        classes=["a", "b"],
        records=0,
        bins=1,
        stddev=1.0,
        source="",
        counts=[1],
        spent=[],
    )
    with pytest.raises(DataError, match="no table"):
        _ = bad.evaluation


def test_one_trust_domain_simulates_what_members_would_release(tmp_path: Path) -> None:
    model = released(join(tmp_path))
    tables = {"alice": people(100), "bob": people(150)}
    one, two = (evaluate_study(model, tables, "diagnosed", random_state=seed) for seed in (1, 1))
    np.testing.assert_array_equal(one.counts, two.counts)
    assert one.records == 250 and one.source == "simulated"
    assert evaluate_study(model, tables, "diagnosed").source == "secure"
