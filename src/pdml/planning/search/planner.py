"""From a privacy budget to a plan: sums or rounds, and every setting, to lose the least accuracy.

The budget fixes the noise of each way, read from the `Ledger` of its own events; utility forecasts
say what it costs, beside what nobody has to join for: a server alone, and the majority class.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from math import inf, isinf
from types import MappingProxyType

import numpy as np

from pdml import _validate
from pdml._types import IntArray, Matrix
from pdml.accounting import Budget
from pdml.accounting.kinds import Data, Method
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.planning.forecast.utility import Forecast
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.proposal import Proposal
from pdml.planning.search import sums_search
from pdml.planning.search.candidates import LOCAL, UtilityRuns, compare
from pdml.planning.search.rounds_search import FIXABLE_SETTINGS, Search, SearchSpace
from pdml.planning.sizes import BudgetRow, Sizes, budget_rows, ledger
from pdml.planning.training_plan import METHODS, TrainingPlan

__all__ = [
    "Budget",
    "BudgetRow",
    "Forecast",
    "Proposal",
    "Sizes",
    "budget_rows",
    "ledger",
    "propose",
]

Progress = Callable[[int, int], None]
"""Called as (done, of how many)."""

_NOTHING: Mapping[str, float] = MappingProxyType({})
_HAIR = 1e-3  # of noise: so much more changes no forecast


def propose(
    budget: Budget,
    sizes: Sizes,
    graph: Graph,
    *,
    like: tuple[Matrix, IntArray] | None = None,
    method: str | None = None,
    loss: str = "logistic",
    most_rounds: int = 100,
    fixed_settings: Mapping[str, float] = _NOTHING,
    yardstick: str = Yardstick.ACCURACY,
    progress: Progress | None = None,
) -> Proposal:
    """The plan that is expected to be worth most within a budget: what `pdml plan` proposes.

    Parameters
    ----------
    budget : Budget
        The most that the other servers together may learn, or so many of them.
    sizes : Sizes
        What is public about the data.
    graph : Graph
        Who is linked to whom.
    like : (matrix, class indices), optional
        Public records like those to be trained on, encoded, with their constant column; by default
        simulated data sets of many shapes.
    method : str, optional
        "rounds" or "sums"; by default whichever is expected to be worth more.
    loss : str
        "logistic" or "matsushita".
    most_rounds : int
        The most rounds to plan for.
    fixed_settings : mapping, optional
        Settings of rounds that are not to be chosen: ``rounds``, ``penalty``, ``regularization``,
        ``noise_decay``. Any of them asks for rounds.
    yardstick : str
        What a model is judged by: a `Yardstick`. Where a class is rare, accuracy hardly tells
        models apart, and "auc" does.
    progress : callable, optional
        Called as (done, of how many) after each of a few steps.

    Returns
    -------
    Proposal
        ``save(path)`` writes it for a training.

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
    - Forecasts round numbers of records to four binary digits, so that folds of one data set are
      one question; the noise is that of their own.

    Examples
    --------
    >>> from pdml.numerics.admm.graph import Graph
    >>> sizes = Sizes(records=(4500,) * 4, width=21, epsilon=1.0)
    >>> proposal = propose(Budget(features_epsilon=1.0), sizes, Graph.ring(4))
    >>> proposal.plan.method, proposal.ledger.row("features", "other servers").epsilon <= 1.0
    ('sums', True)
    """
    method = Method.ROUNDS if fixed_settings and method is None else method
    _check(budget, sizes, graph, method, loss, most_rounds, fixed_settings)
    _validate.choice("yardstick", yardstick, tuple(Yardstick))
    steps = count(1)

    def advance() -> None:
        if progress is not None:
            progress(next(steps), 4)

    worth = UtilityRuns(sizes.rounded() if like is None else sizes, like)
    within = SearchSpace(
        graph=graph,
        method=method,
        loss=loss,
        most_rounds=most_rounds,
        fixed_settings=tuple(sorted(fixed_settings.items())),
        yardstick=Yardstick(yardstick),
    )
    advance()
    comparison = compare(worth, budget, within, on_step=advance)
    if comparison.method is None:
        raise BudgetExceeded(_impossible(budget))
    plan: TrainingPlan | None
    if comparison.method == Method.SUMS:
        assert comparison.share is not None
        spec = sizes.server_spec(int(np.argmax(sizes.records)))
        settings = comparison.share, comparison.cap
        plan = sums_search.calibrate(budget, spec, settings[0], loss=loss, cap=settings[1])
        if len(sizes.records) > 1:
            scores = {**comparison.scores, LOCAL: worth.local(budget, loss, *settings)}
            comparison = replace(comparison, scores=scores)
    else:
        assert comparison.choice is not None
        plan, by = Search(worth.sizes, within).plan(comparison.choice, budget, sizes)
        if by > _HAIR:  # what people are told is of the plan that they get
            choice = comparison.choice.louder(by)
            scores = {**comparison.scores, Method.ROUNDS: worth.of_rounds(choice, within)}
            comparison = replace(comparison, choice=choice, scores=scores)
    assert plan is not None  # what has scores has one
    advance()
    return Proposal(
        budget=budget,
        sizes=sizes,
        within=within,
        plan=plan,
        comparison=comparison,
        public=like is not None,
    )


def _check(
    budget: Budget,
    sizes: Sizes,
    graph: Graph,
    method: str | None,
    loss: str,
    most_rounds: int,
    fixed_settings: Mapping[str, float],
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
    if method == Method.SUMS and sizes.width > sums_search.WIDEST:
        raise InvalidInput(
            f"method must be 'rounds' for more than {sums_search.WIDEST} columns, got 'sums' and "
            f"{sizes.width}: S would have {sizes.width * (sizes.width + 1) // 2:,} numbers",
            setting="method",
        )
    for name in fixed_settings:
        _validate.choice("fixed_settings", name, FIXABLE_SETTINGS)
        if method == Method.SUMS:
            raise InvalidInput(
                f"{name} must be left out with method 'sums': it belongs to 'rounds'", setting=name
            )
    TrainingPlan.from_dict(dict(fixed_settings))  # refuses what lies outside its domain


def _impossible(budget: Budget) -> str:
    rows = {"features": budget.limit(Data.FEATURES), "labels": budget.limit(Data.LABEL)}
    limits = [
        f"{name} epsilon {epsilon:g} (delta {delta:g})"
        for name, (epsilon, delta) in rows.items()
        if epsilon < inf
    ]
    return (
        f"the budget of {' and '.join(limits)} cannot be met: no Gaussian noise reaches it; "
        "raise the delta or the epsilon"
    )
