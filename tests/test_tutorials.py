"""Tutorials run as they stand: every block in one shell, as somebody would paste it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def pasted(tmp_path):
    """Runs a page of the docs in an empty folder; gives the folder and what was printed."""
    commands, work = tmp_path / "bin", tmp_path / "work"
    for folder in (commands, work):
        folder.mkdir()
    calls = {"pdml": "-c 'from pdml.cli import main; main()'", "python3": ""}
    for name, how in calls.items():
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {how} "$@"\n')
        (commands / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}

    def run(page: str) -> tuple[Path, str]:
        text = (DOCS / page).read_text(encoding="utf-8")
        blocks = [
            block if kind == "sh" else f"python3 - <<'PYTHON'\n{block}PYTHON"
            for kind, block in re.findall(r"```(sh|python)\n(.*?)```", text, flags=re.S)
        ]
        script = "trap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n" + "\n".join(blocks)
        done = subprocess.run(
            ["bash", "-euc", script], cwd=work, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return work, done.stdout

    return run


def test_two_nodes(pasted):
    work, shown = pasted("consortium.md")
    assert (work / "result" / "model.json").exists() and (work / "result" / "report.html").exists()
    assert "Verified: signatures, messages, spending, model and page." in shown
    assert "job first: finished, 30 vectors released" in shown
    model = json.loads((work / "result" / "model.json").read_text())
    assert model["provenance"]["noise_source"] == "secure"
    assert model["provenance"]["servers"] == ["alice", "bob"]
    assert model["provenance"]["labels_randomised_by"] == ["operator"] * 2
    assert model["privacy"]["counted"].startswith("all jobs on each data set, as the journals")


def test_a_table(pasted):
    work, shown = pasted("tutorials/table.md")
    first, second = (
        json.loads((work / name / "model.json").read_text()) for name in ("first", "second")
    )
    assert first["privacy"]["source"] == "simulated" and (work / "first" / "report.html").exists()
    assert len((work / "predictions.csv").read_text().splitlines()) == 1001
    (right,) = re.findall(r"(\d+)% are right", shown)
    assert int(right) > 70
    spent = [line for line in second["privacy"]["lines"] if line["adversary"] == "other servers"]
    assert all(line["epsilon"] <= 0.5 for line in spent)


def test_a_question(pasted):
    work, shown = pasted("tutorials/question.md")
    assert shown.count("2,000 of 2,000 reports are stored.") == 2
    assert "Stored by north" in shown and "2,001 reports are frozen in north-data" in shown
    assert "2,000 reports are frozen in south-data" in shown
    model = json.loads((work / "result" / "model.json").read_text())
    assert model["provenance"]["labels_randomised_by"] == ["devices"] * 2
    assert "Line(data='label', adversary='own server'" in shown
