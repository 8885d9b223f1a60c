"""What an operator is asked about: the terms of an offer in words, and its cost in a table."""

from math import isinf

from pdml.cli.render import console
from pdml.formatting import numbers
from pdml.node.operator.offers import Cost, OfferTerms


def show(terms: OfferTerms) -> None:
    """Who offers what, then what other servers can learn before and after."""
    console.print_text(*describe(terms), whole=True)
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


def describe(terms: OfferTerms) -> list[str]:
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
