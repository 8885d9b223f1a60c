"""The grid of shapes (β, a, T, ρ) that a plan is chosen from, and what each costs under a budget.

A budget fixes how much noise a shape needs; the rest does not depend on it and is computed once.
The least noise is found by asking the `Ledger` itself about one release: T Gaussian releases of
sensitivity D are one with Σ D²/σ_t², which is how the ledger adds them up. The plan that comes out
is checked by the ledger of all its own events.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from pdml import _validate
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget, Ledger
from pdml.accounting.events import Event, IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.core.graph import Graph
from pdml.errors import BudgetExceeded
from pdml.mechanisms.objective_noise import SIGMAS
from pdml.train import forecast
from pdml.train.forecast import DataModel, Forecast
from pdml.train.plan import TrainingPlan

ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100)
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # β
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)  # a/n
DECAYS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)  # ρ, beside the rule's


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What is public about the data: records per server, feature columns (with the constant one),
    classes, label ε, B.
    """

    records: tuple[int, ...]
    width: int
    epsilon: float
    classes: int = 2
    norm_bound: float = 1.0

    def __post_init__(self) -> None:
        for count in self.records:
            _validate.integer("records", count, low=1, why="every server needs somebody's record")
        _validate.integer("width", self.width, low=1)
        _validate.integer("classes", self.classes, low=2)
        _validate.real(
            "epsilon", self.epsilon, low=0, open_low=True, why="0 would report pure noise"
        )
        _validate.real("norm_bound", self.norm_bound, low=0, high=1e12, open_low=True)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One demand of the budget: what was allowed, and what the plan spends of it according to its
    ledger.
    """

    data: str
    allowed: float
    spent: float
    delta: float


def ledger(plan: TrainingPlan, sizes: Sizes, graph: Graph, delta: float = 1e-6) -> Ledger:
    """The real ledger of a whole training under ``plan``, before it starts."""
    flip = LabelFlipped(epsilon=sizes.epsilon)
    each = tuple((flip, *_events(plan, sizes, graph, i)) for i in range(graph.n))
    return Ledger(each, source="planned", delta=delta, classes=sizes.classes)


def spent(plan: TrainingPlan, budget: Budget, sizes: Sizes, graph: Graph) -> tuple[Row, Row]:
    """The two rows of the budget, from the ledger; servers alike in degree and records are read
    once.
    """
    different = {
        (int(graph.degrees[i]), sizes.records[i], scale_of(plan, i, graph.n)): i
        for i in range(graph.n)
    }
    found = []
    for data, name in (("features", "features"), ("label", "labels")):
        delta = getattr(budget, f"{name}_delta")
        book = ledger(plan, sizes, graph, delta)
        worst = max(book.line(data, "other servers", i).epsilon for i in different.values())
        found.append(
            Row(data=name, allowed=getattr(budget, f"{name}_epsilon"), spent=worst, delta=delta)
        )
    return found[0], found[1]


def scale_of(plan: TrainingPlan, server: int, n: int) -> float:
    return plan.iterates(server, n).scale


def _events(plan: TrainingPlan, sizes: Sizes, graph: Graph, server: int) -> tuple[Any, ...]:
    return plan.events(
        server=server,
        n_servers=graph.n,
        degree=float(graph.degrees[server]),
        records=sizes.records[server],
        epsilon=sizes.epsilon,
        norm_bound=sizes.norm_bound,
        width=sizes.width,
        classes=sizes.classes,
    )


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One point of the grid with the noise its budget asks for."""

    shape: int
    rounds: int
    decay: float
    unit: float  # 1/μ: the noise of all rounds together, in sensitivities
    objective_bound: float
    forecast: Forecast


class Search:
    """The grid of shapes with everything that does not depend on the budget."""

    def __init__(
        self,
        sizes: Sizes,
        graph: Graph,
        like: tuple[Matrix, IntArray] | None,
        loss: str,
        most_rounds: int,
    ) -> None:
        self.sizes, self.graph = sizes, graph
        base = TrainingPlan(rounds=1, noise_scale=1.0, objective_bound=1.0, loss=loss)
        kind = base.loss_for(sizes.classes)
        if like is None:
            self.data = forecast.synthetic(sizes.width, sizes.classes, kind, sizes.norm_bound)
        else:
            self.data = forecast.measured(
                like[0], np.asarray(like[1]), sizes.classes, kind, sizes.norm_bound
            )
        self.label_noise = forecast.label_variance(sizes.epsilon, kind, sizes.classes) / np.asarray(
            sizes.records, dtype=float
        )
        self.rounds = sorted(
            {min(t, most_rounds) for t in ROUNDS} | ({most_rounds} if most_rounds > 100 else set())
        )
        self.plans = [
            replace(base, penalty=b, regularization=r * graph.n) for b in PENALTIES for r in RIDGES
        ]
        self.costs: list[Costs] = [
            _costs(self.data, graph, plan, self.label_noise, self._sensitivities(plan), self.rounds)
            for plan in self.plans
        ]

    def _sensitivities(self, plan: TrainingPlan) -> Array:
        """D_i, from the plan's own events."""
        return np.array(
            [
                _events(plan, self.sizes, self.graph, i)[1].record_sensitivity
                for i in range(self.graph.n)
            ]
        )

    def best(self, budget: Budget, more: float = 1.0) -> Choice | None:
        """The best shape under ``budget``, with ``more`` times as many records; None if no noise of
        ours can meet it.
        """
        chosen: Choice | None = None
        for unit, bound in self._noises(budget):
            for index, cost in enumerate(self.costs):
                errors = cost.errors(self.data.power, unit / more, bound / SIGMAS / more, more)
                t, k = np.unravel_index(int(np.argmin(errors)), errors.shape)
                if chosen is None or errors[t, k] < chosen.forecast.error:
                    terms = cost.terms(
                        self.data.power, int(t), int(k), unit / more, bound / SIGMAS / more, more
                    )
                    decay = float(cost.decays[t, k])
                    chosen = Choice(
                        shape=index,
                        rounds=self.rounds[t],
                        decay=decay,
                        unit=unit,
                        objective_bound=bound,
                        forecast=terms,
                    )
        return chosen

    def _noises(self, budget: Budget) -> list[tuple[float, float]]:
        """(1/μ, R): labels are protected by as much θ as they need, or by η beside the θ that
        features need.
        """
        flip, event = (
            LabelFlipped(epsilon=self.sizes.epsilon),
            _events(self.plans[0], self.sizes, self.graph, self._smallest),
        )
        sent: IterateReleased = event[1]
        ratio = sent.label_sensitivity / sent.record_sensitivity

        def features(noise: float) -> bool:
            one = replace(sent, record_sensitivity=1.0, stddev=noise)
            return self._keeps(budget, "features", one)

        def by_iterates(noise: float) -> bool:
            one = replace(sent, label_sensitivity=ratio, stddev=noise)
            return self._keeps(budget, "label", flip, one)

        def by_objective(bound: float) -> bool:
            fixed: ObjectiveNoised = replace(event[0], bound=bound, stddev=bound / SIGMAS)
            return self._keeps(budget, "label", flip, fixed, replace(sent, stddev=0.0))

        needed = _least(features)
        if needed is None:
            return []
        through_theta = _least(by_iterates)
        found = [] if through_theta is None else [(max(needed, through_theta), 0.0)]
        if through_theta is None or through_theta > needed:
            bound = _least(by_objective)
            found += [] if bound is None else [(needed, bound)]
        return found

    def _keeps(self, budget: Budget, data: str, *events: Event) -> bool:
        """Whether a server with these events keeps to one row of the budget: asked of δ(ε), which
        is quicker than asking for ε."""
        epsilon, delta = budget.limit(data)
        spent = Ledger((events,), classes=self.sizes.classes).profile(data, "other servers", 0)
        return bool(spent(epsilon) <= delta)

    @property
    def _smallest(self) -> int:
        return int(np.argmin(self.sizes.records))

    def plan(self, choice: Choice, budget: Budget) -> TrainingPlan:
        """The plan of a choice, with noise per server; raised by hairs until the ledger itself
        agrees.
        """
        base = replace(
            self.plans[choice.shape],
            rounds=choice.rounds,
            noise_decay=choice.decay,
            objective_bound=choice.objective_bound,
        )
        total = sqrt(float(np.sum(choice.decay ** -np.arange(choice.rounds, dtype=float))))
        scales = choice.unit * total * self._sensitivities(base)
        for hair in (1e-9, 1e-8, 1e-7, 1e-6, 1e-4):
            grown = tuple(float(v) for v in scales * (1 + hair))
            plan = replace(
                base, noise_scale=grown, objective_bound=choice.objective_bound * (1 + hair)
            )
            if all(row.spent <= row.allowed for row in spent(plan, budget, self.sizes, self.graph)):
                return plan
        raise BudgetExceeded(
            "the plan found does not meet the budget by its own ledger, so none is proposed"
        )


@dataclass(frozen=True)
class Costs:
    """What one (β, a) costs for every number of rounds and decay, per unit of each noise."""

    decays: Array  # (T, R): the rule's first
    wanted: Array  # (T, 1): Σ s r w*²
    found: Array  # (T, 1): Σ s r² w*²
    labels: Array  # (T, 1)
    objective: Array  # (T, 1)
    iterates: Array  # (T, R)

    def size(self, unit: float, objective_stddev: float, more: float) -> Array:
        return (
            self.found
            + self.labels / more
            + objective_stddev**2 * self.objective
            + unit**2 * self.iterates
        )

    def errors(self, power: float, unit: float, objective_stddev: float, more: float) -> Array:
        return np.asarray(1 - self.wanted**2 / (power * self.size(unit, objective_stddev, more)))

    def terms(
        self, power: float, t: int, k: int, unit: float, objective_stddev: float, more: float
    ) -> Forecast:
        wanted, found = float(self.wanted[t, 0]), float(self.found[t, 0])
        scale = wanted / float(self.size(unit, objective_stddev, more)[t, k])
        return Forecast(
            optimisation=max(0.0, (scale**2 * found - 2 * scale * wanted) / power + 1),
            labels=scale**2 * float(self.labels[t, 0]) / more / power,
            objective=scale**2 * objective_stddev**2 * float(self.objective[t, 0]) / power,
            iterates=scale**2 * unit**2 * float(self.iterates[t, k]) / power,
        )


def _costs(
    data: DataModel,
    graph: Graph,
    plan: TrainingPlan,
    label_noise: Array,
    sensitivities: Array,
    rounds: Sequence[int],
) -> Costs:
    curvatures, weight = data.curvature * data.moments, data.counts * data.moments
    p, scale = forecast.responses(graph, plan.penalty, plan.regularization, curvatures, max(rounds))
    at = np.asarray(rounds) - 1
    u = (np.cumsum(p, axis=0) * scale)[at]
    r = curvatures * u.sum(axis=1)
    loudness = np.einsum(
        "jik,i,k->j", p**2, sensitivities**2, weight
    )  # G_j: θ of j rounds before the last
    decays = np.array([[sqrt(_contraction(loudness, t)), *DECAYS] for t in rounds])
    iterates = np.empty_like(decays)
    for index, t in enumerate(rounds):
        powers = decays[index][:, None] ** np.arange(t)
        iterates[index] = (powers[:, ::-1] @ loudness[:t]) * (1 / powers).sum(axis=1)
    return Costs(
        decays=decays,
        wanted=(r @ (weight * data.signals))[:, None],
        found=(r**2 @ (weight * data.signals))[:, None],
        labels=np.einsum("tik,i,k->t", u**2, label_noise, weight * data.moments)[:, None],
        objective=np.einsum("tik,k->t", u**2, weight)[:, None] / graph.n**2,
        iterates=iterates,
    )


def _contraction(loudness: Array, rounds: int) -> float:
    """C: the mean decay of the response to noise over a run (of its first step, if there is but one
    round).
    """
    last = min(max(rounds - 1, 1), len(loudness) - 1)
    factor = (loudness[last] / loudness[0]) ** (1 / last) if last else 0.9
    return float(np.clip(factor, 0.05, 0.9998))


def _least(keeps: Callable[[float], bool]) -> float | None:
    """The least noise (to 1e-10, rounded up) that ``keeps`` to the budget; None if it takes 1e9."""
    if keeps(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not keeps(high):
        low, high = high, 4 * high
        if high > 1e9:
            return None
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
