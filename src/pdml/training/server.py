"""One server as a pure state machine: no I/O, no clock, no sockets.

    state, release = node.step(node.start(), messages)

finishes round t with the neighbours' last releases and does round t+1 up to its own.
"""

from dataclasses import dataclass

import numpy as np

from pdml._types import Array, Matrix
from pdml.errors import InvalidInput
from pdml.mechanisms.iterate_noise import IterateNoise
from pdml.mechanisms.randomness import ITERATES, OBJECTIVE, Source
from pdml.numerics.admm import labels, steps
from pdml.numerics.admm.losses import Loss
from pdml.numerics.admm.rows import stored
from pdml.numerics.admm.solver import PrimalSolver, worth_compiling
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan, zeros


@dataclass(frozen=True)
class Server:
    """A server's spec, its records, and their de-biased codes."""

    spec: ServerSpec
    matrix: Matrix
    codes: Array  # (m, C)
    pooled: Matrix | None = None  # in simulations what ``matrix`` is a slice of

    def __post_init__(self) -> None:
        spec, shapes = self.spec, (self.matrix.shape, self.codes.shape)
        if shapes != ((spec.records, spec.width), (spec.records, spec.codes)):
            raise InvalidInput(
                f"the records and codes of a server must be of its spec, {spec.records} by "
                f"{spec.width} and by {spec.codes}, got {shapes[0]} and {shapes[1]}"
            )

    def linear(self, plan: TrainingPlan, loss: Loss, source: Source) -> Array:
        """q_i - η_i/n, with η_i drawn from this server's own stream."""
        mean = labels.label_mean(self.matrix, self.codes, loss)
        noise = plan.objective().draw(mean.shape, source.stream(OBJECTIVE, self.spec.server))
        reach = self.spec.label_shift(loss)  # at least |q_i|, and public
        return source.less_share(mean, noise, self.spec.n_servers, reach)


def compiles(server: Server, plan: TrainingPlan) -> bool:
    """Whether this server's solves use compiled loops when a study is trained: by its own records
    and the plan alone, as a node does not know how many records the others have.
    """
    return worth_compiling(stored(server.matrix), plan.rounds)


@dataclass(frozen=True)
class NodeState:
    """Where a server stands after round ``t``; the primal iterate is not kept."""

    t: int
    sent: Array  # w̃_i(t)
    dual: Array  # γ_i(t - 1): `step` brings it up to date
    certified: float = 0.0  # the gradient norm that round t reached: it never leaves the server


class Node:
    """A server in training, with the solver that remembers earlier solves."""

    def __init__(
        self,
        server: Server,
        plan: TrainingPlan,
        source: Source,
        *,
        linear: Array | None = None,
        use_numba: bool = False,
    ) -> None:
        """``linear``: q_i - η_i/n as an earlier life of this node drew it; None draws η_i."""
        self.server, self.plan, spec = server, plan, server.spec
        loss = plan.loss_for(spec.classes)
        self.linear = server.linear(plan, loss, source) if linear is None else linear
        ridge = plan.ridge(spec.degree, spec.n_servers)
        self.solver = PrimalSolver(
            server.matrix, loss, ridge, codes=len(self.linear), use_numba=use_numba
        )
        self.tolerance = plan.tolerance_for(spec)
        self._noise: IterateNoise = plan.iterates(spec.server, spec.n_servers)
        self._source, self._stream = source, source.stream(ITERATES, spec.server)

    def start(self) -> NodeState:
        origin = zeros(*self.linear.shape)
        return NodeState(0, origin, origin)

    def step(self, state: NodeState, messages: list[Array]) -> tuple[NodeState, Array]:
        """Take the neighbours' releases of round t (in ascending order of their index) and return
        round t+1's own. Step once from each state: a repeated step draws noise anew, which others
        could average away; after a restart `replay` what was released.
        """
        dual, point, certified = self._solve(state, messages)
        noise = self._draw(state.t + 1, point)
        released = steps.release_step(self._source.settle(point), noise)
        return NodeState(state.t + 1, released, dual, certified), released

    def replay(self, state: NodeState, messages: list[Array], released: Array) -> NodeState:
        """The state after a round whose release is known. Nothing is released; the solver solves
        again because what it remembers decides the last bits of later rounds.
        """
        dual, point, certified = self._solve(state, messages)
        self._draw(state.t + 1, point)
        return NodeState(state.t + 1, released, dual, certified)

    def _solve(self, state: NodeState, messages: list[Array]) -> tuple[Array, Array, float]:
        """The dual variable brought up to date, w_i(t+1), and the gradient norm it reached."""
        settings = {"degree": self.server.spec.degree, "penalty": self.plan.penalty}
        total = steps.sum_messages(messages, state.sent)
        dual = steps.dual_step(state.dual, state.sent, total, **settings)
        target = steps.primal_target(self.linear, dual, state.sent, total, **settings)
        point, reached = self.solver.solve(target[None], self.tolerance)
        return dual, point[0], float(reached[0])

    def _draw(self, t: int, point: Array) -> Array:
        return self._noise.draw(t, np.empty_like(point), self._stream)
