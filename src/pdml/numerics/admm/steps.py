"""One server's round as three pure functions (`wi_update`, `wi_perturb`, `gammai_update`).

``heard`` is the sum of what the neighbours sent, Σ_{l in N_i} w̃_l, added in ascending order of l:
every engine adds in that order, so that all engines agree to the last bit. Shapes: (..., C, d), one
leading axis per training run or server.
"""

import numpy as np

from pdml._types import Array

Degree = float | Array  # a number, or an array that broadcasts over servers


def sum_messages(messages: list[Array], like: Array) -> Array:
    """Σ_l w̃_l in the order given, starting from zero."""
    total = np.zeros_like(like)
    for message in messages:
        total += message
    return total


def dual_step(
    dual: Array, sent: Array, neighbour_sum: Array, *, degree: Degree, penalty: float
) -> Array:
    """γ_i + β Σ_l (w̃_i - w̃_l)."""
    return dual + penalty * (degree * sent - neighbour_sum)


def primal_target(
    linear: Array, dual: Array, sent: Array, neighbour_sum: Array, *, degree: Degree, penalty: float
) -> Array:
    """The b for which wi_update reads argmin G(w) + (μ_i/2)|w|² - b·w, μ_i = a/n + 2βN_i.

    β Σ_l |w - (w̃_i + w̃_l)/2|² contributes βN_i|w|² - β Σ_l (w̃_i + w̃_l)·w. What was released is
    added up first: that sum is the same whatever the records are. So what depends on them is
    rounded once, and the solver's certificate holds a share for it; otherwise long messages that
    cancel would leave their roundings in b.
    """
    return linear + (penalty * (degree * sent + neighbour_sum) - dual)


def release_step(point: Array, noise: Array) -> Array:
    """w̃_i = w_i + θ_i: the only thing that ever leaves the server.

    Adding 0 turns -0 into 0: the sign of a zero would tell from which side w_i was rounded.
    """
    return point + noise + 0.0
