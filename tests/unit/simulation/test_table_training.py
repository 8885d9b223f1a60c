"""A table is trained on, predicted and evaluated by one call each."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimators import make_classifier

from pdml import PDMLClassifier, PrivacyLedgerSession, TrainingPlan, load_model
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.maps import Squares
from pdml.encoding.scaling import CONSTANT, SIZE
from pdml.errors import DataError, InvalidInput, MissingValueError, UndeclaredColumns
from pdml.model.model import Model
from pdml.pages.table_pages import table_page
from pdml.pages.training_page import render
from pdml.simulation.demo_training import TESTED, USERS, demo_page, is_demo_model, run_demo
from pdml.simulation.table_training import (
    CLASSES_LEAK,
    evaluate_table,
    predict_table,
    public_records,
    read_records,
    split_test,
    train_table,
)
from pdml.tables import Table, write_predictions
from pdml.tables.columns import Roles

AGE, SEX = Number(name="age", low=18, high=100), Category(name="sex", levels=("female", "male"))
PLAN = TrainingPlan(rounds=4)


def people(rows: int = 300) -> Table:
    rng = np.random.default_rng(1)
    age, male = rng.integers(18, 90, rows), rng.random(rows) < 0.5
    return Table(
        columns={
            "age": age,
            "sex": np.where(male, "male", "female"),
            "wish": rng.choice([0.5, 1.0, 2.0], rows),
            "hospital": rng.choice(["alice", "bob", "carol"], rows),
            "ill": np.where(age + 10 * male > 55, "yes", "no"),
        },
        source="folder/people.csv",
    )


def test_a_table_is_what_the_estimator_makes_of_its_encoded_rows() -> None:
    table = people()
    trained = train_table(
        table,
        "ill",
        attributes=[AGE, SEX],
        classes=["no", "yes"],
        epsilon_column="wish",
        server_column="hospital",
        plan=PLAN,
        random_state=3,
    )
    male = table.text("sex") == "male"
    entries = np.column_stack([(table.numeric("age") - 59) * 6 / 82, 0.5 - male, male - 0.5])
    scale = SIZE / np.sqrt(1 + 1 / 4 + 1 / 4)
    rows = np.column_stack([entries * scale, np.full(300, CONSTANT)])
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1) / (1 - 2**-20))[:, None]
    names = np.unique(table.text("hospital"))
    settings = {"plan": PLAN, "random_state": 3, "classes": ("no", "yes")}
    fitted = make_classifier(n_servers=3, intercept=False, **settings).fit(
        rows,
        table.text("ill").astype(str),
        epsilons=table.numeric("wish"),
        servers=np.searchsorted(names.astype(str), table.text("hospital").astype(str)),
    )
    model = trained.model
    found = np.column_stack([model.coefficients, model.intercepts])
    np.testing.assert_allclose(found, fitted.coef_, rtol=1e-9)
    assert trained.ledger.to_dict() == fitted.privacy_.to_dict()
    assert trained.servers == ("alice", "bob", "carol") and trained.records == 300
    assert trained.model.provenance["leaks"] == [] and trained.accuracy is None
    page = unescape(render(table_page(trained)))
    assert "ill, learnt from people.csv" in page
    assert "each person's own epsilon (column wish)" in page


def test_what_is_taken_from_the_data_is_a_leak_that_the_model_names() -> None:
    table = people()
    with pytest.raises(UndeclaredColumns) as refused:
        train_table(table, "ill", attributes=[SEX], ignore=["hospital"])
    assert refused.value.columns == ("age", "wish") and refused.value.numbers == ("age", "wish")
    trained = train_table(table, "ill", from_data=True, plan=PLAN, random_state=1)
    ranges, classes = trained.model.provenance["leaks"]
    assert "'age', 'sex'" in ranges and classes == CLASSES_LEAK
    assert trained.summary()["leaks"] == [ranges, classes]


def test_accuracy_is_measured_where_the_training_did_not_look() -> None:
    table = people()
    how = {"attributes": [AGE, SEX], "ignore": ["wish", "hospital"], "plan": PLAN}
    held = train_table(table, "ill", test_fraction=0.2, random_state=2, **how)
    assert held.test_records == 60 and held.records == 240
    beside = train_table(table, "ill", test=table, random_state=2, **how)
    found = evaluate_table(beside.model, table)
    assert (found.records, found.accuracy) == (300, beside.accuracy)
    assert found.confusion.sum() == 300
    assert np.trace(found.confusion) == round(found.accuracy * 300)
    truth = table.text("ill") == "yes"
    assert found.confusion.sum(axis=1).tolist() == [(~truth).sum(), truth.sum()]
    assert len(beside.server_accuracies) == 10


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"test_fraction": 1.0}, r"test_fraction must be a number in \[0, 1\), got 1"),
        ({"test_fraction": 0.1, "test": "x.csv"}, "comes from one place"),
    ],
)
def test_bad_settings_are_refused_before_the_table_is_read(how: dict, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        train_table("no such file.csv", "ill", **how)


def test_the_servers_are_as_many_as_the_column_names() -> None:
    with pytest.raises(InvalidInput, match="be 3, as many") as refused:
        train_table(people(), "ill", from_data=True, server_column="hospital", n_servers=4)
    assert refused.value.setting == "n_servers"
    with pytest.raises(InvalidInput, match="n_servers"):
        train_table(people(), "ill", from_data=True, n_servers=0)


def test_predictions_are_the_model_s(tmp_path: Path) -> None:
    table = people()
    trained = train_table(table, "ill", from_data=True, plan=PLAN, random_state=1)
    trained.model.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    found = predict_table(loaded, table, proba=True)
    assert list(found) == ["prediction", "probability no", "probability yes"]
    x = loaded.features(table)
    np.testing.assert_array_equal(found["prediction"], trained.model.predict(x))
    np.testing.assert_allclose(found["probability no"] + found["probability yes"], 1)
    write_predictions(tmp_path / "p.csv", found)
    few = Table(columns={"age": [20]}, source="few.csv")
    with pytest.raises(DataError, match=r"few\.csv lacks columns the model needs: 'sex', 'wish'"):
        predict_table(loaded, few)


class Polars:
    """A frame as polars has it, where pyarrow is not asked."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns, self._cells = list(columns), columns

    def to_dict(self, *, as_series: bool = True) -> dict[str, list[Any]]:
        assert not as_series
        return self._cells


def test_a_dataframe_gives_what_the_same_table_gives() -> None:
    table = people()
    cells = {name: list(table.columns[name]) for name in table.columns}
    settings = {"attributes": [AGE, SEX], "ignore": ["hospital", "wish"], "classes": ["no", "yes"]}
    trained = train_table(table, "ill", **settings, plan=PLAN, random_state=1)
    right = evaluate_table(trained.model, table).to_dict()
    for frame in (pd.DataFrame(cells), Polars(cells)):
        again = train_table(frame, "ill", **settings, plan=PLAN, random_state=1)
        np.testing.assert_array_equal(again.model.coefficients, trained.model.coefficients)
        np.testing.assert_array_equal(
            predict_table(again.model, frame)["prediction"],
            predict_table(trained.model, table)["prediction"],
        )
        assert evaluate_table(again.model, frame).to_dict() == right
    with pytest.raises(InvalidInput, match="DataFrame, got ndarray"):
        train_table(np.ones((3, 2)), "ill", **settings)


def test_a_model_of_plain_columns_needs_their_names() -> None:
    plain = Model(
        classes=(0, 1),
        coefficients=np.array([[1.0, -1.0]]),
        intercepts=np.zeros(1),
        norm_bound=1.0,
        fit_intercept=True,
        feature_names=("a", "b"),
    )
    table = Table(columns={"b": [0.0, 1.0], "a": [1.0, 0.0], "y": [1, 1]})
    assert predict_table(plain, table)["prediction"].tolist() == [1, 0]
    assert evaluate_table(plain, table, "y").confusion.tolist() == [[0, 0], [1, 1]]
    with pytest.raises(InvalidInput, match="label must name a column"):
        evaluate_table(plain, table)
    nameless = Model(
        classes=(0, 1),
        coefficients=np.array([[1.0]]),
        intercepts=np.zeros(1),
        norm_bound=1.0,
        fit_intercept=True,
    )
    with pytest.raises(DataError, match="not trained on a table"):
        predict_table(nameless, table)


def test_records_held_back_and_kept_are_all_records_once() -> None:
    records = read_records(people(), Roles(label="ill", server="hospital"), from_data=True)
    rest, held = split_test(records, 0.25, 7)
    assert len(rest) == 225 and len(held) == 75
    together = np.vstack([rest.x.toarray() if hasattr(rest.x, "toarray") else rest.x, held.x])
    order = np.lexsort(together.T), np.lexsort(np.asarray(records.x).T)
    np.testing.assert_array_equal(together[order[0]], np.asarray(records.x)[order[1]])
    for fraction in (1e-4, 0.9999):
        with pytest.raises(InvalidInput, match="leaves none"):
            split_test(records, fraction, 7)


def test_public_records_are_rows_as_they_would_be_trained_on(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a,y\n0,no\n10,yes\n5,no\n")
    rows, codes, classes = public_records(tmp_path / "p.csv", "y")
    entries = np.array([-5, 5, 0]) / 4.1  # the deviation, 4.08, rounded upwards
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], entries * SIZE / CONSTANT)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 1, CONSTANT], rtol=1e-5)
    assert codes.tolist() == [0, 1, 0] and classes == 2


def test_the_demo_is_two_trainings_of_the_same_people(tmp_path: Path) -> None:
    titles: list[str] = []

    @contextmanager
    def noted(title: str) -> Iterator[Callable[[int, int], None]]:
        titles.append(title)
        yield lambda done, of: None

    done = run_demo(rounds=3, progress=noted)
    assert titles == ["Training privately", "The same without privacy"]
    assert done.private.records == USERS and done.private.test_records == TESTED
    assert done.flip_probability == pytest.approx(1 / (1 + np.e))
    assert done.unprotected.accuracy == pytest.approx(0.978, abs=0.01)
    assert "PDML demo" in render(demo_page(done))
    path = tmp_path / "model.json"
    assert not is_demo_model(path)
    done.private.model.save(path)
    assert is_demo_model(path)


def with_gaps() -> Table:
    """The same people, of whom some did not say how old they are, or what they are."""
    table = people()
    age = table.numeric("age").copy()
    age[::7] = np.nan
    sex = table.text("sex").copy()
    sex[::5] = "?"
    return Table(columns=dict(table.columns) | {"age": age, "sex": sex})


ROLES = {"classes": ["no", "yes"], "ignore": ["wish", "hospital"], "plan": PLAN, "random_state": 3}


def test_records_with_gaps_are_trained_on_and_predicted_by_what_is_declared(
    tmp_path: Path,
) -> None:
    table = with_gaps()
    declared = {"missing": ["age", "sex"], "missing_values": ["?"]}
    trained = train_table(table, "ill", attributes=[AGE, SEX], **declared, **ROLES)
    model = trained.model
    assert model.feature_names[1::3] == ("age=prefer not to say", "sex=prefer not to say")
    model.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    found = predict_table(again, table, proba=True)
    np.testing.assert_array_equal(found["prediction"], predict_table(model, table)["prediction"])
    # who did not say is predicted as an average person of whom that is known
    average = Table(
        columns=dict(table.columns)
        | {"age": np.where(np.isnan(table.columns["age"]), 59, table.columns["age"])}
    )
    shift = again.decision_function(again.features(table))
    same = shift == again.decision_function(again.features(average))
    np.testing.assert_array_equal(same, ~np.isnan(table.columns["age"]))
    with pytest.raises(MissingValueError, match=r"row 1 of .*: missing = 'average' says what"):
        train_table(table, "ill", attributes=[AGE, SEX], **ROLES)
    with pytest.raises(InvalidInput, match="missing must name columns to predict from, got 'wish'"):
        train_table(table, "ill", attributes=[AGE, SEX], missing=["wish"], **ROLES)


def test_from_data_takes_gaps_and_averages_too() -> None:
    trained = train_table(
        with_gaps(), "ill", from_data=True, missing=["age", "sex"], missing_values=["?"], **ROLES
    )
    assert trained.model.encoder is not None
    age, sex = trained.model.encoder["attributes"]
    assert {"average", "spread"} <= set(age) and sex["levels"] == ["female", "male"]
    (leak,) = trained.model.provenance["leaks"]
    assert "the levels of 'age', 'sex' were taken" in leak and "one person alone has" in leak


def test_from_data_writes_nobodys_income(tmp_path: Path) -> None:
    """Neither the richest, nor the poorest, nor the one in the middle stands in model.json."""
    incomes = np.random.default_rng(5).lognormal(10, 1, 301).round(2)
    columns = people().columns | {"income": np.append(incomes[:299], 435839765.73)}
    trained = train_table(Table(columns=columns), "ill", from_data=True, plan=PLAN, random_state=1)
    trained.model.save(tmp_path / "model.json")
    facts = json.loads((tmp_path / "model.json").read_text())["encoder"]["attributes"]
    (income,) = (one for one in facts if one["name"] == "income")
    assert income["range"] == [0.0, 440000000.0]
    published = {*income["range"], income["average"], income["spread"]}
    assert not published & {*columns["income"].tolist(), float(np.mean(columns["income"]))}
    assert income["average"] % 1e6 == 0 and income["spread"] == float(f"{income['spread']:.1e}")


def test_maps_widen_the_model() -> None:
    trained = train_table(people(), "ill", attributes=[AGE, SEX], maps=[Squares()], **ROLES)
    assert trained.model.feature_names == ("age", "sex=female", "sex=male", "age^2")
    assert predict_table(trained.model, people())["prediction"].shape == (300,)


def test_a_model_names_its_declaration_and_the_session_and_nothing_of_a_record() -> None:
    settings: dict[str, Any] = {"attributes": [AGE, SEX], "ignore": ["hospital", "wish"]}
    settings |= {"classes": ["no", "yes"], "plan": PLAN}
    with PrivacyLedgerSession() as session:
        one, other = (
            train_table(people(), "ill", **settings, random_state=seed).model for seed in (1, 2)
        )
    alone = train_table(people(), "ill", **settings, random_state=1).model
    assert one.provenance["data"] == other.provenance["data"] == session.id
    assert alone.provenance["data"] == "" and len(session.id) == 32
    digests = {model.provenance["declaration"] for model in (one, other, alone)}
    assert digests == {Encoder.from_dict(one.encoder or {}).digest}
    narrower = [replace(AGE, high=AGE.high + 1), SEX]
    changed = train_table(people(), "ill", **settings | {"attributes": narrower}, random_state=1)
    assert changed.model.provenance["declaration"] not in digests
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", alone.provenance["date"])
    rows = np.random.default_rng(0).normal(size=(60, 2))
    undeclared = PDMLClassifier(n_servers=3, plan=PLAN, random_state=0).fit(rows, rows[:, 0] > 0)
    assert undeclared.model_.provenance["declaration"] == ""
