"""What would make joining pay where it is not expected to: the planner itself is asked again, with
one setting changed at a time.

Asking takes as long as planning, so a first impression (`candidates.quick_estimate`) says where to
ask: of each setting the least change that looks as if it would do, and the next one where it does
not. Once two settings are known to do no more are looked for. Only where none does is the planner
asked about the farthest value of each. So whatever is named, as what would do or as what would not,
the planner itself has said; of anything else nothing is said.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isinf

import numpy as np

from pdml.accounting import Budget
from pdml.planning.forecast.utility_runs import UtilityRuns
from pdml.planning.search.candidates import (
    CandidateComparison,
    SearchSpace,
    compare,
    quick_estimate,
)
from pdml.planning.sizes import Sizes

_TIMES = (5, 25, 125)  # as many records
_FEATURES = (0.25, 1.0, 4.0, 16.0, inf)
_LABELS = (1.0, 2.0, 4.0)
_FREE = "no limit on features (features_epsilon=None)"
_LESS_NOISE = ("features_epsilon", "colluding")  # and nothing else, the less the farther
_ENOUGH = 2  # settings that would do


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """Another value of one setting, and what the planner says of it."""

    # "features_epsilon", "colluding", "records" (of all servers together) or "epsilon" (of every
    # label)
    setting: str
    value: float  # That the planner was asked about
    pays: bool  # Whether joining pays with it
    is_clear_win: bool  # Whether it does, and not in the mean alone: few populations are behind

    def __str__(self) -> str:
        """Words for a list."""
        match self.setting:
            case "features_epsilon":
                return _FREE if isinf(self.value) else f"features epsilon {self.value:g}"
            case "colluding":
                return f"at most {self.value:g} colluding server{'' if self.value == 1 else 's'}"
            case "records":
                return f"{self.value:,.0f} records in all"
        return f"label epsilon {self.value:g}"


def find_suggestions(budget: Budget, sizes: Sizes, within: SearchSpace) -> tuple[Suggestion, ...]:
    """What would do by itself, by the planner's own judgement.

    Guarantees
    ----------
    - ``pays`` is what `propose` says with the ``value`` in the place of what was asked;
    ``is_clear_win``
      is said of a plan that it weighs, of which the one it takes is no worse in the mean.
    """
    suggestions: list[Suggestion] = []
    levers = tuple(_levers(budget, sizes, within))
    for lever in levers:
        suggestion = _least(lever, within)
        suggestions += [suggestion] if suggestion else []
        if sum(suggestion.is_clear_win for suggestion in suggestions) == _ENOUGH:
            break
    return tuple(suggestions or (_evaluate(lever, lever.ladder[-1], within) for lever in levers))


def advice(suggestions: Sequence[Suggestion]) -> str:
    """The same in a sentence; empty where nothing can be changed."""
    would = [str(suggestion) for suggestion in suggestions if suggestion.is_clear_win]
    just = [
        str(suggestion)
        for suggestion in suggestions
        if suggestion.pays and not suggestion.is_clear_win
    ]
    none = [str(suggestion) for suggestion in suggestions if not suggestion.pays]
    opening = "by itself this would do" if len(would) == 1 else "by itself either of these would do"
    sentences = [f"{opening}: {' or '.join(would)}"] if would else []
    sentences += [f"by itself {' or '.join(just)} would only just do"] if just else []
    if none:
        nor = "".join(f", nor would {suggestion}" for suggestion in none[1:])
        sentences.append(f"by itself {none[0]} would not do{nor}")
    return "; ".join(sentences)


@dataclass(frozen=True)
class _Lever:
    """A setting, values of it from near to far, and the question with one of them."""

    setting: str
    ladder: tuple[float, ...]
    changed: Callable[[float], tuple[Budget, Sizes]]


def _levers(budget: Budget, sizes: Sizes, within: SearchSpace) -> Iterator[_Lever]:
    """In the order in which they cost a consortium least."""
    if higher := tuple(v for v in _FEATURES if v > budget.features_epsilon):
        yield _Lever(
            "features_epsilon", higher, lambda v: (replace(budget, features_epsilon=v), sizes)
        )
    servers = len(sizes.records)
    most = servers if budget.colluding is None else budget.colluding
    fewer = tuple(float(k) for k in range(min(most, servers - 1) - 1, 0, -1))
    if fewer and within.sums(sizes):  # rounds hide nothing in a total
        yield _Lever("colluding", fewer, lambda v: (replace(budget, colluding=int(v)), sizes))
    more = tuple(_two_digits(sum(sizes.records) * factor) for factor in _TIMES)
    yield _Lever("records", more, lambda v: (budget, _grown(sizes, int(v))))
    if higher := tuple(v for v in _LABELS if v > sizes.epsilon):
        yield _Lever("epsilon", higher, lambda v: (budget, _with_label_epsilon(sizes, v)))


def _least(lever: _Lever, within: SearchSpace) -> Suggestion | None:
    """The least change that clearly does, or just, looked for where it seems to."""
    suggestions = []
    for value in _seeming(lever, within):
        suggestions.append(_evaluate(lever, value, within))
        if suggestions[-1].is_clear_win:
            return suggestions[-1]
    return next((suggestion for suggestion in suggestions if suggestion.pays), None)


def _seeming(lever: _Lever, within: SearchSpace) -> Sequence[float]:
    """Three values to ask about: from the first that seems to do clearly, or to do at all. Where
    noise alone changes, what seems to do is taken to do for all farther values as well, so that
    few of many are looked at.
    """

    @cache
    def estimate(value: float) -> CandidateComparison:
        budget, sizes = lever.changed(value)
        return quick_estimate(sizes.rounded(), budget, within)

    start = _first(lever, lambda value: estimate(value).is_clear_win)
    if start == len(lever.ladder):
        start = _first(lever, lambda value: estimate(value).pays)
    return lever.ladder[start : start + 3]


def _first(lever: _Lever, does: Callable[[float], bool]) -> int:
    """Where on the ladder a value first does: its length if none."""
    if lever.setting in _LESS_NOISE:
        return bisect_left(lever.ladder, True, key=does)
    return next((at for at, value in enumerate(lever.ladder) if does(value)), len(lever.ladder))


def _evaluate(lever: _Lever, value: float, within: SearchSpace) -> Suggestion:
    """What the planner says."""
    budget, sizes = lever.changed(value)
    comparison = compare(UtilityRuns(sizes.rounded()), budget, within, enough=True)
    return Suggestion(
        setting=lever.setting,
        value=value,
        pays=comparison.pays,
        is_clear_win=comparison.is_clear_win,
    )


def _grown(sizes: Sizes, total: int) -> Sizes:
    """So many records, divided as now."""
    ends = np.cumsum(sizes.records) * (total / sum(sizes.records))
    records = np.diff(np.round(ends), prepend=0.0)
    reports = sizes.reports * total / sum(sizes.records)
    return replace(sizes, records=tuple(int(count) for count in records), reports=reports)


def _with_label_epsilon(sizes: Sizes, epsilon: float) -> Sizes:
    return replace(sizes, epsilon=epsilon, smallest_epsilon=0.0, reports=0.0)


def _two_digits(value: float) -> float:
    """Rounded up."""
    whole = int(value)
    power = int(10 ** max(0, len(str(whole)) - 2))
    return float(-(-whole // power) * power)
