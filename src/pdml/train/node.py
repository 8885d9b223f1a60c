"""One server as a pure state machine: no I/O, no clock, no sockets. Whoever carries the messages is someone else's business.

    state, message = node.step(node.start(), heard)      # heard: what the neighbours sent last, zero before round 1

`step` finishes round t (dual update with what was heard) and does round t+1 up to its release.
"""

from dataclasses import dataclass

import numpy as np

from pdml._types import Array, Matrix
from pdml.core import labels, steps
from pdml.core.losses import Loss
from pdml.core.solver import PrimalSolver
from pdml.mechanisms.iterate_noise import IterateNoise
from pdml.mechanisms.randomness import ITERATES, OBJECTIVE, Source
from pdml.train.plan import TrainingPlan, zeros


@dataclass(frozen=True)
class Server:
    """What one server brings to a training: its records, their de-biased codes, and its place in the graph.

    ``epsilon`` is the smallest label ε among its records: it fixes the sensitivity.
    """

    index: int
    n_servers: int
    degree: int
    matrix: Matrix
    codes: Array  # (m, C)
    epsilon: float
    norm_bound: float
    classes: int
    pooled: Matrix | None = None  # the matrix of all servers of which ``matrix`` is a slice, in simulations

    @property
    def records(self) -> int:
        return int(self.matrix.shape[0])

    def tolerance(self, plan: TrainingPlan) -> float:
        return plan.tolerance_for(self.index, self.n_servers, self.records, self.epsilon, self.norm_bound, self.classes)

    def linear(self, plan: TrainingPlan, loss: Loss, source: Source) -> Array:
        """q_i - η_i/n, with η_i drawn from this server's own stream."""
        mean = labels.label_mean(self.matrix, self.codes, loss)
        noise = plan.objective().draw(mean.shape, source.stream(OBJECTIVE, self.index))
        reach = labels.label_shift(self.epsilon, self.norm_bound, loss, self.classes)  # at least |q_i|, and public
        return source.less_share(mean, noise, self.n_servers, reach)


@dataclass(frozen=True)
class NodeState:
    """Where a server stands after round ``t``: its last release and its dual variable. The primal iterate is not kept."""

    t: int
    sent: Array  # w̃_i(t)
    dual: Array  # γ_i(t - 1): `step` brings it up to date
    certified: float = 0.0  # the gradient norm that round t reached


class Node:
    """A server in training. Its solver remembers earlier solves to save work; its answers stay within the tolerance."""

    def __init__(self, server: Server, plan: TrainingPlan, source: Source, *, use_numba: bool = False) -> None:
        self.server, self.plan = server, plan
        loss = plan.loss_for(server.classes)
        self.linear = server.linear(plan, loss, source)
        ridge = plan.ridge(server.degree, server.n_servers)
        self.solver = PrimalSolver(server.matrix, loss, ridge, codes=len(self.linear), use_numba=use_numba)
        self.tolerance = server.tolerance(plan)
        self._noise: IterateNoise = plan.iterates(server.index, server.n_servers)
        self._source, self._stream = source, source.stream(ITERATES, server.index)

    def start(self) -> NodeState:
        origin = zeros(*self.linear.shape)
        return NodeState(0, origin, origin)

    def step(self, state: NodeState, heard: list[Array]) -> tuple[NodeState, Array]:
        """Take the neighbours' releases of round t (in ascending order of their index) and return round t+1's own.

        Whoever drives a node steps once from each state: a repeated step draws noise anew, and a new node fed with a saved
        state draws its first noise again; both would let others subtract it. Restarts are the journal's business.
        """
        settings = {"degree": self.server.degree, "penalty": self.plan.penalty}
        total = steps.sum_heard(heard, state.sent)
        dual = steps.dual_step(state.dual, state.sent, total, **settings)
        target = steps.primal_target(self.linear, dual, state.sent, total, **settings)
        point, reached = self.solver.solve(target[None], self.tolerance)
        t = state.t + 1
        released = steps.release_step(self._source.settle(point[0]), self._noise.draw(t, np.empty_like(point[0]), self._stream))
        return NodeState(t, released, dual, float(reached[0])), released
