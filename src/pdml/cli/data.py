"""`pdml data`: the real data sets of the experiments, brought here, listed and found."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.errors import DataError

if TYPE_CHECKING:
    from pdml.datasets.homes import Home

data = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Bring, list and find the real data sets of the experiments.",
    epilog="They live in the folder PDML_DATA_DIR names or, without it, in your cache "
    "folder (`pdml data path`).",
)

_LOG_EVERY = 5.0  # seconds between lines where no bar can be drawn
_JSON = typer.Option("--json", help="Print one JSON object instead of sentences.")


@data.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="adult|raetsch|all", help="Which set.")],
    force: Annotated[
        bool, typer.Option("--force", help="Download again what is here and right.")
    ] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Download a data set from its public home, and check its sha256.

    An interrupted download goes on where it stopped. What is here already
    and right is not downloaded again.

    \b
    Example:
      pdml data fetch adult
    """
    from pdml import _validate
    from pdml.cli import screen
    from pdml.datasets import fetch as fetching
    from pdml.datasets import local
    from pdml.datasets.homes import HOMES

    chosen = _validate.choice("the data set", name, (*HOMES, "all"))
    answers: list[dict[str, Any]] = []
    refusals: list[str] = []
    with _transfer() as tell:
        for one in HOMES if chosen == "all" else (chosen,):
            try:
                source = fetching.fetch(one, HOMES[one], force=force, tell=tell)
            except DataError as refusal:  # another set may be at home
                refusals.append(str(refusal))
            else:
                answers.append(
                    {
                        "name": one,
                        "downloaded": source is not None,
                        "source": source,
                        "files": _files(one, HOMES[one]),
                    }
                )
    if as_json and not refusals:
        screen.print_json({"folder": str(local.folder()), "sets": answers})
    elif not as_json:
        for answer in answers:
            how = f"fetched from {answer['source']}" if answer["downloaded"] else "here already"
            screen.console().print(
                f"{answer['name']}: {how}, {len(answer['files'])} files checked in "
                f"{local.folder()}",
                soft_wrap=True,
            )
    if refusals:
        raise DataError("; also, ".join(refusals))


@data.command("list")
def listing(as_json: Annotated[bool, _JSON] = False) -> None:
    """List the data sets: what is here, where, and whether it is right.

    Every sha256 is computed anew.

    \b
    Example:
      pdml data list
    """
    from pdml.cli import screen
    from pdml.datasets import local
    from pdml.datasets.homes import HOMES

    sets = {name: _files(name, home) for name, home in HOMES.items()}
    if as_json:
        screen.print_json(
            {
                "folder": str(local.folder()),
                "sets": [{"name": name, "files": files} for name, files in sets.items()],
            }
        )
        return
    out = screen.console()
    for name, files in sets.items():
        for one in files:
            out.print(f"{name:<8}  {one['state']:<8}  {one['path'] or one['file']}", soft_wrap=True)
    for name, files in sets.items():
        if any(one["state"] != "checked" for one in files):
            out.print(f"To get {name}: pdml data fetch {name}")


@data.command()
def path(as_json: Annotated[bool, _JSON] = False) -> None:
    """Print the folder where data sets are read from and fetched to.

    \b
    Example:
      pdml data path
    """
    import os

    from pdml.cli import screen
    from pdml.datasets import local

    folder = local.folder()
    if as_json:
        screen.print_json(
            {
                "folder": str(folder),
                "exists": folder.is_dir(),
                "chosen_by_variable": bool(os.environ.get(local.VARIABLE)),
            }
        )
    else:
        print(folder)


def _files(name: str, home: "Home") -> list[dict[str, Any]]:
    from pdml.datasets.fetch import status

    return [
        {"file": one.file, "path": str(one.path) if one.path else None, "state": one.state}
        for one in status(name, home)
    ]


# Progress in bytes


@contextmanager
def _transfer() -> Iterator[Callable[[str, int, int | None], None]]:
    """A function to call as (file, bytes so far, of how many): a bar per file, or a line now and
    then where none can be drawn.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    err = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not err.is_terminal or err.is_dumb_terminal:
        yield _log()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=err, transient=True) as bars:

        def tell(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=None)
            bars.update(tasks[file], completed=done, total=total)

        yield tell


def _log() -> Callable[[str, int, int | None], None]:
    spoken = time.monotonic()

    def log(file: str, done: int, total: int | None) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > _LOG_EVERY:
            spoken = time.monotonic()
            print(
                f"{file}: {done:,} bytes" + (f" of {total:,}" if total else ""),
                file=sys.stderr,
                flush=True,
            )

    return log
