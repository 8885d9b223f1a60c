"""`pdml contribute --csv` as a function: a table of people, each played as a device of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdml.device import simulated_participants
from pdml.device.delivery import Delivery
from pdml.errors import InvalidInput, NotDelivered
from pdml.study import Study, table_columns
from pdml.tables import read_table


@dataclass(frozen=True, kw_only=True)
class CrowdResult:
    """What became of a crowd's reports, and the files that hold them."""

    rows: int
    tally: simulated_participants.Tally
    reports: Path
    receipts: Path
    failures: Path

    @property
    def files(self) -> dict[str, Path]:
        """By what they hold."""
        kinds = ("reports", "receipts", "failures")
        return {kind: getattr(self, kind) for kind in kinds}

    def to_dict(self) -> dict[str, Any]:
        """How many reports are stored, and why others are not, for JSON."""
        counts = {"stored": self.tally.stored, "stored_before": self.tally.stored_before}
        files = {kind: str(path) for kind, path in self.files.items()}
        return {**counts, "problems": self.tally.by_code(), "files": files}

    def check(self) -> None:
        """Raise `NotDelivered` if a report is not stored."""
        if self.tally.undelivered:
            why = f"{self.tally.trouble}; " if self.tally.trouble else ""
            raise NotDelivered(
                f"{why}{len(self.tally.undelivered):,} reports are not stored: the same command "
                "sends them again, unchanged"
            )


def submit_table(
    study: Study,
    url: str,
    file: Path,
    *,
    label_column: str,
    epsilon_column: str = "",
    epsilon: float | None = None,
    tokens: Path | None = None,
    outbox: Path | None = None,
    clamp: bool = False,
    ca: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> CrowdResult:
    """Try a study out: randomise every row of a table as the device of a person who agrees would,
    and send the reports.

    Parameters
    ----------
    study : Study
        The contract, `Study.load("study.toml")`.
    url : str
        The collection service.
    file : Path
        A table with the study's attributes as columns.
    label_column : str
        The column of true answers.
    epsilon_column, epsilon : str, float
        A column of each person's ε, or one for all; by default the study's suggestion.
    tokens : Path, optional
        Invitations, one per line.
    outbox : Path, optional
        Where reports wait, by default beside the table.
    clamp : bool
        Move numbers into their declared ranges instead of refusing the table.
    ca : Path, optional
        Trust this authority's certificates (PEM) instead of the system's.
    progress : callable
        Hears (reports answered, of how many).

    Returns
    -------
    CrowdResult
        Reports that could not be delivered are told in it, not raised: calling it again sends
        them, unchanged.

    Raises
    ------
    InvalidInput
        For a bad address or a table that does not fit the study: before anything is drawn.

    Guarantees
    ----------
    - Those of `crowd.fill`: each label is ε-LDP with its own ε, drawn once.
    """
    if not label_column:
        raise InvalidInput("--csv needs --label-column: the column of true answers")
    if epsilon_column and epsilon is not None:
        raise InvalidInput(
            "--epsilon must be left out beside --epsilon-column: each person has one already"
        )
    Delivery(url, ca=ca)  # a bad address is refused before the work
    named = [label_column, *([epsilon_column] if epsilon_column else [])]
    table = read_table(file, [*(attribute.name for attribute in study.attributes), *named])
    if not clamp:
        table_columns.require_in_range(study, table)
    labels = table_columns.labels_of(study, table, label_column)
    if epsilon_column:
        epsilons = table_columns.epsilons_of(study, table, epsilon_column)
    else:
        chosen = study.default_epsilon if epsilon is None else epsilon
        epsilons = table_columns.same_epsilon(study, table, chosen)
    invited = simulated_participants.read_tokens(tokens, table.n_rows) if tokens is not None else ()
    reports = outbox or file.with_name(f"{file.name.split('.')[0]}.reports.ndjson")
    receipts, failures = (
        reports.with_name(f"{reports.name.split('.')[0]}.{what}.ndjson")
        for what in ("receipts", "failures")
    )
    epsilon_text = "" if epsilon is None else f"{epsilon!r}"
    source = simulated_participants.source_digest(file, label_column, epsilon_column, epsilon_text)
    simulated_participants.fill(reports, study, table, labels, epsilons, source=source)
    tally = simulated_participants.deliver(
        reports, receipts, lambda: Delivery(url, ca=ca), tokens=invited, progress=progress
    )
    simulated_participants.write_failures(failures, tally.undelivered)
    return CrowdResult(
        rows=table.n_rows, tally=tally, reports=reports, receipts=receipts, failures=failures
    )
