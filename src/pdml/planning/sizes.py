"""What a planner may know of the data, and what the ledger says of a plan for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isinf, log1p, sqrt
from typing import Self

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.accounting import Budget, Ledger
from pdml.accounting.events import LabelFlipped
from pdml.accounting.kinds import Adversary, Data
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import micro
from pdml.numerics import coded_rows
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.coded_rows import Block
from pdml.planning.server_spec import RowSpec, ServerSpec, TrainingTerms, answers_of
from pdml.planning.training_plan import TrainingPlan


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

    Where people chose for themselves, ``epsilon`` is the largest ε, ``smallest_epsilon`` the
    smallest, and ``reports`` as how many with ``epsilon`` all of theirs count. ``answers`` are
    randomised; their columns are the last but the constant one.
    """

    records: tuple[int, ...]
    width: int
    epsilon: float
    classes: int = 2
    norm_bound: float = 1.0
    smallest_epsilon: float = 0.0  # 0: the same as ``epsilon``
    reports: float = 0.0  # 0: all records
    answers: tuple[PlannedAnswer, ...] = ()

    def __post_init__(self) -> None:
        for count in self.records:
            _validate.integer("records", count, low=1, why="every server needs somebody's record")
        why = "0 would report pure noise"
        _validate.real("epsilon", self.epsilon, low=0, open_low=True, why=why)
        _validate.real("smallest_epsilon", self.smallest_epsilon, low=0, high=self.epsilon)
        _validate.real("reports", self.reports, low=0, high=sum(self.records))
        object.__setattr__(self, "answers", tuple(self.answers))
        _ = self.rows  # which checks the others
        self._check_answers()

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
        smallest, largest = float(np.min(epsilons)), float(np.max(epsilons))
        sizes = cls(
            records=records,
            width=rows.width,
            epsilon=largest,
            classes=rows.classes,
            norm_bound=rows.norm_bound,
        )
        if smallest == largest:
            return sizes
        weights = labels.keep_weight(np.asarray(epsilons), rows.classes)
        loud = labels.keep_weight(largest, rows.classes) / weights
        return replace(sizes, smallest_epsilon=smallest, reports=float(np.sum(loud**2)))

    @property
    def effective_reports(self) -> float:
        """As how many reports of people with ``epsilon`` all reports count."""
        return self.reports or float(sum(self.records))

    @property
    def equivalent_epsilon(self) -> float:
        """The ε with which all would tell as much together, if everybody had the same: κ² is to
        that of ``epsilon`` as there are people to `effective_reports`.
        """
        if not self.reports:
            return self.epsilon
        loudest = float(labels.keep_weight(self.epsilon, self.classes))
        kappa = loudest * sqrt(sum(self.records) / self.effective_reports)
        return log1p(self.classes / (kappa - 1))

    @property
    def epsilon_range(self) -> tuple[float, ...]:
        """The smallest and the largest ε, or the one that all have."""
        return tuple(sorted({self.smallest_epsilon or self.epsilon, self.epsilon}))

    def flip(self) -> LabelFlipped:
        """What labels went through; which ε lie between the ends is not known, so everybody counts
        as least private and as loudest.
        """
        menu = self.epsilon_range if len(self.epsilon_range) == 1 else ()
        return LabelFlipped(
            epsilon=self.epsilon,
            epsilons=menu,
            answers=answers_of(blocks_of(self.answers)),
            in_clear=self.in_clear,
        )

    @property
    def in_clear(self) -> bool:
        """Whether servers have other answers as they are."""
        return not self.answers or self.answers[0].block.start > 0

    def rounded(self) -> Self:
        """With counts of four binary digits: folds of one data set are then one question."""
        return replace(
            self,
            records=tuple(map(_four_digits, self.records)),
            reports=float(_four_digits(int(self.reports))),
        )

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
        return terms.server_spec(server, records=self.records[server], epsilons=self.epsilon_range)


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
