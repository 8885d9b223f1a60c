"""What rounds will do to a model, without running them: the linear model of perturbed ADMM.

The slope of the loss is nearly a straight line over the margins that occur, g'(z) ≈ h·z, with the
same h for all servers, whose records come from one population with S = E[xxᵀ] and the label mean q.
In an eigenvector of S with eigenvalue s the n servers then run the linear iteration (λ = h·s, D_i =
1/(λ + a/n + 2βN_i), Adj and L₋ of the graph)

    γ' = γ + βL₋ w̃,        w̃' = D(q - γ' + βL₊ w̃) + θ = D(q - γ + 2β Adj w̃) + θ,

so the average release after T rounds is linear in everything random. The adjoint recursion p(0) =
1/n, r(0) = 0,

    p(j+1) = 2β Adj D p(j) + βL₋ r(j),        r(j+1) = r(j) - D p(j),

gives all responses at once: θ_i(t) enters the average release of round T with weight p_i(T-t), and
the constant q_i with weight u_i(T) = D_i Σ_{j<T} p_i(j). Nothing is sampled.

Why q, and not the optimum: a line through the optimum is wrong about where training starts. Data
whose classes are far apart have an optimum far out, where the loss is flat, and rounds seem to take
for ever; but they have the right direction after a few, and that is what choosing classes needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pdml._types import Array
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import Loss
from pdml.planning.training_plan import TrainingPlan

MARGIN = 2.0  # root mean square margin at which g' is made a line
DECAYS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)  # ρ, beside the rule's
_SPAN = 30.0  # of ln ρ^-T: noise that fades more would have to begin beyond what can be drawn
_LOUDEST = 1e290  # noise that drowns everything
_DENSE = 256  # servers up to which a whole matrix multiplies faster than its links


def mean_curvature(loss: Loss, classes: int) -> float:
    """h = E g'' over Gaussian margins, the best line's slope; for K classes softmax's."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    if classes > 2:
        return 0.6 / classes
    return float(weights @ loss.curvature(MARGIN * nodes[:, None])[:, 0, 0] / weights.sum())


def responses(
    graph: Graph, penalties: Array, regularizations: Array, curvatures: Array
) -> tuple[Array, Iterator[Array]]:
    """D (n, H, K), and p(0), p(1), ... likewise, for H pairs (β, a) and eigenvalues λ (K,)."""
    degree = np.asarray(graph.degrees, dtype=float)[:, None, None]
    pull = 2 * np.asarray(penalties, dtype=float)[:, None]  # 2β
    scale = 1 / (
        curvatures + np.asarray(regularizations, dtype=float)[:, None] / graph.n + pull * degree
    )
    adjacency = graph.adjacency.toarray() if graph.n <= _DENSE else graph.adjacency

    def sum_neighbours(values: Array) -> Array:
        return np.asarray(adjacency @ values.reshape(graph.n, -1)).reshape(values.shape)

    def iterate() -> Iterator[Array]:
        pulled, carried = np.full(scale.shape, 1 / graph.n), np.zeros(scale.shape)
        while True:
            yield pulled
            scaled = scale * pulled
            pulled = pull * sum_neighbours(scaled) + pull / 2 * (
                degree * carried - sum_neighbours(carried)
            )
            carried = carried - scaled

    return scale, iterate()


@dataclass(frozen=True)
class RoundsForecast:
    """What T rounds of H pairs (β, a) make of q along each λ, and each noise's variance."""

    rule: Array  # (H, T): √C
    decays: Array  # (H, T, R): the rule's first, unless one was given
    gain: Array  # (H, T, K): the mean release is gain·q
    labels: Array  # (H, T, K): for a variance of flips of 1/m_i at server i
    objective: Array  # (H, T, K): for η of deviation 1
    iterates: Array  # (H, T, R, K): for θ of one sensitivity in all


def forecast_rounds(
    plans: Sequence[TrainingPlan],
    sensitivities: Array,
    graph: Graph,
    curvatures: Array,
    records: Array,
    rounds: Sequence[int],
    common: Array,
    decay: float | None = None,
) -> RoundsForecast:
    """Of each plan's β and a, for each number of ``rounds``; ``sensitivities`` are (H, n).

    The decay rule. Let noise of round t reach the final model with factor C^(T-t). Minimise Σ_t
    C^(T-t) σ_t² under Σ_t D²/σ_t² = const: C^(T-t) = ν D²/σ_t⁴, so σ_t² ∝ C^(-(T-t)/2). The
    variance falls by ρ = √C each round, and Cauchy-Schwarz says that nothing does better. C is the
    mean decay of the responses over the run, weighted by how ``common`` each λ is; since they are
    no perfect geometric series the rule is one candidate beside a grid of ρ, unless there is but
    one ``decay`` to look at.
    """
    penalties = np.array([plan.penalty for plan in plans])
    regularizations = np.array([plan.regularization for plan in plans])
    scale, series = responses(graph, penalties, regularizations, curvatures)
    loudness = np.empty((len(plans), max(rounds), len(curvatures)))  # θ of j rounds before the last
    gain, labels, objective = np.empty((3, len(plans), len(rounds), len(curvatures)))
    place, summed = {t: index for index, t in enumerate(rounds)}, np.zeros(scale.shape)
    square, weight = sensitivities.T[:, :, None] ** 2, (1 / records)[:, None, None]
    for j, p in zip(range(max(rounds)), series, strict=False):
        loudness[:, j] = np.sum(p * p * square, axis=0)
        summed += p
        if j + 1 in place:
            u, at = summed * scale, place[j + 1]
            gain[:, at] = u.sum(axis=0)
            u *= u
            labels[:, at], objective[:, at] = (u * weight).sum(axis=0), u.sum(axis=0)
    rule = np.sqrt(np.array([_contraction(loudness @ common, t) for t in rounds]).T)  # (H, T)
    others = DECAYS if decay is None else (decay,)
    tried = np.broadcast_to(np.asarray(others, dtype=float), (*rule.shape, len(others)))
    if decay is None:
        tried = np.concatenate([rule[..., None], tried], axis=-1)
        fastest = np.exp(-_SPAN / np.asarray(rounds, dtype=float))
        tried = np.maximum(tried, fastest[:, None])
    iterates = np.empty((*tried.shape, len(curvatures)))
    for index, t in enumerate(rounds):
        powers = tried[:, index, :, None] ** np.arange(t)  # (H, R, t)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            total = (1 / powers).sum(axis=-1)[..., None]
            variances = (powers[..., ::-1] @ loudness[:, :t]) * total
        iterates[:, index] = np.nan_to_num(variances, nan=_LOUDEST, posinf=_LOUDEST)
    return RoundsForecast(
        rule=rule,
        decays=tried,
        gain=gain,
        labels=labels,
        objective=objective / graph.n**2,
        iterates=iterates,
    )


def _contraction(loudness: Array, rounds: int) -> Array:
    """C of each shape: the mean decay of the response to noise over a run."""
    last = min(max(rounds - 1, 1), loudness.shape[1] - 1)
    if not last:
        return np.full(len(loudness), 0.9)
    mean = (loudness[:, last] / loudness[:, 0]) ** (1 / last)
    return np.asarray(np.clip(mean, 0.05, 0.9998))
