"""Files that appear together or not at all."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pdml.errors import InvalidInput
from pdml.files import write_together

# What this command has put in place: an interrupt afterwards must not claim otherwise.
written: list[Path] = []


def check(paths: Sequence[Path], *, force: bool, way_out: str = "--force overwrites it") -> None:
    """Refuse before the work what would fail after it: names taken twice or in use, folders that
    cannot be written to."""
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
    """Write the files together, and remember them for `written`."""
    write_together(writers, written=written.append)
