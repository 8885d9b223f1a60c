"""`pdml node status` in words."""

from datetime import UTC, datetime
from math import isinf
from typing import TYPE_CHECKING

from pdml.accounting import Budget
from pdml.accounting.provenance import note
from pdml.node.account import Account, look
from pdml.node.desk import ENDED
from pdml.train.plan import TrainingPlan

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["look", "tell"]


def tell(account: Account) -> None:
    """What an operator wants to know first stands first."""
    from pdml.cli import screen

    out = screen.console()
    home, study = account.home, account.study
    out.print(
        f"{home.name} {'runs' if account.running else 'does not run'}, {_connection(account)}"
    )
    if account.warning:
        out.print(f"warning: {account.warning}")
    if study is not None:
        out.print(f"study {study.id}, hash {study.hash}", soft_wrap=True)
        by_study = home.config.accept == "study"
        rule = "the study’s own plan is accepted" if by_study else "an operator is asked"
        out.print(f"offers: {rule}")
    out.print(account.problem or f"{account.records:,} records")
    if account.records and (said := note(home.name, account.labels)):
        out.print(said)
    last = account.attempt
    if last is not None:
        out.print(
            f"job {last.job}, offered by {last.offerer}: {last.state}"
            + (f" ({last.sentence})" if last.sentence else "")
        )
        if (
            last.state not in ENDED
            and (others := account.progress.get("rounds"))
            and account.progress.get("job") == last.job
        ):
            out.print(
                "the others, as they say: "
                + ", ".join(f"{name} round {t}" for name, t in others.items() if name != home.name)
            )
    for job in account.jobs:
        out.print(
            f"job {job.job}: {job.state}, {job.round} vectors released (data set "
            f"{job.dataset[:12]})"
        )
    _ledgers(out, account)


def _connection(account: Account) -> str:
    since, why = account.connection.get("since"), account.connection.get("why")
    when = f" since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC" if since else ""
    if account.connected:
        return f"connected to the relay{when}"
    return f"not connected to the relay{when if account.running else ''}" + (
        f": {why}" if why and account.running else ""
    )


def _ledgers(out: "Console", account: Account) -> None:
    from pdml.cli import screen

    study = account.study
    for found in account.datasets:
        what = "this node's data set" if found.current else "an earlier data set"
        heading = f"{found.digest[:12]}, {what}: {found.releases} vectors released"
        lines = found.ledger.lines()
        screen.show(out, heading, screen.privacy_table(lines), screen.even_odds(lines))
        if found.next_job is not None and study is not None and study.budget is not None:
            out.print()
            out.print(
                _next(found.next_job, TrainingPlan.from_dict(dict(study.plan)).rounds, study.budget)
            )


def _next(safe: int, rounds: int, budget: Budget) -> str:
    limits = [
        f"epsilon {budget.limit(row)[0]:g} for {row}"
        for row in ("features", "label")
        if not isinf(budget.limit(row)[0])
    ]
    allowed = (
        f"allows another job of {rounds} rounds"
        if safe >= rounds
        else f"allows no other job: its last safe round would be {safe}"
    )
    return f"The budget ({', '.join(limits)}) {allowed}."
