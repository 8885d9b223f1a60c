"""Whether a file or folder is our own: another user of the machine may have made it beforehand.

What keeps reports, keys and journals is used only if it is ours or root's, is what it should be,
and has one name. Folders above it are the operator's choice: links among them are followed.
"""

import errno
import os
import stat
import time

from pdml.errors import DataError, because
from pdml.files import MOST_BYTES, Name, kind_of

_SIBLINGS = ("", "-wal", "-shm", "-journal")  # what SQLite reads beside a database
_PATIENCE = 1.0  # seconds in which `write_private` takes the second name of a new file away


def check_ours(path: Name, what: str, *, folder: bool = False) -> bool:
    """Refuse what another user made, or can change, at ``path``."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        new = not folder and stat.S_ISREG(status.st_mode) and status.st_nlink > 1
        if not new or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    _refuse_unless_ours(status, path, what, folder)
    return True


def check_database(path: Name, what: str) -> bool:
    """As `check_ours`, for an SQLite database and the files that SQLite reads beside it."""
    present = [check_ours(os.fspath(path) + end, what) for end in _SIBLINGS]
    return present[0]


def open_ours(path: Name, what: str, flags: int = os.O_RDONLY) -> int:
    """Open a file of our own."""
    check_ours(path, what)
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):  # another one by now
            raise DataError(f"{what} {os.fspath(path)} cannot be used: {because(error)}") from None
        raise
    try:
        _refuse_unless_ours(os.fstat(handle), path, what, folder=False)
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_ours(path: Name, what: str, most: int = MOST_BYTES) -> bytes:
    """The bytes of a file of our own that is not endless."""
    with open(open_ours(path, what), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DataError(f"{what} {os.fspath(path)} is longer than {most:,} bytes")
    return data


def _refuse_unless_ours(status: os.stat_result, path: Name, what: str, folder: bool) -> None:
    kind = "folder" if folder else "file"
    is_kind = stat.S_ISDIR if folder else stat.S_ISREG
    if stat.S_ISLNK(status.st_mode):
        why = f"is a symbolic link, which could lead anywhere: name the {kind} itself"
    elif not is_kind(status.st_mode):
        right = "a folder" if folder else "an ordinary file"
        why = f"is {kind_of(status.st_mode)}, not {right}: name another place"
    elif status.st_uid not in (0, os.geteuid()):
        why = (
            f"belongs to another user (number {status.st_uid}; this is {os.geteuid()}), who could "
            "know or change what is in it: name another place, run this as that user, or, if "
            f"you trust what is in it, give it to user {os.geteuid()} with chown"
        )
    elif not folder and status.st_nlink > 1:
        why = (
            f"has {status.st_nlink} names (hard links), and whoever has another one could know or "
            "change what is in it: delete the others (`find -samefile` lists them)"
        )
    else:
        return
    raise DataError(f"{what} {os.fspath(path)} {why}")
