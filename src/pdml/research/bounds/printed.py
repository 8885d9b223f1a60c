"""Theorems 1 and 2 and Corollaries 1 and 2 as the paper prints them (eq_delta_Jt, delta_Jt_unper,
Jp_w_tilde, Jp_w_hat), with the constants of its Lemma 5 (`classifier_converge`).

R stands for itself here, as in the paper, whichever norm it bounds; κ̂ = a. With σ_min, σ_max the
extreme non-zero eigenvalues and Q = (L₋/2)^½ (so σ_min²(Q) = σ_min(L₋)/2) the lemma asks for b in
(0, 1), λ₁ > 1 with

    (1 - b)(1 + φ) σ_min²(L₊) > σ_max²(L₊),
    φ = (1 - 1/λ₁) · 2κ̂ σ_min²(Q) σ_min²(L₊) / (ϱ² σ_min²(L₊) + 2κ̂ σ_max²(L₊)).

The left side only grows as b → 0 and λ₁ → ∞, so that some choice exists exactly where (1 + φ_∞)
σ_min²/σ_max² > 1: ``ratio``. The lemma is quoted from elsewhere and is not true as printed
(docs/proofs/errata.md): no corrected bound uses its constants.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, log, sqrt

import numpy as np

from pdml.numerics.admm.graph import Graph
from pdml.research.bounds.setting import Bound, Setting
from pdml.research.bounds.spectra import Spectra


@dataclass(frozen=True, kw_only=True)
class Curvature:
    """κ̂ and ϱ_J̃: how strongly convex, and how smooth, J̃ is."""

    convexity: float  # κ̂
    smoothness: float  # ϱ

    @classmethod
    def printed(cls, setting: Setting) -> "Curvature":
        """aκ and nc₃ + aϱ (objective_convex, J_tildle_convex), with κ = ϱ = 1 for N = |w|²/2."""
        return cls(
            convexity=setting.regularization,
            smoothness=setting.n * setting.curvature_bound + setting.regularization,
        )

    @classmethod
    def stacked(cls, setting: Setting) -> "Curvature":
        """a/n and c₃ + a/n: the Hessian of J̃ in (w₁, ..., w_n) is block diagonal, so its
        eigenvalues do not add up over servers.
        """
        return cls(convexity=setting.ridge, smoothness=setting.curvature_bound + setting.ridge)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Whether b and λ₁ exist, and by how much they are missed: the condition is ratio > 1."""

    ratio: float  # best attainable (1 + φ) σ_min²(L₊)/σ_max²(L₊)
    growth: float  # φ_∞
    spread: float  # σ_max²(L₊)/σ_min²(L₊)

    @property
    def holds(self) -> bool:
        return self.ratio > 1

    @property
    def reason(self) -> str:
        compared = (
            f"(1 + phi) = {1 + self.growth:.4g} against sigma_max^2/sigma_min^2 of "
            f"L+ = {self.spread:.4g}"
        )
        if self.holds:
            return f"satisfiable: {compared}, ratio {self.ratio:.3g} > 1"
        return (
            f"no b and lambda_1 satisfy it: at best {compared}, ratio {self.ratio:.3g}, "
            "which must exceed 1"
        )


def growth(graph: Graph, curvature: Curvature, first: float = inf) -> float:
    """φ for λ₁ = ``first``; φ_∞, its supremum, by default."""
    s = Spectra.of(graph)
    low, high = s.plus_min**2, s.plus_max**2
    top = 2 * curvature.convexity * (s.minus_min / 2) * low
    return (1 - 1 / first) * top / (curvature.smoothness**2 * low + 2 * curvature.convexity * high)


def condition(graph: Graph, curvature: Curvature) -> Condition:
    """b_delta in the limit b → 0, λ₁ → ∞, which no choice exceeds."""
    s = Spectra.of(graph)
    spread, phi = (s.plus_max / s.plus_min) ** 2, growth(graph, curvature)
    return Condition(ratio=(1 + phi) / spread, growth=phi, spread=spread)


@dataclass(frozen=True, kw_only=True)
class Constants:
    """One choice of the lemma's parameters, and what follows from it."""

    b: float
    first: float  # λ₁
    second: float  # λ₂
    alpha: float
    contraction: float  # C
    penalty: float  # β, which the lemma prescribes
    start: float  # H₁, with |w̃_opt| <= W
    noise: float  # H₂

    @property
    def valid(self) -> bool:
        return 0 < self.contraction < 1


def constants(
    setting: Setting, curvature: Curvature, *, b: float, first: float, second: float, share: float
) -> Constants | None:
    """The lemma's constants for α = ``share``·min(M₁, M₂); None where the condition fails."""
    s = Spectra.of(setting.graph)
    low, high, q = s.plus_min**2, s.plus_max**2, s.minus_min / 2
    # σ_max²(L̄): L̄ = ½(L₊ + L₋) is the degree matrix
    degree = float(np.max(setting.graph.degrees)) ** 2
    convexity, smooth = curvature.convexity, curvature.smoothness**2
    phi = growth(setting.graph, curvature, first)
    gap = (1 - b) * (1 + phi) * low - high
    if gap <= 0:
        return None
    split = b * low * (1 - 1 / second)
    alpha = share * min(
        (1 + phi) * split / (4 * split + 16 * degree), gap / (4 * high + 4 * (1 - b) * low)
    )
    third = 1 + 2 * convexity * high / (smooth * low)
    fourth = 1 + sqrt((smooth * low + 2 * convexity * high) / (alpha * third * smooth * low))
    beta = sqrt(first * third * (fourth - 1) * smooth / (fourth * (first - 1) * high * q))
    inner = (sqrt(phi) + sqrt(2 * (first - 1) * q / (alpha * first * third * smooth))) ** 2
    # |r_opt| <= |∇J̃(w̃*)| / (2β σ_min(Q)): r_opt lies in the range of Q, and |∇J̃_i| <= slope +
    # aW/n + |η_i|/n.
    slope = (
        setting.plain_reach
        + setting.label_reach
        + setting.ridge * setting.radius
        + setting.objective_reach / setting.n
    )
    dual = setting.n * slope**2 / (4 * beta**2 * q)
    away = 4 * phi * first * degree / q + high * inner
    return Constants(
        b=b,
        first=first,
        second=second,
        alpha=alpha,
        contraction=(1 + 4 * alpha) * high / ((1 - b) * (1 + phi - 4 * alpha) * low),
        penalty=beta,
        start=setting.n * setting.radius**2 + 4 / ((1 + 4 * alpha) * high) * dual,
        noise=b * (second - 1) / (1 - b)
        + away / ((1 + phi) * (1 + phi - 4 * alpha) * (1 - b) * low),
    )


def choices(setting: Setting, curvature: Curvature) -> list[Constants]:
    """Concrete parameters on a grid: every one satisfies the condition, which is empty where it
    cannot be met.
    """
    best = condition(setting.graph, curvature)
    if not best.holds:
        return []
    largest = 1 - 1 / best.ratio  # b below this leaves room for λ₁ < ∞
    grid = product(
        (0.02, 0.1, 0.3, 0.6),
        (1.5, 3.0, 10.0, 100.0, 1e4),
        (1.5, 4.0, 30.0),
        (0.05, 0.3, 0.7, 0.95),
    )
    candidates = (
        constants(setting, curvature, b=part * largest, first=first, second=second, share=share)
        for part, first, second, share in grid
    )
    return [candidate for candidate in candidates if candidate is not None and candidate.valid]


VARIANT = "as printed"


def label_term(setting: Setting, rademacher: Sequence[float] | None = None) -> float:
    """4κ(ε) Σ_i (c₂ Rad_i(W) + 2c₁ sqrt(2 ln(4/δ)/m_i)); Rad_i = WB/sqrt(m_i) unless measured."""
    complexities = rademacher or [
        setting.radius * setting.norm_bound / sqrt(m) for m in setting.records
    ]
    return (
        4
        * setting.kappa
        * sum(
            setting.gradient_bound * complexity
            + 2 * setting.loss_bound * sqrt(2 * log(4 / setting.delta) / m)
            for complexity, m in zip(complexities, setting.records, strict=True)
        )
    )


def corollary2(setting: Setting, rademacher: Sequence[float] | None = None) -> Bound:
    """Δ J_P(ŵ_opt): randomised labels alone."""
    labels = label_term(setting, rademacher) / setting.n
    return Bound(
        statement="Corollary 2",
        variant=VARIANT,
        classifiers=1,
        labels=labels,
    )


def corollary1(setting: Setting, rademacher: Sequence[float] | None = None) -> Bound:
    """Δ J_P(w̃_opt): labels and η, R²/(nκ̂)."""
    return Bound(
        statement="Corollary 1",
        variant=VARIANT,
        classifiers=1,
        labels=label_term(setting, rademacher) / setting.n,
        objective=setting.objective_limit**2 / (setting.n * setting.regularization),
    )


def theorem2(setting: Setting, rademacher: Sequence[float] | None = None) -> Bound:
    """Σ_i Δ J_P(w̄_i(t)) without Phase 2: (β/t)|ŵ*|²_{L₊/2} = 2βE|ŵ_opt|²/t, as w(0) = r(0) = 0."""
    return Bound(
        statement="Theorem 2",
        variant=VARIANT,
        classifiers=setting.n,
        labels=label_term(setting, rademacher),
        optimisation=_way(setting) * setting.penalty / setting.rounds,
    )


def theorem1(
    setting: Setting, rademacher: Sequence[float] | None = None
) -> tuple[Bound, Constants] | str:
    """E_θ Σ_i Δ J_P(w̄_i(t)) with the lemma's constants that make it smallest, or the reason why
    the theorem says nothing.
    """
    curvature = Curvature.printed(setting)
    met = condition(setting.graph, curvature)
    if not met.holds:
        return met.reason
    candidates = [
        candidate
        for candidate in choices(setting, curvature)
        if setting.noise_decay < candidate.contraction
    ]
    if not candidates:
        return (
            "noise_decay must be below C, which no choice of b and lambda_1 lifts to "
            f"{setting.noise_decay:g}"
        )
    return min(
        ((_theorem1(setting, choice, rademacher), choice) for choice in candidates),
        key=lambda pair: pair[0].total,
    )


def _theorem1(setting: Setting, chosen: Constants, rademacher: Sequence[float] | None) -> Bound:
    s = Spectra.of(setting.graph)
    c, rho, t, limit = (
        chosen.contraction,
        setting.noise_decay,
        setting.rounds,
        setting.objective_limit,
    )
    tail = c / (1 - c) / (2 * t)
    spread = s.plus_max**2 / (2 * s.minus_max**2) + s.minus_max  # 2σ_max²(Q) = σ_max(L₋)
    iterates = tail * rho * chosen.noise / (c - rho) + chosen.penalty / t * spread / (1 - rho)
    return Bound(
        statement="Theorem 1",
        variant=VARIANT,
        classifiers=setting.n,
        labels=label_term(setting, rademacher),
        objective=limit**2 * (setting.n / 2 + 1 / (setting.n * setting.regularization)),
        iterates=iterates * setting.noise_power,
        optimisation=tail * chosen.start + chosen.penalty / t * _way(setting),
    )


def _way(setting: Setting) -> float:
    """|w(0) - w*|²_{L₊/2} for consensus at |w*| <= W: 1ᵀL₊1 = 4E."""
    return 2 * setting.graph.n_edges * setting.radius**2
