"""The measurement of the service under load runs, and its counts agree with the database."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = (*("-m", "benchmarks.collect", "sqlite"), *("--seconds", "0.5", "--repeats", "1"))


@pytest.mark.slow
def test_the_service_is_measured_in_both_ways_of_sending():
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, *COMMAND], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines()[2:]]
    assert rows == [["sqlite", "single"], ["sqlite", "batched"]]
