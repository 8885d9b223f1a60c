"""From all statements to the result: one folder, equal to the byte whoever makes it.

    study.toml  statements/NAME.statement  model.json  report.html  evidence/NAME.evidence

Nothing in it depends on who assembled it, when, where, or with which libraries. Where statements
contradict each other there is no model: the folder holds them and what proves who is to blame.
"""

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from pdml.errors import InvalidInput
from pdml.files import atomic_write, sync_folder
from pdml.node.job.job_result import SignedJob
from pdml.study.schema import template

STUDY, MODEL, PAGE = "study.toml", "model.json", "report.html"
STATEMENTS, STATEMENT = "statements", ".statement"
EVIDENCE, PROOF = "evidence", ".evidence"


def files_of(
    job: SignedJob,
    evidence: Mapping[str, bytes] | None = None,
) -> dict[str, bytes]:
    """The files of a result's folder."""
    from pdml.pages.result_page import result_page  # not before there is a result to draw

    files = {STUDY: template.plain(job.study).encode()}
    files |= {f"{STATEMENTS}/{name}{STATEMENT}": data for name, data in job.signed.items()}
    files |= {f"{EVIDENCE}/{name}{PROOF}": data for name, data in (evidence or {}).items()}
    if not job.problems and not evidence:
        files[MODEL] = job.result.model.to_bytes()
        files[PAGE] = result_page(job).encode()
    return files


def write_result(
    folder: str | os.PathLike[str],
    job: SignedJob,
    evidence: Mapping[str, bytes] | None = None,
) -> None:
    """Write a result's folder, which appears whole or not at all."""
    target = Path(folder)
    if os.path.lexists(target):
        raise InvalidInput(f"cannot write the result to {folder}: it exists already")
    stage = target.absolute().parent / f".pdml-{secrets.token_hex(8)}"
    try:
        for name, data in files_of(job, evidence).items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            atomic_write(stage / name, data)
        os.rename(stage, target)
        sync_folder(target.absolute().parent)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidInput(f"cannot write the result to {folder}: {reason}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
