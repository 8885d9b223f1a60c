"""`pdml verify` as people use it: words, exit codes, JSON."""

import json

import numpy as np
import pytest
from consortium import SUMS
from results import SHORT, Studied, counted
from running import run

from pdml.pages.verifier_page import verifier_page
from pdml.study.schema import template


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    made = Studied(tmp_path_factory.mktemp("ended"), plan=SHORT)
    made.run()
    made.write(made.folder / "result")
    made.write(made.folder / "denied", bob={"dataset": "0" * 64})
    (made.folder / "study.toml").write_text("# as agreed\n" + template.render(made.study))
    yield made
    made.close()


def test_a_result_is_verified_in_two_lines(ended, capsys):
    code, out, err = run(capsys, "verify", str(ended.folder / "result"))
    assert (code, err) == (0, "")
    assert f"hash {ended.study.hash}: is this the one you agreed on?" in out
    assert "Verified" in out and "alice, bob, carol, dave" in out


def test_the_study_you_agreed_on_is_compared(ended, capsys, tmp_path):
    result, study = str(ended.folder / "result"), str(ended.folder / "study.toml")
    code, out, _ = run(capsys, "verify", result, "--study", study)
    assert code == 0 and f"hash {ended.study.hash}: yours" in out
    seen, unseen = out.split("Not checked:")
    for part in (
        "study.toml",
        "statements/",
        "model.json",
        "report.html",
        "evidence/",
        "agreed on",
    ):
        assert part in seen
    assert "agreed on" not in unseen and "that it drew its noise" in unseen
    code, out, _ = run(capsys, "verify", result)
    assert "agreed on" in out.split("Not checked:")[1]
    summary = json.loads(run(capsys, "verify", result, "--json")[1])
    assert len(summary["checked"]) == 7 and len(summary["not_checked"]) == 2
    text = template.render(ended.study).replace("Who is at risk?", "Who pays?")
    (tmp_path / "other.toml").write_text(text)
    code, out, err = run(capsys, "verify", result, "--study", str(tmp_path / "other.toml"))
    assert code == 1 and err.startswith("pdml: the result is refused: study.toml is the study ")
    assert ": not yours" in out and "Verified" not in out


def test_a_refused_result_says_why_and_by_whom(ended, capsys):
    code, out, err = run(capsys, "verify", str(ended.folder / "denied"))
    assert code == 1 and err.count("\n") == 1 and "Traceback" not in err
    assert "- bob states a data set with 0 releases before this job, but alice says" in out


def test_a_page_that_cannot_be_checked_needs_leave(capsys, tmp_path):
    """One unit of the last digit in one weight, as another machine may compute it."""
    made = Studied(tmp_path, plan=SUMS)
    made.run()
    made.write(tmp_path / "result")
    made.close()
    model, page = tmp_path / "result" / "model.json", tmp_path / "result" / "report.html"
    values = json.loads(model.read_bytes())
    largest = np.abs([*values["coefficients"][0], *values["intercepts"]]).max()
    values["coefficients"][0][0] += 2.0 ** (np.ceil(np.log2(largest)) - 24)
    model.write_bytes(json.dumps(values, indent=1, ensure_ascii=False).encode())
    page.write_text("All is well.")
    code, out, err = run(capsys, "verify", str(tmp_path / "result"))
    assert code == 1 and "Verified" not in out and "--allow-unchecked" in err
    code, out, err = run(capsys, "verify", str(tmp_path / "result"), "--allow-unchecked")
    assert (code, err) == (0, "")
    seen, unseen = out.split("Not checked:")
    assert "compared but for last digits" in seen and "report.html is what they" not in seen
    assert "the last digits of model.json" in unseen and "- report.html: it is not the" in unseen


def test_machines_read_the_same(ended, capsys):
    for name, good in (("result", True), ("denied", False)):
        code, out, _ = run(capsys, "verify", str(ended.folder / name), "--json")
        summary = json.loads(out)
        assert (code == 0) is summary["ok"] is good
    assert {problem["kind"] for problem in summary["problems"]} == {"statement"}
    assert summary["problems"][0]["servers"] == ["bob", "alice"]


def test_what_members_measured_is_verified_with_it(ended, capsys, tmp_path):
    result = str(ended.folder / "result")
    files = [counted(ended, name, tmp_path / f"{name}.json") for name in ("alice", "bob")]
    each = [part for file in files for part in ("--evaluation", str(file))]
    code, out, err = run(capsys, "verify", result, *each)
    assert (code, err) == (0, "") and "Verified" in out and "200 records" in out
    assert "bob signed for 100 records, counted once: epsilon" in out
    code, out, _ = run(capsys, "verify", result, *each, "--json")
    assert json.loads(out)["evaluation"]["records"] == 200
    counted(ended, "bob", files[1], model="0" * 64)
    code, out, err = run(capsys, "verify", result, *each)
    assert code == 1 and err.startswith("pdml: the files must be evaluations of one model")


def test_no_folder_no_traceback(capsys, tmp_path):
    code, out, err = run(capsys, "verify", str(tmp_path / "nothing"))
    assert (code, out) == (1, "") and "must be the folder of a result" in err


def test_a_page_is_written_once_and_says_where(capsys, tmp_path):
    path = tmp_path / "verify.html"
    code, out, _ = run(capsys, "verify", "--page", str(path))
    assert code == 0 and path.read_bytes() == verifier_page()
    assert f"wrote {path}: open it in a browser" in out
    path.write_text("mine")
    code, _, err = run(capsys, "verify", "--page", str(path))
    assert code == 1 and "exists already" in err and path.read_text() == "mine"
    code, out, _ = run(capsys, "verify", "--page", str(path), "--force", "--json")
    assert code == 0 and json.loads(out) == {"page": str(path)}
    assert path.read_bytes() == verifier_page()


def test_a_page_goes_without_a_result_and_a_check_with_one(capsys, tmp_path):
    page = str(tmp_path / "verify.html")
    code, _, err = run(capsys, "verify", "result", "--page", page)
    assert code == 1 and "give it without a result" in err
    code, _, err = run(capsys, "verify")
    assert code == 1 and "give the folder of a result" in err
    assert list(tmp_path.iterdir()) == []
