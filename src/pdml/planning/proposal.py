"""What a planner proposes: a plan, what it spends, what it is worth, and why.

Why a plan looks as it does, and whether joining pays, in sentences for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isinf
from os import PathLike
from typing import Any

import numpy as np

from pdml._types import Array
from pdml.accounting import Budget, Ledger
from pdml.accounting.kinds import Method
from pdml.formatting import notebook
from pdml.numerics.admm.graph import Graph
from pdml.numerics.interval import Range
from pdml.planning.explain.suggestions import Suggestion, advice, find_suggestions
from pdml.planning.forecast.utility import Forecast
from pdml.planning.plan_file import SavedPlan
from pdml.planning.search.candidates import LITTLE, Scores, SearchSpace, better_apart, pays
from pdml.planning.search.rounds_search import Choice
from pdml.planning.search.sums_search import WIDEST
from pdml.planning.sizes import Row, Sizes, ledger, spent
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


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A plan, what it spends, what it is expected to be worth, and why it looks as it does.

    Attributes
    ----------
    budget, sizes
        What was asked.
    within : Within
        What there was to choose from.
    plan : TrainingPlan
        What is proposed.
    judged : mapping
        Shares of records, (populations, times, 2), by the name of each candidate: of the methods
        that were compared, and of what needs no training together: "alone", a server with its own
        reports, and "majority", the largest class.
    public : bool
        Whether public records were rehearsed on.
    choice : Choice, optional
        The best plan of rounds, where it was looked for.
    most : float, optional
        What rounds could be right on at the most, where that was asked.
    """

    budget: Budget
    sizes: Sizes
    within: SearchSpace = field(repr=False)
    plan: TrainingPlan
    judged: Scores = field(compare=False, repr=False)
    public: bool = False
    choice: Choice | None = field(default=None, repr=False)
    most: float | None = field(default=None, repr=False)

    @property
    def graph(self) -> Graph:
        """Who is linked to whom."""
        return self.within.graph

    @cached_property
    def candidates(self) -> dict[str, Forecast]:
        """Forecasts by name: see ``judged``."""
        return {name: Forecast.of(scores.reshape(-1, 2)) for name, scores in self.judged.items()}

    @property
    def forecast(self) -> Forecast:
        """Of the plan."""
        return self.candidates[self.plan.method]

    @property
    def _right(self) -> dict[str, Array]:
        return {name: scores[..., 1] for name, scores in self.judged.items()}

    @property
    def pays(self) -> bool:
        """Whether joining is expected to: the plan is right more often than either alone."""
        return pays(self.judged, self.plan.method)

    @property
    def beaten(self) -> str:
        """What the plan is held against: "alone" or "majority", whichever is right more often."""
        return better_apart(self.judged)

    @property
    def verdict(self) -> str:
        """Whether joining pays, in a sentence."""
        right, apart = self._right, self.beaten
        return verdict(right[self.plan.method], right[apart], apart, public=self.public)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this method, these settings and this much noise."""
        inputs = (self.plan, self._right, self.budget, self.sizes)
        return reasons(*inputs, choice=self.choice, most=self.most)

    @cached_property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """What would make joining pay, one setting at a time; nothing where it does, or where
        public records were rehearsed on.
        """
        if self.pays or self.public:
            return ()
        return find_suggestions(self.budget, self.sizes, self.within)

    @property
    def advice(self) -> str:
        """The verdict, and where joining does not pay what would make it."""
        more = advice(self.suggestions)
        return f"{self.verdict}; {more}" if more else self.verdict

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """What is allowed, and what the plan spends of it."""
        return spent(self.plan, self.budget, self.sizes, self.graph)

    @cached_property
    def ledger(self) -> Ledger:
        """What the whole training will spend, at the budget's δ of features."""
        return ledger(self.plan, self.sizes, self.graph, self.budget.features_delta)

    def _repr_html_(self) -> str:
        """For notebooks."""

        def share(interval: Range) -> str:
            return f"{interval.middle:.1%} ({interval.low:.0%} to {interval.high:.0%})"

        budget = notebook.Sheet(
            caption=f"Against {self.budget.whom}",
            columns=("data", "allowed", "spent", "delta"),
            rows=tuple(
                (r.data, f"{r.allowed:.3g}", f"{r.spent:.3g}", f"{r.delta:.3g}") for r in self.rows
            ),
        )
        worth = notebook.Sheet(
            caption="What each is expected to be worth, with an 80% interval",
            columns=("who predicts", "right", "as an unprotected model would"),
            rows=tuple(
                (name, share(forecast.accuracy), share(forecast.agreement))
                for name, forecast in self.candidates.items()
            ),
        )
        advice = f"{self.advice[:1].upper()}{self.advice[1:]}."
        return notebook.as_html("Proposed plan", [self.plan.sheet(), budget, worth], [advice])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan, its links and its budget for `SavedPlan.load` and `pdml train --plan`."""
        saved = SavedPlan(plan=self.plan, links=self.graph.edges, budget=self.budget)
        saved.save(path)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; infinity as the string "inf"."""

        def plain(value: float) -> float | str:
            return "inf" if isinf(value) else value

        rows = [
            {"data": r.data, "allowed": plain(r.allowed), "spent": plain(r.spent), "delta": r.delta}
            for r in self.rows
        ]
        return {
            "plan": self.plan.to_dict(),
            "method": self.plan.method,
            "budget": rows,
            "colluding": self.budget.colluding,
            "candidates": {name: forecast.to_dict() for name, forecast in self.candidates.items()},
            "pays": self.pays,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "ledger": self.ledger.to_dict(),
            "links": [list(edge) for edge in self.graph.edges],
        }
