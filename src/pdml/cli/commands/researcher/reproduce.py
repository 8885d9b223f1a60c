"""`pdml reproduce`: the paper's table and figures, and its rivals, measured again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.cli.options import Jobs, TablesJson, argument, option
from pdml.cli.render import console
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.research.paper import Reproduction

_NAMES = "table1, fig3a, fig3b, fig4a, fig4b, fig4c, baselines; or all."
_OUT = "Folder for the CSV, PNG and SVG files; earlier ones are replaced."
_SEEDS = "Random repetitions.  [default: 20 for table1, each figure's own]"
_HOLDS = {True: ("holds   ", "green"), False: ("DOES NOT HOLD  ", "bold red")}


def reproduce(
    names: Annotated[list[str], argument(_NAMES, "NAME...")],
    out: Annotated[Path, option(_OUT, None, "--out", "-o")] = Path("reproduced"),
    seeds: Annotated[int | None, option(_SEEDS, min=2, max=1000)] = None,
    jobs: Jobs = 0,
    as_json: TablesJson = False,
) -> None:
    """Measure the paper's table and figures again, and set what it says of them against what comes
    out.

    Needs the data sets: `pdml data fetch all`, or PDML_DATA_DIR. Each NAME gives NAME.csv, NAME.png
    and NAME.svg. The exit code is 1 if a claim does not hold.

    \b
    Example:
      pdml reproduce fig3a fig3b --out figures
      pdml reproduce all
    """
    from pdml.research.paper import chosen, run, write

    wanted = chosen(names)
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"--out must be a folder, got {out}: it is a file")
    done = []
    for name in wanted:
        with console.progress(f"Reproducing {name}", unit="job") as progress:
            done.append(run(name, seeds=seeds, processes=jobs, progress=progress))
        paths = write(done[-1], out)
        if not as_json:
            _show(done[-1], paths)
    if as_json:
        console.print_json(
            {"outcomes": [reproduction.to_dict() for reproduction in done], "folder": str(out)}
        )
    if not all(claim.holds for reproduction in done for claim in reproduction.claims):
        raise typer.Exit(1)


def _show(reproduction: "Reproduction", paths: dict[str, Path]) -> None:
    if reproduction.summary:
        columns, *rows = reproduction.summary
        console.print_table(reproduction.title, console.Grid(columns, rows), reproduction.caption)
    else:
        console.print_text("", (reproduction.title, console.HEADING), reproduction.caption)
    console.print_text("")
    for claim in reproduction.claims:
        console.print_text([_HOLDS[claim.holds], f"{claim.text}: {claim.measured}"])
    console.print_files({kind.upper(): path for kind, path in paths.items()})
