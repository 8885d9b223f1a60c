"""What a planner proposes: a plan, what it spends, what it is worth, why, and what would help.

Asking the planner takes as long as planning, so a first impression (`quick_estimate`) says where
to ask: of each setting the least change that looks as if it would do, then the next one. Whatever
is named, as what would do or as what would not, the planner itself has said.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import inf, isinf
from os import PathLike
from typing import Any

import numpy as np

from pdml.accounting import Budget, Ledger
from pdml.accounting.kinds import Method
from pdml.formatting import notebook
from pdml.numerics.admm.graph import Graph
from pdml.numerics.interval import Range
from pdml.planning.forecast.utility import Forecast, Gain, Verdict
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.plan_file import SavedPlan
from pdml.planning.search.candidates import (
    LOCAL,
    CandidateComparison,
    UtilityRuns,
    compare,
    quick_estimate,
)
from pdml.planning.search.rounds_search import Choice, SearchSpace
from pdml.planning.search.sums_search import WIDEST
from pdml.planning.sizes import BudgetRow, Sizes, budget_rows, ledger
from pdml.planning.training_plan import TrainingPlan

_TIMES = (5, 25, 125)  # as many records
_FEATURES = (0.25, 1.0, 4.0, 16.0, inf)
_LABELS = (1.0, 2.0, 4.0)
_FREE = "no limit on features (features_epsilon=None)"
_LESS_NOISE = ("features_epsilon", "colluding")  # and nothing else, the less the farther
_ENOUGH = 2  # settings that would do


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """Another value of one setting, and what the planner says of it."""

    setting: str  # of `Budget` or `Sizes`; "records" of all servers together
    value: float
    verdict: Verdict  # of joining with it

    def __str__(self) -> str:
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
    - ``verdict`` is of a plan that `propose` weighs with the ``value`` instead, of which the one
      it takes is no worse in the mean.
    """
    suggestions: list[Suggestion] = []
    levers = tuple(_levers(budget, sizes, within))
    for lever in levers:
        suggestion = _least(lever, within)
        suggestions += [suggestion] if suggestion else []
        if sum(suggestion.verdict == Verdict.PAYS for suggestion in suggestions) == _ENOUGH:
            break
    return tuple(suggestions or (_evaluate(lever, lever.ladder[-1], within) for lever in levers))


def advice(suggestions: Sequence[Suggestion]) -> str:
    """The same in a sentence; empty where nothing can be changed."""
    by_verdict = {
        verdict: [str(option) for option in suggestions if option.verdict == verdict]
        for verdict in Verdict
    }
    would, none = by_verdict[Verdict.PAYS], by_verdict[Verdict.PAYS_NOT]
    opening = "by itself this would do" if len(would) == 1 else "by itself either of these would do"
    sentences = [f"{opening}: {' or '.join(would)}"] if would else []
    if close := by_verdict[Verdict.OPEN]:
        sentences.append(f"by itself {' or '.join(close)} would be too close to say")
    if none:
        nor = "".join(f", nor would {suggestion}" for suggestion in none[1:])
        sentences.append(f"by itself {none[0]} would not do{nor}")
    return "; ".join(sentences)


@dataclass(frozen=True)
class _Lever:
    """A setting, values of it from near to far, and the question with one of them."""

    setting: str
    ladder: tuple[float, ...]
    question: Callable[[float], tuple[Budget, Sizes]]


def _levers(budget: Budget, sizes: Sizes, within: SearchSpace) -> Iterator[_Lever]:
    """In the order in which they cost a consortium least."""
    name = "features_epsilon"
    if higher := tuple(v for v in _FEATURES if v > budget.features_epsilon):
        yield _Lever(name, higher, lambda v: (replace(budget, features_epsilon=v), sizes))
    servers = len(sizes.records)
    most = servers if budget.colluding is None else budget.colluding
    fewer = tuple(float(k) for k in range(min(most, servers - 1) - 1, 0, -1))
    if fewer and within.tries_sums(sizes):  # rounds hide nothing in a total
        yield _Lever("colluding", fewer, lambda v: (replace(budget, colluding=int(v)), sizes))
    more = tuple(_two_digits(sum(sizes.records) * factor) for factor in _TIMES)
    yield _Lever("records", more, lambda v: (budget, _scale_records(sizes, int(v))))
    if higher := tuple(v for v in _LABELS if v > sizes.epsilon):
        alike = replace(sizes, choices=())
        yield _Lever("epsilon", higher, lambda v: (budget, replace(alike, epsilon=v)))


def _least(lever: _Lever, within: SearchSpace) -> Suggestion | None:
    """The least change that does, or that is too close to say, looked for where it seems to."""
    suggestions = []
    for value in _promising_values(lever, within):
        suggestions.append(_evaluate(lever, value, within))
        if suggestions[-1].verdict == Verdict.PAYS:
            return suggestions[-1]
    return next((found for found in suggestions if found.verdict == Verdict.OPEN), None)


def _promising_values(lever: _Lever, within: SearchSpace) -> Sequence[float]:
    """Three values to ask about, from the first that seems to do. Where noise alone changes, all
    farther values do as well, so that few are looked at.
    """

    @cache
    def estimate(value: float) -> CandidateComparison:
        budget, sizes = lever.question(value)
        return quick_estimate(sizes.rounded(), budget, within)

    start = _first(lever, lambda value: estimate(value).gain.middle > 0)
    return lever.ladder[start : start + 3]


def _first(lever: _Lever, does: Callable[[float], bool]) -> int:
    """Where on the ladder a value first does: its length if none."""
    if lever.setting in _LESS_NOISE:
        return bisect_left(lever.ladder, True, key=does)
    return next((at for at, value in enumerate(lever.ladder) if does(value)), len(lever.ladder))


def _evaluate(lever: _Lever, value: float, within: SearchSpace) -> Suggestion:
    budget, sizes = lever.question(value)
    comparison = compare(UtilityRuns(sizes.rounded()), budget, within, enough=True)
    return Suggestion(setting=lever.setting, value=value, verdict=comparison.gain.verdict)


def _scale_records(sizes: Sizes, total: int) -> Sizes:
    """So many records, divided as now."""
    ends = np.cumsum(sizes.records) * (total / sum(sizes.records))
    records = np.diff(np.round(ends), prepend=0.0)
    return replace(sizes, records=tuple(int(count) for count in records))


def _two_digits(value: float) -> float:
    """Rounded up."""
    whole = int(value)
    power = int(10 ** max(0, len(str(whole)) - 2))
    return float(-(-whole // power) * power)


_ALTERNATIVES = {
    "alone": "a server that keeps its own reports to itself",
    "majority": "the majority-class baseline",
}
_OPENINGS = {
    Verdict.PAYS: "joining is expected to pay",
    Verdict.PAYS_NOT: "joining is not expected to pay",
    Verdict.OPEN: "whether joining pays is too close to say",
}
_MEASURES = {
    Yardstick.AGREEMENT: "agreement with an unprotected model",
    Yardstick.ACCURACY: "share of right answers",
    Yardstick.AUC: "AUC",
    Yardstick.TOP_FIFTH: "share of the class in the top fifth",
    Yardstick.SENSITIVITY: "sensitivity at a specificity of 90%",
}


def verdict(comparison: CandidateComparison, *, public: bool) -> str:
    """Whether joining is expected to pay, in a sentence."""
    gain, joint = comparison.gain, comparison.scores[str(comparison.method)]
    where = "on public records" if public else f"over {len(joint)} simulated data sets"
    return (
        f"{_OPENINGS[gain.verdict]}: {where} the {_MEASURES[comparison.yardstick]} of the joint "
        f"model is {comparison.mean(str(comparison.method)):.1%}, that of "
        f"{_ALTERNATIVES[comparison.apart]} {comparison.mean(comparison.apart):.1%}; the "
        f"difference is {100 * gain.low:+.1f} to {100 * gain.high:+.1f} points (95% interval)"
    )


def _explain_method(proposal: "Proposal") -> str:
    plan, width, comparison = proposal.plan, proposal.sizes.width, proposal.comparison
    sums = plan.method == Method.SUMS
    why = (
        "one exchange of sums: what a record tells of its label and of its squares is released "
        "once, and any model is made of the totals"
        if sums
        else f"{plan.rounds} rounds: what is released has {width} numbers for each row of weights"
    )
    other, most = Method.ROUNDS if sums else Method.SUMS, comparison.most
    reached, measure = comparison.mean(plan.method), _MEASURES[comparison.yardstick]
    forecast = f"{why}; the {measure} is forecast as {reached:.1%}, against"
    if other in comparison.scores:
        return f"{forecast} {comparison.mean(other):.1%} by {other}"
    if sums and most is not None:
        little = ", too little more for so many exchanges" if most > reached else ""
        return f"{forecast} at most {most:.1%} by rounds{little}"
    if not sums and width > WIDEST:
        numbers = f"{width * (width + 1) // 2:,}"
        return f"{why}; sums would hold {numbers} squares, and are tried up to {WIDEST} columns"
    return why


def _explain_local(comparison: CandidateComparison) -> list[str]:
    gain = comparison.local_gain
    if gain is None:
        return []
    measure, reached = _MEASURES[comparison.yardstick], comparison.mean(LOCAL)
    return [
        "every server can also make a local model, of its own exact sums and the others' noisy "
        f"ones, for itself alone: it releases nothing more; its {measure} is forecast as "
        f"{reached:.1%}, {100 * gain.low:+.1f} to {100 * gain.high:+.1f} points from that of its "
        "own reports alone (95% interval, servers alike)"
    ]


def _explain_sums(plan: TrainingPlan, budget: Budget, sizes: Sizes) -> list[str]:
    servers = len(sizes.records)
    numbers = sizes.width * (sizes.width + 1) // 2 + sizes.rows.codes * sizes.width
    label, square = plan.sum_stddevs(servers)
    split = "the noise is divided so that the model loses the least"
    if isinf(budget.features_epsilon):
        split = "features have no limit, so that sums of squares need no noise"
    who = (
        "all other servers are assumed to collude, so that every server hides its records by "
        "itself; where fewer can be assumed to, their number (colluding) makes it quieter"
    )
    if budget.colluding is not None:
        who = (
            f"no more than {budget.colluding} of the other servers are assumed to collude: sums "
            "are masked, only their total appears, and the noise of any "
            f"{servers - budget.colluding} servers protects everybody in it"
        )
    release = (
        f"every server sends {numbers:,} numbers once, with noise of deviation {label:.3g} on sums "
        f"of labels and {square:.3g} on sums of squares, however many records it has"
    )
    if plan.epsilon_cap is None:
        return [release, split, who]
    counted = (
        f"reports are counted up to epsilon {plan.epsilon_cap:g}: whoever chose more counts as "
        "much as with this one, so that a few do not set the noise for all"
    )
    return [release, split, who, counted]


def _explain_rounds(plan: TrainingPlan, choice: Choice) -> list[str]:
    through = "the same noise on releases (R = 0)"
    if choice.objective_bound:
        through = "noise in the objective (R), drawn once"
    return [
        f"{choice.rounds} rounds with penalty {plan.penalty:g}: more rounds would leave less "
        f"unfinished, but divide the budget among more releases ({choice.noise:.0%} of the "
        "margins' power is noise)",
        f"noise is forgotten by a factor C = {choice.rule_decay**2:.3g} per round, for which the "
        f"rule sqrt(C) says decay {choice.rule_decay:.3g}; the search took {choice.decay:.3g}",
        f"labels are protected against other servers by {through}",
    ]


def _explain_answers(sizes: Sizes) -> list[str]:
    names = [
        f"{answer.block.name!r} (suggested epsilon {answer.epsilon:g})" for answer in sizes.answers
    ]
    if not names:
        return []
    *rest, last = names
    which = f"{', '.join(rest)} and {last}" if rest else last
    only = f"of {which} servers have only randomised answers"
    return [f"{only}: the utility forecast randomises them, too"]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A plan, what it spends, what it is expected to be worth, and why it looks as it does.

    Attributes
    ----------
    budget, sizes
        What was asked.
    within : SearchSpace
        What there was to choose from.
    plan : TrainingPlan
        What is proposed.
    comparison : CandidateComparison
        Scores of all candidates.
    public : bool
        Whether the forecast used public records.
    """

    budget: Budget
    sizes: Sizes
    within: SearchSpace = field(repr=False)
    plan: TrainingPlan
    comparison: CandidateComparison = field(compare=False, repr=False)
    public: bool = False

    @property
    def graph(self) -> Graph:
        """Who is linked to whom."""
        return self.within.graph

    @cached_property
    def candidates(self) -> dict[str, Forecast]:
        """Forecasts by name: see ``comparison``."""
        return {
            name: Forecast.of(scores.reshape(-1, scores.shape[-1]))
            for name, scores in self.comparison.scores.items()
        }

    @property
    def forecast(self) -> Forecast:
        """Of the plan."""
        return self.candidates[self.plan.method]

    @property
    def gain(self) -> Gain:
        """How far the plan is ahead of the better of those that need nobody: ``gain.verdict``."""
        return self.comparison.gain

    @property
    def verdict(self) -> str:
        """Whether joining pays, in a sentence."""
        return verdict(self.comparison, public=self.public)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this method, these settings and this much noise."""
        sentences, choice = [_explain_method(self)], self.comparison.choice
        sentences += _explain_local(self.comparison)
        if self.plan.method == Method.SUMS:
            sentences += _explain_sums(self.plan, self.budget, self.sizes)
        elif choice is not None:
            sentences += _explain_rounds(self.plan, choice)
        return (*sentences, *_explain_answers(self.sizes))

    @cached_property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """What would make joining pay, by one setting; none where it does, or on public records."""
        if self.gain.verdict == Verdict.PAYS or self.public:
            return ()
        return find_suggestions(self.budget, self.sizes, self.within)

    @property
    def advice(self) -> str:
        """The verdict, and where joining does not pay what would make it."""
        more = advice(self.suggestions)
        return f"{self.verdict}; {more}" if more else self.verdict

    @cached_property
    def rows(self) -> tuple[BudgetRow, ...]:
        """What is allowed, and what the plan spends of it."""
        return budget_rows(self.plan, self.budget, self.sizes, self.graph)

    @cached_property
    def ledger(self) -> Ledger:
        """What the whole training will spend, at the budget's δ of features."""
        return ledger(self.plan, self.sizes, self.graph, self.budget.features_delta)

    def _repr_html_(self) -> str:
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

        def plain(value: Any) -> Any:
            return "inf" if value == inf else value

        rows = [{name: plain(value) for name, value in vars(r).items()} for r in self.rows]
        return {
            "plan": self.plan.to_dict(),
            "method": self.plan.method,
            "budget": rows,
            "colluding": self.budget.colluding,
            "candidates": {name: forecast.to_dict() for name, forecast in self.candidates.items()},
            "pays": self.gain.verdict,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "ledger": self.ledger.to_dict(),
            "links": [list(edge) for edge in self.graph.edges],
        }
