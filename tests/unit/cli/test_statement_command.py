"""`pdml statement` as people use it: files, words, JSON, and one sentence for what is wrong."""

import json
from pathlib import Path

import pytest
import yaml
from running import run

RESULT = Path(__file__).parents[2] / "vectors" / "result-1"
STUDY = RESULT / "study.toml"


def test_three_files_and_what_is_left_to_fill_in(capsys, tmp_path):
    code, out, err = run(capsys, "statement", str(STUDY), str(RESULT), "--out", str(tmp_path / "s"))
    assert (code, err) == (0, "")
    assert "protects nobody" in out and "was verified" in out and "legal basis" in out
    made = {path.name: path.read_text() for path in (tmp_path / "s").iterdir()}
    assert set(made) == {"statement.html", "statement.md", "registry.yaml"}
    assert made["statement.md"].startswith("# Privacy statement and DPIA (Art. 35 GDPR): ")
    assert yaml.safe_load(made["registry.yaml"])["status"] == "Draft"


@pytest.mark.parametrize(
    ("form", "name"),
    [("html", "statement.html"), ("markdown", "statement.md"), ("registry", "registry.yaml")],
)
def test_one_form_alone(capsys, tmp_path, form, name):
    model = str(RESULT / "model.json")
    given = ("--format", form, "--out", str(tmp_path), "--published", "2026-07-01", "--json")
    code, out, _ = run(capsys, "statement", str(STUDY), model, *given)
    summary = json.loads(out)
    assert code == 0 and [path.name for path in tmp_path.iterdir()] == [name]
    assert summary["files"] == {form: str(tmp_path / name)}
    assert summary["protects_nobody"] is True and summary["verified"] is False
    assert len(summary["rows"]) == 6 and summary["missing"]
    basic = summary["registry"]["deployment"]["basic"]
    assert basic["publication_date"] == "2026-07-01"


def test_a_plan_is_stated_for_several_trainings(capsys, tmp_path):
    given = ("--trainings", "3", "--out", str(tmp_path), "--json")
    code, out, _ = run(capsys, "statement", str(STUDY), *given)
    assert code == 0 and json.loads(out)["trainings"] == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.toml"], "cannot read nothing.toml"),
        ([str(STUDY), "nothing"], "the model 'nothing' cannot be read"),
        ([str(STUDY), "--format", "pdf"], "--format must be one of 'html', 'markdown', 'registry'"),
        ([str(STUDY), "--trainings", "0"], "--trainings must be a whole number >= 1"),
        ([str(STUDY), str(RESULT), "--trainings", "2"], "--trainings must be left out"),
        ([str(STUDY), "--published", "soon"], "--published must be a date such as 2026-07-01"),
    ],
)
def test_what_is_wrong_is_one_sentence(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "statement", *arguments)
    assert (code, out) == (1, "") and err.startswith(f"pdml: {sentence}")
    assert err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_nothing_is_overwritten_unasked(capsys, tmp_path):
    (tmp_path / "statement.md").write_text("mine")
    given = ("statement", str(STUDY), str(RESULT), "--out", str(tmp_path))
    code, _, err = run(capsys, *given)
    assert code == 1 and "exists already" in err
    assert [path.name for path in tmp_path.iterdir()] == ["statement.md"]
    assert run(capsys, *given, "--force")[0] == 0
    assert (tmp_path / "statement.md").read_text() != "mine"
