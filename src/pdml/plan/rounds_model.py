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

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from pdml._types import Array
from pdml.core.graph import Graph
from pdml.core.losses import Loss
from pdml.plan.training_plan import TrainingPlan

MARGIN = 2.0  # root mean square margin at which g' is made a line
DECAYS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)  # ρ, beside the rule's


def mean_curvature(loss: Loss, classes: int) -> float:
    """h = E g'' over Gaussian margins, which is the best line's slope; for K classes 1/K, softmax's
    in any contrast at w = 0, reduced alike.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    if classes > 2:
        return 0.6 / classes
    return float(weights @ loss.curvature(MARGIN * nodes[:, None])[:, 0, 0] / weights.sum())


def responses(
    graph: Graph, penalty: float, regularization: float, curvatures: Array, rounds: int
) -> tuple[Array, Array]:
    """p of shape (T, n, K), j = 0..T-1, and D of shape (n, K), for Hessian eigenvalues λ (K,)."""
    degree = np.asarray(graph.degrees, dtype=float)[:, None]
    scale = 1 / (curvatures[None, :] + regularization / graph.n + 2 * penalty * degree)
    pulled = np.full((graph.n, len(curvatures)), 1 / graph.n)
    carried = np.zeros_like(pulled)
    found = np.empty((rounds, *pulled.shape))
    for j in range(rounds):
        found[j] = pulled
        shrunk = scale * pulled
        pulled = 2 * penalty * (graph.adjacency @ shrunk) + penalty * (
            degree * carried - graph.adjacency @ carried
        )
        carried = carried - shrunk
    return found, scale


@dataclass(frozen=True)
class Reached:
    """What T rounds make of q in directions of several λ, and the variance of each noise there."""

    decays: Array  # (T, R): the rule's first
    gain: Array  # (T, K): the mean release is gain·q
    labels: Array  # (T, K): for a variance of flips of 1/m_i at server i
    objective: Array  # (T, K): for η of deviation 1
    iterates: Array  # (T, R, K): for θ of one sensitivity in all


def reached(
    plan: TrainingPlan,
    sensitivities: Array,
    graph: Graph,
    curvatures: Array,
    records: Array,
    rounds: Sequence[int],
    common: Array,
) -> Reached:
    """Of a plan's β and a, for each number of ``rounds``.

    The decay rule. Let noise of round t reach the final model with factor C^(T-t). Minimise Σ_t
    C^(T-t) σ_t² under Σ_t D²/σ_t² = const: C^(T-t) = ν D²/σ_t⁴, so σ_t² ∝ C^(-(T-t)/2). The
    variance falls by ρ = √C each round, and Cauchy-Schwarz says that nothing does better. C is the
    mean decay of the responses over the run, weighted by how ``common`` each λ is; since they are
    no perfect geometric series the rule is one candidate beside a grid of ρ.
    """
    p, scale = responses(graph, plan.penalty, plan.regularization, curvatures, max(rounds))
    u = (np.cumsum(p, axis=0) * scale)[np.asarray(rounds) - 1]  # (T, n, K)
    loudness = np.einsum("jik,i->jk", p**2, sensitivities**2)  # θ of j rounds before the last
    whole = loudness @ common
    decays = np.array([[sqrt(_contraction(whole, t)), *DECAYS] for t in rounds])
    iterates = np.empty((*decays.shape, len(curvatures)))
    for index, t in enumerate(rounds):
        powers = decays[index][:, None] ** np.arange(t)
        iterates[index] = (powers[:, ::-1] @ loudness[:t]) * (1 / powers).sum(axis=1)[:, None]
    return Reached(
        decays=decays,
        gain=u.sum(axis=1),
        labels=np.einsum("tik,i->tk", u**2, 1 / records),
        objective=np.sum(u**2, axis=1) / graph.n**2,
        iterates=iterates,
    )


def _contraction(loudness: Array, rounds: int) -> float:
    """C: the mean decay of the response to noise over a run (of its first step, if there is but one
    round).
    """
    last = min(max(rounds - 1, 1), len(loudness) - 1)
    factor = (loudness[last] / loudness[0]) ** (1 / last) if last else 0.9
    return float(np.clip(factor, 0.05, 0.9998))
