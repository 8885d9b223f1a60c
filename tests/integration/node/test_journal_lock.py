"""A journal belongs to one process at a time."""

import subprocess
import sys

import pytest

from pdml.errors import JournalError
from pdml.node.storage.journal import Journal


def test_a_journal_is_held_by_one_process_and_readable_by_its_owner_alone(tmp_path):
    """Opening it again in the same process must not loosen the lock: POSIX drops it when any handle
    of the file is closed.
    """
    path = tmp_path / "node.db"
    journal = Journal(path)
    with pytest.raises(JournalError, match="another process is using it"):
        Journal(path)
    script = (
        "import sys, pathlib; from pdml.node.storage.journal import Journal; "
        "Journal(pathlib.Path(sys.argv[1]))"
    )
    other = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True
    )
    assert other.returncode != 0 and "another process is using it" in other.stderr
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    journal.close()
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
