"""What a collection holds, told to people and to machines."""

from collections.abc import Callable
from typing import Any

from rich.text import Text

from pdml.cli import screen
from pdml.collect.intake import hour_text
from pdml.collect.store import Totals
from pdml.study import Study


def plain(study: Study, server: str, totals: Totals) -> dict[str, Any]:
    """For machines."""
    return {
        "study": study.hash,
        "server": server,
        "state": totals.state,
        "reports": totals.reports,
        "min_records": study.min_records,
        "by_epsilon": _sums(totals, lambda epsilon, label: f"{epsilon / 1e6:g}"),
        "by_reported_class": _sums(totals, lambda epsilon, label: study.classes[label]),
        "withdrawn": totals.withdrawn,
        "invitations": totals.invitations,
        "invitations_used": totals.invitations_used,
        "frozen_at": None if totals.frozen_hour is None else hour_text(totals.frozen_hour),
        "digest": totals.digest or None,
    }


def _sums(totals: Totals, name: Callable[[int, int], str]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (epsilon, label), count in sorted(totals.tallies.items()):
        sums[name(epsilon, label)] = sums.get(name(epsilon, label), 0) + count
    return sums


def show(study: Study, server: str, totals: Totals) -> None:
    """For people."""
    told = plain(study, server, totals)
    out = screen.console()
    for heading, counts in (
        ("epsilon", told["by_epsilon"]),
        ("reported answer", told["by_reported_class"]),
    ):
        table = screen.new_table(heading, "reports")
        for name, count in counts.items():
            table.add_row(Text(name), f"{count:,}")
        screen.show(out, f"Reports by {heading}", table)
    out.print()
    out.print(
        f"The collection of {server} is {told['state']}: {told['reports']:,} reports, of "
        f"{study.min_records:,} that training needs."
    )
    out.print(
        f"Withdrawn: {told['withdrawn']:,}. Invitations used: {told['invitations_used']:,} "
        f"of {told['invitations']:,}."
    )
    if told["frozen_at"]:
        out.print(
            f"Frozen at {told['frozen_at']}"
            + (f", exported with digest {told['digest']}." if told["digest"] else ".")
        )
