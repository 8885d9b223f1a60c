"""`pdml statement`: what is promised to whom, for those who have to answer for it."""

from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pdml.cli import options, outputs
from pdml.cli.options import argument, option
from pdml.cli.render import console
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.statement import Statement

_RESULT = "A model.json, or the folder of a result; without it, what the study plans and allows."
_FORMAT = "Only html, markdown or registry.  [default: all three]"
_EVALUATION = "With RESULT: what a member released of its model; once for each member."
_TRAININGS = "Without RESULT: how many trainings by the study's plan to count."
_PUBLISHED = "When the model was published, for the registry."


def statement(
    study: options.StudyFile,
    result: Annotated[Path | None, argument(_RESULT, "RESULT")] = None,
    evaluation: Annotated[list[Path] | None, option(_EVALUATION, "FILE")] = None,
    form: Annotated[str, option(_FORMAT, "FORMAT", "--format")] = "",
    trainings: Annotated[int, option(_TRAININGS)] = 1,
    published: Annotated[str, option(_PUBLISHED, "YYYY-MM-DD")] = "",
    out: options.Out = Path("."),
    force: options.ForceAll = False,
    as_json: options.Json = False,
) -> None:
    """Write the privacy statement and DPIA of a study or of one of its trainings.

    DPIA: the data protection impact assessment of Art. 35 GDPR. For data protection officers,
    lawyers and security officers: one self-contained page in the order in which NIST SP 800-226
    asks, with the DPIA and an appendix of formulas; the same as Markdown; and a draft entry for the
    Differential Privacy Deployments Registry. Every number comes from the study or from the ledger.
    What only the controller can say is left blank, and listed.

    The folder of a result is verified first; a model.json is taken as it is.

    \b
    Example, before anybody is asked:
      pdml statement study.toml --out statement
    Example, after a training:
      pdml statement study.toml result --published 2026-07-01 --out statement
    """
    from pdml.files import atomic_write
    from pdml.statement import file_names
    from pdml.statement import statement as state
    from pdml.study import Study

    files = {kind: out / name for kind, name in file_names(form).items()}
    outputs.check(list(files.values()), force=force)
    privacy_statement = state(
        Study.load(study),
        result,
        evaluations=evaluation or (),
        trainings=trainings,
        published=_date(published),
    )
    outputs.commit(
        {
            path: partial(atomic_write, data=privacy_statement.text(kind))
            for kind, path in files.items()
        }
    )
    summary = privacy_statement.to_dict() | {
        "files": {kind: str(path) for kind, path in files.items()}
    }
    console.print_result(as_json, summary, lambda: _show(privacy_statement, files))


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidInput(
            f"published must be a date such as 2026-07-01, got {text!r}", setting="published"
        ) from None


def _show(privacy_statement: "Statement", files: dict[str, Path]) -> None:
    page = privacy_statement.document
    console.print_text((page.title, "bold"), *([(page.warning, "red")] if page.warning else []))
    blanks = [f"- {what}" for what in privacy_statement.missing]
    console.print_text("", *page.summary, "", "To be filled in by the controller:", *blanks)
    console.print_files({kind: path for kind, path in files.items()})
