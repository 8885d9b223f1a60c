"""Privacy profiles δ(ε), and the exact joint profile of randomised response followed by a noisy training.

A profile maps ε >= 0 to the smallest δ for which the mechanism is (ε, δ)-DP under replacement.
"""

from collections.abc import Callable
from math import atanh, exp, expm1, inf, isinf, log, tanh

from numpy import logaddexp
from scipy.special import log_ndtr, ndtr, ndtri

from pdml import _validate

Profile = Callable[[float], float]
TINY = 1e-300  # a Gaussian's δ is never 0: underflow must not look like pure privacy


def gaussian_profile(mu: float) -> Profile:
    """δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) of a Gaussian mechanism with sensitivity/σ = μ."""
    _validate.real("mu", mu, low=0)

    def delta(epsilon: float) -> float:
        if mu == 0 or isinf(epsilon):
            return 0.0
        if isinf(mu):
            return 1.0
        second = exp(min(0.0, epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))
        return max(TINY, float(ndtr(mu / 2 - epsilon / mu)) - second)

    return delta


def pure_profile(epsilon_p: float) -> Profile:
    """The worst profile of a pure ε_p mechanism: randomised response, δ(ε) = (e^ε_p - e^ε)/(1 + e^ε_p) below ε_p."""

    def delta(epsilon: float) -> float:
        if isinf(epsilon_p):
            return 1.0
        return 0.0 if epsilon >= epsilon_p else -expm1(epsilon - epsilon_p) / (1 + exp(-epsilon_p))

    return delta


def nothing_profile(epsilon: float) -> float:
    """No protection at all: δ = 1 for every finite ε."""
    return 1.0 if epsilon < inf else 0.0


def better_of(*profiles: Profile) -> Profile:
    """Two valid bounds on the same mechanism are both true, so the smaller one is."""
    return lambda epsilon: min(profile(epsilon) for profile in profiles)


def plus(profile: Profile, delta: float) -> Profile:
    """A mechanism composed with one that is (0, ``delta``)-private: their δ add up."""
    return lambda epsilon: 0.0 if isinf(epsilon) else min(1.0, profile(epsilon) + delta)


def truncated(profile: Profile, outside: float) -> Profile:
    """The same noise conditioned on a region of mass 1 - ``outside``.

    For any event A: P̃(A) <= P(A)/(1-o) <= (e^ε Q(A) + δ)/(1-o) and Q(A) <= (1-o) Q̃(A) + o, so
    δ̃ = (δ + e^ε o)/(1 - o). This bound is convex in e^ε; a profile never grows, so beyond its lowest point it stays there.
    """
    if not 0 <= outside < 1:
        return nothing_profile

    def bound(epsilon: float) -> float:
        return min(1.0, (profile(epsilon) + exp(min(epsilon, 700.0)) * outside) / (1 - outside))

    low, high = 0.0, 100.0
    for _ in range(200 if outside > 0 else 0):  # a ternary search: the bound falls, then grows
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if bound(left) <= bound(right) else (left, high)
    lowest = low if outside > 0 else inf
    return lambda epsilon: 0.0 if isinf(epsilon) else bound(min(epsilon, lowest))


def truncated_gaussian_profile(mu: float, *, outside: float, edge: float) -> Profile:
    """Gaussian noise conditioned on a box, against the same noise shifted.

    Both densities are the Gaussian's divided by the same mass 1 - o (``outside`` = o), each on its own box. Where both live their
    ratio is the Gaussian's; where only the first lives, on a strip of mass at most ``edge`` under the first and o under the second
    Gaussian, p takes the place of p - e^ε q. So δ̃ <= (δ(ε) + min(edge, e^ε o))/(1 - o). The part with e^ε is lowest at
    ε = -μΦ⁻¹(o) - μ²/2; a profile never grows, so beyond it stays there.
    """
    if not 0 <= outside < 1:
        return nothing_profile
    gaussian = gaussian_profile(mu)
    lowest = inf if outside == 0 or isinf(mu) else max(0.0, -mu * float(ndtri(outside)) - mu * mu / 2)

    def delta(epsilon: float) -> float:
        if isinf(epsilon):
            return 0.0
        least = min(epsilon, lowest)
        tail = exp(min(least, 700.0)) * outside
        return min(1.0, (gaussian(epsilon) + edge) / (1 - outside), (gaussian(least) + tail) / (1 - outside))

    return delta


def joint_profile(epsilon: float, profile: Profile) -> Profile:
    """Exact profile of binary randomised response ε followed by a mechanism with ``profile`` on its output.

    δ_J(e') = (e^ε - e^e')/(1 + e^ε) · δ_M(e''), e'' = ln((e^(ε+e') - 1)/(e^ε - e^e')), for e' < ε, else 0.
    """
    if isinf(epsilon):
        return profile

    def delta(target: float) -> float:
        if target >= epsilon:
            return 0.0
        share = -expm1(target - epsilon) / (1 + exp(-epsilon))
        total = epsilon + target
        # ln(e^(ε+e') - 1) - ln(e^ε - e^e'), each by its large part
        inner = (total + log(-expm1(-total))) - (epsilon + log(-expm1(target - epsilon))) if total > 0 else 0.0
        return share * profile(max(0.0, inner))

    return delta


def joint_epsilon(epsilon: float, epsilon_p: float) -> float:
    """tanh(ε_J/2) = tanh(ε/2)·tanh(ε_p/2): the joint degree of two pure mechanisms in a row."""
    if max(epsilon, epsilon_p) < 10:
        return 2 * atanh(tanh(epsilon / 2) * tanh(epsilon_p / 2))
    if isinf(epsilon) or isinf(epsilon_p):
        return min(epsilon, epsilon_p)
    return float(logaddexp(epsilon + epsilon_p, 0) - logaddexp(epsilon, epsilon_p))  # tanh would round to 1


def epsilon_at(profile: Profile, delta: float, *, most: float = 1e5) -> float:
    """The smallest ε with δ(ε) <= ``delta`` (to 1e-9, rounded up), or infinity above ``most``."""
    _validate.real("delta", delta, low=0, high=1)
    if profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while profile(high) > delta:
        if high >= most:
            return inf
        low, high = high, min(2 * high, most)
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
    return high
