"""The operator of a collection service: the token that opens the page, and the page."""

import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.collect.service import Render
    from pdml.study import Study


def token(file: Path | None, database: str) -> tuple[Path, str]:
    """The token's file, made if there is none, and the hash that the service keeps."""
    if file is None:
        if "://" in database:
            raise InvalidInput("operator-token must name a file where the database is not one")
        file = Path(database).with_suffix(".operator-token")
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(secrets.token_urlsafe(24) + "\n")
    except FileExistsError:
        pass
    secret = file.read_text(encoding="utf-8").strip()
    if len(secret) < 16:
        raise InvalidInput(f"the operator's token in {file} must have at least 16 characters, got {len(secret)}: others could guess it")
    return file, hashlib.sha256(secret.encode()).hexdigest()


def page(study: "Study") -> "Render":
    """What makes the page of a summary."""

    def made(summary: Any) -> str:
        from pdml.report.operator import render
        from pdml.report.operator_preview import preview

        return render(summary, preview(study, summary))

    return made
