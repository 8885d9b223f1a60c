"""Whether a run passes is about the code: not about luck, and not about who started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parents[3]


def test_examples_are_the_same_on_every_run() -> None:
    code = (
        "from hypothesis import settings; import conftest; now = settings(max_examples=7);"
        "print(now.derandomize, now.deadline, now.database);"
        "settings.load_profile('deep'); print(settings().derandomize, settings().max_examples)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True None None\nFalse 1000\n"
    assert settings().deadline is None


def test_an_interrupt_arrives_where_it_was_ignored() -> None:
    """As under nohup, in a script's background, and on many machines for CI."""
    test = "tests/unit/test_files.py::TestTogether::test_a_signal_waits_until_all_are_renamed"
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", ignoring, "-m", "pytest", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_children_can_be_interrupted() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT
