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
from pdml.planning.forecast import utility
from pdml.planning.forecast.synthetic import Population, populations
from pdml.planning.forecast.utility import Gain, Verdict
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.search import sums_search
from pdml.planning.search.rounds_search import Choice, Search, SearchSpace
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan

_LEAST = 12  # runs of each candidate, on all populations together
_Answer = TypeVar("_Answer")


def _cache(method: Callable[..., _Answer]) -> Callable[..., _Answer]:
    """Answers from simulated data sets; public records are asked anew."""

    def compute(runs: "UtilityRuns", *args: Any) -> _Answer:
        with single_thread():  # many small matrices: threads would only wait for one another
            return method(runs, *args)

    @lru_cache(maxsize=4096)
    def look_up(sizes: Sizes, first: int | None, *args: Any) -> _Answer:
        return compute(UtilityRuns(sizes, first=first), *args)

    @wraps(method)
    def answer(self: "UtilityRuns", *args: Any) -> _Answer:
        if self.like is not None:
            return compute(self, *args)
        return look_up(self.sizes, self.first, *args)

    return answer


class UtilityRuns:
    """Scores, (populations, times, yardsticks), of sums, of rounds, and of what needs no
    training together. ``first`` of the populations, once each, give a first impression.
    """

    def __init__(
        self, sizes: Sizes, like: tuple[Matrix, IntArray] | None = None, first: int | None = None
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

    @property
    def _times_apart(self) -> int:
        """How often what a server makes by itself: people differ by far more than its luck."""
        return self.times if len(self.populations) == 1 else 1

    @_cache
    def sums(
        self, budget: Budget, loss: str, share: float, cap: float | None = None
    ) -> Array | None:
        """Scores of sums of which S may use up a share of the budget, and which count reports up to
        an ε; None if no noise meets it."""
        spec = self.sizes.server_spec(int(np.argmax(self.sizes.records)))
        plan = sums_search.calibrate(budget, spec, share, loss=loss, cap=cap)
        if plan is None:
            return None
        return self._per_population(UtilityRuns._score_sums, self.times, plan)

    @_cache
    def local(self, budget: Budget, loss: str, share: float, cap: float | None) -> Array:
        """Scores of the local model of a server of mean size, beside such sums."""
        spec = self.sizes.server_spec(int(np.argmax(self.sizes.records)))
        plan = sums_search.calibrate(budget, spec, share, loss=loss, cap=cap)
        return self._per_population(UtilityRuns._score_local, self._times_apart, plan)

    @_cache
    def _score_local(self, number: int, times: int, plan: TrainingPlan) -> Array:
        selection = self.populations[number]
        return np.array(sums_search.score_local(plan, self.sizes, selection, times))

    @_cache
    def _score_sums(self, number: int, times: int, plan: TrainingPlan) -> Array:
        selection = self.populations[number : number + 1]
        return np.asarray(sums_search.score(plan, self.sizes, selection, times)[0])

    @_cache
    def rounds(
        self, budget: Budget, space: SearchSpace, sums: float
    ) -> tuple[Choice | None, float | None, Array | None]:
        """The best choice, the upper bound of rounds by the yardstick, and the choice's scores; the
        bound alone where it is no more than ``sums``.
        """
        search, most = Search(self.sizes, space, self.populations), None
        optimum = None if isinf(sums) else search.at_most(budget)
        if optimum is not None:
            most = _mean(np.array(search.score(optimum, self.times)), space.yardstick)
        choice = search.best(budget) if most is None or most > sums else None
        return choice, most, None if choice is None else np.array(search.score(choice, self.times))

    def of_rounds(self, choice: Choice, space: SearchSpace) -> Array:
        """Scores of a choice."""
        return np.array(Search(self.sizes, space, self.populations).score(choice, self.times))

    @_cache
    def upper_bound(self, budget: Budget, space: SearchSpace) -> Array | None:
        """Scores of rounds at the most, or with features in the clear as they are."""
        search = Search(self.sizes, space, self.populations)
        choice = search.at_most(budget) or search.best(budget)
        return None if choice is None else np.array(search.score(choice, self.times))

    @_cache
    def baselines(self, loss: str) -> dict[str, Array]:
        """A server with its own reports, and the largest class."""
        times = self._times_apart
        largest = [[population.score_majority()] for population in self.populations]
        alone = self._per_population(UtilityRuns._score_alone, times, loss)
        return {"alone": alone, "majority": np.array(largest)}

    @_cache
    def _score_alone(self, number: int, times: int, loss: str) -> Array:
        kind = TrainingPlan(loss=loss).loss_for(self.sizes.classes)
        return np.array(utility.score_alone(self.populations[number], self.sizes, kind, times))

    def _per_population(self, score: Callable[..., Array], *args: Any) -> Array:
        """Of each population, kept by its number: a first impression is part of the whole."""
        whole = self if self.first is None else UtilityRuns(self.sizes)
        return np.array([score(whole, k, *args) for k in range(len(self.populations))])


LOCAL = "local"
_PART = 4  # of the populations, one in so many for a first impression
LITTLE = 0.005  # of the yardstick: for less more than this nobody would exchange often

Scores = Mapping[str, Array]
"""(populations, times, yardsticks), by the name of each candidate."""


@dataclass(frozen=True, kw_only=True)
class CandidateComparison:
    """Scores, and the settings of each method that did best.

    ``scores`` are of the methods that a budget allows, and of what needs no training together:
    "alone" (a server with its own reports), "majority" (the majority-class baseline). "local" is
    what a server has beside the joint model of sums: its exact sums with the others' noisy ones.
    """

    scores: Scores
    yardstick: Yardstick = Yardstick.ACCURACY
    share: float | None = None  # of S, where sums were tried
    cap: float | None = None  # ε up to which sums count reports
    choice: Choice | None = None  # the best plan of rounds, where it was looked for
    most: float | None = None  # what rounds could reach at the most, where that was asked

    @property
    def method(self) -> str | None:
        """The best one by the yardstick; None if no noise meets the budget."""
        methods = [name for name in (Method.SUMS, Method.ROUNDS) if name in self.scores]
        return max(methods, key=self.mean, default=None)

    @property
    def apart(self) -> str:
        """The better of those that need nobody."""
        return max(("majority", "alone"), key=self.mean)

    @property
    def gain(self) -> Gain:
        """How far the best method is ahead of those that need nobody."""
        if self.method is None:
            return Gain(low=-inf, middle=-inf, high=-inf)
        joint, apart = (
            self.scores[name][..., self.yardstick.column] for name in (self.method, self.apart)
        )
        return Gain.of(joint, apart)

    @property
    def local_gain(self) -> Gain | None:
        """How far a server's local model is ahead of its own reports alone, where it has one."""
        if LOCAL not in self.scores or self.method != Method.SUMS:
            return None
        joint, apart = (self.scores[name][..., self.yardstick.column] for name in (LOCAL, "alone"))
        return Gain.of(joint, apart)

    def mean(self, name: str) -> float:
        """Of a candidate, by the yardstick."""
        return _mean(self.scores[name], self.yardstick)


def compare(
    worth: UtilityRuns,
    budget: Budget,
    within: SearchSpace,
    *,
    enough: bool = False,
    on_step: Callable[[], None] = lambda: None,
) -> CandidateComparison:
    """Forecast what a planner may choose from, and what needs nobody."""
    joint: dict[str, Array] = {}
    baselines, by = worth.baselines(within.loss), within.yardstick
    threshold, share, cap, choice, most = -inf, None, None, None, None
    reached = apart = 0.0
    if within.tries_sums(worth.sizes) and (sums := _score_sums(worth, budget, within, enough)):
        share, cap = best = max(sums, key=lambda candidate: _mean(sums[candidate], by))
        # rounds must exceed sums clearly, or where sums do not pay what makes joining pay
        of_sums = CandidateComparison(scores=baselines | {Method.SUMS: sums[best]}, yardstick=by)
        reached, apart = of_sums.mean(Method.SUMS), of_sums.mean(of_sums.apart)
        threshold = reached + LITTLE if apart < reached else min(reached + LITTLE, apart)
        joint[Method.SUMS] = sums[best]
    on_step()
    if within.method != Method.SUMS and not (enough and Method.SUMS in joint and apart < reached):
        choice, most, rounds = worth.rounds(budget, within, threshold)
        joint |= {} if rounds is None else {Method.ROUNDS: rounds}
    on_step()
    return CandidateComparison(
        scores=joint | baselines, yardstick=by, share=share, cap=cap, choice=choice, most=most
    )


def _score_sums(
    worth: UtilityRuns, budget: Budget, within: SearchSpace, enough: bool
) -> dict[tuple[float, float | None], Array]:
    """Scores of sums by share of S and cap; up to the first that clearly pays, where that is
    ``enough``. The cap is chosen at the middle share. Where one side of the middle is better the
    other is not tried: too little noise on Q or S costs the other.
    """
    middle, *others = _shares_of(budget)
    caps, by = (None, *worth.sizes.rounded().epsilons[:-1]), within.yardstick
    by_cap = {cap: worth.sums(budget, within.loss, middle, cap) for cap in caps}
    means = {cap: _mean(right, by) for cap, right in by_cap.items() if right is not None}
    if not means:
        return {}
    cap = max(means, key=means.__getitem__)
    scores: dict[tuple[float, float | None], Array] = {}
    for share in (middle, *others):
        right = worth.sums(budget, within.loss, share, cap)
        if right is None:
            continue
        best = max((_mean(other, by) for other in scores.values()), default=inf)
        scores[share, cap] = right
        comparison = CandidateComparison(
            scores={Method.SUMS: right} | worth.baselines(within.loss), yardstick=by
        )
        if _mean(right, by) > best or (enough and comparison.gain.verdict == Verdict.PAYS):
            break
    return scores


def _shares_of(budget: Budget) -> tuple[float, ...]:
    """Shares of S, the middle one first; without a limit on features S has no noise: one."""
    low, middle, high = sums_search.SHARES
    return (middle,) if isinf(budget.features_epsilon) else (middle, high, low)


def quick_estimate(sizes: Sizes, budget: Budget, within: SearchSpace) -> CandidateComparison:
    """A first impression of `compare` at a small part of its price: few populations, one division
    of the noise, and rounds as good as they can be.
    """
    worth = UtilityRuns(sizes, first=max(2, len(UtilityRuns(sizes).populations) // _PART))
    if within.tries_sums(sizes):
        name, right = Method.SUMS, worth.sums(budget, within.loss, _shares_of(budget)[0])
    else:
        name, right = Method.ROUNDS, worth.upper_bound(budget, within)
    scores = {} if right is None else {name: right}
    return CandidateComparison(
        scores=scores | worth.baselines(within.loss), yardstick=within.yardstick
    )


def _mean(scores: Array, by: Yardstick) -> float:
    return float(scores[..., by.column].mean())
