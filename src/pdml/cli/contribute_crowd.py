"""`pdml contribute --csv`: a table of people, each played as a device of its own."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdml.errors import InvalidInput, NotDelivered

if TYPE_CHECKING:
    from pdml.study import Study


def send(
    study: "Study",
    address: str,
    ca: Path | None,
    csv: Path,
    label: str,
    epsilon_column: str,
    epsilon: float | None,
    tokens: Path | None,
    outbox: Path | None,
    *,
    clamp: bool,
    as_json: bool,
) -> None:
    import numpy as np

    from pdml.cli import screen
    from pdml.contribute import crowd
    from pdml.contribute.delivery import Service
    from pdml.tables import read_table

    if not label:
        raise InvalidInput("--csv needs --label-column: the column of true answers")
    if epsilon_column and epsilon is not None:
        raise InvalidInput(
            "--epsilon must be left out beside --epsilon-column: each person has one already"
        )
    Service(address, ca=ca)  # a bad address is refused before the work
    table = read_table(
        csv,
        [
            *(one.name for one in study.attributes),
            label,
            *([epsilon_column] if epsilon_column else []),
        ],
    )
    if not clamp:
        crowd.require_in_range(study, table)
    labels = crowd.labels_of(study, table, label)
    if epsilon_column:
        epsilons = crowd.epsilons_of(study, table, epsilon_column)
    else:
        chosen = study.default_epsilon if epsilon is None else epsilon
        if chosen not in study.menu:
            raise InvalidInput(
                "--epsilon must be on the study's menu "
                f"({', '.join(f'{one:g}' for one in study.menu)}), got {chosen:g}"
            )
        epsilons = np.full(table.n_rows, chosen)
    invited = crowd.read_tokens(tokens, table.n_rows) if tokens is not None else ()
    stem = csv.name.split(".")[0]
    reports = outbox or csv.with_name(f"{stem}.reports.ndjson")
    receipts, failures = (
        reports.with_name(f"{reports.name.split('.')[0]}.{what}.ndjson")
        for what in ("receipts", "failures")
    )
    source = crowd.source_digest(
        csv, label, epsilon_column, "" if epsilon is None else f"{epsilon!r}"
    )
    with screen.working("Randomising"):
        crowd.fill(reports, study, table, labels, epsilons, source=source)
    with screen.progress("Sending", unit="report") as progress:
        tally = crowd.deliver(
            reports, receipts, lambda: Service(address, ca=ca), tokens=invited, progress=progress
        )
    crowd.write_failures(failures, tally.undelivered)
    problems = tally.by_code()
    if as_json:
        files = {"reports": str(reports), "receipts": str(receipts), "failures": str(failures)}
        screen.print_json(
            {
                "stored": tally.stored,
                "stored_before": tally.stored_before,
                "problems": problems,
                "files": files,
            }
        )
    else:
        before = f" ({tally.stored_before:,} had receipts already)" if tally.stored_before else ""
        typer.echo(
            f"{tally.stored + tally.stored_before:,} of {table.n_rows:,} reports are "
            f"stored{before}."
        )
        for code, count in problems.items():
            typer.echo(f"  {code}: {count:,}")
        screen.list_files(
            screen.console(), {"reports": reports, "receipts": receipts, "not stored": failures}
        )
    if tally.undelivered:
        why = f"{tally.trouble}; " if tally.trouble else ""
        raise NotDelivered(
            f"{why}{len(tally.undelivered):,} reports are not stored: the same command "
            "sends them again, unchanged"
        )
