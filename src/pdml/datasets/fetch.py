"""Bring a data set onto this machine, or tell what is here already. Reading stays with `local`."""

import contextlib
import gzip
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pdml.datasets import local
from pdml.datasets.download import Patience, Unavailable, discard, download
from pdml.datasets.homes import Address, Home
from pdml.errors import DataError
from pdml.files import atomic_write

Progress = Callable[
    [str, int, int | None], None
]  # file, bytes so far, of how many if that is known


@dataclass(frozen=True, kw_only=True)
class Status:
    """One file: "checked" has the right digest, "damaged" is there but not the right bytes."""

    file: str
    path: Path | None
    state: Literal["checked", "damaged", "missing"]


def status(name: str, home: Home) -> list[Status]:
    """What is on this machine of the set ``name``, every digest computed now."""
    found = []
    for file, sha256 in home.files.items():
        path = local.find(file)
        state: Literal["checked", "damaged", "missing"] = "missing"
        if path is not None:
            try:
                local.read(file, sha256=sha256, dataset=name)
                state = "checked"
            except DataError:
                state = "damaged"
        found.append(Status(file=file, path=path, state=state))
    return found


def fetch(
    name: str,
    home: Home,
    *,
    force: bool = False,
    tell: Progress | None = None,
    patience: Patience | None = None,
) -> str | None:
    """Put the files of ``home`` below `local.folder`; the address they came from, or None if they
    were there and right (unless ``force``).

    Each way is tried until one gives every file with its digest. A file is replaced whole or not at
    all, and only after all have arrived.
    """
    folder = local.folder()
    if not force and all(one.state == "checked" for one in status(name, home)):
        return None
    parts = folder / "partial"
    try:
        parts.mkdir(parents=True, exist_ok=True)
        with _alone(parts / f"{name}.lock"):
            files, source = _first(
                name, home, parts, tell or (lambda file, done, total: None), patience or Patience()
            )
            for file, content in files.items():
                (folder / file).parent.mkdir(exist_ok=True)
                atomic_write(folder / f"{file}.gz", gzip.compress(content, mtime=0))
            for address in chain.from_iterable(home.ways):
                discard(_part(parts, address))  # also what a way that failed has left
    except OSError as error:
        raise DataError(
            f"cannot write to {folder}: {(error.strerror or str(error)).lower()}"
        ) from error
    return source


def _first(
    name: str, home: Home, parts: Path, tell: Progress, patience: Patience
) -> tuple[dict[str, bytes], str]:
    refusals = []
    for way in home.ways:
        files: dict[str, bytes] = {}
        try:
            for address in way:
                part = _part(parts, address)
                told = partial(tell, part.stem)
                files |= download(
                    address.url,
                    part,
                    unpack=address.unpack,
                    most=address.most,
                    tell=told,
                    patience=patience,
                )
        except Unavailable as refusal:
            refusals.append(str(refusal))
        else:
            return files, way[0].url
    held = " and ".join(home.files)
    raise DataError(
        f"{name} could not be fetched: {'; '.join(refusals)}; try again later, or set "
        f"{local.VARIABLE} to a folder that holds {held}"
    )


def _part(parts: Path, address: Address) -> Path:
    return parts / f"{Path(urlsplit(address.url).path).name}.part"


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Two processes must not write to the same part. The system frees the lock of one that died,
    and its file stays, empty.
    """
    with lock.open("ab") as file:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(
                f"{lock.stem} is being fetched by another process: wait for it, then look "
                "with `pdml data list`"
            ) from error
        yield
