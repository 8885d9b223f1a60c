"""What methods researchers run: `pdml data`, `pdml reproduce` and `pdml audit`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdml import _validate
from pdml.cli.options import JOBS, JSON, TABLES_JSON, argument, flag, group, option
from pdml.cli.render import console
from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from pdml.audit import Finding
    from pdml.research.paper import Reproduction

data = group(
    "Bring, list and find the real data sets of the experiments.",
    "They live in the folder PDML_DATA_DIR names or, without it, in your cache folder "
    "(`pdml data path`).",
)


@data.command()
def fetch(
    name: str = argument(..., "Which set.", "adult|raetsch|all"),
    force: bool = flag("--force", "Download again what is here and right."),
    as_json: bool = JSON,
) -> None:
    """Download a data set from its public home, and check its sha256.

    What is here already and right is not downloaded again.

    \b
    Example:
      pdml data fetch adult
    """
    from pdml.research.datasets import fetch as fetching
    from pdml.research.datasets import local
    from pdml.research.datasets.catalogue import SOURCES

    chosen = _validate.choice("the data set", name, (*SOURCES, "all"))
    results: list[dict[str, Any]] = []
    refusals: list[str] = []
    with console.bars("byte") as tell:
        for dataset in SOURCES if chosen == "all" else (chosen,):
            try:
                source = fetching.fetch(
                    dataset, force=force, tell=lambda file, *far: tell({file: far})
                )
            except DataError as refusal:  # another set may be here
                refusals.append(str(refusal))
            else:
                brought = {"downloaded": source is not None, "source": source}
                files = [vars(entry) for entry in fetching.status(dataset)]
                results.append({"name": dataset, **brought, "files": files})
    if not as_json:
        for result in results:
            how = f"fetched from {result['source']}" if result["downloaded"] else "here already"
            checked = f"{len(result['files'])} files checked in {local.folder()}"
            console.print_text(f"{result['name']}: {how}, {checked}", whole=True)
    elif not refusals:
        console.print_json({"folder": local.folder(), "sets": results})
    if refusals:
        raise DataError("; also, ".join(refusals))


@data.command("list")
def listing(as_json: bool = JSON) -> None:
    """List the data sets: what is here, where, and whether it is right.

    Every sha256 is computed anew.

    \b
    Example:
      pdml data list
    """
    from pdml.research.datasets import local
    from pdml.research.datasets.catalogue import SOURCES
    from pdml.research.datasets.fetch import status

    sets = {name: [vars(entry) for entry in status(name)] for name in SOURCES}

    def show() -> None:
        for name, files in sets.items():
            for entry in files:
                where = entry["path"] or entry["file"]
                console.print_text(f"{name:<8}  {entry['state']:<8}  {where}", whole=True)
        for name, files in sets.items():
            if any(entry["state"] != "checked" for entry in files):
                console.print_text(f"To get {name}: pdml data fetch {name}")

    listed = [{"name": name, "files": files} for name, files in sets.items()]
    console.print_result(as_json, {"folder": local.folder(), "sets": listed}, show)


@data.command()
def path(as_json: bool = JSON) -> None:
    """Print the folder where data sets are read from and fetched to.

    \b
    Example:
      pdml data path
    """
    from pdml.research.datasets import local

    folder, chosen = local.folder(), bool(os.environ.get(local.VARIABLE))
    summary = {"folder": str(folder), "exists": folder.is_dir(), "chosen_by_variable": chosen}
    console.print_answer(as_json, summary, str(folder))


_FIGURE_NAMES = "table1, fig3a, fig3b, fig4a, fig4b, fig4c, baselines; or all."
_FIGURES = "Folder for the CSV, PNG and SVG files; earlier ones are replaced."
_REPETITIONS = "Random repetitions.  [default: 20 for table1, each figure's own]"
_HOLDS = {True: ("holds   ", "green"), False: ("DOES NOT HOLD  ", "bold red")}


def reproduce(
    names: list[str] = argument(..., _FIGURE_NAMES, "NAME..."),
    out: Path = option(Path("reproduced"), _FIGURES, None, "--out", "-o"),
    seeds: int | None = option(None, _REPETITIONS, min=2, max=1000),
    jobs: int = JOBS,
    as_json: bool = TABLES_JSON,
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
            _show_reproduction(done[-1], paths)
    if as_json:
        console.print_json(
            {"outcomes": [reproduction.to_dict() for reproduction in done], "folder": out}
        )
    if not all(claim.holds for reproduction in done for claim in reproduction.claims):
        raise typer.Exit(1)


def _show_reproduction(reproduction: "Reproduction", paths: dict[str, Path]) -> None:
    if reproduction.summary:
        columns, *rows = reproduction.summary
        console.print_table(reproduction.title, console.Grid(columns, rows), reproduction.caption)
    else:
        console.print_text("", (reproduction.title, console.HEADING), reproduction.caption)
    console.print_text("")
    for claim in reproduction.claims:
        console.print_text([_HOLDS[claim.holds], f"{claim.text}: {claim.measured}"])
    console.print_files({kind.upper(): path for kind, path in paths.items()})


_VERDICTS = {True: ("holds", "green"), False: ("VIOLATED", "bold red")}


def audit(
    full: bool = flag("--full", "Minutes instead of seconds: bounds closer to the claims."),
    attack: list[str] | None = option(
        None, "Only this attack (repeatable).  [default: all]", "NAME"
    ),
    seed: int = option(1, "Another seed: other samples.", min=0),
    jobs: int = JOBS,
    as_json: bool = flag("--json", "Print one JSON object instead of a table."),
) -> None:
    """Attack the real code, and compare what leaks with what the ledger claims.

    Every attack gives a lower bound on what an adversary learns that is wrong with a chance of at
    most one in a million. A bound above the claim is a violated claim, and the exit code is 1.

    \b
    Attacks: label_flips, gradient_difference, label_inference, record_membership, averaging,
      sensitivity, sums_inference, sums_membership, coalition; answer_inference, worst_pair,
      deployed_node, deployed_sums (their chance is the operating system's, which has no seed)
    Example:
      pdml audit --attack label_inference --attack sensitivity
    """
    from dataclasses import replace

    from pdml.audit import FALSE_ALARM, FULL, QUICK, check, left_out, run

    with console.progress("Attacking", unit="attack") as progress:
        findings = run(
            replace(FULL if full else QUICK, jobs=jobs),
            seed=seed,
            attacks=attack or (),
            on_attack=lambda name, index, count: progress(index, count, f"Attack: {name}"),
        )
    summary = {
        "full": full,
        "seed": seed,
        "false_alarm_rate": FALSE_ALARM,
        "passed": all(finding.passed for finding in findings),
        "findings": [finding.to_dict() for finding in findings],
        "left_out": left_out(),
    }
    console.print_result(as_json, summary, lambda: _show_findings(findings, left_out()))
    check(findings)


def _show_findings(findings: "Sequence[Finding]", left_out: Mapping[str, str]) -> None:
    from pdml.audit import FALSE_ALARM

    columns = ("attack", "claimed", "measured", "in", "verdict")
    rows = [
        (
            finding.name,
            f"<= {finding.claim:.3g}",
            f">= {finding.measured_lower_bound:.3g}",
            finding.quantity,
            _VERDICTS[finding.passed],
        )
        for finding in findings
    ]
    console.print_table(
        "Does it leak more than it says?",
        console.Grid(columns, rows, words=("attack", "verdict")),
        f"Measured: lower bounds, each wrong with a chance of at most {FALSE_ALARM:g}; "
        "claims are upper bounds.",
    )
    console.print_text("", *(f"{finding.name}: {finding.sentence}." for finding in findings), "")
    if all(finding.passed for finding in findings):
        console.print_text(f"All {len(findings)} claims hold.")
    for name, package in left_out.items():
        console.print_text(f"Left out: {name}, which needs the package {package}.")
