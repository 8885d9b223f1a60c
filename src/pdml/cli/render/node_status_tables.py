"""`pdml node status` in words."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isinf

from pdml.accounting import Budget
from pdml.accounting.provenance import note
from pdml.cli.render import console
from pdml.formatting import numbers
from pdml.node.operator.consortium_status import Everybody, Released
from pdml.node.operator.node_status import Account
from pdml.node.protocol.redaction import no_result
from pdml.node.storage.control_db import ENDED, Attempt

DIGITS = 16  # of a digest in a list


def show(account: Account) -> None:
    """What an operator wants to know first stands first."""
    home, study, last = account.home, account.study, account.attempt
    runs = "runs" if account.running else "does not run"
    console.say(f"{home.name} {runs}, {_connection(account)}")
    if account.warning:
        console.say(f"warning: {account.warning}")
    if study is not None:
        console.say(f"study {study.id}, hash {study.hash}", whole=True)
        by_study = home.config.accept == "study"
        rule = "the study’s own plan is accepted" if by_study else "an operator is asked"
        console.say(f"offers: {rule}")
        for who, jobs in account.unfinished.items() if by_study else ():
            console.say(f"but an operator is asked about the next: {no_result(who, jobs)}")
    console.say(account.problem or f"{account.records:,} records")
    if account.records and (said := note(home.name, account.labels)):
        console.say(said)
    for waiting in account.waiting:
        console.say(f"waits for your answer: {offered(waiting)}")
    if last is not None and last not in account.waiting:
        console.say(f"job {offered(last)}")
    if last is not None:
        told = account.progress if account.progress.get("job") == last.job else {}
        if last.state not in ENDED and (others := told.get("rounds")):
            each = (f"{name} round {t}" for name, t in others.items() if name != home.name)
            console.say("the others, as they say: " + ", ".join(each))
    for job in account.jobs:
        used = f"{_released(job.round)} (data set {job.dataset[:12]})"
        console.say(f"job {job.job}: {account.state_of(job)}, {used}")
    for found in account.datasets:
        what = "this node's data set" if found.current else "an earlier data set"
        heading = f"{found.digest[:12]}, {what}: {_released(found.releases)}"
        console.show_privacy(found.ledger.overview(), heading=heading)
        if found.next_job is not None and study and study.plan and study.budget:
            console.say("", _next(found.next_job, study.plan.rounds, study.budget))


def show_members(found: Everybody) -> None:
    """The whole consortium, one data set after the other."""
    study = found.study
    console.say(f"study {study.id}, hash {study.hash}", whole=True)
    for each in found.released:
        heading = (
            f"{each.server}, data set {each.dataset[:12]}: {each.records:,} records, "
            f"{_released(each.releases)} by the end of job {each.job}"
            + (", signed by earlier keys" if each.former_keys else "")
        )
        console.show_privacy(each.ledger.overview(), heading=heading)
        if each.next_job is not None and study.plan and study.budget:
            console.say("", _next(each.next_job, study.plan.rounds, study.budget))
    for name, accounts in found.several.items():
        console.say("", _apart(name, accounts))
    if found.silent:
        console.say("", f"No statement of {', '.join(found.silent)}: no job has ended with them.")
    for one in found.unread:
        console.say(
            f"The statement of {one} does not fit the study's keys at that job, and is not counted."
        )
    if found.released:
        console.say("", "As each has signed; what it has released since then is not counted.")


def _released(vectors: int) -> str:
    return f"{numbers.count(vectors, 'vector')} released"


def _apart(name: str, accounts: Sequence[Released]) -> str:
    """Of a member that has begun with a whole budget more than once."""
    each = ", ".join(f"{one.releases} ({one.dataset[:12]})" for one in accounts)
    total = sum(one.releases for one in accounts)
    anew = len({one.former_keys for one in accounts}) > 1
    return (
        f"{name} has begun anew{' with new keys' if anew else ''}: of {len(accounts)} data sets it "
        f"has released {each}, {numbers.count(total, 'vector')} together. Each has a budget of its "
        "own, on the word of its operator that nobody's record is in two of them."
    )


def offered(job: Attempt) -> str:
    """A job that was offered, and what became of it."""
    why = f" ({job.sentence})" if job.sentence else ""
    return f"{job.job}, offered by {job.offerer}: {job.state}{why}, digest {job.digest[:DIGITS]}"


def _connection(account: Account) -> str:
    since, why = account.connection.get("since"), account.connection.get("why")
    when = f" since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC" if since else ""
    if account.connected:
        return f"connected to the relay{when}"
    if not account.running:
        return "not connected to the relay"
    return f"not connected to the relay{when}" + (f": {why}" if why else "")


def _next(safe: int, rounds: int, budget: Budget) -> str:
    both = {data: budget.limit(data)[0] for data in ("features", "label")}
    each = [f"epsilon {eps:g} for {data}" for data, eps in both.items() if not isinf(eps)]
    said = f"{', '.join(each) or 'no limit'}, against {budget.whom}"
    if safe < rounds:
        return f"The budget ({said}) allows no other job: its last safe round would be {safe}."
    return f"The budget ({said}) allows another job of {numbers.count(rounds, 'round')}."
