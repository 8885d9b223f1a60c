"""Real data on this machine: the folder named by PDML_DATA_DIR, and bytes that are the expected ones or none at all."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path

from pdml.errors import DataError

VARIABLE = "PDML_DATA_DIR"


def folder() -> Path:
    """The folder PDML_DATA_DIR names."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        raise DataError(
            f"{VARIABLE} must name the folder of the data sets, got nothing: set it, for example `export {VARIABLE}=~/pdml-data`"
        )
    path = Path(name).expanduser()
    if not path.is_dir():
        raise DataError(
            f"{VARIABLE} must name the folder of the data sets, got {name!r}: there is no such folder, create it or correct the name"
        )
    return path


def read(file: str, *, sha256: str, source: str) -> bytes:
    """The bytes of ``file``, or of ``file``.gz unpacked, below the folder.

    The digest is that of the unpacked bytes, so that it does not matter who compressed them: a result on other data must not pass for one
    on these. ``source`` says where people get the file.
    """
    packed, plain = folder() / f"{file}.gz", folder() / file
    try:
        if packed.is_file():
            content = gzip.decompress(packed.read_bytes())
        elif plain.is_file():
            content = plain.read_bytes()
        else:
            raise DataError(f"{packed} must exist (or {plain.name} unpacked), got no such file: put it there, it comes from {source}")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{packed.parent / file} must be readable, got {error}: fetch it again from {source}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError(f"{file} must have the sha256 {sha256} when unpacked, got {found}: it is not the file from {source}")
    return content
