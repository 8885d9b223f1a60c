"""`pdml node status` in words."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isinf

from pdml.accounting import Budget
from pdml.accounting.kinds import Data, randomiser_note
from pdml.cli.render import console
from pdml.formatting import numbers
from pdml.node.operator.offers import Cost, OfferTerms
from pdml.node.operator.status import ConsortiumStatus, DatasetSpending, NodeStatus
from pdml.node.protocol.redaction import no_result
from pdml.node.storage.control_db import ENDED, Attempt
from pdml.node.storage.node_dir import OfferRule

DIGITS = 16  # of a digest in a list


def show_status(account: NodeStatus) -> None:
    """What an operator wants to know first stands first."""
    home, study, last = account.home, account.study, account.attempt
    runs = "runs" if account.running else "does not run"
    console.print_text(f"{home.name} {runs}, {_connection(account)}")
    if account.warning:
        console.print_text(f"warning: {account.warning}")
    if study is not None:
        console.print_text(f"study {study.id}, hash {study.hash}", whole=True)
        by_study = home.config.accept == OfferRule.STUDY
        rule = "the study’s own plan is accepted" if by_study else "an operator is asked"
        console.print_text(f"offers: {rule}")
        for who, jobs in account.unfinished.items() if by_study else ():
            console.print_text(f"but an operator is asked about the next: {no_result(who, jobs)}")
    console.print_text(account.problem or f"{account.records:,} records")
    if account.records and (labels_note := randomiser_note(home.name, account.labels)):
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
        "its own, on the word of its operator that nobody's record is in two of them."
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
    both = {data: budget.limit(data)[0] for data in (Data.FEATURES, Data.LABEL)}
    limits = [f"epsilon {eps:g} for {data}" for data, eps in both.items() if not isinf(eps)]
    terms = f"{', '.join(limits) or 'no limit'}, against {budget.whom}"
    if safe < rounds:
        return f"The budget ({terms}) allows no other job: its last safe round would be {safe}."
    return f"The budget ({terms}) allows another job of {numbers.count(rounds, 'round')}."


def show_offer(terms: OfferTerms) -> None:
    """Who offers what, then what other servers can learn before and after."""
    console.print_text(*describe_offer(terms), whole=True)
    most = max((cost.after.colluding or 0 for cost in terms.costs), default=0)
    columns = ("who", "of the", "epsilon now", "epsilon after", "sure after", "budget")
    rows = [_row(cost, most) for cost in terms.costs]
    deltas = {cost.after.delta for cost in terms.costs}
    odds = ", ".join(f"{delta:g}" for delta in sorted(deltas))
    console.print_table(
        "What would it cost?",
        console.Grid(columns, rows, words=2),
        "What other servers can learn of whoever is protected least, from all jobs on this data "
        "set: now, and with the whole of this job. Sure: starting from 50%, but for a chance of "
        f"{odds} (delta). The budget holds against {terms.budget.whom}.",
    )


def describe_offer(terms: OfferTerms) -> list[str]:
    """The terms, one a line."""
    offer, job_terms, study = terms.offer, terms.job_terms, terms.study
    again = ": it goes on with a job that was begun" if offer.resume else ""
    classes, features = job_terms.classes, numbers.count(study.encoder.n_features, "feature")
    predicts = f"{study.question} ({numbers.count(classes)} classes), from {features}"
    why = terms.attempt.sentence
    return [
        f"job {job_terms.job}, offered by {offer.offerer}{again}",
        *([f"you are asked because {why}"] if why else []),
        f"digest {terms.digest}",
        f"study {study.id}, hash {study.hash}",
        f"predicts: {predicts}",
        f"members: {', '.join(job_terms.servers)}",
        f"data set: {terms.dataset[:12]}, {numbers.count(terms.records, 'record')} of this node",
        f"method: {_method(terms)}",
        f"noise: {_noise(terms)}",
        f"waits: at most {offer.start_timeout:g} s until all have accepted and the job begins, "
        f"and {offer.round_timeout:g} s for each answer of a member",
    ]


def _method(terms: OfferTerms) -> str:
    job_terms, plan = terms.job_terms, terms.job_terms.plan
    if not job_terms.sums:
        rounds, with_whom = numbers.count(plan.rounds, "round"), job_terms.neighbours(terms.server)
        return (
            f"{rounds} with {', '.join(with_whom)}, {plan.loss} loss; all other servers may collude"
        )
    if plan.colluding is None:
        return "one exchange of sums; each member sees every member's own sums"
    return (
        "one exchange of masked sums; nothing but their total can be read while at most "
        f"{numbers.count(plan.colluding, 'other server')} collude{'s' * (plan.colluding == 1)}"
    )


def _noise(terms: OfferTerms) -> str:
    """By the plan's own settings, which the ledger below rests on."""
    plan = terms.job_terms.plan
    if terms.job_terms.sums:
        return f"label_noise {plan.label_noise:g}, square_noise {plan.square_noise:g}"
    servers = terms.job_terms.servers
    noise = plan.iterates(terms.job_terms.index(terms.server), len(servers))
    return (
        f"noise_scale {noise.scale:g}, noise_decay {plan.noise_decay:g}, "
        f"objective_bound {plan.objective_bound:g} ({plan.objective_noise})"
    )


def _row(cost: Cost, most: int) -> list[console.Words]:
    k, limit = cost.after.colluding, cost.limit
    return [
        numbers.coalition(k, all_others=k == most) if k else "all other servers together",
        cost.after.data,
        numbers.epsilon(cost.before.epsilon),
        numbers.epsilon(cost.after.epsilon),
        "" if isinf(cost.after.epsilon) else numbers.certainty(cost.after.certainty),
        "" if limit is None else "no limit" if isinf(limit) else numbers.significant(limit),
    ]
