"""From a privacy budget to a plan: sums or rounds, and every setting, so that the least accuracy is
lost.

The budget fixes how much noise each way of training needs, read from the `Ledger` of its own
events; rehearsals on populations (`rehearsal`) say what that noise costs. What nobody has to join
for stands beside it: the model of a server that keeps its reports to itself, and the largest class.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isinf
from os import PathLike
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from pdml import _validate
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget, Ledger
from pdml.core import labels
from pdml.core.graph import Graph
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.plan import rehearsal, rounds_search, sums_search
from pdml.plan.explained import reasons, verdict
from pdml.plan.populations import Population, populations
from pdml.plan.rehearsal import Forecast
from pdml.plan.saved import SavedPlan
from pdml.plan.sizes import Row, Sizes, ledger, spent
from pdml.plan.training_plan import METHODS, TrainingPlan

__all__ = ["Budget", "Forecast", "Proposal", "Row", "Sizes", "ledger", "propose", "spent"]

Progress = Callable[[int, int], None]
"""Called as (done, of how many)."""

_REHEARSALS, _OF_WIDE, _WIDE = 72, 24, 80  # so many, or so many of more columns, of all together
_ALONE = 2  # of each population: a server's own records cost a pass each


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A plan, what it spends, what it is expected to be worth, and why it looks as it does.

    ``candidates`` are forecasts by name: of the methods that were compared, and of what needs no
    training together: "alone", a server with its own reports, and "majority", the largest class.
    """

    budget: Budget
    sizes: Sizes
    graph: Graph
    plan: TrainingPlan
    rows: tuple[Row, ...]
    candidates: Mapping[str, Forecast]
    pays: bool  # whether joining is expected to: the plan is right more often than either
    verdict: str  # that in a sentence
    reasons: tuple[str, ...]

    @property
    def forecast(self) -> Forecast:
        """Of the plan."""
        return self.candidates[self.plan.method]

    @cached_property
    def ledger(self) -> Ledger:
        """What the whole training will spend, at the budget's δ of features."""
        return ledger(self.plan, self.sizes, self.graph, self.budget.features_delta)

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
            "candidates": {name: each.to_dict() for name, each in self.candidates.items()},
            "pays": self.pays,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "ledger": self.ledger.to_dict(),
            "links": [list(edge) for edge in self.graph.edges],
        }


def propose(
    budget: Budget,
    sizes: Sizes,
    graph: Graph,
    *,
    like: tuple[Matrix, IntArray] | None = None,
    method: str | None = None,
    loss: str = "logistic",
    most_rounds: int = 100,
    progress: Progress | None = None,
) -> Proposal:
    """The plan that is expected to be right most often within a budget: what `pdml plan` proposes.

    Parameters
    ----------
    budget : Budget
        The most that the other servers together may learn, or so many of them.
    sizes : Sizes
        What is public about the data.
    graph : Graph
        Who is linked to whom.
    like : (matrix, class indices), optional
        Public records drawn like those to be trained on, prepared, with their constant column; by
        default populations of many shapes.
    method : str, optional
        "rounds" or "sums"; by default whichever is expected to be right more often.
    loss : str
        "logistic" or "matsushita".
    most_rounds : int
        The most rounds to plan for.
    progress : callable, optional
        Called as (done, of how many) after each of a few steps.

    Returns
    -------
    Proposal
        With ``plan``, ``ledger``, ``forecast`` and whether joining ``pays``; ``save(path)`` writes
        it for a training.

    Raises
    ------
    BudgetExceeded
        If no noise meets the budget.
    InvalidInput
        If an argument lies outside its domain.

    Guarantees
    ----------
    - The plan keeps to the budget by the ledger of its own events.
    - No record is read but public ones given as ``like``: the plan tells nothing about the data.
    - A function of its arguments alone: the same question has the same answer.

    Examples
    --------
    >>> from pdml.core.graph import Graph
    >>> sizes = Sizes(records=(4500,) * 4, width=21, epsilon=1.0)
    >>> found = propose(Budget(features_epsilon=1.0), sizes, Graph.ring(4))
    >>> found.plan.method, found.ledger.line("features", "other servers").epsilon <= 1.0
    ('sums', True)
    """
    _check(budget, sizes, graph, method, loss, most_rounds)
    with threadpool_limits(1):  # many small matrices: threads would only wait for one another
        return _proposed(budget, sizes, graph, like, method, loss, most_rounds, progress)


def _proposed(
    budget: Budget,
    sizes: Sizes,
    graph: Graph,
    like: tuple[Matrix, IntArray] | None,
    method: str | None,
    loss: str,
    most_rounds: int,
    progress: Progress | None,
) -> Proposal:
    told = _Steps(progress, 4)
    public = populations(sizes, like)
    few = len(public) == 1 or sizes.width > _WIDE
    times = max(1, (_OF_WIDE if few else _REHEARSALS) // len(public))
    told.one()
    plans: dict[str, TrainingPlan] = {}
    judged: dict[str, Array] = {}
    choice, most = None, None
    if method != "rounds" and sizes.width <= sums_search.WIDEST:
        found = sums_search.best(budget, sizes, graph, public, loss=loss)
        if found is not None:
            plans["sums"] = found
            judged["sums"] = sums_search.judged(found, sizes, public, times)
    told.one()
    if method != "sums":
        search = rounds_search.Search(sizes, graph, public, loss=loss, most_rounds=most_rounds)
        hoped = search.at_most(budget) if plans else None
        if hoped is not None:
            most = float(np.mean(np.array(search.judged(hoped, times))[..., 1]))
        if most is None or most > judged["sums"][..., 1].mean():
            choice = search.best(budget)
        if choice is not None:
            plans["rounds"] = search.plan(choice, budget)
            judged["rounds"] = np.array(search.judged(choice, times))
    told.one()
    if not plans:
        raise BudgetExceeded(_impossible(budget))
    judged |= _apart(public, sizes, plans, times)
    told.one()
    chosen = max(plans, key=lambda name: float(judged[name][..., 1].mean()))
    plan = plans[chosen]
    right = {name: each[..., 1] for name, each in judged.items()}
    best = max(("majority", "alone"), key=lambda name: float(right[name].mean()))
    return Proposal(
        budget=budget,
        sizes=sizes,
        graph=graph,
        plan=plan,
        rows=spent(plan, budget, sizes, graph),
        candidates={name: Forecast.of(each.reshape(-1, 2)) for name, each in judged.items()},
        pays=bool(right[chosen].mean() > right[best].mean()),
        verdict=verdict(right[chosen], right[best], best, public=like is not None),
        reasons=reasons(plan, right, budget, sizes, choice=choice, most=most),
    )


class _Steps:
    """How far a proposal is."""

    def __init__(self, progress: Progress | None, of: int) -> None:
        self._tell, self._of, self._done = progress, of, 0

    def one(self) -> None:
        """One step more."""
        self._done += 1
        if self._tell is not None:
            self._tell(self._done, self._of)


def _check(
    budget: Budget, sizes: Sizes, graph: Graph, method: str | None, loss: str, most_rounds: int
) -> None:
    if len(sizes.records) != graph.n:
        raise InvalidInput(
            f"records must be one number per server ({graph.n} of them), got {len(sizes.records)}",
            setting="records",
        )
    if budget.colluding is not None:
        why = "the server whose records are protected is not one of them"
        _validate.integer("colluding", budget.colluding, low=1, high=graph.n - 1, why=why)
    if method is not None:
        _validate.choice("method", method, METHODS)
    _validate.integer("most_rounds", most_rounds, low=1)
    kind = TrainingPlan(loss=loss).loss_for(sizes.classes)
    if isinf(labels.record_shift(sizes.epsilon, sizes.norm_bound, kind, sizes.classes)):
        raise InvalidInput(
            f"loss must have a bounded slope to protect features, got {loss!r}: use "
            "logistic or matsushita",
            setting="loss",
        )
    if method == "sums" and sizes.width > sums_search.WIDEST:
        raise InvalidInput(
            f"method must be 'rounds' for more than {sums_search.WIDEST} columns, got 'sums' and "
            f"{sizes.width}: S would have {sizes.width * (sizes.width + 1) // 2:,} numbers",
            setting="method",
        )


def _apart(
    public: tuple[Population, ...], sizes: Sizes, plans: Mapping[str, TrainingPlan], times: int
) -> dict[str, Array]:
    """What needs no training together."""
    loss = next(iter(plans.values())).loss_for(sizes.classes)
    turns = times if len(public) == 1 else min(times, _ALONE)
    return {
        "alone": np.array([rehearsal.alone_judged(each, sizes, loss, turns) for each in public]),
        "majority": np.array([[rehearsal.majority_judged(each)] for each in public]),
    }


def _impossible(budget: Budget) -> str:
    """One sentence for a budget that no Gaussian noise meets, and what to change."""
    said = [
        f"{name} epsilon {epsilon:g} (delta {delta:g})"
        for name, (epsilon, delta) in (
            ("features", budget.limit("features")),
            ("labels", budget.limit("label")),
        )
        if epsilon < inf
    ]
    return (
        f"the budget of {' and '.join(said)} cannot be met: no Gaussian noise reaches it; "
        "raise the delta or the epsilon"
    )
