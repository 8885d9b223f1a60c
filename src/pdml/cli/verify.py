"""`pdml verify`: is a result what it says it is?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pdml.release.verdict import Verification


def verify(
    result: Annotated[
        Path,
        typer.Argument(metavar="RESULT", help="The folder of a result.", show_default=False),
    ],
    study: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The study you agreed on, to compare with."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object instead of sentences."),
    ] = False,
) -> None:
    """Check a result from its folder alone: signatures, what was sent and heard,
    what was spent, the model, the page.

    Whoever said different things to different servers is named, if one of them
    has shown the signatures. A refused result ends with exit code 1.

    The folder cannot prove that its study is yours: compare the hash that is
    printed, or give your own copy with --study.

    \b
    Example:
      pdml verify result --study study.toml
    """
    from pdml.release.verify import verify_result
    from pdml.report.result import result_page
    from pdml.study import Study

    wanted = Study.load(study).hash if study is not None else ""
    found = verify_result(result, page=result_page, study=wanted)
    if as_json:
        from pdml.cli.screen import print_json

        print_json(found.to_dict())
    else:
        _show(found, wanted)
    found.check()


def _show(found: "Verification", wanted: str) -> None:
    from pdml.cli.screen import console
    from pdml.errors import plain

    out = console()
    if found.study:
        known = "yours" if found.study == wanted else "not yours"
        whose = known if wanted else "is this the one you agreed on?"
        out.print(f"study {found.study_id}, hash {found.study}: {whose}", soft_wrap=True)
    for problem in found.problems:
        out.print(f"- {plain(problem.sentence)}", soft_wrap=True)
    if found.ok:
        servers = ", ".join(found.servers)
        out.print(f"job {found.job}, {found.rounds} rounds, signed by {servers}", soft_wrap=True)
        out.print("Verified: signatures, messages, spending, model and page.")
