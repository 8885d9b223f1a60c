"""What the theorems of the paper need to know of a training, and a bound as named terms."""

from dataclasses import dataclass
from functools import cached_property
from math import inf, log, sqrt

import numpy as np

from pdml import _validate
from pdml.errors import InvalidInput
from pdml.mechanisms.iterate_noise import IterateNoise
from pdml.mechanisms.objective_noise import TRUNCATED_GAUSSIAN, NoiseFamily, ObjectiveNoise
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.labels import kappa
from pdml.numerics.admm.losses import BINARY, Loss
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan

TERMS = ("labels", "objective", "iterates", "optimisation")


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Δ J_P of one classifier (``classifiers`` = 1), or summed over the servers' classifiers, is at
    most ``total``.
    """

    statement: str
    variant: str
    classifiers: int
    labels: float  # finitely many records, with randomised labels
    objective: float = 0  # η
    iterates: float = 0  # θ
    optimisation: float = 0  # rounds that were not run, and inexact solves

    @property
    def total(self) -> float:
        return self.labels + self.objective + self.iterates + self.optimisation

    @property
    def per_classifier(self) -> float:
        return self.total / self.classifiers

    @property
    def terms(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in TERMS}

    @property
    def dominant(self) -> str:
        """The largest term's name."""
        return max(self.terms, key=self.terms.__getitem__)


def longest_best(
    servers: int, regularization: float, norm_bound: float = 1.0, loss: str = "logistic"
) -> float:
    """The longest that w* can be, hence a W that is never too small for it: min(ncB/a, sqrt(2n
    g(0)/a)).

    ∇J_P(0) = -cE[yx] and a/n-strong convexity give the first, (a/2n)|w*|² <= J_P(w*) <= J_P(0) =
    g(0) the second, where ℓ >= 0.

    Parameters
    ----------
    servers : int
        n.
    regularization : float
        a.
    norm_bound : float
        B, the longest row.
    loss : str
        Of two classes.

    Returns
    -------
    float
        W.
    """
    g = BINARY.resolve(loss)
    return min(
        servers * g.label_weight * norm_bound / regularization,
        sqrt(2 * servers * float(g.value(np.zeros(1))) / regularization),
    )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Two classes, N(w) = |w|²/2, w̃(0) = γ(0) = 0. ``radius`` is W: the class of the paper is {|w|
    <= W}.

    ``tolerance`` is the largest gradient norm that a primal solve may leave; the paper's argmin has
    none.
    """

    graph: Graph
    records: tuple[int, ...]  # m_i
    width: int  # d, with the constant column
    # of labels; the smallest if they differ, as κ falls with ε and every bound grows with κ
    epsilon: float
    radius: float  # W
    delta: float = 0.05
    norm_bound: float = 1.0  # B
    loss: str = "logistic"
    rounds: int = 40  # t
    regularization: float = 0.01  # a
    penalty: float = 0.1  # β
    objective_noise: str | NoiseFamily = "truncated_gaussian"
    objective_bound: float = 1.0  # R
    noise_scale: tuple[float, ...] = (0.3,)  # V_i
    noise_decay: float = 0.95  # ρ
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        for name in ("records", "noise_scale"):
            values = _validate.by_server(name, getattr(self, name), self.n)
            object.__setattr__(self, name, values)
        for m in self.records:
            _validate.integer("records", m, low=1, high=10**12)
        for v in self.noise_scale:
            IterateNoise(v, self.noise_decay)
        _validate.integer("width", self.width, low=1, high=10**9)
        _validate.integer("rounds", self.rounds, low=1, high=10**9)
        _validate.real("delta", self.delta, low=0, high=1, open_low=True, open_high=True)
        for name, high, why in (
            ("epsilon", inf, "0 would report pure noise"),
            ("radius", 1e9, "the class of classifiers is {|w| <= radius}"),
            ("norm_bound", 1e9, ""),
            ("regularization", 1e9, "every bound divides by it"),
            ("penalty", 1e9, "without it servers never agree"),
        ):
            _validate.real(name, getattr(self, name), low=0, high=high, open_low=True, why=why)
        _validate.real("tolerance", self.tolerance, low=0, high=1e9)
        ObjectiveNoise(self.objective_noise, self.objective_bound)
        if self._loss.slope_bound == inf:
            raise InvalidInput(
                f"loss must have a bounded slope, got {self.loss!r}: the theorems assume it "
                "(Assumption 1)"
            )

    @classmethod
    def of(
        cls,
        plan: TrainingPlan,
        graph: Graph,
        sizes: Sizes,
        *,
        radius: float | None = None,
        delta: float = 0.05,
    ) -> "Setting":
        """The setting of a plan, with the tolerance of its primal solves.

        Parameters
        ----------
        plan : TrainingPlan
        graph : Graph
        sizes : Sizes
            Records per server, width, ε and B.
        radius : float, optional
            W; the longest that w* can be unless given.
        delta : float
            The chance for which nothing is promised.

        Returns
        -------
        Setting
        """
        longest = longest_best(graph.n, plan.regularization, sizes.norm_bound)
        scale = plan.noise_scale
        return cls(
            graph=graph,
            records=sizes.records,
            width=sizes.width,
            epsilon=sizes.epsilon,
            norm_bound=sizes.norm_bound,
            radius=longest if radius is None else radius,
            delta=delta,
            rounds=plan.rounds,
            regularization=plan.regularization,
            penalty=plan.penalty,
            objective_noise=plan.objective_noise,
            objective_bound=plan.objective_bound,
            noise_scale=scale if isinstance(scale, tuple) else (scale,),
            noise_decay=plan.noise_decay,
            tolerance=max(plan.tolerance_for(sizes.server_spec(i, graph)) for i in range(graph.n)),
        )

    @property
    def n(self) -> int:
        return self.graph.n

    @cached_property
    def _loss(self) -> Loss:
        return BINARY.resolve(self.loss)

    # Constants of Assumption 1, over |w| <= W and |x| <= B

    @property
    def kappa(self) -> float:
        return float(kappa(self.epsilon))

    @property
    def loss_bound(self) -> float:
        """c₁ = sup|ℓ| = g(WB) + cWB."""
        reach = self.radius * self.norm_bound
        return float(self._loss.value(np.array([reach]))) + self._loss.label_weight * reach

    @property
    def gradient_bound(self) -> float:
        """c₂ = sup|∂ℓ/∂w| = (sup|g'| + c)·B, as Assumption 1 defines it."""
        return (self._loss.slope_bound + self._loss.label_weight) * self.norm_bound

    @property
    def curvature_bound(self) -> float:
        """c₃ = sup|∂²ℓ/∂w²| = sup g''·B²."""
        return self._loss.curvature_bound * self.norm_bound**2

    # Constants of the linear-odd form ℓ̂ = g(z) - cκy'z

    @property
    def plain_reach(self) -> float:
        """sup|g'|·B: how strongly a record pulls, its label apart."""
        return self._loss.slope_bound * self.norm_bound

    @property
    def label_reach(self) -> float:
        """cκB: how strongly a randomised label pulls."""
        return self._loss.label_weight * self.kappa * self.norm_bound

    @property
    def zero_loss(self) -> float:
        """g(0): the risk of w = 0, and so the most that Δ J_P(0) can be; any bound above it says
        less than nothing.
        """
        return float(self._loss.value(np.zeros(1)))

    @property
    def ridge(self) -> float:
        """λ = a/n: the strong convexity of J_P, of every Ĵ_i and of their mean."""
        return self.regularization / self.n

    @property
    def pooled(self) -> float:
        """n²/Σ(1/m_i): as many equal records would weigh the same as these, of which each counts
        1/(n·m_i).
        """
        return float(self.n**2 / np.sum(1 / np.asarray(self.records, dtype=float)))

    # Noise

    @property
    def objective_reach(self) -> float:
        """The longest η_i can be in Euclidean norm: R in a ball, sqrt(d)·R in a box."""
        return ObjectiveNoise(self.objective_noise, self.objective_bound).longest(self.width)

    def likely_objective_reach(self, miss: float) -> float:
        """A length that no η_i exceeds but for a chance of ``miss``.

        A truncated Gaussian coordinate is stochastically smaller than a Gaussian one, and the norm
        of d standard Gaussians is 1-Lipschitz: P(|η_i| >= σ(sqrt(d) + s)) <= exp(-s²/2); n servers
        share the chance.
        """
        noise = ObjectiveNoise(self.objective_noise, self.objective_bound)
        if not noise.active or noise.family != TRUNCATED_GAUSSIAN:
            return self.objective_reach
        return min(
            self.objective_reach, noise.stddev * (sqrt(self.width) + sqrt(2 * log(self.n / miss)))
        )

    def likely_mean_objective_reach(self, miss: float) -> float:
        """The same for the mean of all η_i, which are independent: sqrt(E|η_i|²/n), and a deviation
        of order 1/sqrt(n).

        The truncated Gaussian is more log-concave than the Gaussian on a convex set, so that
        1-Lipschitz functions of it concentrate as well (Bakry-Émery); for the uniforms McDiarmid's
        differences are 2|η_i|/n.
        """
        noise, d = ObjectiveNoise(self.objective_noise, self.objective_bound), self.width
        if not noise.active:
            return 0.0
        deviation = sqrt(2 * log(1 / miss))
        if noise.family == TRUNCATED_GAUSSIAN:
            return min(self.objective_reach, noise.stddev * (sqrt(d) + deviation) / sqrt(self.n))
        square = noise.mean_square(d)
        return min(
            self.objective_reach, (sqrt(square) + self.objective_reach * deviation) / sqrt(self.n)
        )

    @property
    def objective_limit(self) -> float:
        """R as the paper writes it: 0 where the noise is off."""
        return self.objective_bound if self.objective_reach else 0.0

    @property
    def noise_power(self) -> float:
        """Σ_i d V_i²."""
        return self.width * float(np.sum(np.square(self.noise_scale)))

    @property
    def linked_noise_power(self) -> float:
        """Σ_i N_i d V_i²: a server's noise reaches everyone it talks to."""
        return self.width * float(np.asarray(self.graph.degrees) @ np.square(self.noise_scale))
