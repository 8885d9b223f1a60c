"""`pdml audit`: attack the real code and compare what leaks with what is claimed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pdml.cli.options import Jobs, flag, option
from pdml.cli.render import console

if TYPE_CHECKING:
    from pdml.audit import Finding

_HOLDS = {True: ("holds", "green"), False: ("VIOLATED", "bold red")}


def audit(
    full: Annotated[
        bool, flag("--full", "Minutes instead of seconds: bounds closer to the claims.")
    ] = False,
    attack: Annotated[
        list[str] | None, option("Only this attack (repeatable).  [default: all]", "NAME")
    ] = None,
    seed: Annotated[int, option("Another seed: other samples.", min=0)] = 1,
    jobs: Jobs = 0,
    as_json: Annotated[bool, flag("--json", "Print one JSON object instead of a table.")] = False,
) -> None:
    """Attack the real code, and compare what leaks with what the ledger claims.

    Every attack gives a lower bound on what an adversary learns that is wrong with a chance of at
    most one in a million. A bound above the claim is a violated claim, and the exit code is 1.

    \b
    Attacks: label_flips, gradient_difference, label_inference, record_membership, averaging,
      sensitivity, sums_inference, sums_membership, coalition; answer_inference, deployed_node,
      deployed_sums (their chance is the operating system's, which has no seed)
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
    console.print_result(as_json, summary, lambda: _show(findings, left_out()))
    check(findings)


def _show(findings: "Sequence[Finding]", left_out: Mapping[str, str]) -> None:
    from pdml.audit import FALSE_ALARM

    columns = ("attack", "claimed", "measured", "in", "verdict")
    rows = [
        (
            finding.name,
            f"<= {finding.claim:.3g}",
            f">= {finding.measured_lower_bound:.3g}",
            finding.quantity,
            _HOLDS[finding.passed],
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
