"""The released model as a weighted average over rounds: privacy that was paid for already, used
better.

Every w̃_i(t) was sent, and paid for in the ledger; a weighted sum of them with weights that depend
on public things alone (the plan, the graph, the sizes, public or synthetic data) is post-processing
and costs nothing. What weights? Let P_t be how much of the wanted model round t's average release
holds and A the second moments of those releases (`train.forecast`): early rounds are far from the
optimum (bias like C^(t/2)) and louder (variance ρ^(t-1)V²), late ones share most of their noise
with their neighbours. The error of the weighted release, which rescaling does not change, is

    1 - (ω·P)² / (power · ωᵀAω),        least for ω ∝ A⁻¹P.

Negative weights would extrapolate and lean on the model's every digit, so the minimum is taken over
ω >= 0, where min xᵀAx - 2P·x over x >= 0 (non-negative least squares) has the same direction. "Last
iterate" is one of the choices, so the predicted error never grows.
"""

import numpy as np
from scipy.optimize import nnls

from pdml._types import Array
from pdml.core.graph import Graph
from pdml.errors import InvalidInput
from pdml.train import forecast
from pdml.train.forecast import DataModel, Forecast, Moments
from pdml.train.plan import TrainingPlan
from pdml.train.planner import Sizes


def moments(
    plan: TrainingPlan, sizes: Sizes, graph: Graph, *, data: DataModel | None = None
) -> Moments:
    """Second moments of the average release of every round of ``plan``, forecast from public
    things.
    """
    loss, n = plan.loss_for(sizes.classes), graph.n
    if len(sizes.records) != n:
        raise InvalidInput(
            f"records must be one number per server ({n} of them), got {len(sizes.records)}"
        )
    return forecast.second_moments(
        forecast.synthetic(sizes.width, sizes.classes, loss, sizes.norm_bound)
        if data is None
        else data,
        graph,
        penalty=plan.penalty,
        regularization=plan.regularization,
        stddevs=plan.stddevs(n),
        objective_stddev=_spread(plan),
        label_noise=forecast.label_variance(sizes.epsilon, loss, sizes.classes)
        / np.asarray(sizes.records, dtype=float),
    )


def _spread(plan: TrainingPlan) -> float:
    """Standard deviation of one coordinate of η; the ball's is at most that of the box."""
    eta = plan.objective()
    if not eta.active:
        return 0.0
    return eta.stddev if eta.kind == "truncated_gaussian" else eta.bound / float(np.sqrt(3))


def best_weights(found: Moments) -> Array:
    """Weights of the rounds, non-negative and of sum 1, that minimise the forecast error."""
    total = found.total
    scale = np.sqrt(
        np.diag(total)
    )  # rounds of very different loudness must not spoil the factorisation
    corr = total / np.outer(scale, scale)
    lower = np.linalg.cholesky(corr + 1e-12 * np.eye(len(corr)))
    solution, _ = nnls(
        lower.T, np.linalg.solve(lower, found.wanted / scale), maxiter=100 * len(corr)
    )
    weights = solution / scale
    last = last_iterate(len(weights))
    if (
        not weights.sum() > 0
        or found.forecast(weights / weights.sum()).error > found.forecast(last).error
    ):
        return last
    return np.asarray(weights / weights.sum())


def last_iterate(rounds: int) -> Array:
    """All weight on round T: what the paper releases."""
    weights = np.zeros(rounds)
    weights[-1] = 1.0
    return weights


def round_weights(
    plan: TrainingPlan, sizes: Sizes, graph: Graph, *, data: DataModel | None = None
) -> tuple[Array, Forecast]:
    """The weights ω(1..T) to release with, and the error they are predicted to have."""
    found = moments(plan, sizes, graph, data=data)
    weights = best_weights(found)
    return weights, found.forecast(weights)


class RunningAverage:
    """Σ_t ω_t w̃(t), gathered as an observer while a training runs: one vector per server is kept,
    not T of them.
    """

    def __init__(self, weights: Array) -> None:
        if not np.isclose(weights.sum(), 1.0) or (np.asarray(weights) < 0).any():
            raise InvalidInput(
                "the weights of the rounds must be non-negative and sum to 1, got a sum of "
                f"{np.sum(weights):g}"
            )
        self.weights = np.asarray(weights, dtype=float)
        self.released: Array | None = None  # as the engine passes it: (runs, n, C, d)

    def __call__(self, t: int, released: Array, _: Array | None = None) -> None:
        """After round t; the un-noised iterates, which an engine also shows, are not touched."""
        if not 1 <= t <= len(self.weights):
            raise InvalidInput(
                f"round must lie in [1, {len(self.weights)}], as many as there are weights, got {t}"
            )
        share = self.weights[t - 1] * released
        self.released = share if self.released is None else self.released + share
