"""How sure somebody can become of the true value of one piece of data: privacy.md, section 11.

Whoever gives the truth at most even odds before, and then sees all of what an adversary sees, or
any part of it, at any time, holds it for true with at most P afterwards, but for a chance of δ.
With β(δ) the smallest chance that an event of chance δ under the truth can have under any other
value, the odds are δ/β(δ). A profile bounds β, by all its points at once:

    P = 1/(1 + e^-L),    L = ln(δ/β(δ)) = inf over ε' of ε' - ln(1 - δ(ε')/δ).

It is not ε: that lies below L, and is exceeded with a chance of many times δ.
"""

from math import inf, log

import numpy as np

from pdml._math import expit
from pdml.accounting.profiles import Profile, Values, epsilon_at

_OFFSETS = np.array([0.0, *(2.0**k for k in range(-30, 18))])  # from ε: where to look first
_ZOOMS, _POINTS = 10, 9  # each to a quarter


def log_odds_at(profile: Profile, delta: float, epsilon: Values = None) -> Values:
    """L of a mechanism with this profile: odds above e^L have a chance of at most ``delta``.

    Guarantees
    ----------
    - P(odds > e^L) <= δ, the chance being that of the truth: with A = {odds > e^L}, which has
      e^L P'(A) < P(A), P(A)(1 - e^(ε'-L)) <= P(A) - e^ε' P'(A) <= δ(ε').
    - For an exact profile there is a view for which no smaller L does: to be told whether the
      likelihood ratio exceeds a number.
    """
    first = np.asarray(epsilon_at(profile, delta) if epsilon is None else epsilon)
    if delta == 0:
        return first[()]

    def bound(epsilon: Values) -> Values:
        with np.errstate(divide="ignore"):
            return epsilon - np.log1p(-np.minimum(1.0, profile(epsilon) / delta))

    best = np.full(first.shape, inf)
    ends = np.where(np.isinf(first), 0.0, first) + _OFFSETS.reshape(-1, *(1,) * first.ndim)
    for _ in range(1 + _ZOOMS):
        bounds = bound(ends)
        at = np.argmin(bounds, axis=0)[None]
        best = np.minimum(best, np.take_along_axis(bounds, at, axis=0)[0])
        low = np.take_along_axis(ends, np.maximum(at - 1, 0), axis=0)[0]
        high = np.take_along_axis(ends, np.minimum(at + 1, len(ends) - 1), axis=0)[0]
        ends = np.linspace(low, high, _POINTS)
    return np.where(np.isinf(first), inf, best)[()]


def certainty_at(profile: Profile, delta: float, epsilon: Values = None) -> Values:
    """P = e^L/(1 + e^L): how sure of the truth they can be, but for a chance of ``delta``."""
    return expit(log_odds_at(profile, delta, epsilon))


def limit_certainty(epsilon: float) -> float:
    """How sure a limit of (ε, δ) lets them be, whatever is released within it, but for a chance of
    2δ: P = e^L/(1 + e^L) with L = ε + ln 2.

    With A = {odds > e^L}: P(A)(1 - e^(ε-L)) <= P(A) - e^ε P'(A) <= δ, and 1 - e^(ε-L) = 1/2. A
    limit says one point of a profile only, and not that all is Gaussian, which randomised response
    is not.
    """
    return float(expit(epsilon + log(2)))


def limit_epsilon(certainty: float) -> float:
    """The inverse: the limit that lets them be this sure."""
    return log(certainty / (1 - certainty)) - log(2)
