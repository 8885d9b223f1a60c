"""`pdml audit`: attack the real code and compare what leaks with what is claimed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.cli.settings import Jobs

if TYPE_CHECKING:
    from pdml.audit import Finding


def audit(
    full: Annotated[
        bool,
        typer.Option("--full", help="Minutes instead of seconds: bounds closer to the claims."),
    ] = False,
    attack: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this attack (repeatable).  [default: all]"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed: other samples.")] = 1,
    jobs: Jobs = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Attack the real code, and compare what leaks with what the ledger claims.

    Every attack gives a lower bound on what an adversary learns that is wrong with a chance of at
    most one in a million. A bound above the claim is a violated claim, and the exit code is 1.

    \b
    Attacks: label_flips, gradient_difference, label_inference, record_membership, averaging,
      sensitivity, deployed_node (its noise is the operating system's, which has no seed)
    Example:
      pdml audit --attack label_inference --attack sensitivity
    """
    from dataclasses import replace

    from pdml.audit import ATTACKS, FALSE_ALARM, FULL, QUICK, lacks, run

    chosen = tuple(attack or (name for name in ATTACKS if not lacks(name)))
    left_out = {name: lacks(name) for name in ATTACKS if lacks(name) and name not in chosen}
    with _progress() as on_attack:
        effort = replace(FULL if full else QUICK, jobs=jobs)
        findings = run(effort, seed=seed, attacks=chosen, on_attack=on_attack)
    violated = [finding for finding in findings if not finding.passed]
    if as_json:
        from pdml.cli.screen import print_json

        plain = [finding.to_dict() for finding in findings]
        settings = {"full": full, "seed": seed, "false_alarm_rate": FALSE_ALARM}
        print_json({**settings, "passed": not violated, "findings": plain, "left_out": left_out})
    else:
        _show(findings, violated, left_out)
    if violated:
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar over the attacks on a terminal, else silence: the table says it all."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    err = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not err.is_terminal or err.is_dumb_terminal:
        yield lambda name, index, count: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("attacks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("Attacking", total=None)
        yield lambda name, index, count: bar.update(
            task, description=f"Attack: {name}", completed=index, total=count
        )


def _show(
    findings: "Sequence[Finding]",
    violated: "Sequence[Finding]",
    left_out: Mapping[str, str],
) -> None:
    from rich.text import Text

    from pdml.audit import FALSE_ALARM
    from pdml.cli import screen

    table = screen.new_table(
        "attack", "claimed", "measured", "in", "verdict", words=("attack", "verdict")
    )
    for finding in findings:
        verdict = (
            Text("holds", style="green") if finding.passed else Text("VIOLATED", style="bold red")
        )
        table.add_row(
            Text(finding.name),
            f"<= {finding.claim:.3g}",
            f">= {finding.measured_lower_bound:.3g}",
            Text(finding.quantity),
            verdict,
        )
    out = screen.console()
    screen.show(
        out,
        "Does it leak more than it says?",
        table,
        f"Measured: lower bounds, each wrong with a chance of at most {FALSE_ALARM:g}; "
        "claims are upper bounds.",
    )
    out.print()
    for finding in findings:
        out.print(f"{finding.name}: {finding.sentence}.")
    out.print()
    out.print(
        f"{len(violated)} of {len(findings)} claims violated."
        if violated
        else f"All {len(findings)} claims hold."
    )
    for name, package in left_out.items():
        out.print(f"Left out: {name}, which needs the package {package}.")
