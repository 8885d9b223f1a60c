"""How tests call the command line: in this process, or as a real one."""

import sys

import pytest

from pdml.cli import main

PDML = [sys.executable, "-c", "from pdml.cli import main; main()"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    said = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, said.out, said.err
