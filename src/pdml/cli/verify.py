"""`pdml verify`: is a result what it says it is?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pdml.cli import screen
from pdml.cli.options import Json, argument, option
from pdml.errors import plain

if TYPE_CHECKING:
    from pdml.release.verdict import Verification


def verify(
    result: Annotated[Path, argument("The folder of a result.", "RESULT", show_default=False)],
    study: Annotated[
        Path | None, option("The study you agreed on, to compare with.", "FILE")
    ] = None,
    as_json: Json = False,
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
    from pdml.pages.result import result_page
    from pdml.release.verify import verify_result
    from pdml.study import Study

    wanted = Study.load(study).hash if study is not None else ""
    found = verify_result(result, page=result_page, study=wanted)
    screen.tell(as_json, found.to_dict(), lambda: _show(found, wanted))
    found.check()


def _show(found: "Verification", wanted: str) -> None:
    from pdml.pages import numbers

    said = []
    if found.study:
        known = "yours" if found.study == wanted else "not yours"
        whose = known if wanted else "is this the one you agreed on?"
        said.append(f"study {found.study_id}, hash {found.study}: {whose}")
    said += [f"- {plain(problem.sentence)}" for problem in found.problems]
    if found.ok:
        servers, last = (
            ", ".join(found.servers),
            "and model" if found.unchecked else "model and page",
        )
        rounds = numbers.count(found.rounds, "round")
        said.append(f"job {found.job}, {rounds}, signed by {servers}")
        said.append(f"Verified: signatures, messages, spending, {last}.")
        unsure = "Not checked, do not rely on it"
        why = "drawn by an earlier version of pdml, or where last digits differ"
        said += [f"{unsure}: {name}, {why}." for name in found.unchecked]
    screen.say(*said, whole=True)
