"""The paper's statements, made true with the least change: every step is derived in
docs/proofs/bounds.md.

They hold with probability 1 - δ over records and reported labels, for classifiers and a w* inside
{|w| <= W}; Theorem 1 in expectation over θ, and for any connected graph, β > 0 and ρ < 1: no Lemma
5.
"""

from math import log, sqrt

from pdml.research.bounds.setting import Bound, Setting

VARIANT = "corrected"
SOLVER_SHARE = 0.01  # of the ridge, which pays for solves that are not exact


def label_terms(setting: Setting) -> list[float]:
    """Per server, WB·slope·(2 + sqrt(8 ln(n/δ)))/sqrt(m_i), slope = sup|g'| + cκ: sup_w [D_i(w*) -
    D_i(w)] for D_i = Ĵ_i - J_P.
    """
    reach = setting.radius * (setting.plain_reach + setting.label_reach)
    return [
        reach * (2 + sqrt(8 * log(setting.n / setting.delta))) / sqrt(m) for m in setting.records
    ]


def corollary2(setting: Setting) -> Bound:
    """Δ J_P(ŵ_opt)."""
    labels = sum(label_terms(setting)) / setting.n
    return Bound(
        statement="Corollary 2",
        variant=VARIANT,
        classifiers=1,
        labels=labels,
    )


def corollary1(setting: Setting) -> Bound:
    """Δ J_P(w̃_opt): |η|²/(2na) more, with η in Euclidean norm."""
    return Bound(
        statement="Corollary 1",
        variant=VARIANT,
        classifiers=1,
        labels=sum(label_terms(setting)) / setting.n,
        objective=setting.objective_reach**2 / (2 * setting.n * setting.regularization),
    )


def theorem2(setting: Setting) -> Bound:
    """Σ_i Δ J_P(w̄_i(t)) without Phase 2."""
    return Bound(
        statement="Theorem 2",
        variant=VARIANT,
        classifiers=setting.n,
        labels=sum(label_terms(setting)),
        optimisation=way(setting) + inexact(setting),
    )


def theorem1(setting: Setting) -> Bound:
    """E_θ Σ_i Δ J_P(w̄_i(t)) <= labels + |η|²/(2a) + (β/t) Σ_i N_i d V_i² (1-ρ^t)/(1-ρ) +
    2βEW²/t.
    """
    return Bound(
        statement="Theorem 1",
        variant=VARIANT,
        classifiers=setting.n,
        labels=sum(label_terms(setting)),
        objective=setting.objective_reach**2 / (2 * exact_share(setting) * setting.regularization),
        iterates=iterate_term(setting),
        optimisation=way(setting) + inexact(setting),
    )


def iterate_term(setting: Setting) -> float:
    """(β/t) Σ_k E|θ(k)|²_Deg."""
    rho, t = setting.noise_decay, setting.rounds
    return setting.penalty / t * setting.linked_noise_power * (1 - rho**t) / (1 - rho)


def way(setting: Setting) -> float:
    """(β/t)·½|w*|²_{L₊} <= 2βEW²/t, from w̃(0) = r(0) = 0."""
    return 2 * setting.penalty * setting.graph.n_edges * setting.radius**2 / setting.rounds


def exact_share(setting: Setting) -> float:
    """The part of the ridge that is left for noise once inexact solves are paid for."""
    return 1 - SOLVER_SHARE if setting.tolerance else 1.0


def inexact(setting: Setting) -> float:
    """Σ_i max_s (tolerance·s - share·(a/2n)s²)."""
    return (
        setting.n * setting.tolerance**2 / (2 * SOLVER_SHARE * setting.ridge)
        if setting.tolerance
        else 0.0
    )
