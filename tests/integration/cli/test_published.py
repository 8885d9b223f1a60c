"""What is published follows from releases and public settings alone.

Two data sets that differ in one record are trained on by the real code. The second training is
given the releases of the first; everything else it computes from its own records. Then every byte
of model.json and report.html must be the same, or a reader could tell the two apart for free.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimators import make_classifier
from federation import NAMES, freeze, study_of
from running import run

from pdml import TrainingPlan
from pdml.pages.result_page import training_page
from pdml.pages.training_page import write
from pdml.simulation import study_training
from pdml.study import Study
from pdml.study.frozen_dataset import FrozenWriter, open_frozen
from pdml.training import local_engine

ROWS, TESTED = 400, 100
ARGUMENTS = (
    *("train", "people.csv", "--label", "diagnosis", "--classes", "no,yes,unknown", "--seed", "3"),
    *("--range", "age=18:100", "--levels", "sex=female,male", "--norm-bound", "1.7"),
    *("--rounds", "6"),
)


class SameReleases:
    """The local engine, whose later trainings end with the releases of the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._train, self._sent, self._first = local_engine.train, {}, None
        self._exchange, self.rows = local_engine.exchange, []
        monkeypatch.setattr(local_engine, "train", self)
        monkeypatch.setattr(local_engine, "exchange", self.exchange)

    def exchange(self, run: Any, **options: Any) -> Any:
        done = self._exchange(run, **options)
        self.rows.append(done.released)
        return replace(done, released=self.rows[0])

    def __call__(self, graph: Any, run: Any, *, observe: Any = None, **options: Any) -> Any:
        def watch(t: int, released: Any, point: Any) -> None:
            self._sent.setdefault(t, released.copy())
            if observe is not None:
                observe(t, self._sent[t], point)

        trained = self._train(graph, run, observe=watch, **options)
        self._first = self._first or trained
        return replace(trained, released=self._first.released, consensus=self._first.consensus)


@pytest.fixture
def same_releases(monkeypatch: pytest.MonkeyPatch) -> SameReleases:
    return SameReleases(monkeypatch)


def people() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    age = rng.integers(18, 90, ROWS)
    ill = np.where(age + rng.normal(0, 10, ROWS) > 50, "yes", "no")
    return pd.DataFrame({"age": age, "sex": rng.choice(["female", "male"], ROWS), "diagnosis": ill})


def neighbour(table: pd.DataFrame, row: int) -> pd.DataFrame:
    """One record is another person's: so old that it is clipped, and of a class nobody else has."""
    table.loc[row, ["age", "diagnosis"]] = (18, "no")
    other = table.copy()
    other.loc[row, ["age", "diagnosis"]] = (100, "unknown")
    return other


def published(folder: Path) -> dict[str, bytes]:
    """Both files, but for the minute in which the page was made."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".csv"}
    assert set(files) == {"model.json", "report.html"}
    files["report.html"], found = re.subn(rb"Made on [^U]*UTC", b"Made", files["report.html"])
    assert found == 1
    return files


HELD_BACK = ("--test-fraction", str(TESTED / ROWS))


@pytest.mark.parametrize(
    ("row", "options"),
    [(0, ()), (0, HELD_BACK), (4, HELD_BACK)],
    ids=["all train", "one that trains", "one that is held back"],
)
def test_of_a_table(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    same_releases: SameReleases,
    row: int,
    options: tuple[str, ...],
) -> None:
    table = people()
    found, summary = [], []
    for name, content in zip("ab", (table, neighbour(table, row)), strict=True):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        content.to_csv("people.csv", index=False)
        code, out, _ = run(capsys, *ARGUMENTS, *options)
        assert code == 0
        summary.append(out)
        found.append(published(tmp_path / name))
    assert found[0] == found[1]
    if row == 4:
        assert summary[0] != summary[1]  # an accuracy: for the terminal only


PLANS = [
    TrainingPlan(rounds=5),
    TrainingPlan(method="sums"),
    TrainingPlan(method="sums", colluding=1),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("randomness", ["simulated", "secure"])
@pytest.mark.parametrize("plan", PLANS, ids=["rounds", "sums", "one total"])
def test_of_the_estimator(
    tmp_path: Path,
    same_releases: SameReleases,
    plan: TrainingPlan,
    classes: int,
    randomness: str,
) -> None:
    """model_ and history_, with the noise of a simulation and of a deployment."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)) / 9, rng.integers(0, classes, 60)
    bias = plan.method == "sums"
    settings = {"n_servers": 3, "plan": plan, "random_state": 1, "randomness": randomness}
    models = []
    for k in range(2):
        model = make_classifier(intercept=bias, classes=range(classes), **settings).fit(x, y)
        model.model_.save(tmp_path / f"{k}.json")
        models.append(model)
        x[5], y[5] = 9.0, (y[5] + 1) % classes
    one, other = models
    assert bias or other.n_clipped_ == one.n_clipped_ + 1
    assert len(same_releases.rows) == 2 * bias
    assert (other.model_.expected is not None) == bias
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
    for name, summary in one.history_.to_dict().items():
        np.testing.assert_array_equal(summary, other.history_.to_dict()[name])
    assert one.privacy_.rows() == other.privacy_.rows() and one.leaks_ == other.leaks_ == []


@pytest.mark.parametrize("seed", [3, None], ids=["simulated", "secure"])
@pytest.mark.parametrize("plan", PLANS, ids=["rounds", "sums", "one total"])
def test_of_a_study(
    tmp_path: Path, same_releases: SameReleases, plan: TrainingPlan, seed: int | None
) -> None:
    """Frozen data sets of which one differs in one record."""
    study = study_of(plan=plan)
    folders = {name: freeze(study, name, tmp_path / name) for name in NAMES}
    another = with_another_person(study, folders["alice"], tmp_path / "another")
    found = []
    for name, changes in (("one", {}), ("other", {"alice": another})):
        (tmp_path / name).mkdir()
        trained = study_training.train_study(
            study, {**folders, **changes}, job="first", random_state=seed
        )
        trained.model.save(tmp_path / name / "model.json")
        write(tmp_path / name / "report.html", page=training_page(study, trained))
        found.append(published(tmp_path / name))
    assert found[0] == found[1]


def with_another_person(study: Study, folder: Path, target: Path) -> Path:
    """The data set of a neighbour: the first record has other features and another label."""
    held = open_frozen(folder)
    features, labels = held.features.copy(), held.labels.copy()
    features[0], labels[0] = features[1], 1 - labels[0]
    summary = held.manifest
    who = {"study_hash": study.hash, "study_id": study.id, "server": summary.server}
    who["randomised_by"] = summary.randomised_by
    with FrozenWriter(target, width=study.width, classes=2, **who) as writer:
        writer.append(features, labels, held.epsilons)
        writer.finish(frozen_at=summary.frozen_at)
    return target
