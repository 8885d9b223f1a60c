"""Real data on this machine: one folder, and bytes that are the expected ones or none at all."""

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pdml.errors import DataError

VARIABLE = "PDML_DATA_DIR"
# bytes, unpacked: far more than any known file, and a packed one cannot fill the memory
_LARGEST = 1 << 26


def cache_folder(platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> Path:
    """The user's cache folder for pdml, by the custom of each system; it need not exist."""
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pdml"
    named = environment.get("XDG_CACHE_HOME", "")
    # The XDG specification asks to ignore relative names.
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "pdml"


def folder() -> Path:
    """Where data sets are read from and fetched to.

    Returns
    -------
    Path
        What PDML_DATA_DIR names, which must exist; without the variable, the cache folder, which
        `pdml data fetch` creates.
    """
    name = os.environ.get(VARIABLE, "")
    if not name:
        return cache_folder()
    path = Path(name).expanduser()
    if not path.is_dir():
        raise DataError(
            f"{VARIABLE} must name the folder of the data sets, got {name!r}: there is no "
            "such folder, create it or correct the name"
        )
    return path


def find(file: str) -> Path | None:
    """``file``.gz or ``file`` below the folder, whichever is there; the packed one first."""
    return next(
        (path for path in (folder() / f"{file}.gz", folder() / file) if path.is_file()), None
    )


def read(file: str, *, sha256: str, dataset: str, together: Sequence[str] = ()) -> bytes:
    """The bytes of ``file``, unpacked.

    The digest is that of the unpacked bytes, so that it does not matter who compressed them: a
    result on other data must not pass for one on these. ``dataset`` is what `pdml data fetch` calls
    the set; ``together`` names the files people need with this one.
    """
    path = find(file)
    if path is None:
        raise DataError(_missing(dataset, " and ".join(together or (file,))))
    again = f"run `pdml data fetch {dataset}` where there is a network"
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as opened:
            content = opened.read(_LARGEST)  # what is longer has another digest
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} must be readable, got {error}: {again}") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise DataError(
            f"{path} must have the sha256 {sha256} when unpacked, got {digest}: {again}"
        )
    return content


def _missing(dataset: str, files: str) -> str:
    fetch = f"run `pdml data fetch {dataset}` where there is a network"
    if os.environ.get(VARIABLE):
        return (
            f"{dataset} is not in {folder()}, the folder {VARIABLE} names: {fetch}, or "
            f"put {files} there"
        )
    return (
        f"{dataset} is not on this machine: {fetch}, or set {VARIABLE} to a folder that "
        f"holds {files}"
    )
