"""What would make joining pay where it is not expected to: the planner itself is asked again, with
one setting changed at a time.

Asking takes as long as planning, so a first impression (`compared.glanced`) says where to ask: of
each setting the least change that looks as if it would do, and the next one where it does not. Once
two settings are known to do no more are looked for. Only where none does is the planner asked about
the farthest value of each. So whatever is named, as what would do or as what would not, the planner
itself has said; of anything else nothing is said.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isinf

import numpy as np

from pdml.accounting import Budget
from pdml.planning.forecast.utility_runs import Rehearsals
from pdml.planning.search.candidates import Compared, Within, compare, glanced
from pdml.planning.sizes import Sizes

_TIMES = (5, 25, 125)  # as many records
_FEATURES = (0.25, 1.0, 4.0, 16.0, inf)
_LABELS = (1.0, 2.0, 4.0)
_FREE = "no limit on features (features_epsilon=None)"
_LESS_NOISE = ("features_epsilon", "colluding")  # and nothing else, the less the farther
_ENOUGH = 2  # settings that would do


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Another value of one setting, and what the planner says of it.

    Attributes
    ----------
    setting : str
        "features_epsilon", "colluding", "records" (of all servers together) or "epsilon" (of every
        label).
    value : float
        That the planner was asked about.
    pays : bool
        Whether joining pays with it.
    clearly : bool
        Whether it does, and not in the mean alone: few populations are behind.
    """

    setting: str
    value: float
    pays: bool
    clearly: bool

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


def remedies(budget: Budget, sizes: Sizes, within: Within) -> tuple[Remedy, ...]:
    """What would do by itself, by the planner's own judgement.

    Parameters
    ----------
    budget : Budget
        That does not pay.
    sizes : Sizes
        What is public about the data.
    within : Within
        What the planner chose from.

    Returns
    -------
    tuple of Remedy
        What would, until two clearly do; where nothing was found, the farthest value of each
        setting with what the planner says of it.

    Guarantees
    ----------
    - ``pays`` is what `propose` says with the ``value`` in the place of what was asked; ``clearly``
      is said of a plan that it weighs, of which the one it takes is no worse in the mean.
    """
    found: list[Remedy] = []
    levers = tuple(_levers(budget, sizes, within))
    for lever in levers:
        each = _least(lever, within)
        found += [each] if each else []
        if sum(each.clearly for each in found) == _ENOUGH:
            break
    return tuple(found or (_asked(lever, lever.ladder[-1], within) for lever in levers))


def advice(found: Sequence[Remedy]) -> str:
    """The same in a sentence; empty where nothing can be changed."""
    would = [str(each) for each in found if each.clearly]
    just = [str(each) for each in found if each.pays and not each.clearly]
    none = [str(each) for each in found if not each.pays]
    one = "by itself this would do" if len(would) == 1 else "by itself either of these would do"
    said = [f"{one}: {' or '.join(would)}"] if would else []
    said += [f"by itself {' or '.join(just)} would only just do"] if just else []
    if none:
        nor = "".join(f", nor would {each}" for each in none[1:])
        said.append(f"by itself {none[0]} would not do{nor}")
    return "; ".join(said)


@dataclass(frozen=True)
class _Lever:
    """A setting, values of it from near to far, and the question with one of them."""

    setting: str
    ladder: tuple[float, ...]
    changed: Callable[[float], tuple[Budget, Sizes]]


def _levers(budget: Budget, sizes: Sizes, within: Within) -> Iterator[_Lever]:
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
    more = tuple(_two_digits(sum(sizes.records) * each) for each in _TIMES)
    yield _Lever("records", more, lambda v: (budget, _grown(sizes, int(v))))
    if higher := tuple(v for v in _LABELS if v > sizes.epsilon):
        yield _Lever("epsilon", higher, lambda v: (budget, _everybody(sizes, v)))


def _least(lever: _Lever, within: Within) -> Remedy | None:
    """The least change that clearly does, or just, looked for where it seems to."""
    asked = []
    for value in _seeming(lever, within):
        asked.append(_asked(lever, value, within))
        if asked[-1].clearly:
            return asked[-1]
    return next((each for each in asked if each.pays), None)


def _seeming(lever: _Lever, within: Within) -> Sequence[float]:
    """Three values to ask about: from the first that seems to do clearly, or to do at all. Where
    noise alone changes, what seems to do is taken to do for all farther values as well, so that
    few of many are looked at.
    """

    @cache
    def seen(value: float) -> Compared:
        budget, sizes = lever.changed(value)
        return glanced(sizes.rounded(), budget, within)

    start = _first(lever, lambda value: seen(value).clearly)
    if start == len(lever.ladder):
        start = _first(lever, lambda value: seen(value).pays)
    return lever.ladder[start : start + 3]


def _first(lever: _Lever, does: Callable[[float], bool]) -> int:
    """Where on the ladder a value first does: its length if none."""
    if lever.setting in _LESS_NOISE:
        return bisect_left(lever.ladder, True, key=does)
    return next((at for at, value in enumerate(lever.ladder) if does(value)), len(lever.ladder))


def _asked(lever: _Lever, value: float, within: Within) -> Remedy:
    """What the planner says."""
    budget, sizes = lever.changed(value)
    found = compare(Rehearsals(sizes.rounded()), budget, within, enough=True)
    return Remedy(setting=lever.setting, value=value, pays=found.pays, clearly=found.clearly)


def _grown(sizes: Sizes, total: int) -> Sizes:
    """So many records, divided as now."""
    ends = np.cumsum(sizes.records) * (total / sum(sizes.records))
    records = np.diff(np.round(ends), prepend=0.0)
    reports = sizes.reports * total / sum(sizes.records)
    return replace(sizes, records=tuple(int(each) for each in records), reports=reports)


def _everybody(sizes: Sizes, epsilon: float) -> Sizes:
    return replace(sizes, epsilon=epsilon, smallest_epsilon=0.0, reports=0.0)


def _two_digits(value: float) -> float:
    """Rounded up."""
    whole = int(value)
    power = int(10 ** max(0, len(str(whole)) - 2))
    return float(-(-whole // power) * power)
