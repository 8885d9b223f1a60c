"""Bring a data set onto this machine, or tell what is here already. Reading stays with `local`."""

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import urlsplit

from pdml import _validate, extras
from pdml.errors import DataError, because
from pdml.files import atomic_write
from pdml.research.datasets import catalogue, local
from pdml.research.datasets.catalogue import Address, DataSource

Progress = Callable[[str, int, int | None], None]
"""Called as (file, bytes so far, of how many if that is known)."""

_CHUNK = 1 << 16
_SILENCE = 30.0  # seconds


@dataclass(frozen=True, kw_only=True)
class FileStatus:
    """One file: "checked" has the right digest, "damaged" is there but not the right bytes."""

    file: str
    path: Path | None
    state: Literal["checked", "damaged", "missing"]


def status(name: str) -> list[FileStatus]:
    """What is on this machine of a data set, every digest computed now.

    Parameters
    ----------
    name : str
        One of `catalogue.SOURCES`.

    Returns
    -------
    list of Status
        One for each of its files.
    """
    statuses = []
    for file, sha256 in _source(name).files.items():
        path = local.find(file)
        state: Literal["checked", "damaged", "missing"] = "missing"
        if path is not None:
            try:
                local.read(file, sha256=sha256, dataset=name)
                state = "checked"
            except DataError:
                state = "damaged"
        statuses.append(FileStatus(file=file, path=path, state=state))
    return statuses


def fetch(name: str, *, force: bool = False, tell: Progress | None = None) -> str | None:
    """Put the files of a data set below `local.folder`.

    Parameters
    ----------
    name : str
        One of `catalogue.SOURCES`.
    force : bool
        Download again what is here and right.
    tell : Progress, optional
        Hears how far a download is.

    Returns
    -------
    str or None
        The address they came from; None if they were there and right.

    Raises
    ------
    DataError
        No way gives all files; the sentence says what each address did, and what to do.

    Guarantees
    ----------
    - Only bytes with the known sha256 take a file's name, all files of a set or none, each whole.
    """
    source, folder = _source(name), local.folder()
    if not force and all(file_status.state == "checked" for file_status in status(name)):
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files, address = _try_addresses(name, source, tell or (lambda file, done, total: None))
        for file, content in files.items():
            (folder / file).parent.mkdir(exist_ok=True)
            atomic_write(folder / f"{file}.gz", gzip.compress(content, mtime=0))
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {because(error)}") from error
    return address


def _source(name: str) -> DataSource:
    return catalogue.SOURCES[_validate.choice("the data set", name, tuple(catalogue.SOURCES))]


def _try_addresses(name: str, source: DataSource, tell: Progress) -> tuple[dict[str, bytes], str]:
    """The files by the first way that gives them all, and its address."""
    refusals = []
    for way in source.ways:
        contents: dict[str, bytes] = {}
        try:
            for address in way:
                contents |= _fetch_files(address, source, tell)
            if lacking := [file for file in source.files if file not in contents]:
                raise DataError(f"{way[0].url} gives something else (no {' and '.join(lacking)})")
        except DataError as refusal:
            refusals.append(str(refusal))
        else:
            return contents, way[0].url
    names = " and ".join(source.files)
    raise DataError(
        f"{name} could not be fetched: {'; '.join(refusals)}; try again later, or set "
        f"{local.VARIABLE} to a folder that holds {names}"
    )


def _fetch_files(address: Address, source: DataSource, tell: Progress) -> dict[str, bytes]:
    """What one address gives of the set's files, each with its digest."""
    content = _download(address, tell)
    try:
        files = {
            file: part for file, part in address.unpack(content).items() if file in source.files
        }
        for file, data in files.items():
            got = hashlib.sha256(data).hexdigest()
            if got != source.files[file]:
                raise DataError(f"{file} must have the sha256 {source.files[file]}, got {got}")
    except DataError as error:
        raise DataError(f"{address.url} gives something else ({error})") from error
    return files


class _Bar:
    """How pooch tells of a download: like a bar of tqdm."""

    total = 0

    def __init__(self, file: str, tell: Progress) -> None:
        self._file, self._tell, self._done = file, tell, 0

    def update(self, more: int) -> None:
        self._done += more
        done = min(self._done, self.total) if self.total else self._done
        self._tell(self._file, done, self.total or None)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing is held."""


def _download(address: Address, tell: Progress) -> bytes:
    """The content of an address; its own digest is right, where one is known."""
    with extras.needed():
        import pooch
        import requests
    pooch.get_logger().setLevel("ERROR")  # it would tell of every download
    file = Path(urlsplit(address.url).path).name
    downloader = pooch.HTTPDownloader(_Bar(file, tell), chunk_size=_CHUNK, timeout=_SILENCE)
    digest = address.sha256 and f"sha256:{address.sha256}"
    with TemporaryDirectory() as scratch:
        try:
            pooch.retrieve(address.url, digest, file, scratch, downloader=downloader)
        except requests.HTTPError as error:
            answer = error.response
            failure = (
                f"answers {answer.status_code} {answer.reason}" if answer is not None else "fails"
            )
        except requests.exceptions.SSLError:
            failure = "shows a certificate that is not trusted"
        except requests.Timeout:
            failure = f"is silent for {_SILENCE:g} seconds"
        except requests.exceptions.ChunkedEncodingError:
            failure = "breaks off"
        except requests.RequestException:
            failure = "cannot be reached (no network, or no such host)"
        except ValueError:  # how pooch says that the digest is wrong
            failure = "gives something else (its sha256 is wrong)"
        else:
            return Path(scratch, file).read_bytes()
    raise DataError(f"{address.url} {failure}")
