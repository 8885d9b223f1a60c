"""The token that opens the operator's page: a file that only the operator can read."""

import hashlib
import os
import secrets
import stat
from pathlib import Path

from pdml.errors import InvalidInput
from pdml.files import write_private
from pdml.ownership import open_ours

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
    handle = open_ours(file, "the operator's token")
    try:
        if stat.S_IMODE(os.fstat(handle).st_mode) & 0o077:
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
