"""What a training would spend, by public settings before any run."""

from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from math import inf
from typing import Any, Self

import numpy as np

from pdml import _validate
from pdml.accounting import Budget, Ledger
from pdml.accounting.kinds import Data
from pdml.numerics.admm.graph import Graph
from pdml.planning.resolve_plan import AUTO, resolve_plan
from pdml.planning.server_spec import RowSpec, ServerSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan


@dataclass(frozen=True, kw_only=True)
class PrivacyForecast:
    """A training that has not happened, at the server with the fewest records and links.

    Parameters
    ----------
    records : int
        Of that server.
    plan : TrainingPlan
    servers : int
        How many train together.
    degree : int
        Links of that server.
    features : int
        Numbers per record, with the constant 1.
    classes : int
        Of the label.
    epsilon : float
        Privacy of each label on its device; ∞ is none.
    smallest_epsilon : float, optional
        The smallest that anybody chose, by default ``epsilon``.
    norm_bound : float
        The longest a record may be.
    delta : float
        The chance for which nothing is promised.
    budget : Budget, optional
        What the other servers may learn.

    Raises
    ------
    InvalidInput
        If a setting lies outside its domain.

    Guarantees
    ----------
    - The ledger is that of the events which such a training leaves behind: nothing is estimated.

    Examples
    --------
    >>> planned = PrivacyForecast(records=4500, degree=2, budget=Budget(features_epsilon=1.0))
    >>> planned.ledger.row("features", "other servers").epsilon < 1.0, planned.within
    (True, True)
    """

    records: int
    plan: TrainingPlan = field(default_factory=TrainingPlan)
    servers: int = 10
    degree: int = 1
    features: int = 10
    classes: int = 2
    epsilon: float = 1.0
    smallest_epsilon: float | None = None
    norm_bound: float = 1.0
    delta: float = 1e-6
    budget: Budget | None = None

    def __post_init__(self) -> None:
        alone = "one server alone has nobody to hide from"
        linked = "every server needs a link, and no more than there are others"
        _validate.integer("records", self.records, low=1, high=10**12)
        _validate.integer("servers", self.servers, low=2, high=10**6, why=alone)
        _validate.integer("degree", self.degree, low=1, high=self.servers - 1, why=linked)
        _validate.integer("features", self.features, low=1, high=10**9)
        _validate.integer("classes", self.classes, low=2, high=10**6)
        why = "0 would report pure noise"
        _validate.real("epsilon", self.epsilon, low=0, open_low=True, why=why)
        if self.smallest_epsilon is None:
            object.__setattr__(self, "smallest_epsilon", self.epsilon)
        least, why = self.smallest_epsilon, "it is the smallest anybody chose"
        _validate.real("smallest_epsilon", least, low=0, high=self.epsilon, open_low=True, why=why)
        _validate.real("norm_bound", self.norm_bound, low=0, high=1e12, open_low=True)
        _validate.real("delta", self.delta, low=0, high=1, open_low=True, open_high=True)

    @classmethod
    def planned(cls, graph: Graph, budget: Budget, **settings: Any) -> Self:
        """By the plan that a training within ``budget`` takes where none is given to it.

        Parameters
        ----------
        graph : Graph
            Who is linked to whom.
        budget : Budget
        **settings : value
            Other fields, of which ``records`` are each server's.

        Returns
        -------
        PrivacyForecast
        """
        forecast = cls(servers=graph.n, degree=int(graph.degrees.min()), budget=budget, **settings)
        specs = [replace(forecast.spec, server=i) for i in range(graph.n)]
        epsilons = np.full(graph.n * forecast.records, forecast.epsilon)
        epsilons[0] = forecast.spec.epsilon
        resolved = resolve_plan(AUTO, None, budget, specs=specs, epsilons=epsilons, graph=graph)
        return replace(forecast, plan=resolved.plan)

    @cached_property
    def spec(self) -> ServerSpec:
        """What the events depend on."""
        rows = RowSpec(width=self.features, classes=self.classes, norm_bound=self.norm_bound)
        return TrainingTerms(rows=rows, n_servers=self.servers).server_spec(
            0,
            records=self.records,
            epsilons=(self.smallest_epsilon or self.epsilon, self.epsilon),
            degree=self.degree,
        )

    @cached_property
    def ledger(self) -> Ledger:
        """Who could learn what after all rounds."""
        events = (self.spec.flip(), *self.plan.events(self.spec))
        return Ledger((events,), source="planned", delta=self.delta, classes=self.classes)

    @cached_property
    def spent(self) -> list[tuple[float, float]]:
        """ε of features and of labels against other servers, after each round."""
        both = (self.ledger.epsilons(data) for data in (Data.FEATURES, Data.LABEL))
        return list(zip(*both, strict=True))

    @cached_property
    def last_safe_round(self) -> int | None:
        """The last round within the budget, 0 if none is; None without a budget."""
        if self.budget is None:
            return None
        return self.plan.last_safe_round(self.spec, budget=self.budget)

    @property
    def within(self) -> bool:
        """Whether all rounds keep to the budget."""
        return self.last_safe_round is None or self.plan.rounds <= self.last_safe_round

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; infinity as the string "inf"."""
        apart = ("plan", "budget")
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        summary: dict[str, Any] = {"settings": _plain(settings) | {"plan": self.plan.to_dict()}}
        summary |= self.ledger.to_dict()
        summary["rounds"] = [
            _plain({"round": t, "features_epsilon": features, "labels_epsilon": labels})
            for t, (features, labels) in enumerate(self.spent, 1)
        ]
        if self.budget is not None:
            kept = {"last_safe_round": self.last_safe_round, "within": self.within}
            summary["budget"] = _plain(asdict(self.budget)) | kept
        return summary


def _plain(values: dict[str, float]) -> dict[str, Any]:
    return {name: "inf" if value == inf else value for name, value in values.items()}
