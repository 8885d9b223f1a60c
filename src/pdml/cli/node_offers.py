"""`pdml node offers`, `accept`, `refuse` and `stop`: an operator's word about jobs, left on the
node's desk.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.node.desk import Desk

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The node's folder.")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


def offers(folder: Folder, as_json: Json = False) -> None:
    """List the jobs that members have offered, and what became of them.

    \b
    Example:
      pdml node offers alice
    """
    from pdml.cli import screen

    found = _desk(folder).attempts()
    if as_json:
        rows = [
            {"job": a.job, "offered_by": a.offerer, "state": a.state, "sentence": a.sentence}
            for a in found
        ]
        screen.print_json({"offers": rows})
        return
    if not found:
        typer.echo("No job was offered yet.")
    for each in found:
        typer.echo(
            f"{each.job}, offered by {each.offerer}: {each.state}"
            + (f" ({each.sentence})" if each.sentence else "")
        )


def accept(folder: Folder, job: Job, as_json: Json = False) -> None:
    """Accept a job that waits for an answer.

    \b
    Example:
      pdml node accept alice first
    """
    from pdml.node import desk as states

    _decide(folder, job, states.ALLOWED, "", "accepted", as_json)


def refuse(
    folder: Folder,
    job: Job,
    why: Annotated[str, typer.Option(metavar="SENTENCE", help="What the others are told.")] = "",
    as_json: Json = False,
) -> None:
    """Refuse a job that waits for an answer; nothing will have been released for it, anywhere.

    \b
    Example:
      pdml node refuse alice first --why "not before Monday"
    """
    from pdml.errors import plain
    from pdml.node import desk as states

    _decide(
        folder, job, states.REFUSED, plain(why, 300) or "its operator refused", "refused", as_json
    )


def stop(folder: Folder, as_json: Json = False) -> None:
    """Stop the job that this node is in, at every member; the journals let it go on later.

    The node itself goes on running: end it as it was started (Ctrl-C, or the service manager).

    \b
    Example:
      pdml node stop alice
    """
    from pdml.cli import screen
    from pdml.node import desk as states
    from pdml.node.questions import STOP

    desk = _desk(folder)
    going = [each for each in desk.attempts() if each.state not in states.ENDED]
    if not going:
        raise InvalidInput(f"the node in {folder} is in no job")
    desk.wish(STOP, going[-1].attempt)
    if as_json:
        screen.print_json({"job": going[-1].job, "stopping": True})
    else:
        typer.echo(
            f"job {going[-1].job} is being stopped at every member; to go on: pdml train "
            f"--job {going[-1].job} --resume"
        )


def _decide(folder: Path, job: str, state: str, sentence: str, word: str, as_json: bool) -> None:
    from pdml.cli import screen
    from pdml.node import desk as states

    desk = _desk(folder)
    waiting = [each for each in desk.attempts() if each.job == job and each.state == states.ASKED]
    if not waiting or not desk.move(waiting[-1].attempt, state, sentence, only_from=states.ASKED):
        raise InvalidInput(f"no offer of a job {job!r} waits for an answer in {folder}")
    if as_json:
        screen.print_json({"job": job, "state": word})
    else:
        typer.echo(f"job {job} is {word}")


def _desk(folder: Path) -> "Desk":
    from pdml.node.desk import Desk
    from pdml.node.home import Home

    return Desk(Home.open(folder).folder)
