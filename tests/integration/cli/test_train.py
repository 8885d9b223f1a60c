"""`pdml train`: good tables become a model and a report, bad ones one sentence."""

import inspect
import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from running import PDML, run

from pdml import Encoding, PDMLClassifier, TrainingPlan, load_model
from pdml.cli.commands.train import train_table
from pdml.cli.commands.train_study import train_study
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.pipeline import Pipeline
from pdml.simulation.simulation import SimulationSettings, simulate
from pdml.simulation.table_training import CLASSES_LEAK, SERVERS
from pdml.tables import Table
from pdml.training.result import PAGE_LEAK

DECLARED = ["--range", "age=18:100", "--range", "bmi=10:60", "--levels", "sex=female,male"]
ROLES = ["--ignore", "id", "--ignore", "hospital", "--ignore", "wish"]
GOOD = ["train", "people.csv", "--label", "diagnosis", *DECLARED, *ROLES]
FAST = ["--rounds", "5", "--seed", "3"]


def people(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    age, bmi, male = (
        rng.integers(18, 90, rows),
        rng.normal(26, 4, rows).round(1),
        rng.random(rows) < 0.5,
    )
    ill = (age - 50) / 12 + (bmi - 26) / 4 + np.where(male, 0.8, -0.4) > 0
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "age": age,
            "sex": np.where(male, "male", "female"),
            "bmi": bmi,
            "hospital": rng.choice(["alice", "bob", "carol"], rows),
            "wish": rng.choice([0.5, 1.0, 2.0], rows),
            "diagnosis": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence, once it is known to be all that happened."""
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "") and re.fullmatch(r"pdml: [^\n]+\n", err), err
    assert "Traceback" not in err and "mistake in pdml" not in err
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before
    return err


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_writes_a_model_and_a_report_and_says_what_was_spent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, *GOOD, *FAST, "--test-fraction", "0.25")
    assert (code, err) == (0, "") and "\x1b" not in out
    assert (
        "300 records with 4 features, classes no, yes" in out
        and "on 100 records that were not trained on" in out
    )
    assert re.search(r"^  released model +[\d.]+%$", out, re.MULTILINE)
    assert re.search(
        r"^  the collecting organisation +73\.1% +1\.00 +unprotected", out, re.MULTILINE
    )
    assert out.splitlines()[-2:] == ["report  report.html", "model   model.json"]
    model = load_model("model.json")
    assert model.label == "diagnosis" and model.classes == ("no", "yes")
    assert model.feature_names == ("age", "sex=female", "sex=male", "bmi")
    assert model.encoder is not None and Encoder.from_dict(model.encoder).n_features == 4
    assert model.plan["rounds"] == 5 and model.privacy["source"] == "simulated"
    assert model.provenance["pdml_version"]
    summary = " ".join(out.split())
    assert summary.count("exact: do not publish") == 1
    assert "server 1" not in out and re.search(r"^  the servers' own models +[\d.]+% to", out, re.M)
    assert re.search(r"AUC 0\.\d+; .*recall of no [\d.]+%, yes [\d.]+%\.", summary)
    assert (
        "seed" not in Path("model.json").read_text()
        and ">seed<" not in Path("report.html").read_text()
    )  # it would undo the noise
    assert "diagnosis, learnt from people.csv" in Path("report.html").read_text()


def test_proposes_the_whole_command_for_what_is_not_declared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Made from the header: nobody's age stands in it."""
    roles = ["--label", "diagnosis", *ROLES]
    code, out, err = run(capsys, "train", "people.csv", *roles, "--range", "bmi=10:60:25:5")
    assert (code, out) == (1, "") and "columns 'age', 'sex' have no declared range" in err
    assert (
        "pdml train people.csv --label diagnosis --range bmi=10:60:25:5 --ignore id --ignore "
        "hospital --ignore wish --range age=LOW:HIGH:AVERAGE:SPREAD --levels sex=A,B,..." in err
    )
    assert "or let --from-data take them from the data" in err.lower()


def test_asks_a_person_and_says_how_to_be_asked_no_more(folder: Path) -> None:
    lines = ["18:100:whole", "50", "20", "no", "female,male", "yes"]
    typed = ["train", "people.csv", "--label", "diagnosis", *ROLES, "--range", "bmi=10:60", *FAST]
    parent, child = pty.openpty()
    done = subprocess.Popen(
        [*PDML, *typed], stdin=child, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder
    )
    os.write(parent, "".join(f"{line}\n" for line in lines).encode())
    out, err = done.communicate(timeout=120)
    os.close(parent)
    os.close(child)
    assert done.returncode == 0, err
    assert b"What average of age do you expect?" in err
    summary = " ".join(out.decode().split())
    assert "--range age=18:100:50:20:whole --levels sex=female,male --missing sex" in summary
    encoder = load_model(folder / "model.json").encoder
    assert encoder is not None and Encoder.from_dict(encoder).attributes == (
        Number(name="age", low=18, high=100, whole=True, average=50, spread=20),
        Category(name="sex", levels=("female", "male"), missing="level"),
        Number(name="bmi", low=10, high=60),
    )


def test_cells_without_a_value_are_declared(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    table = people()
    table["bmi"] = table["bmi"].where(table.index % 9 > 0)
    table["sex"] = table["sex"].where(table.index % 7 > 0, "?")
    table.to_csv("people.csv", index=False)
    code, _, err = run(capsys, *GOOD, *FAST)
    assert code == 1 and "--missing sex --missing-values '?' says that this stands for" in err
    gaps = ["--missing", "sex", "--missing", "bmi", "--missing-values", "?"]
    assert run(capsys, *GOOD, *FAST, *gaps)[0] == 0
    code, out, _ = run(capsys, "predict", "model.json", "people.csv")
    assert code == 0 and out.count("\n") == 401
    table.to_parquet("people.parquet")
    assert run(capsys, "predict", "model.json", "people.parquet") == (0, out, "")


@pytest.mark.parametrize(
    "said, names",
    [
        ("squares:age,bmi", ("age^2", "bmi^2")),
        ("products:age*bmi,age*sex=male", ("age*bmi", "age*sex=male")),
        ("splines:bmi", tuple(f"bmi near {knot}" for knot in (-2, -1, 0, 1, 2))),
        ("bins:bmi,count=3", ("bmi bin 1", "bmi bin 2", "bmi bin 3")),
        ("fourier:count=2,scale=0.5,seed=4", ("fourier 1", "fourier 2")),
    ],
)
def test_maps_are_declared_by_an_option(
    capsys: pytest.CaptureFixture[str], said: str, names: tuple[str, ...]
) -> None:
    assert run(capsys, *GOOD, *FAST, "--map", said)[0] == 0
    model = load_model("model.json")
    assert model.feature_names[4:] == names
    assert run(capsys, "predict", "model.json", "people.csv")[0] == 0
    Path("encoder.json").write_text(json.dumps(model.encoder))
    typed = ["train", "people.csv", "--label", "diagnosis", "--encoder", "encoder.json", *ROLES]
    assert run(capsys, *typed, *FAST, "--force")[0] == 0
    assert load_model("model.json").encoder == model.encoder


def test_maps_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    for said, summary in (
        ("cubes", "map must be"),
        ("squares:town", "got 'town'"),
        ("bins:count=few", "--map must have numbers as settings, got 'count=few'"),
    ):
        code, _, err = run(capsys, *GOOD, *FAST, "--map", said)
        assert code == 1 and summary in err


def test_is_what_the_estimator_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            capsys,
            *GOOD,
            *FAST,
            "--servers",
            "4",
            "--topology",
            "ring",
            "--norm-bound",
            "2",
            "--noise-scale",
            "0.5",
        )[0]
        == 0
    )
    table = people()
    attributes = (
        Number(name="age", low=18, high=100),
        Category(name="sex", levels=("female", "male")),
        Number(name="bmi", low=10, high=60),
    )
    encoder = Encoder(attributes=attributes)
    x = encoder.read(
        Table(columns={name: table[name].to_numpy() for name in ("age", "sex", "bmi")})
    )
    settings = SimulationSettings(
        plan={"rounds": 5, "noise_scale": 0.5},
        classes=(False, True),
        n_servers=4,
        topology="ring",
        random_state=3,
    )
    truth = (table["diagnosis"] == "yes").to_numpy()
    model = simulate(settings, Pipeline(encoder=encoder, norm_bound=2), x, truth).result.model
    np.testing.assert_array_equal(load_model("model.json").coefficients, model.coefficients)
    assert load_model("model.json").privacy == model.privacy


def test_the_defaults_protect_features_and_say_what_they_cannot_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Few people, ten classes: in words on the screen, at the top of the page, and no Python
    warning."""
    table = people(300)
    table["diagnosis"] = [f"d{k % 10}" for k in range(300)]
    table.to_csv("people.csv", index=False)
    args = [*GOOD, "--classes", ",".join(f"d{k}" for k in range(10)), "--seed", "3"]
    code, out, err = run(capsys, *args)
    assert code == 0 and "Warning" not in err
    summary = " ".join(out.split())
    assert "Whether joining pays is too close to say: over 12 simulated data sets" in summary
    report = Path("report.html").read_text()
    assert "The model may be of no use.</strong> Whether joining pays is too close" in report
    found = outcome(capsys, *args, "--force")
    assert found["doubts"][0] in " ".join(out.split())
    spent = next(
        line["epsilon"]
        for line in found["privacy"]["rows"]
        if (line["data"], line["adversary"]) == ("features", "other servers")
    )
    assert 0.9 < spent <= 1.0


def test_an_epsilon_that_hardly_protects_is_said_as_of_a_menu(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Above ln 19; where nothing is randomised the table says it."""
    table = people()
    table["wish"] = np.where(table["id"] == table["id"][7], 5.0, 1.0)
    table.to_csv("people.csv", index=False)
    column = [*GOOD[:-2], "--epsilon-column", "wish"]
    hardly = "epsilon 5 protects hardly anybody"
    for more, said in (
        ([*GOOD, "--epsilon", "5"], f"--epsilon: {hardly}"),
        ([*GOOD, "--epsilon", "2.9"], ""),
        ([*GOOD, "--epsilon", "inf"], ""),
        (column, f"--epsilon-column wish: {hardly}"),
    ):
        code, out, _ = run(capsys, *more, *FAST, "--force")
        assert code == 0
        assert (said in " ".join(out.split())) if said else "protects hardly" not in out


def test_a_model_that_nobody_doubts_takes_thirty_lines(capsys: pytest.CaptureFixture[str]) -> None:
    people(6000).to_csv("people.csv", index=False)
    given = [*GOOD, "--seed", "3", "--colluding", "2", "--servers", "3", "--test-fraction", "0.25"]
    code, out, _ = run(capsys, *given)
    assert code == 0 and "Accuracy to expect" in out and len(out.splitlines()) <= 30


def test_no_limit_on_features_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *GOOD, "--seed", "3", "--features-epsilon", "inf")
    said = "No limit was set on what other servers may learn of features"
    assert code == 0 and said in " ".join(out.split()) and said in Path("report.html").read_text()


def test_settings_are_kept_to_and_noise_below_the_budget_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = outcome(capsys, *GOOD, "--seed", "3", "--penalty", "0.7", "--delta", "1e-5")
    assert found["plan"]["penalty"] == 0.7 and found["privacy"]["delta"] == 1e-5
    masked = outcome(
        capsys, *GOOD, "--seed", "3", "--colluding", "2", "--method", "sums", "--force"
    )
    assert masked["plan"]["colluding"] == 2
    said = refused(capsys, *GOOD, "--seed", "3", "--noise-scale", "0.001", "--force")
    assert "but the budget is epsilon 1" in said
    for option in ("--features-epsilon", "--delta", "--colluding"):
        Path("plan.json").write_text("{}")
        said = refused(capsys, *GOOD, "--plan", "plan.json", option, "1", "--force")
        assert f"{option} must be left out beside --plan" in said


def test_csv_and_parquet_give_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    people().to_parquet("people.parquet")
    people().to_csv("people.csv.gz", index=False)
    models = []
    for name in ("people.csv", "people.parquet", "people.csv.gz"):
        assert (
            run(
                capsys,
                "train",
                name,
                *GOOD[2:],
                *FAST,
                "--out",
                name + ".d",
                "--test-fraction",
                "0.1",
            )[0]
            == 0
        )
        models.append(Path(name + ".d", "model.json").read_bytes())
    assert models[0] == models[1] == models[2]


def test_every_person_their_own_epsilon_and_every_record_its_own_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = ["--ignore", "id", "--epsilon-column", "wish", "--server-column", "hospital"]
    found = outcome(capsys, *GOOD[:4], *DECLARED, *chosen, *FAST, "--test-fraction", "0.2")
    assert [server["name"] for server in found["servers"]] == ["alice", "bob", "carol"]
    assert sum(server["records"] for server in found["servers"]) == found["records"] == 320
    assert found["privacy"]["rows"][0]["epsilon"] == 2.0  # the least protected person
    assert 0 <= found["accuracy"] <= 1 and found["test_records"] == 80
    assert found["label"] == "diagnosis" and found["files"] == {
        "report": "report.html",
        "model": "model.json",
    }


def test_diagnostics_are_asked_for_and_named_as_a_leak(capsys: pytest.CaptureFixture[str]) -> None:
    given = (*GOOD, *FAST, "--test-fraction", "0.25", "--classes", "no,yes")
    code, _, _ = run(capsys, *given)
    page = Path("report.html").read_text()
    assert code == 0 and "How good is it?" not in page and PAGE_LEAK not in page
    assert "Is the model learning?" not in page and "Accuracy, server by server" not in page
    code, out, _ = run(capsys, *given, "--diagnostics", "--force")
    page = Path("report.html").read_text()
    assert code == 0 and "Is the model learning?" in page and "Accuracy, server by server" in page
    assert PAGE_LEAK in page and PAGE_LEAK in " ".join(out.split())
    found = outcome(capsys, *given, "--diagnostics", "--force")
    assert found["leaks"] == [PAGE_LEAK]
    assert load_model("model.json").provenance["leaks"] == []  # the model is the same
    assert "belongs to a table" in refused(capsys, "train", "study.toml", "--diagnostics")


def test_without_test_records_no_accuracy_is_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *GOOD, *FAST)
    assert code == 0 and "--test-fraction" in out and "released model" not in out
    assert outcome(capsys, *GOOD, *FAST, "--force")["accuracy"] is None


def test_what_is_expected_has_no_middle_beside_a_measured_accuracy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    people(100).to_csv("test.csv", index=False)
    given = [*GOOD, "--method", "sums", "--seed", "3"]
    interval = r"\d+% to \d+%, an 80% interval"
    line = "Accuracy to expect, by what was released alone: "
    for more, shown in (
        ([], rf"\d+% \({interval}\)\."),
        (["--test", "test.csv"], rf"{interval}\."),
    ):
        code, out, _ = run(capsys, *given, *more, "--force")
        summary = " ".join(out.split())
        assert code == 0 and re.search(f"{line}{shown}", summary)
        assert ("released model" in summary) is bool(more)


def test_a_file_of_test_records(capsys: pytest.CaptureFixture[str]) -> None:
    people(100).to_csv("test.csv", index=False)
    assert outcome(capsys, *GOOD, *FAST, "--test", "test.csv")["test_records"] == 100
    pd.DataFrame({"age": [20], "sex": ["male"], "bmi": [20], "diagnosis": ["unheard"]}).to_csv(
        "odd.csv", index=False
    )
    sentence = refused(capsys, *GOOD, *FAST, "--force", "--test", "odd.csv")
    assert "row 1" in sentence and "'diagnosis'" in sentence and "unheard" not in sentence


def test_nothing_is_taken_from_the_data_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = refused(
        capsys, "train", "people.csv", "--label", "diagnosis", *ROLES, "--range", "age=0:99"
    )
    assert "'sex', 'bmi'" in sentence and "'age'" not in sentence
    assert (
        "--range bmi=LOW:HIGH" in sentence
        and "--levels sex=A,B" in sentence
        and "--from-data" in sentence
    )


def test_what_is_taken_from_the_data_is_named_as_a_leak_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(
        capsys,
        "train",
        "people.csv",
        "--label",
        "diagnosis",
        *ROLES,
        "--range",
        "age=0:120",
        "--from-data",
        *FAST,
    )
    said = "the levels of 'sex', 'bmi' were taken from the data and are stored in the model, also"
    assert code == 0
    model = load_model("model.json")
    for text in (
        " ".join(out.split()),
        Path("report.html").read_text().replace("&#x27;", "'").replace("&#39;", "'"),
        str(model.provenance),
    ):
        assert said in text.replace('\\"', "").replace("\\'", "'")
    assert model.encoder is not None and model.encoder["attributes"][0] == {
        "kind": "number",
        "name": "age",
        "range": [0.0, 120.0],
    }


def test_declared_classes_are_no_leak(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(capsys, *GOOD, *FAST)["leaks"] == [CLASSES_LEAK]
    found = outcome(capsys, *GOOD, *FAST, "--classes", "yes,no", "--force")
    assert found["leaks"] == [] and found["classes"] == ["yes", "no"]
    assert "row" in refused(capsys, *GOOD, *FAST, "--classes", "yes,maybe", "--force")
    found = outcome(capsys, *GOOD, *FAST, "--classes", "yes,no,maybe", "--force")
    assert found["leaks"] == [] and found["classes"] == ["yes", "no", "maybe"]  # nobody's, too
    assert "--classes" in refused(capsys, *GOOD, *FAST, "--classes", "yes", "--force")


def test_numbers_as_labels_and_three_classes(capsys: pytest.CaptureFixture[str]) -> None:
    table = people()
    table["diagnosis"] = np.where(table["age"] > 60, 10.0, np.where(table["age"] > 40, 9.0, 2.0))
    table.to_csv("people.csv", index=False)
    found = outcome(capsys, *GOOD, *FAST, "--test-fraction", "0.5")
    assert found["classes"] == [2, 9, 10]
    assert outcome(capsys, *GOOD, *FAST, "--force", "--classes", "10,9,2", "--test", "people.csv")[
        "classes"
    ] == [10, 9, 2]


def test_declarations_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *GOOD, *FAST, "--out", "first")[0] == 0
    encoder = json.loads(Path("first/model.json").read_text())["encoder"]
    Path("attributes.json").write_text(json.dumps(encoder))
    assert (
        run(capsys, *GOOD[:4], *ROLES, "--encoder", "attributes.json", *FAST, "--out", "second")[0]
        == 0
    )
    assert Path("first/model.json").read_bytes() == Path("second/model.json").read_bytes()
    for content, reason in (
        ("{", "not JSON"),
        ("[]", "keys"),
        ('{"attributes": [{"kind": "text"}]}', "kind"),
    ):
        Path("attributes.json").write_text(content)
        assert reason in refused(capsys, *GOOD[:4], *ROLES, "--encoder", "attributes.json")
    assert "no such file" in refused(capsys, *GOOD[:4], *ROLES, "--encoder", "none.json")


def test_existing_files_are_kept_unless_forced(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.json").write_text("mine")
    assert "--force" in refused(capsys, *GOOD, *FAST)
    assert (
        run(capsys, *GOOD, *FAST, "--force")[0] == 0
        and load_model("model.json").label == "diagnosis"
    )
    assert (
        run(capsys, *GOOD, *FAST, "--out", "new/deep", "--model", "m.json", "--report", "r.html")[0]
        == 0
    )
    assert sorted(path.name for path in Path("new/deep").iterdir()) == ["m.json", "r.html"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["train", "none.csv", *GOOD[2:]], "no such file"),
        (["train", "people.txt", *GOOD[2:]], ".csv"),
        (["train", "study.toml"], "cannot read study.toml"),
        (["train", "people.csv", "--label", "illness", "--from-data"], "'illness'"),
        (["train", "people.csv", "--label", "id", "--from-data"], "50 classes"),
        ([*GOOD, "--ignore", "height"], "'height'"),
        ([*GOOD, "--ignore", "diagnosis"], "it is the label"),
        (
            [
                "train",
                "people.csv",
                "--label",
                "diagnosis",
                *ROLES,
                "--ignore",
                "age",
                "--ignore",
                "sex",
                "--ignore",
                "bmi",
            ],
            "predict from",
        ),
        ([*GOOD, "--range", "height=1:2"], "'height'"),
        ([*GOOD, "--range", "age=1:2"], "'age'"),
        ([*GOOD, "--range", "diagnosis=1:2"], "'diagnosis'"),
        ([*GOOD, "--range", "age"], "age=18:100"),
        ([*GOOD, "--range", "id=low:high"], "age=18:100"),
        ([*GOOD, "--range", "id=3:1"], "exceed"),
        ([*GOOD, "--levels", "sex"], "sex=female,male"),
        ([*GOOD[:4], *ROLES, *DECLARED[:4], "--levels", "sex=female,other"], "row"),
        ([*GOOD[:4], *ROLES, "--range", "sex=0:1", *DECLARED[:4]], "'sex'"),
        ([*GOOD, "--epsilon", "0"], "epsilon"),
        ([*GOOD, "--epsilon", "nan"], "epsilon"),
        ([*GOOD, "--servers", "0"], "--servers"),
        ([*GOOD, "--servers", "401"], "401"),
        ([*GOOD, "--rounds", "0"], "rounds"),
        ([*GOOD, "--topology", "cube"], "'cube'"),
        ([*GOOD, "--links", "5"], "links"),
        ([*GOOD, "--penalty", "-1"], "penalty"),
        ([*GOOD, "--noise-decay", "1.2"], "--noise-decay"),
        ([*GOOD, "--objective-noise", "loud"], "'loud'"),
        ([*GOOD, "--norm-bound", "0"], "--norm-bound"),
        ([*GOOD, "--test-fraction", "1"], "--test-fraction"),
        ([*GOOD, "--test-fraction", "1e-4"], "--test-fraction"),
        ([*GOOD, "--test-fraction", "0.1", "--test", "people.csv"], "comes from one place"),
        ([*GOOD, "--test", "none.csv"], "none.csv"),
        ([*GOOD, "--server-column", "hospital", "--servers", "4"], "be 3"),
        ([*GOOD, "--server-column", "diagnosis"], "one part"),
        ([*GOOD, "--epsilon-column", "id"], "positive"),
        ([*GOOD, "--epsilon-column", "sex"], "'sex'"),
        ([*GOOD, "--epsilon-column", "hospital"], "numbers"),
        ([*GOOD, "--out", "people.csv"], "not a folder"),
        ([*GOOD, "--model", "x", "--report", "x"], "different names"),
        ([*GOOD, "--model", "."], "folder"),
    ],
)
def test_refuses_in_one_sentence(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(capsys, *arguments)


def test_a_column_of_identifiers_names_no_servers(capsys: pytest.CaptureFixture[str]) -> None:
    people(1_001).to_csv("people.csv", index=False)
    assert "2 to 1,000 servers, got 1,001" in refused(capsys, *GOOD, "--server-column", "id")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty"),
        ("age,diagnosis\n", "at least one record"),
        ("age,diagnosis\n30\n", "line 2"),
        ("age,age\n1,2\n", "'age'"),
        (
            "age,diagnosis\n30,SECRET\n,SECRET2\n",
            "'age' must have a value in every row, got none in row 2 (line 3 of odd.csv)",
        ),
        (
            "age,diagnosis\n30,SECRET\n40,?\n",
            "'diagnosis' must have a value in every row, got none in row 2",
        ),
        ("age,diagnosis\n30,SECRET\n40,SECRET\n", "two classes"),
        ("age,diagnosis\n30,1\n40,nan\n50,0\n", "row 2"),
        ("age,diagnosis\n30,1\n40,inf\n50,0\n", "row 2"),
        ("age,diagnosis\n30,a\n40,b\n", "10"),
        ("age,diagnosis\n" + "".join(f"1,SECRET{i}\n" for i in range(51)), "51 distinct"),
        ("age,diagnosis\n1,\x00\n", "NUL"),
    ],
)
def test_bad_tables_name_the_place_and_never_a_label(
    content: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("odd.csv").write_text(content)
    sentence = refused(capsys, "train", "odd.csv", "--label", "diagnosis", "--from-data")
    assert reason in sentence and "SECRET" not in sentence


def test_holding_back_a_whole_server_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    table = people(40)
    table["hospital"] = ["alice"] * 39 + ["bob"]
    table.to_csv("people.csv", index=False)
    much = ["--from-data", "--test-fraction", "0.9", "--seed", "1"]
    assert "server 'bob'" in refused(
        capsys, "train", "people.csv", "--label", "sex", "--server-column", "hospital", *much
    )


def test_the_defaults_in_the_help_are_the_plan_s() -> None:
    plan, parameters = TrainingPlan(), inspect.signature(train_study, eval_str=True).parameters
    for name in (
        "rounds",
        "penalty",
        "regularization",
        "objective_bound",
        "objective_noise",
        "noise_scale",
        "noise_decay",
    ):
        value = getattr(plan, name)
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        assert parameters[name].default.help.endswith(f"[default: {shown}]"), name


def test_the_defaults_are_the_library_s() -> None:
    defaults, parameters = (
        PDMLClassifier(),
        inspect.signature(train_table, eval_str=True).parameters,
    )
    assert parameters["epsilon"].default.default == defaults.epsilon
    assert parameters["norm_bound"].default.default == Encoding().norm_bound
    assert parameters["servers"].default.help.endswith(f"[default: {SERVERS}]")


class TestWhichIsTrained:
    """One name, two commands: the argument says which, wherever it stands."""

    @pytest.mark.parametrize("first", [True, False])
    def test_each_has_its_own_options(
        self, first: bool, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name, own, others in (
            ("people.csv", ["--label", "--test"], ["--job", "--node"]),
            ("study.toml", ["--job", "--node"], ["--label", "--test"]),
        ):
            code, out, _ = run(capsys, "train", *sorted([name, "--help"], reverse=first))
            assert code == 0 and all(option in out for option in [*own, "--rounds", "--json"])
            assert not any(f"  {option} " in out for option in others)

    def test_the_help_of_both_names_both(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, "train", "--help")
        assert code == 0 and "pdml train people.csv --label" in out
        assert "pdml train study.toml --engine nodes" in out
        assert run(capsys, "train")[0] == 2

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["study.toml", "--label", "x"], "--label belongs to a table (pdml train people.csv"),
            (["--diagnostics", "study.toml"], "--diagnostics belongs to a table"),
            (["--job", "study.toml", "people.csv"], "--job belongs to a study"),
            (["people.csv", "--data=a=b"], "--data belongs to a study (pdml train study.toml"),
        ],
    )
    def test_options_of_the_other_are_refused(
        self, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert reason in refused(capsys, "train", *arguments)

    def test_an_option_s_value_is_not_what_is_trained(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, _, err = run(capsys, "train", "--label", "study.toml", "people.csv", "--from-data")
        assert code == 1 and "has no column 'study.toml'" in err

    @pytest.mark.parametrize("arguments", [["--label", "x"], ["--foo"], ["people.csv", "--foo"]])
    def test_what_is_not_understood_is_usage(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, err = run(capsys, "train", *arguments)
        assert code == 2 and out == "" and "Error: " in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_behind(
    number: signal.Signals, code: int, folder: Path
) -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [*PDML, *GOOD, "--rounds", "20000", "--out", "results"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=env)
    os.close(theirs)
    seen = b""
    while not re.search(rb"[1-9]\d*/20000", seen):  # the bar is moving: it trains
        seen += os.read(ours, 65536)
    child.send_signal(number)
    out, _ = child.communicate(timeout=60)
    seen = os.read(ours, 65536)
    os.close(ours)
    assert child.returncode == code and out == b""
    assert b"; nothing was written" in seen and b"Traceback" not in seen
    assert [path.name for path in folder.rglob("*")] == ["people.csv"]


def test_long_trainings_leave_a_line_now_and_then_in_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdml.cli.render.console._LOG_EVERY", -1.0)
    code, out, err = run(capsys, *GOOD, *FAST, "--json")
    assert (
        code == 0
        and json.loads(out)
        and err.splitlines() == [f"Training: round {t} of 5" for t in range(1, 6)]
    )
