"""What a planner proposes: a plan, what it spends, what it is worth, and why."""

from dataclasses import dataclass, field
from functools import cached_property
from math import isinf
from os import PathLike
from typing import Any

from pdml._types import Array
from pdml.accounting import Budget, Ledger
from pdml.formatting import notebook
from pdml.numerics.admm.graph import Graph
from pdml.numerics.interval import Range
from pdml.planning.explain.reasons import reasons, verdict
from pdml.planning.explain.suggestions import Suggestion, advice, find_suggestions
from pdml.planning.forecast.utility import Forecast
from pdml.planning.plan_file import SavedPlan
from pdml.planning.search.candidates import Scores, SearchSpace, better_apart, pays
from pdml.planning.search.rounds_search import Choice
from pdml.planning.sizes import Row, Sizes, ledger, spent
from pdml.planning.training_plan import TrainingPlan


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
