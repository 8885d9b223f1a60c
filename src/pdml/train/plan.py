"""The public settings of a training: every letter of the paper, and what they will spend before
they start.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.accounting import Budget, last_safe_round
from pdml.accounting.budget import MOST_ROUNDS
from pdml.accounting.events import Event, IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.core import labels
from pdml.core.losses import SOFTMAX, Loss, binary_loss
from pdml.errors import InvalidInput
from pdml.mechanisms.exact_gaussian import rounding_shift
from pdml.mechanisms.iterate_noise import IterateNoise
from pdml.mechanisms.objective_noise import ObjectiveNoise

PerServer = float | tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How n servers train; public, and agreed on beforehand.

    ``objective_bound`` = 0 or ``noise_scale`` = 0 switches that noise off. ``noise_scale`` and
    ``tolerance`` take one number or one per server. ``tolerance`` bounds the gradient norm each
    primal solve must reach, because the ledger adds 2·tolerance/μ_i to the sensitivity; by default
    it is 1% of what one record can do, (1/m_i) · `record_shift` / 100.
    """

    rounds: int = 40  # T
    regularization: float = 0.01  # a
    penalty: float = 0.1  # β
    objective_bound: float = 1.0  # R
    objective_noise: str = "truncated_gaussian"  # the distribution of η
    noise_scale: PerServer = 0.3  # V_i
    noise_decay: float = 0.95  # ρ
    tolerance: PerServer | None = None
    loss: str = "logistic"

    def __post_init__(self) -> None:
        _validate.integer(
            "rounds",
            self.rounds,
            low=1,
            high=MOST_ROUNDS,
            why="every round is a line of the ledger",
        )
        why = "without it the local objectives are not strongly convex (Assumption 2)"
        _validate.real(
            "regularization", self.regularization, low=0, high=1e9, open_low=True, why=why
        )
        _validate.real(
            "penalty",
            self.penalty,
            low=0,
            high=1e9,
            open_low=True,
            why="without it servers never agree",
        )
        binary_loss(self.loss)
        ObjectiveNoise(self.objective_noise, self.objective_bound)
        for name in ("noise_scale", "tolerance"):
            value = getattr(self, name)
            if isinstance(value, (list, np.ndarray)):
                object.__setattr__(self, name, tuple(float(v) for v in value))
        for scale in self._each(self.noise_scale):
            IterateNoise(scale, self.noise_decay)
        if self.tolerance is not None:
            for value in self._each(self.tolerance):
                _validate.real(
                    "tolerance",
                    value,
                    low=0,
                    open_low=True,
                    why="no solve is exact in floating point",
                )

    @staticmethod
    def _each(value: PerServer) -> tuple[float, ...]:
        return value if isinstance(value, tuple) else (value,)

    def _for_server(self, name: str, server: int, n_servers: int) -> float:
        each = self._each(getattr(self, name))
        if len(each) not in (1, n_servers):
            raise InvalidInput(
                f"{name} must be one number or one per server ({n_servers} of them), got "
                f"{len(each)}"
            )
        return each[server if len(each) > 1 else 0]

    def loss_for(self, classes: int) -> Loss:
        """The binary loss, or softmax from three classes on."""
        if classes == 2:
            return binary_loss(self.loss)
        if self.loss != "logistic":
            raise InvalidInput(
                f"loss must be 'logistic' for {classes} classes, got {self.loss!r}: softmax "
                "is its only form for more than two"
            )
        return SOFTMAX

    def objective(self) -> ObjectiveNoise:
        return ObjectiveNoise(self.objective_noise, self.objective_bound)

    def iterates(self, server: int, n_servers: int) -> IterateNoise:
        return IterateNoise(self._for_server("noise_scale", server, n_servers), self.noise_decay)

    def stddevs(self, n_servers: int) -> Array:
        """The noise's standard deviations: all that is published about it.

        What was drawn stays with its server: its norm beside a release would narrow w_i(t) down.

        Parameters
        ----------
        n_servers : int
            How many servers.

        Returns
        -------
        array of shape (T, n)
            σ_i(t) of every round and server.
        """
        each = [self.iterates(i, n_servers) for i in range(n_servers)]
        return np.array([[noise.stddev(t) for noise in each] for t in range(1, self.rounds + 1)])

    def ridge(self, degree: float, n_servers: int) -> float:
        """μ_i = a/n + 2βN_i: the strong convexity of server i's primal problem."""
        return self.regularization / n_servers + 2 * self.penalty * degree

    def tolerance_for(
        self,
        server: int,
        n_servers: int,
        records: int,
        epsilon: float,
        norm_bound: float,
        classes: int,
    ) -> float:
        """The certified gradient norm asked of server i; public, as it depends on m_i, ε and B
        only.
        """
        if self.tolerance is not None:
            return self._for_server("tolerance", server, n_servers)
        shift = labels.record_shift(epsilon, norm_bound, self.loss_for(classes), classes)
        if not np.isfinite(shift):  # square loss: no record bound, so the label's alone
            shift = labels.label_shift(epsilon, norm_bound, self.loss_for(classes), classes)
        return 0.01 * shift / records

    def events(
        self,
        *,
        server: int,
        n_servers: int,
        degree: float,
        records: int,
        epsilon: float,
        norm_bound: float,
        width: int,
        classes: int = 2,
    ) -> tuple[Event, ...]:
        """What server i will have released after all rounds: known before the first one.

        ``epsilon`` is the smallest label ε among its records (the largest κ), ``width`` the number
        of features with bias. Secure noise is added to n·q_i and to w_i(t) after rounding them to
        its grid, which can move two neighbours apart by `rounding_shift`; every plan counts it
        (10^-11 at d = 105), so that the ledger need not know the source.
        """
        size = width * (1 if classes == 2 else classes)
        grid = rounding_shift(size)
        loss = self.loss_for(classes)
        label = labels.label_shift(epsilon, norm_bound, loss, classes) / records
        record = labels.record_shift(epsilon, norm_bound, loss, classes) / records
        rounding = (
            label * records**2 * 2.0**-52
        )  # of the sum over m_i records in q_i, on both neighbours
        label, record = label + rounding, record + rounding
        slack = 2 * self.tolerance_for(server, n_servers, records, epsilon, norm_bound, classes)
        ridge = self.ridge(degree, n_servers)
        eta, theta = self.objective(), self.iterates(server, n_servers)
        first = ObjectiveNoised(
            kind=eta.kind,
            bound=eta.bound,
            stddev=eta.stddev,
            size=size,
            n_servers=n_servers,
            label_shift=label + grid / n_servers,
            fixed_shift=rounding + grid / n_servers,
        )
        sent = (
            IterateReleased(
                t=t,
                stddev=theta.stddev(t),
                label_sensitivity=(label + slack) / ridge + grid,
                record_sensitivity=(record + slack) / ridge + grid,
                solver_slack=(slack + rounding) / ridge + grid,
            )
            for t in range(1, self.rounds + 1)
        )
        return (first, *sent)

    def last_safe_round(self, *, budget: Budget, most: int = MOST_ROUNDS, **server: Any) -> int:
        """The last round that ``budget`` allows this plan's noise at one server, whatever
        ``rounds`` says; at most ``most``.

        ``server`` are the arguments of `events`, and ``label_epsilon``, the largest ε of its labels
        (default: ``epsilon``).
        """
        flip = LabelFlipped(epsilon=server.pop("label_epsilon", server["epsilon"]))
        horizon = min(most, max(self.rounds, 64))
        while True:
            planned = replace(self, rounds=horizon).events(**server)
            safe = last_safe_round(
                [(flip, *planned)], budget=budget, classes=server.get("classes", 2)
            )
            if safe < horizon or horizon == most:
                return safe
            horizon = min(most, 4 * horizon)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainingPlan":
        known = {field.name for field in fields(cls)}
        if unknown := set(values) - known:
            raise InvalidInput(
                f"a plan has no setting {sorted(unknown)[0]!r}; it has {', '.join(sorted(known))}"
            )
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**settings)


def zeros(codes: int, width: int) -> Array:
    """w̃(0) = γ(0) = 0: where every server starts, so that nothing is released before round 1."""
    return np.zeros((codes, width))
