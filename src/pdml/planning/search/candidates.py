"""All ways to a model under one budget, compared by utility forecasts and one judgement.

Forecasts on simulated data sets are kept in the process: they follow from the arguments alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from math import inf, isinf
from typing import Any, TypeVar

import numpy as np

from pdml._threads import single_thread
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget
from pdml.accounting.kinds import Method
from pdml.numerics.admm.graph import Graph
from pdml.planning.forecast import utility
from pdml.planning.forecast.synthetic import Population, populations
from pdml.planning.search import sums_search
from pdml.planning.search.rounds_search import Choice, Search
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan

_LEAST = 12  # simulated trainings of each candidate, on all populations together
_Answer = TypeVar("_Answer")

RoundsSearchSettings = tuple[Graph, str, int, tuple[tuple[str, float], ...]]
"""Who is linked to whom, the loss, the most rounds, and what is not to be chosen."""


def _kept(method: Callable[..., _Answer]) -> Callable[..., _Answer]:
    """Answers from simulated data sets; public records are asked anew."""

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
    """Agreement and accuracy, (populations, times, 2), of sums, of rounds, and of what needs no
    training together. ``first`` of the populations, once each, give a first impression.
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
        """The data sets of the forecast."""
        return populations(self.sizes, self.like)[: self.first]

    @property
    def times(self) -> int:
        """How often on each."""
        return 1 if self.first is not None else -(-_LEAST // len(self.populations))

    @_kept
    def sums(self, budget: Budget, loss: str, share: float) -> Array | None:
        """Scores of sums of which S may use up a share of the budget; None if no noise meets it."""
        spec = self.sizes.server_spec(int(np.argmax(self.sizes.records)))
        plan = sums_search.calibrate(budget, spec, share, loss=loss)
        return (
            None if plan is None else self._per_population(UtilityRuns._exchanged, self.times, plan)
        )

    @_kept
    def _exchanged(self, number: int, times: int, plan: TrainingPlan) -> Array:
        selection = self.populations[number : number + 1]
        return np.asarray(sums_search.score(plan, self.sizes, selection, times)[0])

    @_kept
    def rounds(
        self,
        budget: Budget,
        search_settings: RoundsSearchSettings,
        beaten: float,
    ) -> tuple[Choice | None, float | None, Array | None]:
        """The best choice, the upper bound of rounds, and the choice's scores; the bound alone
        where it is no more than what has them ``beaten``.
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
        kind = TrainingPlan(loss=loss).loss_for(self.sizes.classes)
        return np.array(utility.score_alone(self.populations[number], self.sizes, kind, times))

    def _per_population(self, judged: Callable[..., Array], *args: Any) -> Array:
        """Of each population, kept by its number: a first impression is part of the whole."""
        whole = self if self.first is None else UtilityRuns(self.sizes)
        return np.array([judged(whole, k, *args) for k in range(len(self.populations))])


_RARELY, _BEHIND = 1 / 3, 0.005  # of populations may be so far behind: a mean may be a few's
_PART = 4  # of the populations, one in so many for a first impression
LITTLE = 0.005  # of right answers: for fewer more than this nobody would join, or exchange often

Scores = Mapping[str, Array]
"""(Agreement, accuracy) of simulated trainings, (populations, times, 2), by candidate."""


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """What a planner may choose from."""

    graph: Graph
    method: str | None = None
    loss: str = "logistic"
    most_rounds: int = 100
    fixed_settings: tuple[tuple[str, float], ...] = ()

    def sums(self, sizes: Sizes) -> bool:
        """Whether sums are tried for these sizes."""
        return self.method != Method.ROUNDS and sizes.width <= sums_search.WIDEST

    @property
    def rounds(self) -> RoundsSearchSettings:
        """What rounds are looked for by."""
        return self.graph, self.loss, self.most_rounds, self.fixed_settings


@dataclass(frozen=True, kw_only=True)
class CandidateComparison:
    """What was judged, and the settings of each method that did best."""

    # Of the methods that a budget allows, and of what needs nobody: "alone", "majority"
    judged: Scores
    share: float | None = None  # Of S, where sums were judged
    choice: Choice | None = None  # The best plan of rounds, where it was looked for
    most: float | None = None  # What rounds could be right on at the most, where that was asked

    @property
    def method(self) -> str | None:
        """The one that is right most often; None if no noise meets the budget."""
        methods = [name for name in ("sums", "rounds") if name in self.judged]
        return max(methods, key=lambda name: _mean(self.judged[name]), default=None)

    @property
    def pays(self) -> bool:
        """Whether that one is expected to pay."""
        return self.method is not None and pays(self.judged, self.method)

    @property
    def is_clear_win(self) -> bool:
        """Whether it does, and is rarely behind."""
        if self.method is None or not self.pays:
            return False
        right = {name: scores[..., 1].mean(axis=1) for name, scores in self.judged.items()}
        apart = np.maximum(right["alone"], right["majority"])
        return bool(np.mean(right[self.method] < apart - _BEHIND) <= _RARELY)


def compare(
    worth: UtilityRuns,
    budget: Budget,
    within: SearchSpace,
    *,
    enough: bool = False,
    on_step: Callable[[], None] = lambda: None,
) -> CandidateComparison:
    """Forecast what a planner may choose from, and what needs nobody."""
    judged: dict[str, Array] = {}
    apart = worth.baselines(within.loss)
    share: float | None = None
    if within.sums(worth.sizes) and (scores := _shares(worth, budget, within, enough)):
        share = max(sorted(scores), key=lambda candidate: _mean(scores[candidate]))
        judged["sums"] = scores[share]
    on_step()
    choice, most = None, None
    sums_pay = enough and "sums" in judged and pays(judged | apart, "sums")
    if within.method != Method.SUMS and not sums_pay:
        beaten = _beaten(judged, apart) if judged else -inf
        choice, most, right = worth.rounds(budget, within.rounds, beaten)
        judged |= {} if right is None else {"rounds": right}
    on_step()
    return CandidateComparison(judged=judged | apart, share=share, choice=choice, most=most)


def _beaten(judged: Scores, apart: Scores) -> float:
    """What rounds must be able to exceed to be looked for: clearly more than sums, or where sums do
    not pay what makes joining pay.
    """
    sums = _mean(judged["sums"])
    more, alone = sums + LITTLE, _mean(apart[better_apart(apart)])
    return more if alone < sums else min(more, alone)


def _shares(
    worth: UtilityRuns, budget: Budget, within: SearchSpace, enough: bool
) -> dict[float, Array]:
    """Scores of sums by share of S; up to the first that clearly pays, where that is ``enough``.
    Where one side of the middle is better the other is not tried: too little noise on Q or S costs
    the other.
    """
    scores: dict[float, Array] = {}
    for share in _tried(budget):
        right = worth.sums(budget, within.loss, share)
        if right is None:
            continue
        better = bool(scores) and _mean(right) > max(map(_mean, scores.values()))
        scores[share] = right
        if better or (
            enough
            and CandidateComparison(
                judged={"sums": right} | worth.baselines(within.loss)
            ).is_clear_win
        ):
            break
    return scores


def _tried(budget: Budget) -> tuple[float, ...]:
    """Shares of S, the middle one first; without a limit on features S has no noise: one."""
    low, middle, high = sums_search.SHARES
    return (middle,) if isinf(budget.features_epsilon) else (middle, high, low)


def quick_estimate(sizes: Sizes, budget: Budget, within: SearchSpace) -> CandidateComparison:
    """A first impression of `compare` at a small part of its price: few populations, one division
    of the noise, and rounds as good as they can be.
    """
    worth = UtilityRuns(sizes, first=max(2, len(UtilityRuns(sizes).populations) // _PART))
    if within.sums(sizes):
        name, right = "sums", worth.sums(budget, within.loss, _tried(budget)[0])
    else:
        name, right = "rounds", worth.upper_bound(budget, within.rounds)
    judged = {} if right is None else {name: right}
    return CandidateComparison(judged=judged | worth.baselines(within.loss))


def better_apart(judged: Scores) -> str:
    """The better of those that need nobody."""
    return max(("majority", "alone"), key=lambda name: _mean(judged[name]))


def pays(judged: Scores, method: str) -> bool:
    """Whether joining is expected to: the method is right more often than either alone."""
    return _mean(judged[method]) > _mean(judged[better_apart(judged)])


def _mean(judged: Array) -> float:
    return float(judged[..., 1].mean())
