"""Why a plan looks as it does, and whether joining pays, in sentences for people."""

from collections.abc import Mapping
from math import isinf

import numpy as np

from pdml._types import Array
from pdml.accounting import Budget
from pdml.accounting.kinds import Method
from pdml.planning.search.candidates import LITTLE
from pdml.planning.search.rounds_search import Choice
from pdml.planning.search.sums_search import WIDEST
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan

_APART = {
    "alone": "a server that keeps its own reports to itself",
    "majority": "the majority-class baseline",
}


def verdict(joint: Array, apart: Array, name: str, *, public: bool) -> str:
    """Whether joining is expected to pay, from shares of right answers in one utility forecast."""
    gain = joint.mean() - apart.mean()
    how = "not expected to pay" if gain <= 0 else "expected to pay"
    little = " little" if 0 < gain < LITTLE else ""
    where = "on public records" if public else f"over {len(joint)} simulated data sets"
    better = int(np.sum(joint.mean(axis=1) > apart.mean(axis=1)))
    often = "" if public else f", and is ahead in {better} of them"
    return (
        f"joining is {how}{little}: {where} the joint model is right on "
        f"{joint.mean():.1%} of records{often}; {_APART[name]} is right on {apart.mean():.1%}"
    )


def reasons(
    plan: TrainingPlan,
    right: Mapping[str, Array],
    budget: Budget,
    sizes: Sizes,
    *,
    choice: Choice | None = None,
    most: float | None = None,
) -> tuple[str, ...]:
    """Why this method, these settings and this much noise."""
    sentences = [_compared(plan, right, sizes, most)]
    if plan.method == Method.SUMS:
        sentences += _of_sums(plan, budget, sizes)
    elif choice is not None:
        sentences += _of_rounds(plan, choice)
    return (*sentences, *_of_answers(sizes))


def _compared(
    plan: TrainingPlan, right: Mapping[str, Array], sizes: Sizes, most: float | None
) -> str:
    """Why this method and not the other."""
    numbers = sizes.width * (sizes.width + 1) // 2
    why = {
        "sums": "one exchange of sums: what a record tells of its label and of its squares is "
        "released once, and any model is made of the totals",
        "rounds": f"{plan.rounds} rounds: what is released has {sizes.width} numbers for each row "
        "of weights",
    }[plan.method]
    other = "rounds" if plan.method == Method.SUMS else "sums"
    if other in right:
        return (
            f"{why}; expected to be right on {right[plan.method].mean():.1%} of records, against "
            f"{right[other].mean():.1%} by {other}"
        )
    if plan.method == Method.SUMS and most is not None:
        little = ", too little more for so many exchanges" if most > right["sums"].mean() else ""
        return (
            f"{why}; expected to be right on {right['sums'].mean():.1%} of records, against at "
            f"most {most:.1%} by rounds{little}"
        )
    if plan.method == Method.ROUNDS and sizes.width > WIDEST:
        return f"{why}; sums would hold {numbers:,} squares, and are tried up to {WIDEST} columns"
    return why


def _of_sums(plan: TrainingPlan, budget: Budget, sizes: Sizes) -> list[str]:
    servers = len(sizes.records)
    codes = 1 if sizes.classes == 2 else sizes.classes
    numbers = sizes.width * (sizes.width + 1) // 2 + codes * sizes.width
    label, square = plan.sum_stddevs(servers)
    release = (
        f"every server sends {numbers:,} numbers once, with noise of deviation {label:.3g} on sums "
        f"of labels and {square:.3g} on sums of squares, however many records it has"
    )
    if isinf(budget.features_epsilon):
        split = "features have no limit, so that sums of squares need no noise"
    else:
        split = "the noise is divided so that the model loses the least"
    if budget.colluding is None:
        who = (
            "all other servers are assumed to collude, so that every server hides its records by "
            "itself; where fewer can be assumed to, their number (colluding) makes it quieter"
        )
    else:
        hidden = servers - budget.colluding
        who = (
            f"no more than {budget.colluding} of the other servers are assumed to collude: sums "
            f"are masked, only their total appears, and the noise of any {hidden} servers protects "
            "everybody in it"
        )
    return [release, split, who]


def _of_answers(sizes: Sizes) -> list[str]:
    names = [
        f"{answer.block.name!r} (suggested epsilon {answer.epsilon:g})" for answer in sizes.answers
    ]
    if not names:
        return []
    *rest, last = names
    which = f"{', '.join(rest)} and {last}" if rest else last
    return [
        f"of {which} servers have only randomised answers: the utility forecast randomises "
        "them, too"
    ]


def _of_rounds(plan: TrainingPlan, choice: Choice) -> list[str]:
    through = (
        "noise in the objective (R), drawn once"
        if choice.objective_bound
        else "the same noise on releases (R = 0)"
    )
    return [
        f"{choice.rounds} rounds with penalty {plan.penalty:g}: more rounds would leave less "
        f"unfinished, but divide the budget among more releases ({choice.noise:.0%} of the "
        "margins' power is noise)",
        f"noise is forgotten by a factor C = {choice.rule_decay**2:.3g} per round, for which the "
        f"rule sqrt(C) says decay {choice.rule_decay:.3g}; the search took {choice.decay:.3g}",
        f"labels are protected against other servers by {through}",
    ]
