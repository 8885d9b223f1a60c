"""Beyond the paper: labels enter only through their mean q, so that they need no supremum over
classifiers, and pool over servers.

The bounds fall like 1/m instead of 1/sqrt(m), hold without any class W (but for |w*| <= W where
training starts from 0), and need neither Lemma 5 nor that noisy iterates stay in a ball.
Derivations: docs/proofs/bounds.md.
"""

from math import log, sqrt

import numpy as np

from pdml._types import Array
from pdml.research.bounds.corrected import exact_share, inexact, iterate_term, way
from pdml.research.bounds.setting import Bound, Setting
from pdml.research.bounds.spectra import Spectra

VARIANT = "sharper"
_RATIO = 1.25  # between the radii of shells
_SHELLS = 200


def label_deviation(setting: Setting, records: float, miss: float) -> float:
    """cκB(1 + sqrt(2 ln(1/miss)))/sqrt(m): |q̂ - q| exceeds it with probability at most ``miss``
    (McDiarmid).
    """
    return setting.label_reach * (1 + sqrt(2 * log(1 / miss))) / sqrt(records)


def plain_deviation(setting: Setting, records: float, miss: float) -> float:
    """sup|g'|B(2 + sqrt(2 ln(1/miss)))/sqrt(m): the same for the label-free part, per unit of the
    radius around w*.
    """
    return setting.plain_reach * (2 + sqrt(2 * log(1 / miss))) / sqrt(records)


def corollary2(setting: Setting) -> Bound:
    """Δ J_P(ŵ_opt) <= (L²/2 + G(L + G))·n/a."""
    return _corollary(setting, "Corollary 2", 0.0)


def corollary1(setting: Setting) -> Bound:
    """Δ J_P(w̃_opt) <= (S²/2 + G(S + G))·n/a, S = L + |η̄|/n: noise in the objective is noise in
    the label mean.
    """
    return _corollary(
        setting, "Corollary 1", setting.likely_mean_objective_reach(setting.delta / 3)
    )


def _corollary(setting: Setting, statement: str, reach: float) -> Bound:
    share = setting.delta / (3 if reach else 2)
    plain = plain_deviation(setting, setting.pooled, share)
    labels = label_deviation(setting, setting.pooled, share)

    def excess(linear: float) -> float:
        return (linear**2 / 2 + plain * (linear + plain)) / setting.ridge

    label_excess = excess(labels)
    objective = excess(labels + reach / setting.n) - label_excess
    return Bound(
        statement=statement,
        variant=VARIANT,
        classifiers=1,
        labels=label_excess,
        objective=objective,
    )


def theorem2(setting: Setting) -> Bound:
    """Σ_i Δ J_P(w̄_i(t)) without Phase 2."""
    return _theorem(setting, "Theorem 2", 0.0, 0.0, 0.0)


def theorem1(setting: Setting) -> Bound:
    """E_θ Σ_i Δ J_P(w̄_i(t)); a larger gap λ₂(L₋) and a larger β keep what servers do not share
    from counting.
    """
    share = setting.delta / 5
    mean, reach = setting.likely_mean_objective_reach(share), setting.likely_objective_reach(share)
    return _theorem(setting, "Theorem 1", mean, reach, iterate_term(setting))


def _theorem(
    setting: Setting, statement: str, mean_reach: float, reach: float, iterates: float
) -> Bound:
    """δ in five: the pooled label mean, every server's, the label-free deviations, the mean of the
    η_i, and every η_i.
    """
    n, share = setting.n, setting.delta / 5
    whole = n * label_deviation(setting, setting.pooled, share)
    deviations = np.array([label_deviation(setting, m, share / n) for m in setting.records])
    gap = setting.penalty * Spectra.of(setting.graph).minus_min

    def linear(ridge: float, *, noisy: bool) -> float:
        """max over the mean u and the differences v_i of Σ x_i·u_i less what strong convexity and
        consensus take off.
        """
        together = (whole + noisy * mean_reach) ** 2 / (2 * n * ridge)
        return together + float(np.sum((deviations + noisy * reach / n) ** 2)) / (2 * (ridge + gap))

    def at(tau: float) -> tuple[float, float]:
        plain = sum(
            _peeled(setting, m, tau * setting.ridge * left, share / n) for m in setting.records
        )
        ridge = (1 - tau) * setting.ridge * left
        quiet = linear(ridge, noisy=False)
        return plain + quiet, linear(ridge, noisy=True) - quiet

    left = exact_share(setting)
    labels, objective = min((at(tau) for tau in (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)), key=sum)
    optimisation = way(setting) + inexact(setting)
    return Bound(
        statement=statement,
        variant=VARIANT,
        classifiers=n,
        labels=labels,
        objective=objective,
        iterates=iterates,
        optimisation=optimisation,
    )


def _peeled(setting: Setting, records: int, ridge: float, miss: float) -> float:
    """max_s of the label-free deviation at distance s from w*, less (ridge/2)s²; the smallest over
    where the shells begin.

    Shell k holds the distances between r_{k-1} and r_k = 1.25^k r_0 and has the chance
    miss/((k+1)(k+2)), which add up to ``miss``.
    """
    k = np.arange(_SHELLS)
    unit: Array = (
        setting.plain_reach * (2 + np.sqrt(2 * np.log((k + 1) * (k + 2) / miss))) / sqrt(records)
    )
    outer = _RATIO**k
    inner = np.where(k > 0, outer / _RATIO, 0.0)
    starts = unit[0] / ridge * _RATIO ** np.arange(-20.0, 10.0)
    gains = starts[:, None] * outer * unit - ridge / 2 * (starts[:, None] * inner) ** 2
    return float(gains.max(axis=1).min())
