"""`pdml export`: the file's ending says who is to run it."""

import json
from pathlib import Path

import joblib
import numpy as np
import onnxruntime
import pytest
from estimators import make_classifier
from running import run

from pdml import load_model
from pdml.research.datasets import twonorm


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.chdir(tmp_path)
    x, y = twonorm(200, np.random.default_rng(0))
    make_classifier(n_servers=2, rounds=2, random_state=0).fit(x, y).model_.save("model.json")
    return x


def test_both_files_predict_what_the_model_predicts(capsys, rows):
    ours = load_model("model.json").predict_proba(rows)
    for name in ("model.onnx", "model.joblib"):
        code, out, err = run(capsys, "export", "model.json", "--out", name)
        assert (code, out, err) == (0, f"{Path(name).stat().st_size:,} bytes  {name}\n", "")
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    (theirs,) = session.run(["probabilities"], {"rows": rows})
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-12)
    theirs = joblib.load("model.joblib").predict_proba(rows)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-12)


def test_json_and_an_existing_file(capsys):
    Path("model.onnx").write_bytes(b"mine")
    code, _, err = run(capsys, "export", "model.json", "--out", "model.onnx")
    assert code == 1 and "model.onnx exists already: --force overwrites it" in err
    given = ("export", "model.json", "--out", "model.onnx", "--force", "--json")
    code, out, _ = run(capsys, *given)
    assert code == 0
    assert json.loads(out) == {"file": "model.onnx", "bytes": Path("model.onnx").stat().st_size}


def test_another_ending_is_refused(capsys):
    code, out, err = run(capsys, "export", "model.json", "--out", "model.pmml")
    assert (code, out) == (1, "") and not Path("model.pmml").exists()
    assert (
        err == "pdml: the file to export to must end in .onnx, .joblib or .html, got 'model.pmml'\n"
    )


def test_a_page_asks_what_the_model_declares(capsys):
    Path("people.csv").write_text("age,ill\n" + "\n".join(f"{k},{k % 2}" for k in range(60)))
    output = ("--label", "ill", "--range", "age=0:100:50:20", "--servers", "2", "--rounds", "2")
    code, _, err = run(capsys, "train", "people.csv", *output, "--seed", "1", "--out", "trained")
    assert code == 0, err
    code, out, err = run(capsys, "export", "trained/model.json", "--out", "predict.html")
    assert (code, err) == (0, "") and out.endswith("bytes  predict.html\n")
    page = Path("predict.html").read_text("utf-8")
    assert "Predict ill" in page and "A number from <data" in page
    given = ("export", "trained/model.json", "--out", "predict.html", "--language", "de")
    code, _, err = run(capsys, *given, "--force")
    assert (code, err) == (0, "")
    page = Path("predict.html").read_text("utf-8")
    assert "Vorhersage: ill" in page and "Eine Zahl von <data" in page


def test_a_page_of_a_model_without_questions_is_refused(capsys):
    code, out, err = run(capsys, "export", "model.json", "--out", "predict.html")
    assert (code, out) == (1, "") and not Path("predict.html").exists()
    assert err.startswith("pdml: a page asks a person for declared answers, and this model")


def test_words_of_a_study_are_for_pages(capsys):
    given = ("export", "model.json", "--out", "model.onnx", "--study", "study.toml")
    code, _, err = run(capsys, *given)
    assert (code, err) == (1, "pdml: --study must be left out: it is for an .html file\n")
