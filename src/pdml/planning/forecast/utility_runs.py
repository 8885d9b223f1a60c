"""Everything that a planner rehearses for one set of sizes.

What made-up populations told is kept in the process: it follows from the arguments alone, so the
same question, and one about folds of the same data, is answered at once.
"""

from collections.abc import Callable
from functools import cached_property, lru_cache, wraps
from math import isinf
from typing import Any, TypeVar

import numpy as np

from pdml._threads import single_thread
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget
from pdml.numerics.admm.graph import Graph
from pdml.planning.forecast import utility
from pdml.planning.forecast.synthetic import Population, populations
from pdml.planning.search import sums_search
from pdml.planning.search.rounds_search import Choice, Search
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan

_LEAST = 12  # rehearsals of each candidate, on all populations together
_Answer = TypeVar("_Answer")

RoundsSearchSettings = tuple[Graph, str, int, tuple[tuple[str, float], ...]]
"""Who is linked to whom, the loss, the most rounds, and what is not to be chosen."""


def _kept(method: Callable[..., _Answer]) -> Callable[..., _Answer]:
    """Answers from made-up populations; public records are asked anew."""

    def compute(runs: "UtilityRuns", *args: Any) -> _Answer:
        with single_thread():  # many small matrices: threads would only wait for one another
            return method(runs, *args)

    remembered = lru_cache(maxsize=4096)(
        lambda sizes, first, *question: compute(UtilityRuns(sizes, first=first), *question)
    )

    @wraps(method)
    def answered(self: "UtilityRuns", *args: Any) -> _Answer:
        if self.like is not None:
            return compute(self, *args)
        return remembered(self.sizes, self.first, *args)

    return answered


class UtilityRuns:
    """Of sums, of rounds, and of what needs no training together: shares of records for which each
    gives the class of an unprotected model, and the right one, as (populations, times, 2).

    ``first`` of the populations, once each, give a first impression; by default all.
    """

    def __init__(
        self,
        sizes: Sizes,
        like: tuple[Matrix, IntArray] | None = None,
        *,
        first: int | None = None,
    ) -> None:
        self.sizes, self.like, self.first = sizes, like, first

    @cached_property
    def populations(self) -> tuple[Population, ...]:
        """What is rehearsed on."""
        return populations(self.sizes, self.like)[: self.first]

    @property
    def times(self) -> int:
        """How often on each."""
        return 1 if self.first is not None else -(-_LEAST // len(self.populations))

    @_kept
    def sums(self, budget: Budget, loss: str, share: float) -> Array | None:
        """How often sums are right of which S may use up a share of the budget; None if no noise
        meets it.
        """
        spec = self.sizes.server_spec(int(np.argmax(self.sizes.records)))
        plan = sums_search.calibrate(budget, spec, share, loss=loss)
        return (
            None if plan is None else self._per_population(UtilityRuns._exchanged, self.times, plan)
        )

    @_kept
    def _exchanged(self, number: int, times: int, plan: TrainingPlan) -> Array:
        """Sums on one population."""
        selection = self.populations[number : number + 1]
        return np.asarray(sums_search.score(plan, self.sizes, selection, times)[0])

    @_kept
    def rounds(
        self,
        budget: Budget,
        search_settings: RoundsSearchSettings,
        beaten: float,
    ) -> tuple[Choice | None, float | None, Array | None]:
        """The best choice, how often rounds could be right at the most, and how often it is; where
        the most is no more than what has them ``beaten``, that alone.
        """
        search = self._search(search_settings)
        most = None
        hoped = None if isinf(beaten) else search.at_most(budget)
        if hoped is not None:
            most = float(np.mean(np.array(search.score(hoped, self.times))[..., 1]))
        choice = search.best(budget) if most is None or most > beaten else None
        right = None if choice is None else np.array(search.score(choice, self.times))
        return choice, most, right

    def of_rounds(self, choice: Choice, search_settings: RoundsSearchSettings) -> Array:
        """How often a choice is right."""
        return np.array(self._search(search_settings).score(choice, self.times))

    @_kept
    def upper_bound(self, budget: Budget, search_settings: RoundsSearchSettings) -> Array | None:
        """What rounds could be right on at the most, or with features in the clear are."""
        search = self._search(search_settings)
        choice = search.at_most(budget) or search.best(budget)
        return None if choice is None else np.array(search.score(choice, self.times))

    def _search(self, search_settings: RoundsSearchSettings) -> Search:
        graph, loss, most_rounds, fixed_settings = search_settings
        return Search(
            self.sizes,
            graph,
            self.populations,
            loss=loss,
            most_rounds=most_rounds,
            fixed_settings=dict(fixed_settings),
        )

    @_kept
    def baselines(self, loss: str) -> dict[str, Array]:
        """A server with its own reports, and the largest class."""
        times = self.times if len(self.populations) == 1 else 1
        largest = [[utility.score_majority(population)] for population in self.populations]
        alone = self._per_population(UtilityRuns._alone, times, loss)
        return {"alone": alone, "majority": np.array(largest)}

    @_kept
    def _alone(self, number: int, times: int, loss: str) -> Array:
        """On one population."""
        kind = TrainingPlan(loss=loss).loss_for(self.sizes.classes)
        return np.array(utility.score_alone(self.populations[number], self.sizes, kind, times))

    def _per_population(self, judged: Callable[..., Array], *args: Any) -> Array:
        """Of each population, kept by its number: a first impression is part of the whole."""
        whole = self if self.first is None else UtilityRuns(self.sizes)
        return np.array([judged(whole, k, *args) for k in range(len(self.populations))])
