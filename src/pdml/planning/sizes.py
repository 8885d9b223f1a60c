"""What a planner may know of the data, and what the ledger says of a plan for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isinf
from typing import Self

import numpy as np

from pdml import _validate
from pdml._math import report_weight
from pdml._types import Array
from pdml.accounting import Budget, Ledger
from pdml.accounting.events import LabelFlipped
from pdml.accounting.kinds import Adversary, Data
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import micro
from pdml.numerics import coded_rows
from pdml.numerics.admm.graph import Graph
from pdml.numerics.coded_rows import Block
from pdml.planning.server_spec import RowSpec, ServerSpec, TrainingTerms, answers_of
from pdml.planning.training_plan import TrainingPlan

_LEVELS = 8  # of ε that a forecast tells apart, where people chose many


@dataclass(frozen=True, kw_only=True)
class PlannedAnswer:
    """One answer that devices randomise before they send it (docs/concepts/attributes.md)."""

    block: Block  # where its code stands in a row, its levels and its scale: fixed by the study
    epsilon: float  # that people are expected to choose; ∞: the answer as it is

    def __post_init__(self) -> None:
        why = "0 would report pure noise"
        _validate.real(f"epsilon of {self.block.name!r}", self.epsilon, low=1e-6, high=inf, why=why)

    @cached_property
    def weight(self) -> float:
        """w, by which a reported level is de-biased."""
        if isinf(self.epsilon):
            return 1.0
        return coded_rows.weight(micro(self.epsilon), self.block.levels)

    @property
    def loudest(self) -> float:
        """w of the menu's smallest ε, for which the scale leaves room."""
        return self.block.length / self.block.true_length


def blocks_of(answers: Sequence[PlannedAnswer]) -> tuple[Block, ...]:
    """Their places in a row."""
    return tuple(answer.block for answer in answers)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What is public about the data: records per server, feature columns (with the constant one),
    classes, label ε, B.

    Where people chose for themselves, ``choices`` says how many are expected to choose each ε, and
    ``epsilon`` is the largest. ``answers`` are randomised; their columns are the last but the
    constant one. ``prevalence`` is what is guessed of how many have the second class.
    """

    records: tuple[int, ...]
    width: int
    epsilon: float
    classes: int = 2
    norm_bound: float = 1.0
    choices: tuple[tuple[float, float], ...] = ()  # (ε, people), ascending; none: all have one
    answers: tuple[PlannedAnswer, ...] = ()
    prevalence: tuple[float, float] | None = None  # of the second of two classes: from, to

    def __post_init__(self) -> None:
        for count in self.records:
            _validate.integer("records", count, low=1, why="every server needs somebody's record")
        why = "0 would report pure noise"
        _validate.real("epsilon", self.epsilon, low=0, open_low=True, why=why)
        self._check_choices()
        object.__setattr__(self, "answers", tuple(self.answers))
        _ = self.rows  # which checks the others
        self._check_prevalence()
        self._check_answers()

    def _check_choices(self) -> None:
        if not self.choices:
            return
        epsilons, people = zip(*self.choices, strict=True)
        ascending = list(epsilons) == sorted(set(epsilons)) and epsilons[0] > 0
        if not ascending or epsilons[-1] != self.epsilon or min(people) < 0 or not sum(people):
            raise InvalidInput(
                "choices must be pairs of an epsilon and how many people choose it, ascending up "
                f"to epsilon {self.epsilon:g}, got {self.choices!r}"[:300],
                setting="choices",
            )

    def _check_prevalence(self) -> None:
        if self.prevalence is None:
            return
        low, high = self.prevalence
        if self.classes != 2 or not 0 < low <= high < 1:
            raise InvalidInput(
                "prevalence must be two shares between 0 and 1, of two classes, got "
                f"{self.prevalence!r} and {self.classes} classes",
                setting="prevalence",
            )

    def _check_answers(self) -> None:
        """Populations are laid out as the study lays its rows out."""
        if not self.answers:
            return
        blocks = blocks_of(self.answers)
        starts = [*(block.start for block in blocks), self.width - 1]
        if starts[1:] != [block.start + block.levels for block in blocks]:
            raise InvalidInput(
                f"answers must fill the last columns but one of {self.width}, one after the other, "
                f"got blocks at {starts[:-1]} of {[block.levels for block in blocks]} levels",
                setting="answers",
            )
        if self.norm_bound != 1.0:
            raise InvalidInput(
                f"norm_bound must be 1 where answers are randomised, got {self.norm_bound:g}: "
                "their scale is that of a study",
                setting="norm_bound",
            )

    @classmethod
    def of(cls, specs: Sequence[ServerSpec], epsilons: Array) -> Self:
        """Of these servers, whose people chose these ε."""
        rows, records = specs[0], tuple(spec.records for spec in specs)
        used, people = np.unique(np.asarray(epsilons, dtype=float), return_counts=True)
        chosen = tuple(zip(used.tolist(), people.tolist(), strict=True))
        return cls(
            records=records,
            width=rows.width,
            epsilon=chosen[-1][0],
            classes=rows.classes,
            norm_bound=rows.norm_bound,
            choices=chosen if len(chosen) > 1 else (),
        )

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Every ε that may be in use, ascending."""
        return tuple(epsilon for epsilon, _ in self.choices) or (self.epsilon,)

    @property
    def epsilon_range(self) -> tuple[float, ...]:
        """The smallest and the largest ε, or the one that all have."""
        return tuple(sorted({self.epsilons[0], self.epsilon}))

    @cached_property
    def expected_choices(self) -> tuple[Array, Array]:
        """Every ε, and the share of people who are expected to choose it."""
        people = np.array([many for _, many in self.choices] or [1.0])
        return np.array(self.epsilons), people / people.sum()

    def counted_people(self, cap: float | None) -> float:
        """V, the sum of all reports' weights, counted up to an ε."""
        epsilons, shares = self.expected_choices
        weights = report_weight(epsilons, self.classes, inf if cap is None else cap)
        return float(sum(self.records) * (shares @ weights))

    def flip(self) -> LabelFlipped:
        """What labels went through."""
        return LabelFlipped(
            epsilon=self.epsilon,
            epsilons=self.epsilons,
            answers=answers_of(blocks_of(self.answers)),
            in_clear=self.in_clear,
        )

    @property
    def in_clear(self) -> bool:
        """Whether servers have other answers as they are."""
        return not self.answers or self.answers[0].block.start > 0

    def rounded(self) -> Self:
        """With counts of four binary digits and few ε: folds of one data set are one question."""
        records = tuple(map(_four_digits, self.records))
        return replace(self, records=records, choices=self._rounded_choices())

    def _rounded_choices(self) -> tuple[tuple[float, float], ...]:
        """Of many ε those at even steps of the people's ranks, to two digits, and the last."""
        merged = dict(self.choices)
        if len(merged) > _LEVELS:
            epsilons, shares = self.expected_choices
            people, merged = shares * sum(merged.values()), {}
            group = ((np.cumsum(shares) - shares / 2) * _LEVELS).astype(int)
            for members in (group == k for k in np.unique(group)):
                largest = float(epsilons[members].max())
                level = largest if largest == self.epsilon else float(f"{largest:.2g}")
                merged[level] = merged.get(level, 0.0) + float(people[members].sum())
        ordered = sorted((min(level, self.epsilon), many) for level, many in merged.items())
        return tuple((level, float(_four_digits(round(many)))) for level, many in ordered)

    @property
    def rows(self) -> RowSpec:
        """What a row is."""
        return RowSpec(
            width=self.width,
            classes=self.classes,
            norm_bound=self.norm_bound,
            blocks=blocks_of(self.answers),
            in_clear=self.in_clear,
        )

    def server_spec(self, server: int, graph: Graph | None = None) -> ServerSpec:
        """One server's: each has people of all kinds. An exchange of sums knows no links."""
        terms = TrainingTerms(rows=self.rows, n_servers=len(self.records), links=graph)
        return terms.server_spec(server, records=self.records[server], epsilons=self.epsilons)


def _four_digits(count: int) -> int:
    below = max(0, count.bit_length() - 4)
    return count >> below << below


@dataclass(frozen=True, kw_only=True)
class BudgetRow:
    """One demand of the budget, and what the plan spends of it according to its ledger."""

    data: str
    allowed: float
    spent: float
    delta: float


def ledger(plan: TrainingPlan, sizes: Sizes, graph: Graph, delta: float = 1e-6) -> Ledger:
    """The real ledger of a whole training under ``plan``, before it starts."""
    specs = (sizes.server_spec(i, graph) for i in range(graph.n))
    events = tuple((sizes.flip(), *plan.events(spec)) for spec in specs)
    return Ledger(events, source="planned", delta=delta, classes=sizes.classes)


def budget_rows(
    plan: TrainingPlan, budget: Budget, sizes: Sizes, graph: Graph
) -> tuple[BudgetRow, BudgetRow]:
    """The two rows of the budget, from the ledger."""
    whole, rows = ledger(plan, sizes, graph), []
    for data, name in ((Data.FEATURES, "features"), (Data.LABEL, "labels")):
        allowed, delta = budget.limit(data)
        book = replace(whole, delta=delta)
        worst = book.row(data, Adversary.OTHERS, colluding=budget.colluding).epsilon
        rows.append(BudgetRow(data=name, allowed=allowed, spent=worst, delta=delta))
    return rows[0], rows[1]
