"""`pdml evaluate` and `pdml node evaluate|combine-evaluations`: what they say, write and refuse."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joined import join, people
from running import run

from pdml.model.model import Model
from pdml.tables import write_predictions

DECLARED = ["--range", "age=18:100", "--levels", "sex=f,m", "--classes", "no,yes"]


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"age": rng.integers(18, 90, rows), "sex": rng.choice(["f", "m"], rows)})
    found["ill"] = np.where(rng.normal(found["age"], 10) > 50, "yes", "no")
    return found


@pytest.fixture
def trained(tmp_path, monkeypatch, capsys) -> dict:
    monkeypatch.chdir(tmp_path)
    table(400, 1).to_csv("people.csv", index=False)
    table(300, 2).to_csv("others.csv", index=False)
    how = ["--label", "ill", *DECLARED, "--rounds", "5", "--seed", "1", "--test", "others.csv"]
    code, out, err = run(capsys, "train", "people.csv", *how, "--json")
    assert code == 0, err
    return json.loads(out)


def test_train_and_evaluate_use_the_same_code(trained, capsys):
    code, out, _ = run(capsys, "evaluate", "model.json", "others.csv", "--json")
    found = json.loads(out)
    assert code == 0 and found.pop("inside_only") is True and found.pop("label") == "ill"
    assert found == trained["evaluation"]
    assert trained["accuracy"] == found["accuracy"]
    assert trained["majority_accuracy"] == found["majority_accuracy"]
    assert 0.5 < trained["reference_accuracy"] <= 1 and "simulation" in trained["reference"]
    assert "reference" not in Path("model.json").read_text()


def test_without_noise_it_says_that_the_figures_are_a_release(trained, capsys):
    code, out, _ = run(capsys, "evaluate", "model.json", "others.csv", "--page", "e.html")
    said = " ".join(out.split())
    assert code == 0 and "is a release that nothing protects" in said
    assert "Majority-class baseline" in said and "AUC" in said and "predicted yes" in said
    assert "Do not publish this page" in Path("e.html").read_text()
    code, _, err = run(capsys, "evaluate", "model.json", "others.csv", "--page", "e.html")
    assert code == 1 and "e.html exists already" in err
    code, _, err = run(capsys, "evaluate", "model.json", "others.csv", "--epsilon", "1")
    assert code == 1 and "--epsilon must be left out without --private-evaluation" in err


def test_with_noise_it_says_what_that_tells_and_of_whom(trained, capsys):
    noisy = ["--private-evaluation", "--epsilon", "0.5"]
    code, out, _ = run(capsys, "evaluate", "model.json", "others.csv", *noisy, "--json")
    found = json.loads(out)
    assert code == 0 and "inside_only" not in found and found["noise_source"] == "secure"
    assert found["accuracy"]["low"] <= found["accuracy"]["value"] <= found["accuracy"]["high"]
    line = next(
        each
        for each in found["privacy"]["rows"]
        if (each["data"], each["adversary"]) == ("features", "other servers")
    )
    assert line["epsilon"] == pytest.approx(0.5, rel=1e-3)
    assert "whom the model was not trained on" in found["privacy"]["counted"]
    code, out, _ = run(
        capsys, "evaluate", "model.json", "others.csv", *noisy, "--same-people", "--page", "p.html"
    )
    said = " ".join(out.split())
    assert code == 0 and "training and this evaluation together" in said
    assert "a 95% interval" in said
    page = Path("p.html").read_text()
    assert "Do not publish this page" not in page and "has the true label" in page
    code, _, err = run(
        capsys, "evaluate", "model.json", "others.csv", "--private-evaluation", "--delta", "0"
    )
    assert code == 1 and re.search("delta must", err)


def test_the_table_of_a_training_shows_what_to_hold_an_accuracy_against(trained, capsys):
    how = ["--label", "ill", *DECLARED, "--rounds", "5", "--seed", "1", "--test", "others.csv"]
    code, out, _ = run(capsys, "train", "people.csv", *how, "--force", "--diagnostics")
    said = " ".join(out.split())
    assert code == 0 and "released model" in said and "majority-class baseline" in said
    assert "without any protection (simulation)" in said and "recall of no" in said
    page = Path("report.html").read_text()
    assert "How well does it predict?" in page and "which no deployment could run" in page
    code, out, _ = run(capsys, "train", "people.csv", *how, "--force")
    page = Path("report.html").read_text()
    assert "How well does it predict?" not in page, "not without --diagnostics"
    assert "last round’s noise" in page, "coefficients are a function of releases"


def test_members_of_a_consortium_count_and_add_up(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    home = join(tmp_path)
    study = home.study()
    Model(
        classes=study.classes,
        coefficients=np.array([[1.0, 0.5, -0.5]]),
        intercepts=np.zeros(1),
        norm_bound=1.0,
        fit_intercept=True,
        encoder=study.encoder.to_dict(),
        feature_names=study.encoder.feature_names,
        provenance={"study_hash": study.hash},
    ).save("model.json")
    write_predictions("held.csv", people().columns)
    asked = ["model.json", "held.csv", "--label", "diagnosed", "--job", "checked"]
    for name in ("alice", "bob"):
        code, out, err = run(capsys, "node", "evaluate", name, *asked, "--out", f"{name}.json")
        assert code == 0 and "by this node's journal" in " ".join(out.split()), err
        assert Path(f"{name}.json").stat().st_mode & 0o777 == 0o600
    code, out, _ = run(
        capsys, "node", "combine-evaluations", "alice", "alice.json", "bob.json", "--json"
    )
    assert code == 0 and json.loads(out)["records"] == 300
    code, out, _ = run(capsys, "node", "combine-evaluations", "alice", "alice.json", "bob.json")
    assert code == 0 and "300 records" in out
    code, _, err = run(capsys, "node", "evaluate", "alice", *asked[:-2])
    assert code == 2 and "--job" in err
