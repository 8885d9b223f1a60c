"""What a planner may know of the data, and what the ledger says of a plan for them."""

from dataclasses import dataclass

from pdml import _validate
from pdml.accounting import Budget, Ledger
from pdml.core.graph import Graph
from pdml.plan.place import Place
from pdml.plan.training_plan import TrainingPlan


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

    def place(self, graph: Graph, server: int) -> Place:
        """One server's: the ε of every label is the same."""
        return Place.of(
            graph,
            server,
            records=self.records[server],
            epsilons=(self.epsilon,),
            width=self.width,
            classes=self.classes,
            norm_bound=self.norm_bound,
        )


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
    places = (sizes.place(graph, i) for i in range(graph.n))
    each = tuple((place.flip(), *plan.events(place)) for place in places)
    return Ledger(each, source="planned", delta=delta, classes=sizes.classes)


def spent(plan: TrainingPlan, budget: Budget, sizes: Sizes, graph: Graph) -> tuple[Row, Row]:
    """The two rows of the budget, from the ledger; servers whose events are the same are read
    once.
    """
    whole = ledger(plan, sizes, graph)
    events = tuple(dict.fromkeys(whole.events))
    found = []
    for data, name in (("features", "features"), ("label", "labels")):
        allowed, delta = budget.limit(data)
        book = Ledger(events, source="planned", delta=delta, classes=sizes.classes)
        worst = book.line(data, "other servers", colluding=budget.colluding).epsilon
        found.append(Row(data=name, allowed=allowed, spent=worst, delta=delta))
    return found[0], found[1]
