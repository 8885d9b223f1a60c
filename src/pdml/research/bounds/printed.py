"""Theorems 1 and 2 and Corollaries 1 and 2 as the paper prints them (eq_delta_Jt, delta_Jt_unper,
Jp_w_tilde, Jp_w_hat).

R stands for itself here, as in the paper, whichever norm it bounds; κ̂ = a. What is wrong with
them: docs/proofs/errata.md.
"""

from collections.abc import Sequence
from math import log, sqrt

from pdml.research.bounds.bound_terms import Bound
from pdml.research.bounds.convergence import Constants, Curvature, choices, condition
from pdml.research.bounds.setting import Setting

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
        objective=0,
        iterates=0,
        optimisation=0,
    )


def corollary1(setting: Setting, rademacher: Sequence[float] | None = None) -> Bound:
    """Δ J_P(w̃_opt): labels and η, R²/(nκ̂)."""
    return Bound(
        statement="Corollary 1",
        variant=VARIANT,
        classifiers=1,
        labels=label_term(setting, rademacher) / setting.n,
        objective=setting.objective_limit**2 / (setting.n * setting.regularization),
        iterates=0,
        optimisation=0,
    )


def theorem2(setting: Setting, rademacher: Sequence[float] | None = None) -> Bound:
    """Σ_i Δ J_P(w̄_i(t)) without Phase 2: (β/t)|ŵ*|²_{L₊/2} = 2βE|ŵ_opt|²/t, as w(0) = r(0) = 0."""
    return Bound(
        statement="Theorem 2",
        variant=VARIANT,
        classifiers=setting.n,
        labels=label_term(setting, rademacher),
        objective=0,
        iterates=0,
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
    s = setting.graph.spectra()
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
