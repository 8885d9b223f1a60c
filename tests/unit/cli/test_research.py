"""`pdml reproduce`: figures in a folder, the paper's sentences with a verdict, and one sentence for
what cannot be.
"""

import json
import re
from pathlib import Path

import pytest
from running import run

from pdml.research.paper import convergence_figure

SHORT = ["--seeds", "2", "--jobs", "1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_writes_the_figure_and_says_whether_the_claim_holds(
    capsys: pytest.CaptureFixture[str], data_dir: Path, folder: Path
) -> None:
    code, out, err = run(capsys, "reproduce", "fig3a", *SHORT, "--out", "figures")
    assert code == 0
    assert all(
        line.startswith("Reproducing fig3a: job ") for line in err.splitlines()
    )  # on a slow machine: how far it is
    assert "Figure 3(a)" in out and "DOES NOT HOLD" not in out
    assert re.search(r"^holds   \S", out, re.MULTILINE)  # the verdict stands apart from the claim
    assert sorted(path.name for path in (folder / "figures").iterdir()) == [
        "fig3a.csv",
        "fig3a.png",
        "fig3a.svg",
    ]
    assert "fig3a.png" in out


def test_a_claim_that_fails_is_exit_code_1_and_json_says_which(
    capsys: pytest.CaptureFixture[str], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        convergence_figure, "VANISHED", 1e-30
    )  # more agreement than floating point has
    code, out, _ = run(capsys, "reproduce", "fig3a", *SHORT, "--json")
    assert code == 1
    (found,) = json.loads(out)["outcomes"]
    assert [claim["holds"] for claim in found["claims"]] == [False]
    assert found["rows"][0]["curve"] == "Phase 1 only"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fig9"], "NAME must be one of table1, fig3a"),
        (["all", "fig3a"], "or all alone, got 'all'"),
    ],
)
def test_unknown_names_are_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    code, out, err = run(capsys, "reproduce", *arguments)
    assert (code, out) == (1, "")
    assert sentence in " ".join(err.split()) and "Traceback" not in err


def test_a_file_in_the_way_is_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "here").write_text("mine")
    code, out, err = run(capsys, "reproduce", "fig3a", "--out", "here")
    assert (code, out) == (1, "")
    assert "--out must be a folder" in err
    assert (folder / "here").read_text() == "mine"


@pytest.mark.parametrize("arguments", [[], ["fig3a", "--seeds", "1"], ["fig3a", "--jobs", "-1"]])
def test_what_is_not_understood_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, _, err = run(capsys, "reproduce", *arguments)
    assert code == 2 and err


def test_without_data_it_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("PDML_DATA_DIR", str(folder / "nowhere"))
    convergence_figure._records.cache_clear()
    code, out, err = run(capsys, "reproduce", "fig3a", *SHORT)
    assert (code, out) == (1, "")
    assert "PDML_DATA_DIR" in err and "Traceback" not in err
