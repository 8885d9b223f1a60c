"""The commit-msg hook lets `area: imperative` pass, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest
from commit_subject import complaint

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "subject",
    [
        "node: retry BEGIN until every member acknowledges it",
        "cli, accounting: refuse settings that were taken in silence",
        "docs/guide: bring the tutorial up to date",
        "numerics: process rows in blocks",
        "Merge branch 'main'",
        'Revert "node: retry BEGIN"',
        "study: read format 1\n\nNothing older was released.\n# a comment of git",
    ],
)
def test_a_good_subject_passes(subject: str) -> None:
    assert complaint(subject) == ""


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("", "area: imperative"),
        ("Fix the relay", "area: imperative"),
        ("Node: retry BEGIN", "area: imperative"),
        ("node:retry BEGIN", "area: imperative"),
        ("node: ", "area: imperative"),
        ("node: retried BEGIN", "'retried'"),
        ("node: retrying BEGIN", "'retrying'"),
        ("node: retries BEGIN", "'retries'"),
        ("docs: one folder for each kind of page", "'one'"),
        ("docs: The folder", "'The'"),
        ("node: retry BEGIN.", "full stop"),
        ("node: retry " + "BEGIN " * 20 + "now", "letters"),
        ("node: retry BEGIN\nuntil all acknowledge", "not empty"),
    ],
)
def test_a_bad_subject_is_refused(subject: str, reason: str) -> None:
    assert reason in complaint(subject)


@pytest.mark.parametrize(("subject", "code"), [("node: retry BEGIN", 0), ("Fixed the relay", 1)])
def test_git_calls_the_hook_with_the_file_of_the_message(
    subject: str, code: int, tmp_path: Path
) -> None:
    configuration = (ROOT / ".pre-commit-config.yaml").read_text()
    assert "entry: .venv/bin/python tests/commit_subject.py" in configuration
    assert "stages: [commit-msg]" in configuration
    (tmp_path / "message").write_text(subject)
    command = [sys.executable, "tests/commit_subject.py", str(tmp_path / "message")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == code and bool(ended.stderr) == bool(code)
