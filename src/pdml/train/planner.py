"""From a privacy budget to a plan: V, ρ, T, R, β and a that meet it and lose the least accuracy
(theory, section 4).

The budget fixes how much noise a shape (β, a, T, ρ) needs, `forecast` says what that noise and the
shape cost, and a grid of shapes that does not depend on the budget is searched: hence more budget
never predicts a larger error. What a plan spends is always read from the `Ledger` of its own
events.

The decay rule. Let noise of round t reach the final model with factor C^(T-t). Minimise Σ_t C^(T-t)
σ_t² under Σ_t D²/σ_t² = const. Lagrange: C^(T-t) = ν D²/σ_t⁴, so σ_t² ∝ C^(-(T-t)/2): the variance
falls by ρ = √C each round, and Cauchy-Schwarz says that nothing does better. C is read from the
exact responses of the linearised iteration (`forecast`) as their mean decay over the run; since
they are no perfect geometric series the rule is one candidate beside a grid of ρ.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isinf, sqrt
from typing import Any

import numpy as np

from pdml import _validate
from pdml._types import IntArray, Matrix
from pdml.accounting import Budget
from pdml.core import labels
from pdml.core.graph import Graph
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.mechanisms.objective_noise import SIGMAS
from pdml.train.forecast import Forecast
from pdml.train.plan import TrainingPlan
from pdml.train.search import Choice, Row, Search, Sizes, ledger, spent

__all__ = ["ACCEPTABLE", "Budget", "Proposal", "Row", "Sizes", "ledger", "propose", "spent"]

# a model whose margins are three quarters noise agrees with the wanted one on two records of three
ACCEPTABLE = 0.75


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A plan, what it spends, what it is predicted to cost, and why it looks as it does."""

    plan: TrainingPlan
    rows: tuple[Row, ...]
    forecast: Forecast
    contraction: float  # C: how fast noise is forgotten, per round and in variance
    rule_decay: float  # √C
    rule_error: float  # the predicted error had ρ been the rule's
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; infinity as the string "inf"."""

        def plain(value: float) -> float | str:
            return "inf" if isinf(value) else value

        rows = [
            {"data": r.data, "allowed": plain(r.allowed), "spent": plain(r.spent), "delta": r.delta}
            for r in self.rows
        ]
        terms = {
            name: getattr(self.forecast, name)
            for name in ("optimisation", "labels", "objective", "iterates", "error", "agreement")
        }
        rule = {
            "contraction": self.contraction,
            "rule_decay": self.rule_decay,
            "rule_error": self.rule_error,
        }
        return {
            "plan": self.plan.to_dict(),
            "budget": rows,
            "predicted": terms,
            **rule,
            "reasons": list(self.reasons),
        }


def propose(
    budget: Budget,
    sizes: Sizes,
    graph: Graph,
    *,
    like: tuple[Matrix, IntArray] | None = None,
    loss: str = "logistic",
    acceptable: float = ACCEPTABLE,
    most_rounds: int = 100,
) -> Proposal:
    """The plan of the smallest predicted error within ``budget``.

    ``like``: public records (prepared, with their constant column) and class indices of the same
    shape; by default a synthetic population. A budget under which the predicted error exceeds
    ``acceptable`` is refused, with the nearest that would do.
    """
    if len(sizes.records) != graph.n:
        raise InvalidInput(
            f"records must be one number per server ({graph.n} of them), got {len(sizes.records)}"
        )
    _validate.real("acceptable", acceptable, low=0, high=1, open_low=True)
    _validate.integer("most_rounds", most_rounds, low=1)
    if np.isinf(
        labels.record_shift(
            sizes.epsilon,
            sizes.norm_bound,
            TrainingPlan(loss=loss).loss_for(sizes.classes),
            sizes.classes,
        )
    ):
        raise InvalidInput(
            f"loss must have a bounded slope to protect features, got {loss!r}: use "
            "logistic or matsushita"
        )
    search = Search(sizes, graph, like, loss, most_rounds)
    best = search.best(budget)
    if best is None or best.forecast.error > acceptable:
        raise BudgetExceeded(_nearest(search, budget, acceptable, best))
    return _proposal(search, best, budget)


def _proposal(search: Search, choice: Choice, budget: Budget) -> Proposal:
    cost = search.costs[choice.shape]
    t = search.rounds.index(choice.rounds)
    contraction = float(cost.decays[t, 0] ** 2)
    rule = cost.terms(
        search.data.power, t, 0, choice.unit, choice.objective_bound / SIGMAS, 1.0
    ).error
    plan = search.plan(choice, budget)
    return Proposal(
        plan=plan,
        rows=spent(plan, budget, search.sizes, search.graph),
        forecast=choice.forecast,
        contraction=contraction,
        rule_decay=float(cost.decays[t, 0]),
        rule_error=rule,
        reasons=_reasons(search, choice, contraction, rule),
    )


def _reasons(search: Search, choice: Choice, contraction: float, rule: float) -> tuple[str, ...]:
    terms, base = choice.forecast, search.plans[choice.shape]
    names = {
        "optimisation": "unfinished optimisation",
        "labels": "randomised labels",
        "iterates": "noise on releases",
        "objective": "noise in the objective",
    }
    loudest = max(names, key=lambda name: float(getattr(terms, name)))
    through = (
        "noise in the objective (R), drawn once"
        if choice.objective_bound
        else "the same noise on releases (R = 0)"
    )
    return (
        f"{choice.rounds} rounds with penalty {base.penalty:g}: more rounds would leave "
        "less unfinished "
        f"({terms.optimisation:.2g} of the margins' power) but divide the budget among more "
        f"releases ({terms.iterates:.2g} is their noise)",
        f"noise is forgotten by a factor C = {contraction:.3g} per round, for which the "
        f"rule sqrt(C) says decay {sqrt(contraction):.3g}; "
        f"the search took {choice.decay:.3g} (predicted error {terms.error:.4g} against "
        f"{rule:.4g})",
        f"labels are protected against other servers by {through}",
        f"the largest loss comes from {names[loudest]}",
    )


def _nearest(search: Search, budget: Budget, acceptable: float, best: Choice | None) -> str:
    """One sentence for a budget that cannot be met: what it would lead to, and the nearest that
    can.
    """
    said = f"features epsilon {budget.features_epsilon:g} (delta {budget.features_delta:g})"
    if not isinf(budget.labels_epsilon):
        said += f" and labels epsilon {budget.labels_epsilon:g} (delta {budget.labels_delta:g})"
    error = (
        "no noise of this method reaches it"
        if best is None
        else f"the best plan would lose {best.forecast.error:.0%} of the margins"
    )
    begun = (
        f"the budget of {said} cannot be met at a predicted error of at most "
        f"{acceptable:.0%}: {error}; "
    )

    def enough(choice: Choice | None) -> bool:
        return choice is not None and choice.forecast.error <= acceptable

    ways = []
    factor = _factor(lambda f: enough(search.best(_scaled(budget, f, search.sizes.epsilon))))
    if factor is not None:
        near = _scaled(
            budget, 1.005 * factor, search.sizes.epsilon
        )  # so that what is said, with three digits, does it
        label = (
            "" if isinf(near.labels_epsilon) else f" and labels epsilon {near.labels_epsilon:.3g}"
        )
        ways.append(
            f"the nearest that can be met is features epsilon {near.features_epsilon:.3g}{label}"
        )
    more = None if best is None else _factor(lambda f: enough(search.best(budget, more=f)))
    if more is not None:
        ways.append(f"about {1.05 * more:.2g} times as many records per server would do")
    return begun + (", or ".join(ways) if ways else "raise the label epsilon as well, or delta")


def _factor(works: Callable[[float], bool]) -> float | None:
    """The least factor above 1 (to 1%, rounded up) that works, or None if 10⁵ does not."""
    if not works(1e5):
        return None
    low, high = 1.0, 1e5
    while high / low > 1.01:
        middle = sqrt(low * high)
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def _scaled(budget: Budget, factor: float, label_epsilon: float) -> Budget:
    """Both ε times ``factor`` (from 0, those of a thousandth), the same δ; labels up to their own
    ε, beyond which nothing is to gain.
    """
    features, own = max(budget.features_epsilon, 1e-3), max(budget.labels_epsilon, 1e-3)
    return replace(
        budget,
        features_epsilon=factor * features,
        labels_epsilon=max(own, min(factor * own, label_epsilon)),
    )
