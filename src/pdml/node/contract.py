"""What the parties of one training must agree on to the letter, and its digest, which every message
carries.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from pdml import _validate
from pdml.accounting.events import Event
from pdml.core import labels
from pdml.core.graph import Graph
from pdml.errors import InvalidInput
from pdml.train.plan import TrainingPlan


@dataclass(frozen=True, kw_only=True)
class Contract:
    """One job: the study it belongs to, the plan, and who is joined to whom. Everything in it is
    public.

    ``epsilon`` is the smallest label ε the study allows: with B = 1 it bounds what any record can
    do.
    """

    job: str
    study: str  # hash of the study file
    plan: TrainingPlan
    servers: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    classes: int
    width: int  # d, with the constant column
    epsilon: float
    norm_bound: float = 1.0

    def __post_init__(self) -> None:
        if (
            not self.job
            or len(self.job) > 64
            or not self.job.isascii()
            or not self.job.replace("-", "").replace("_", "").isalnum()
        ):
            raise InvalidInput(f"job must be 1 to 64 letters, digits, - or _, got {self.job!r}")
        _validate.integer("classes", self.classes, low=2)
        _validate.integer("width", self.width, low=1)
        _ = self.graph  # refuses servers that are not joined

    @cached_property
    def graph(self) -> Graph:
        return Graph(len(self.servers), self.edges)

    @property
    def shape(self) -> tuple[int, int]:
        """(C, d) of every vector."""
        return (1 if self.classes == 2 else self.classes, self.width)

    @cached_property
    def digest(self) -> str:
        """sha256 of the canonical JSON of all of it."""
        terms = {
            "job": self.job,
            "study": self.study,
            "plan": self.plan.to_dict(),
            "servers": self.servers,
            "edges": sorted(sorted(edge) for edge in self.edges),
            "classes": self.classes,
            "width": self.width,
            "epsilon": self.epsilon,
            "norm_bound": self.norm_bound,
        }
        return hashlib.sha256(
            json.dumps(terms, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()

    def index(self, server: str) -> int:
        if server not in self.servers:
            raise InvalidInput(f"server must be one of {', '.join(self.servers)}, got {server!r}")
        return self.servers.index(server)

    def neighbours(self, server: str) -> tuple[str, ...]:
        """In ascending order of their index: the order in which sums over neighbours are taken."""
        return tuple(self.servers[i] for i in self.graph.neighbours(self.index(server)))

    def events(self, server: str, *, records: int, epsilon: float) -> tuple[Event, ...]:
        """What all rounds spend at ``server``, whose records' smallest label ε is ``epsilon``."""
        index = self.index(server)
        return self.plan.events(
            server=index,
            n_servers=len(self.servers),
            degree=int(self.graph.degrees[index]),
            records=records,
            epsilon=epsilon,
            norm_bound=self.norm_bound,
            width=self.width,
            classes=self.classes,
        )

    @cached_property
    def norm_cap(self) -> float:
        """A length that no honest release exceeds, up to a chance below 10^-9: ten times the
        longest optimum plus six σ of noise.

        The gradient of every J̃_i at 0 is at most |slope| B + |η|/n, and the sum over servers is
        a-strongly convex, so an optimum is at most n/a times that long. A peer that sends more is
        broken or hostile; it is not robustness against smaller lies.
        """
        plan, size = self.plan, self.shape[0] * self.shape[1]
        slope = (
            labels.record_shift(
                self.epsilon, self.norm_bound, plan.loss_for(self.classes), self.classes
            )
            / 2
        )
        if slope == float("inf"):  # square loss: its slope at 0 is that of the label alone
            slope = labels.label_shift(
                self.epsilon, self.norm_bound, plan.loss_for(self.classes), self.classes
            )
        n = len(self.servers)
        longest = (slope * n + plan.objective_bound * sqrt(size)) / plan.regularization
        loudest = max(plan.iterates(i, n).stddev(1) for i in range(n))
        return 10 * (longest + 6 * loudest * sqrt(size))
