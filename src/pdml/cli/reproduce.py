"""`pdml reproduce`: the paper's table and figures, and its rivals, measured again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.cli.settings import Jobs

if TYPE_CHECKING:
    from pdml.experiments import Outcome


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="table1, fig3a, fig3b, fig4a, fig4b, fig4c, baselines; or all."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for the CSV, PNG and SVG files; earlier ones are replaced."
        ),
    ] = Path("reproduced"),
    seeds: Annotated[
        int | None,
        typer.Option(
            min=2, max=1000, help="Random repetitions.  [default: 20 for table1, each figure's own]"
        ),
    ] = None,
    jobs: Jobs = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
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
    from pdml.cli import screen
    from pdml.errors import InvalidInput
    from pdml.experiments import MODULES, run, write

    wanted = list(MODULES) if names == ["all"] else list(dict.fromkeys(names))
    for name in wanted:
        if name not in MODULES:
            raise InvalidInput(
                f"NAME must be one of {', '.join(MODULES)}, or all alone, got {name!r}"
            )
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"--out must be a folder, got {out}: it is a file")
    outcomes = []
    for name in wanted:
        with screen.progress(f"Reproducing {name}", unit="job") as progress:
            outcome = run(name, seeds=seeds, processes=jobs, progress=progress)
        paths = write(outcome, out)
        outcomes.append(outcome)
        if not as_json:
            _show(outcome, paths)
    if as_json:
        screen.print_json(
            {"outcomes": [outcome.to_dict() for outcome in outcomes], "folder": str(out)}
        )
    if not all(claim.holds for outcome in outcomes for claim in outcome.claims):
        raise typer.Exit(1)


def _show(outcome: "Outcome", paths: dict[str, Path]) -> None:
    from rich.text import Text

    from pdml.cli import screen

    out = screen.console()
    if outcome.summary:
        table = screen.new_table(*outcome.summary[0])
        for row in outcome.summary[1:]:
            table.add_row(*map(Text, row))
        screen.show(out, outcome.title, table, outcome.caption)
    else:
        out.print()
        out.print(Text(outcome.title, style="bold cyan"))
        out.print(outcome.caption)
    out.print()
    for claim in outcome.claims:
        verdict = (
            Text("holds   ", style="green")
            if claim.holds
            else Text("DOES NOT HOLD  ", style="bold red")
        )
        out.print(verdict + Text(f"{claim.text}: {claim.measured}"))
    screen.list_files(out, {kind.upper(): path for kind, path in paths.items()})
