"""`pdml predict`: the model's file alone says how records become features and features become
classes.
"""

import csv
import gzip
import io
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from estimators import make_classifier
from running import PDML, run

from pdml import load_model
from pdml.encoding.encoder import Encoder
from pdml.model.model import Features
from pdml.tables import read_table


def people(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        {"age": rng.integers(18, 90, rows), "town": rng.choice(["Öhringen", "Ulm", "Aalen"], rows)}
    )
    table["ill"] = np.where(table["age"] > 50, "ja", "nein")
    return table


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code, out, err = run(capsys, *arguments)
    assert (
        (code, out) == (1, "")
        and re.fullmatch(r"pdml: [^\n]+\n", err)
        and "mistake in pdml" not in err
    ), err
    return err


@pytest.fixture(autouse=True)
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    declared = ["--range", "age=18:100", "--levels", "town=Aalen,Ulm,Öhringen"]
    assert (
        run(
            capsys,
            "train",
            "people.csv",
            "--label",
            "ill",
            *declared,
            "--rounds",
            "5",
            "--seed",
            "1",
            "--epsilon",
            "3",
        )[0]
        == 0
    )
    return tmp_path


def test_equals_the_model_in_process(capsys: pytest.CaptureFixture[str]) -> None:
    model = load_model("model.json")
    assert model.encoder is not None
    x = Features(Encoder.from_dict(model.encoder).read(read_table("people.csv")))
    code, out, err = run(capsys, "predict", "model.json", "people.csv", "--proba")
    assert (code, err) == (0, "")
    header, *rows = csv.reader(io.StringIO(out))
    assert header == ["prediction", "probability ja", "probability nein"]
    assert [row[0] for row in rows] == model.predict(x).tolist()
    np.testing.assert_array_equal(
        np.array([row[1:] for row in rows], dtype=float), model.predict_proba(x)
    )


def test_needs_no_label_and_passes_over_other_columns(capsys: pytest.CaptureFixture[str]) -> None:
    expected = run(capsys, "predict", "model.json", "people.csv")[1]
    table = people()[["town", "age"]]
    table["shoe size"] = "unknown"
    table.to_parquet("others.parquet")
    assert run(capsys, "predict", "model.json", "others.parquet")[1] == expected


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.parquet"])
def test_writes_files_of_every_kind(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = run(capsys, "predict", "model.json", "people.csv", "--proba")[1]
    code, out, _ = run(capsys, "predict", "model.json", "people.csv", "--proba", "--out", name)
    assert code == 0 and out == f"300 predictions  {name}\n"
    if name == "p.parquet":
        assert pd.read_parquet(name).to_csv(index=False) == expected
    else:
        data = Path(name).read_bytes()
        assert (gzip.decompress(data) if name.endswith("gz") else data).decode() == expected
    assert "--force" in refused(capsys, "predict", "model.json", "people.csv", "--out", name)
    assert run(capsys, "predict", "model.json", "people.csv", "--out", name, "--force")[0] == 0


def test_reads_a_pipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = run(capsys, "predict", "model.json", "people.csv", "--proba")[1]
    with open("people.csv") as records:
        answer = subprocess.run(
            [*PDML, "predict", "model.json", "-", "--proba"],
            stdin=records,
            capture_output=True,
            text=True,
        )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, expected, "")
    nothing = subprocess.run(
        [*PDML, "predict", "model.json", "-"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert (
        nothing.stderr
        == "pdml: standard input must begin with a line of column names, got an empty file\n"
    )


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "predict", "model.json", "people.csv", "--json", "--proba")
    found = json.loads(out)
    assert (
        code == 0
        and found["label"] == "ill"
        and found["classes"] == ["ja", "nein"]
        and found["records"] == 300
    )
    assert len(found["columns"]["prediction"]) == len(found["columns"]["probability ja"]) == 300
    found = json.loads(
        run(capsys, "predict", "model.json", "people.csv", "--json", "--out", "p.csv")[1]
    )
    assert found["file"] == "p.csv" and "columns" not in found and Path("p.csv").exists()


def test_a_model_of_the_estimator_without_an_encoder(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    fitted = make_classifier(n_servers=3, rounds=3, random_state=1).fit(frame, frame["a"] > 0)
    fitted.model_.save("plain.json")
    frame[["b", "a"]].to_csv("plain.csv", index=False)
    assert run(capsys, "predict", "plain.json", "plain.csv")[1].split()[1:] == list(
        map(str, fitted.predict(frame))
    )
    fitted.fit(frame.to_numpy(), frame["a"] > 0).model_.save("nameless.json")
    assert "not trained on a table" in refused(capsys, "predict", "nameless.json", "plain.csv")


def test_refuses_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    Path("short.csv").write_text("age\n30\n")
    Path("new.csv").write_text("age,town\n30,Ulm\n31,Bonn\n")
    Path("hole.csv").write_text("age,town\n30,Ulm\n,Ulm\n")
    Path("broken.json").write_text('{"format": "pdml-model/1"')
    Path("other.json").write_text("{}")
    card = json.loads(Path("model.json").read_text())
    Path("damaged.json").write_text(json.dumps({**card, "encoder": {"attributes": []}}))
    card["encoder"]["attributes"][1]["levels"] = ["Ulm", "Aalen"]
    Path("narrow.json").write_text(json.dumps(card))
    Path("ulm.csv").write_text("age,town\n30,Ulm\n")
    before = sorted(path.name for path in Path().iterdir())
    for model, data, reason in (
        ("none.json", "people.csv", "none.json"),
        ("people.csv", "people.csv", "people.csv"),
        ("broken.json", "people.csv", "broken.json"),
        ("other.json", "people.csv", "other.json"),
        ("damaged.json", "people.csv", "attributes"),
        ("narrow.json", "ulm.csv", "features"),
        ("model.json", "none.csv", "no such file"),
        ("model.json", "people.txt", ".csv"),
        ("model.json", "short.csv", "lacks columns the model needs: 'town'"),
        ("model.json", "new.csv", "'Bonn' in row 2 (line 3 of new.csv)"),
        ("model.json", "hole.csv", "'age' must have a value in every row, got none in row 2"),
    ):
        assert reason in refused(capsys, "predict", model, data, "--out", "p.csv")
    assert "'p.txt'" in refused(capsys, "predict", "model.json", "people.csv", "--out", "p.txt")
    assert "does not exist" in refused(
        capsys, "predict", "model.json", "people.csv", "--out", "none/p.csv"
    )
    assert sorted(path.name for path in Path().iterdir()) == before


def test_a_reader_that_left_is_no_error(folder: Path) -> None:
    people(20_000).to_csv("many.csv", index=False)
    child = subprocess.Popen(
        [*PDML, "predict", "model.json", "many.csv", "--proba"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline().startswith(b"prediction")
    child.stdout.close()
    assert child.stderr.read() == b"" and child.wait() in (0, 1)
    child.stderr.close()


def test_names_a_terminal_cannot_show_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    people().replace({"ja": "größer"}).to_csv("p.csv", index=False)
    assert (
        run(
            capsys, "train", "p.csv", "--label", "ill", "--from-data", "--rounds", "2", "--out", "o"
        )[0]
        == 0
    )
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    answer = subprocess.run(
        [*PDML, "predict", "o/model.json", "p.csv", "--proba"], env=env, capture_output=True
    )
    assert (
        answer.returncode == 0
        and answer.stderr == b""
        and b"probability gr\\xf6\\xdfer" in answer.stdout
    )
