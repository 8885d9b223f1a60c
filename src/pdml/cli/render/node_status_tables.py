"""`pdml node status` in words."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isinf

from pdml.accounting import Budget
from pdml.accounting.provenance import note
from pdml.cli.render import console
from pdml.formatting import numbers
from pdml.node.operator.status import ConsortiumStatus, DatasetSpending, NodeStatus
from pdml.node.protocol.redaction import no_result
from pdml.node.storage.control_db import ENDED, Attempt

DIGITS = 16  # of a digest in a list


def show(account: NodeStatus) -> None:
    """What an operator wants to know first stands first."""
    home, study, last = account.home, account.study, account.attempt
    runs = "runs" if account.running else "does not run"
    console.print_text(f"{home.name} {runs}, {_connection(account)}")
    if account.warning:
        console.print_text(f"warning: {account.warning}")
    if study is not None:
        console.print_text(f"study {study.id}, hash {study.hash}", whole=True)
        by_study = home.config.accept == "study"
        rule = "the study’s own plan is accepted" if by_study else "an operator is asked"
        console.print_text(f"offers: {rule}")
        for who, jobs in account.unfinished.items() if by_study else ():
            console.print_text(f"but an operator is asked about the next: {no_result(who, jobs)}")
    console.print_text(account.problem or f"{account.records:,} records")
    if account.records and (labels_note := note(home.name, account.labels)):
        console.print_text(labels_note)
    for waiting in account.waiting:
        console.print_text(f"waits for your answer: {format_offer(waiting)}")
    if last is not None and last not in account.waiting:
        console.print_text(f"job {format_offer(last)}")
    if last is not None:
        progress = account.progress if account.progress.get("job") == last.job else {}
        if last.state not in ENDED and (others := progress.get("rounds")):
            positions = (f"{name} round {t}" for name, t in others.items() if name != home.name)
            console.print_text("the others, as they say: " + ", ".join(positions))
    for job in account.jobs:
        used = f"{_released(job.round)} (data set {job.dataset[:12]})"
        console.print_text(f"job {job.job}: {account.state_of(job)}, {used}")
    for dataset in account.datasets:
        what = "this node's data set" if dataset.current else "an earlier data set"
        heading = f"{dataset.digest[:12]}, {what}: {_released(dataset.releases)}"
        console.print_privacy(dataset.ledger.overview(), heading=heading)
        if dataset.next_job is not None and study and study.plan and study.budget:
            console.print_text("", _next(dataset.next_job, study.plan.rounds, study.budget))


def show_members(consortium: ConsortiumStatus) -> None:
    """The whole consortium, one data set after the other."""
    study = consortium.study
    console.print_text(f"study {study.id}, hash {study.hash}", whole=True)
    for release in consortium.released:
        heading = (
            f"{release.server}, data set {release.dataset[:12]}: {release.records:,} records, "
            f"{_released(release.releases)} by the end of job {release.job}"
            + (", signed by earlier keys" if release.former_keys else "")
        )
        console.print_privacy(release.ledger.overview(), heading=heading)
        if release.next_job is not None and study.plan and study.budget:
            console.print_text("", _next(release.next_job, study.plan.rounds, study.budget))
    for name, accounts in consortium.several.items():
        console.print_text("", _apart(name, accounts))
    if consortium.silent:
        console.print_text(
            "", f"No statement of {', '.join(consortium.silent)}: no job has ended with them."
        )
    for server in consortium.unread:
        console.print_text(
            f"The statement of {server} does not fit the study's keys at that job, and is not "
            "counted."
        )
    if consortium.released:
        console.print_text(
            "", "As each has signed; what it has released since then is not counted."
        )


def _released(vectors: int) -> str:
    return f"{numbers.count(vectors, 'vector')} released"


def _apart(name: str, accounts: Sequence[DatasetSpending]) -> str:
    """Of a member that has begun with a whole budget more than once."""
    parts = ", ".join(f"{account.releases} ({account.dataset[:12]})" for account in accounts)
    total = sum(account.releases for account in accounts)
    anew = len({account.former_keys for account in accounts}) > 1
    return (
        f"{name} has begun anew{' with new keys' if anew else ''}: of {len(accounts)} data sets it "
        f"has released {parts}, {numbers.count(total, 'vector')} together. Each has a budget of "
        "its "
        "own, on the word of its operator that nobody's record is in two of them."
    )


def format_offer(job: Attempt) -> str:
    """A job that was offered, and what became of it."""
    why = f" ({job.sentence})" if job.sentence else ""
    return f"{job.job}, offered by {job.offerer}: {job.state}{why}, digest {job.digest[:DIGITS]}"


def _connection(account: NodeStatus) -> str:
    since, why = account.connection.get("since"), account.connection.get("why")
    when = f" since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC" if since else ""
    if account.connected:
        return f"connected to the relay{when}"
    if not account.running:
        return "not connected to the relay"
    return f"not connected to the relay{when}" + (f": {why}" if why else "")


def _next(safe: int, rounds: int, budget: Budget) -> str:
    both = {data: budget.limit(data)[0] for data in ("features", "label")}
    limits = [f"epsilon {eps:g} for {data}" for data, eps in both.items() if not isinf(eps)]
    terms = f"{', '.join(limits) or 'no limit'}, against {budget.whom}"
    if safe < rounds:
        return f"The budget ({terms}) allows no other job: its last safe round would be {safe}."
    return f"The budget ({terms}) allows another job of {numbers.count(rounds, 'round')}."
