"""Files that are either the old one or the new one, never half of each, and for whom they are.

`atomic_write` writes what people may read: models, pages, predictions. `write_private` writes what
belongs to its owner alone: keys, reports, invitations. `write_together` makes several appear at
once. `read_file` and `open_file` read what anybody may have put there; `read_ours` and `open_ours`
what nobody else may have made or can change. What keeps reports, keys and journals is used only if
it is ours or root's, is what it should be, and has one name. Folders above it are the operator's
choice: links among them are followed.
"""

import contextlib
import errno
import os
import secrets
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pdml.errors import DataError, InvalidInput, PDMLError, because

Name = str | os.PathLike[str]

MOST_BYTES = 1 << 26  # of a file that is parsed as a whole; tables have limits of their own
_SIBLINGS = ("", "-wal", "-shm", "-journal")  # what SQLite reads beside a database
_PATIENCE = 1.0  # seconds in which `write_private` takes the second name of a new file away
_KINDS = (
    (stat.S_ISREG, "an ordinary file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: True, "a device"),
)


def open_file(path: Name) -> BinaryIO:
    """Open an ordinary file to read it; anything else is refused at once."""
    _refuse_unless_ordinary(os.stat(path).st_mode)  # before it is opened, which may do something
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    file = open(handle, "rb")  # noqa: SIM115 - the caller's
    try:
        _refuse_unless_ordinary(os.fstat(handle).st_mode)  # another one by now
    except OSError:
        file.close()
        raise
    return file


def read_file(path: Name, most: int = MOST_BYTES) -> bytes:
    """The bytes of an ordinary file that is not endless."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(most + 1) if size <= most else b""
    if max(size, len(data)) > most:
        raise OSError(errno.EFBIG, f"it is longer than the {most:,} bytes that it can have")
    return data


def read_named(path: Name, most: int = MOST_BYTES, *, error: type[PDMLError] = DataError) -> bytes:
    """The same of a file that somebody has named, who is told why it cannot be read."""
    try:
        return read_file(path, most)
    except OSError as failure:
        raise error(f"cannot read {os.fspath(path)}: {because(failure)}") from None


def create_private(path: Name) -> None:
    """Make an empty file that its owner alone can read, if there is none. One that exists is not
    opened: closing it again would drop every lock that this process holds on it (POSIX).
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _refuse_unless_ordinary(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {kind_of(mode)}, not an ordinary file")


def kind_of(mode: int) -> str:
    """What something with this ``st_mode`` is, with its article."""
    return next(name for check, name in _KINDS if check(mode))


def atomic_write(path: Name, data: bytes | str) -> None:
    """Replace ``path`` by ``data`` in one step that survives a crash, an interrupt, a full disk.

    Guarantees
    ----------
    - A reader sees the old file or the new one: the bytes reach the disk under a temporary name in
      the same folder before they take the name.
    - The permissions are those of an ordinary new file (0666 less the umask), which the `tempfile`
      module does not give.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise InvalidInput(
            f"cannot write {os.fspath(path)}: it is a folder or a device, not a file"
        )
    _put(path, target, f".pdml-{secrets.token_hex(8)}.tmp", [_bytes(data)], mode=0o666)


def write_private(path: Name, data: bytes | str | Iterable[bytes], *, first: bool = False) -> bool:
    """Write a file that its owner alone can read (0600): whole, on the disk, or not at all.

    Guarantees
    ----------
    - At no moment can anybody else read a byte of it, whatever the umask.
    - What is being written stands under ``.NAME-`` and random digits beside it; nothing stays
      behind unless the process is killed.
    """
    parts = [_bytes(data)] if isinstance(data, (bytes, str)) else data
    target = Path(path)
    if first and os.path.lexists(target):  # also where the folder is read-only
        return False
    draft = f".{target.name}-{secrets.token_hex(8)}"
    return _put(path, target, draft, parts, mode=0o600, first=first)


def write_together(
    writers: Mapping[Path, Callable[[Path], None]],
    *,
    written: Callable[[Path], None] = lambda path: None,
) -> None:
    """Let each writer fill a hidden file beside its target; once all have, rename them all.

    Guarantees
    ----------
    - If one writer fails, no file appears or changes.
    - Ctrl-C and termination wait until all are renamed.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, write in writers.items():
            target = Path(os.path.realpath(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            staged[path] = target.parent / f".pdml-{secrets.token_hex(8)}-{target.name}"
            write(staged[path])
        with _uninterrupted():
            for path, stage in staged.items():
                os.replace(stage, os.path.realpath(path))
                written(path)
    finally:
        for stage in staged.values():
            stage.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a new name itself durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _bytes(data: bytes | str) -> bytes:
    return data.encode("utf-8") if isinstance(data, str) else data


def _put(
    path: Name, target: Path, draft: str, parts: Iterable[bytes], *, mode: int, first: bool = False
) -> bool:
    """A draft beside ``target``, synced, that takes its name: by a link, which only one process can
    make, or by a rename.
    """
    temporary = target.with_name(draft)
    is_new = True
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if first:
            try:
                os.link(temporary, target)
                temporary.unlink()  # at once: a file with two names is refused (`check_ours`)
            except (FileExistsError, FileNotFoundError):  # or somebody took the draft over
                is_new = False
        else:
            os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        folder = target.parent
        missing = "" if folder.is_dir() else f"the folder {folder} does not exist"
        reason = missing or because(error)
        raise InvalidInput(f"cannot write {os.fspath(path)}: {reason}") from error
    finally:  # gone after a rename; after a failure or an interrupt it must not stay behind
        with contextlib.suppress(OSError):
            temporary.unlink()
    return is_new


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals wait. Not by a mask: it holds for one thread, and the system gives a signal to any
    that has none, say one of a linear algebra library's.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in stops}
    for stop in stops:
        signal.signal(stop, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)


# Whether a file or folder is our own: another user of the machine may have made it beforehand


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
