"""The token that opens the operator's page: a file that only the operator can read."""

import errno
import hashlib
import os
import secrets
import stat
from pathlib import Path

from pdml.errors import InvalidInput
from pdml.files import write_private

_LONGEST = 4096  # bytes of a token's file


def operator_token(file: Path | None, database: str) -> tuple[Path, str]:
    """The token's file, made if there is none, and the hash that the service keeps."""
    if file is None:
        if "://" in database:
            raise InvalidInput("operator-token must name a file where the database is not one")
        file = Path(database).with_suffix(".operator-token")
    write_private(file, secrets.token_urlsafe(24) + "\n", first=True)
    secret = _read(file)
    if len(secret) < 16:
        raise InvalidInput(
            f"the operator's token in {file} must have at least 16 characters, got "
            f"{len(secret)}: others could guess it"
        )
    return file, hashlib.sha256(secret.encode()).hexdigest()


def _read(file: Path) -> str:
    """What only we can read, and nobody else has put there."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidInput(
                f"the operator's token {file} is a symbolic link, which could lead "
                "anywhere: name the file itself"
            ) from None
        raise
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInput(f"the operator's token {file} must be a file")
        if found.st_uid not in (0, os.geteuid()):
            raise InvalidInput(f"the operator's token {file} belongs to another user, who knows it")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise InvalidInput(
                f"the operator's token {file} can be read by others: make a new one, or "
                f"chmod 600 {file}"
            )
        content = os.read(handle, _LONGEST)
    finally:
        os.close(handle)
    try:
        return content.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidInput(f"the operator's token {file} is not text") from None
