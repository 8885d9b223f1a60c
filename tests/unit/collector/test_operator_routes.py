"""The operator's token: whoever can read the file can see the page."""

import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from pdml.collector.http.operator_routes import operator_token
from pdml.errors import InvalidInput

GOOD = b"a-token-of-sixteen-letters\n"


def _link(path: Path) -> None:
    real = path.with_name("real")
    real.write_bytes(GOOD)
    real.chmod(0o600)
    path.symlink_to(real)


def _text(content: bytes, mode: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)
        path.chmod(mode)

    return write


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_text(b"short\n", 0o600), "at least 16 characters"),
        (_text(GOOD, 0o644), "can be read by others"),
        (_text(GOOD, 0o640), "can be read by others"),
        (_text(GOOD, 0o602), "can be read by others"),
        (_text(b"\xff" * 30, 0o600), "is not text"),
        (_link, "is a symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "is a symbolic link"),
        (lambda path: path.mkdir(), "is a folder, not an ordinary file"),
        (lambda path: os.mkfifo(path, 0o600), "is a pipe, not an ordinary file"),
    ],
)
def test_an_operator_s_token_that_others_could_know_is_refused(
    make: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    make(tmp_path / "token")
    with pytest.raises(InvalidInput, match=reason):
        operator_token(tmp_path / "token", "reports.db")


def test_the_operator_s_token_is_made_for_us_alone(tmp_path: Path) -> None:
    file, first = operator_token(None, str(tmp_path / "reports.db"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (
        operator_token(file, "postgresql://x")
        == (file, first)
        == (file, sha256(file.read_bytes().strip()).hexdigest())
    )
