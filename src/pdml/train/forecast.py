"""What a plan will do to a model, forecast without any record: the quadratic model of perturbed
ADMM.

Near its optimum every server's risk is ½(w - w*)ᵀH(w - w*) with H = h·S, S = E[xxᵀ], h the mean
curvature of the loss: the same H for all servers, whose records come from one population. In an
eigenvector of S with eigenvalue s the n servers run the linear iteration (λ = h·s, D_i = 1/(λ + a/n
+ 2βN_i), Adj and L₋ of the graph)

    γ' = γ + βL₋ w̃,        w̃' = D(q - γ' + βL₊ w̃) + θ = D(q - γ + 2β Adj w̃) + θ,

so the average release after T rounds is linear in everything random. The adjoint recursion p(0) =
1/n, r(0) = 0,

    p(j+1) = 2β Adj D p(j) + βL₋ r(j),        r(j+1) = r(j) - D p(j),

gives all responses at once: θ_i(t) enters the average release of round T with weight p_i(T-t), and
the constant q_i with weight u_i(T) = D_i Σ_{j<T} p_i(j). Nothing is sampled and no eigenvalue is
approximated.

The error. A classifier keeps its predictions when it is rescaled, so what counts is how far the
margins ŵ·x of the released model are from being proportional to the wanted w*·x: with r_k = λ_k Σ_i
u_ik and N the variance of ŵ·x due to noise,

    error = min over c of E|c·ŵ·x - w*·x|² / E|w*·x|² = 1 - (Σ s_k r_k w*_k²)² / (Σ s_k w*_k² · (Σ
    s_k r_k² w*_k² + N)),

the squared sine of the angle between the two. It splits exactly into the term of unfinished
optimisation (with the ridge a) and one term for each noise.
"""

from dataclasses import dataclass
from math import acos, pi, sqrt

import numpy as np

from pdml._types import Array, Matrix
from pdml.core import labels, rows
from pdml.core.graph import Graph
from pdml.core.losses import Loss
from pdml.errors import InvalidInput

# root mean square margin of the planted model: a problem that can be learnt, but not trivial
MARGIN = 2.0
MOST_MODES = 24  # a longer spectrum is summed up in so many groups


@dataclass(frozen=True, kw_only=True)
class DataModel:
    """All that the forecast needs to know about data: eigenvalues of S, in groups, and what is to
    be found along them.
    """

    moments: Array  # (K,) eigenvalues s_k
    counts: Array  # (K,) how many directions each stands for
    signals: Array  # (K,) mean square of w*_k
    curvature: float  # h

    @property
    def power(self) -> float:
        """E|w*·x|²."""
        return float(np.sum(self.counts * self.moments * self.signals))


def synthetic(width: int, classes: int, loss: Loss, norm_bound: float = 1.0) -> DataModel:
    """Rows of length B whose spectrum falls like 1/k, and a planted model of root mean square
    margin `MARGIN`.
    """
    moments = 1 / np.arange(1, width + 1)
    moments *= norm_bound**2 / moments.sum()
    return _grouped(
        moments, np.full(width, (MARGIN / norm_bound) ** 2), _mean_curvature(loss, classes), classes
    )


def measured(x: Matrix, y: Array, classes: int, loss: Loss, norm_bound: float = 1.0) -> DataModel:
    """From public records like those to be trained on: ``x`` prepared (with its constant column),
    ``y`` class indices.

    w* is the least-squares direction S⁻¹E[yx] (in a slight ridge), scaled to the planted margin;
    for K classes that of the one-hot codes, averaged.
    """
    prepared, _ = rows.clip(rows.as_rows(x), norm_bound)
    if len(y) != prepared.shape[0]:
        raise InvalidInput(
            f"like must be records and as many labels, got {prepared.shape[0]} and {len(y)}"
        )
    moments, vectors = np.linalg.eigh(rows.gram(prepared) / len(y))
    moments = np.maximum(moments, 0.0)
    codes = labels.codes(np.asarray(y, dtype=np.int64), np.inf, classes)
    found = (
        vectors.T @ np.asarray(prepared.T @ (codes - (0 if classes == 2 else 1 / classes))) / len(y)
    )
    signals = np.mean(
        (found / (moments + 1e-3 * moments.sum() / len(moments))[:, None]) ** 2, axis=1
    )
    power = float(moments @ signals)
    if not power > 0:
        raise InvalidInput(
            "like must hold something to learn, got records on which every model is the same"
        )
    return _grouped(moments, signals * (MARGIN**2 / power), _mean_curvature(loss, classes), classes)


def _mean_curvature(loss: Loss, classes: int) -> float:
    """E g'' over margins of the planted size; for K classes 1/K, softmax's in any contrast at w =
    0, reduced alike.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    if classes > 2:
        return 0.6 / classes
    return float(weights @ loss.curvature(MARGIN * nodes[:, None])[:, 0, 0] / weights.sum())


def _grouped(moments: Array, signals: Array, curvature: float, classes: int) -> DataModel:
    """Neighbours in the spectrum summed up, keeping Σs and Σs·w*²; K classes have K - 1 contrasts
    of every direction.
    """
    order = np.argsort(moments)[::-1]
    parts = [
        part
        for part in np.array_split(order, min(MOST_MODES, len(order)))
        if moments[part].sum() > 0
    ]
    return DataModel(
        moments=np.array([moments[part].mean() for part in parts]),
        counts=np.array([float(len(part) * (classes - 1)) for part in parts]),
        signals=np.array([moments[part] @ signals[part] / moments[part].sum() for part in parts]),
        curvature=curvature,
    )


def label_variance(epsilon: float, loss: Loss, classes: int) -> float:
    """E(c·ŷ)²: what one record adds to the variance of m·q along a direction with E x² = 1; c²κ²
    for two classes.
    """
    if classes == 2:
        return (loss.label_weight * float(labels.kappa(epsilon))) ** 2
    return float(labels.keep_weight(epsilon, classes)) ** 2 / classes


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


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The predicted error of a release, in its terms: they add up to ``error``, and 1 would be pure
    noise.
    """

    optimisation: float  # rounds that were not run, and the ridge a
    labels: float  # flipped labels, and that records are finitely many
    objective: float  # η
    iterates: float  # θ

    @property
    def error(self) -> float:
        return self.optimisation + self.labels + self.objective + self.iterates

    @property
    def agreement(self) -> float:
        """The share of records that the released and the wanted model put on the same side, if
        margins are Gaussian.
        """
        return 1 - acos(sqrt(max(0.0, 1 - self.error))) / pi


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Second moments of the releases of rounds 1..T, from which any weighting of rounds is judged.

    With weights ω the average release has the margin error 1 - (ω·P)²/(power · ωᵀ(Q + noises)ω).
    """

    wanted: Array  # (T,): P_t = Σ s r_k(t) w*²
    found: Array  # (T, T): Q
    labels: Array  # (T, T)
    objective: Array  # (T, T)
    iterates: Array  # (T, T)
    power: float

    @property
    def total(self) -> Array:
        return self.found + self.labels + self.objective + self.iterates

    def forecast(self, weights: Array) -> Forecast:
        """The error's terms, at the best rescaling of the weighted release."""

        def quadratic(matrix: Array) -> float:
            return float(weights @ matrix @ weights)

        projected, size = float(weights @ self.wanted), quadratic(self.total)
        scale = projected / size
        optimisation = (scale**2 * quadratic(self.found) - 2 * scale * projected) / self.power + 1
        noises = (
            scale**2 * quadratic(m) / self.power
            for m in (self.labels, self.objective, self.iterates)
        )
        return Forecast(
            **dict(zip(("labels", "objective", "iterates"), noises, strict=True)),
            optimisation=max(0.0, optimisation),
        )


def second_moments(
    data: DataModel,
    graph: Graph,
    *,
    penalty: float,
    regularization: float,
    stddevs: Array,
    objective_stddev: float,
    label_noise: Array,
) -> Moments:
    """The releases' moments when θ_i(t) has standard deviation ``stddevs[t-1, i]``.

    ``label_noise[i]`` is `label_variance` / m_i. Costs K·T³·n multiplications.
    """
    rounds, n = stddevs.shape
    curvatures = data.curvature * data.moments
    p, scale = responses(graph, penalty, regularization, curvatures, rounds)
    weight = data.counts * data.moments
    u = np.cumsum(p, axis=0) * scale  # (T, n, K)
    r = curvatures * u.sum(axis=1)  # (T, K)
    iterates = np.zeros((rounds, rounds))
    for k in range(len(weight)):
        spread = np.zeros((rounds, rounds, n))  # [s, τ, i]
        for s in range(rounds):
            spread[s, : s + 1] = p[s::-1, :, k] * stddevs[: s + 1]
        flat = spread.reshape(rounds, -1)
        iterates += weight[k] * (flat @ flat.T)
    return Moments(
        wanted=r @ (weight * data.signals),
        found=(r * (weight * data.signals)) @ r.T,
        labels=np.einsum(
            "sik,tik,k,i->st", u, u, weight * data.moments, label_noise, optimize=True
        ),
        objective=np.einsum("sik,tik,k->st", u, u, weight, optimize=True)
        * (objective_stddev / n) ** 2,
        iterates=iterates,
        power=data.power,
    )
