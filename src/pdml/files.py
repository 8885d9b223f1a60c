"""Files that are either the old one or the new one, never half of each: models, ledgers and
predictions are written here.
"""

import contextlib
import os
import secrets
from pathlib import Path

from pdml.errors import InvalidInput


def atomic_write(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Replace ``path`` by ``data`` (text as UTF-8) in one step that survives a crash, an interrupt
    and a full disk.

    The bytes go to a temporary file in the same folder, reach the disk, and only then take the
    name: a reader sees the old file or the new one. A symbolic link is followed, as an ordinary
    write would, and the permissions are those of an ordinary new file (0666 less the umask), which
    the `tempfile` module does not give.
    """
    target = Path(os.path.realpath(path))
    content = data.encode("utf-8") if isinstance(data, str) else data
    if target.exists() and not target.is_file():
        raise InvalidInput(
            f"cannot write {os.fspath(path)}: it is a folder or a device, not a file"
        )
    temporary = target.parent / f".pdml-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise InvalidInput(f"cannot write {os.fspath(path)}: {_reason(error, target)}") from error
    finally:
        with contextlib.suppress(
            OSError
        ):  # gone after a success; after a failure or an interrupt it must not stay behind
            temporary.unlink()


def sync_folder(folder: Path) -> None:
    """Make the new name itself durable; only POSIX can open a folder for that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: OSError, target: Path) -> str:
    if not target.parent.is_dir():
        return f"the folder {target.parent} does not exist"
    return (error.strerror or str(error)).lower()
