"""`pdml export`: the file's ending says who is to run it."""

import json
from pathlib import Path

import joblib
import numpy as np
import onnxruntime
import pytest
from running import run

from pdml import PDMLClassifier, load_model
from pdml.datasets import twonorm


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.chdir(tmp_path)
    x, y = twonorm(200, np.random.default_rng(0))
    PDMLClassifier(n_servers=2, rounds=2, random_state=0).fit(x, y).model_.save("model.json")
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
    assert err == "pdml: the file to export to must end in .onnx or .joblib, got 'model.pmml'\n"
