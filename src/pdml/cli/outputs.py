"""Files that appear together or not at all."""

import os
import secrets
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pdml.errors import InvalidInput

written: list[
    Path
] = []  # what this command has put in place: an interrupt afterwards must not claim otherwise


def check(paths: Sequence[Path], *, force: bool, way_out: str = "--force overwrites it") -> None:
    """Refuse before the work what would fail after it: names taken twice or in use, folders that
    cannot be written to.
    """
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise InvalidInput(f"the files to write must have different names, got {paths[0]} twice")
    for path in paths:
        if path.exists() and not path.is_file():
            raise InvalidInput(f"cannot write {path}: it is a folder or a device, not a file")
        if path.exists() and not force:
            raise InvalidInput(f"{path} exists already: {way_out}")
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not folder.is_dir():
            raise InvalidInput(f"cannot write {path}: {folder} is a file, not a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InvalidInput(f"cannot write {path}: the folder {folder} does not allow it")


def commit(writers: Mapping[Path, Callable[[Path], None]]) -> None:
    """Let each writer fill a hidden file beside its target; once all have, rename them all, which
    nothing interrupts.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, write in writers.items():
            target = Path(os.path.realpath(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            staged[path] = target.parent / f".pdml-{secrets.token_hex(8)}-{target.name}"
            write(staged[path])
        _rename(staged)
    finally:
        for stage in staged.values():
            stage.unlink(missing_ok=True)


def _rename(staged: Mapping[Path, Path]) -> None:
    masked = (
        hasattr(signal, "pthread_sigmask") and threading.current_thread() is threading.main_thread()
    )
    before = (
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        if masked
        else None
    )
    try:
        for path, stage in staged.items():
            os.replace(stage, os.path.realpath(path))
            written.append(path)
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
