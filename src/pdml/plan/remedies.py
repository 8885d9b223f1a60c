"""What would make joining pay where it is not expected to: found by the planner, one setting at a
time.

Each setting has a ladder of values to try. A larger ε of features and fewer who collude only make
the joint model better: there the first value that does is found by halving the ladder. More records
and surer labels help a server alone as well, so that a later value may not do where an earlier one
did: there all are tried in turn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf
from types import MappingProxyType

import numpy as np

from pdml.accounting import Budget
from pdml.core.graph import Graph
from pdml.plan import sums_search
from pdml.plan.rehearsals import Rehearsals
from pdml.plan.sizes import Sizes

_TIMES = tuple(4.0**k for k in range(1, 6))  # as many records
_FEATURES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, inf)
_LABELS = (1.0, 2.0, 4.0, 8.0)
_RARELY, _BEHIND = 1 / 3, 0.005  # of populations may be so far behind: a mean may be a few's
_SHARE = (sums_search.SHARES[1],)  # the planner tries others beside it
_FREE = "no limit on features (features_epsilon=None)"
_HELP_ALL = ("records", "epsilon")  # a server alone, too


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """One setting that would do by itself.

    Attributes
    ----------
    setting : str
        "records" (of all servers together), "features_epsilon", "epsilon" (of every label) or
        "colluding".
    value : float, optional
        The least change that was tried and would do; None if none would.
    last : float
        The last value that was tried for.
    """

    setting: str
    value: float | None
    last: float

    def __str__(self) -> str:
        """Words for a list: what would do, or what would not."""
        if self.value is None:
            return _WOULD_NOT[self.setting](self.last)
        return _WOULD[self.setting](self.value)


_WOULD_NOT: Mapping[str, Callable[[float], str]] = MappingProxyType(
    {
        "records": lambda v: f"no number of records up to {_two_digits(v):,}",
        "features_epsilon": lambda v: "no features epsilon (not even None)",
        "epsilon": lambda v: f"no label epsilon up to {v:g}",
        "colluding": lambda v: f"no number of colluding servers down to {v:g}",
    }
)
_WOULD: Mapping[str, Callable[[float], str]] = MappingProxyType(
    {
        "records": lambda v: f"{_two_digits(v):,} records in all",
        "features_epsilon": lambda v: _FREE if isinf(v) else f"features epsilon {v:g}",
        "epsilon": lambda v: f"label epsilon {v:g}",
        "colluding": lambda v: f"at most {v:g} colluding server{'' if v == 1 else 's'}",
    }
)


@dataclass(frozen=True, kw_only=True)
class Within:
    """What a planner may choose from."""

    graph: Graph
    method: str | None = None
    loss: str = "logistic"
    most_rounds: int = 100
    settled: tuple[tuple[str, float], ...] = ()

    def sums(self, sizes: Sizes) -> bool:
        """Whether sums are tried for these sizes."""
        return self.method != "rounds" and sizes.width <= sums_search.WIDEST


def remedies(budget: Budget, sizes: Sizes, within: Within) -> tuple[Remedy, ...]:
    """What would do, by the planner's own rehearsals.

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
        One for each setting that can be changed; a ``value`` of None where nothing on its ladder
        does.
    """
    found = []
    for setting, ladder, changed in _levers(budget, sizes, within):
        look = _first if setting in _HELP_ALL else _halving

        def pays(value: float, at: _Changed = changed) -> bool:
            budget, sizes = at(value)
            return _pays(budget, sizes, within)

        step = look(pays, ladder)
        found.append(Remedy(setting=setting, value=step, last=ladder[-1]))
    return tuple(found)


def advice(found: Sequence[Remedy]) -> str:
    """The same in a sentence; empty where nothing can be changed."""
    would = [str(each) for each in found if each.value is not None]
    none = [str(each) for each in found if each.value is None]
    one = "by itself this would do" if len(would) == 1 else "by itself any of these would do"
    said = [f"{one}: {_listed(would, 'or')}"] if would else []
    said += [f"{_listed(none, 'and')} would by itself"] if none else []
    return "; ".join(said)


_Changed = Callable[[float], tuple[Budget, Sizes]]


def _levers(
    budget: Budget, sizes: Sizes, within: Within
) -> Iterator[tuple[str, tuple[float, ...], _Changed]]:
    total = sum(sizes.records)
    yield (
        "records",
        tuple(float(total * each) for each in _TIMES),
        lambda v: (budget, _grown(sizes, round(v / total))),
    )
    if higher := tuple(v for v in _FEATURES if v > budget.features_epsilon):
        yield "features_epsilon", higher, lambda v: (replace(budget, features_epsilon=v), sizes)
    if higher := tuple(v for v in _LABELS if v > sizes.epsilon):
        yield "epsilon", higher, lambda v: (budget, _everybody(sizes, v))
    servers = len(sizes.records)
    most = servers if budget.colluding is None else budget.colluding
    fewer = tuple(float(k) for k in range(min(most, servers - 1) - 1, 0, -1))
    if fewer and within.sums(sizes):  # rounds hide nothing in a total
        yield "colluding", fewer, lambda v: (replace(budget, colluding=int(v)), sizes)


def _grown(sizes: Sizes, times: int) -> Sizes:
    records = tuple(times * each for each in sizes.records)
    return replace(sizes, records=records, reports=times * sizes.reports)


def _everybody(sizes: Sizes, epsilon: float) -> Sizes:
    return replace(sizes, epsilon=epsilon, smallest_epsilon=0.0, reports=0.0)


def _first(does: Callable[[float], bool], ladder: Sequence[float]) -> float | None:
    """The first value that does, or half of it if that does as well."""
    found = next(filter(does, ladder), None)
    return found / 2 if found and found / 2 not in ladder and does(found / 2) else found


def _halving(does: Callable[[float], bool], ladder: Sequence[float]) -> float | None:
    """The first value that does, if all later ones do as well."""
    if not does(ladder[-1]):
        return None
    low, high = -1, len(ladder) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(ladder[middle]) else (middle, high)
    return ladder[high]


def _pays(budget: Budget, sizes: Sizes, within: Within) -> bool:
    """Whether a plan of sums, or where there are none one of rounds, beats what needs nobody, in
    the mean, and is rarely behind: the planner looks at more plans, and can only find a better
    one.
    """
    worth = Rehearsals(sizes.rounded())
    if within.sums(sizes):
        _, joint = worth.sums(budget, within.loss, _SHARE)
    else:
        asked = (within.graph, within.loss, within.most_rounds, within.settled, -inf)
        _, _, joint = worth.rounds(budget, *asked)
    if joint is None:
        return False
    right = joint[..., 1].mean(axis=1)
    apart = np.array([each[..., 1].mean(axis=1) for each in worth.apart(within.loss).values()])
    behind = np.mean(right < apart.max(axis=0) - _BEHIND)
    return bool(right.mean() > apart.mean(axis=1).max() and behind <= _RARELY)


def _two_digits(value: float) -> int:
    """Rounded up."""
    whole = int(value)
    power = int(10 ** max(0, len(str(whole)) - 2))
    return -(-whole // power) * power


def _listed(names: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
