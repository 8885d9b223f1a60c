"""Privacy profiles δ(ε), and the exact joint profile of randomised response followed by a noisy
training. Every formula is written for arrays: a number is an array of one.

A profile maps ε >= 0 to the smallest δ for which the mechanism is (ε, δ)-DP under replacement.

**Certainty** (privacy.md, section 11). Whoever gives the truth at most even odds before, and then
sees all of what an adversary sees, or any part of it, at any time, holds it for true with at most P
afterwards, but for a chance of δ. With β(δ) the smallest chance that an event of chance δ under the
truth can have under any other value, the odds are δ/β(δ). A profile bounds β, by all its points at
once:

    P = 1/(1 + e^-L),    L = ln(δ/β(δ)) = inf over ε' of ε' - ln(1 - δ(ε')/δ).

It is not ε: that lies below L, and is exceeded with a chance of many times δ.
"""

from collections.abc import Callable
from functools import reduce
from math import atanh, inf, isinf, log, tanh
from typing import Any

import numpy as np

from pdml import _validate
from pdml._math import bisect, expit, log_ndtr, ndtr, ndtri
from pdml._types import Array

Values = Any  # a number or an array of them: what comes in as a number goes out as one
Profile = Callable[[Values], Values]
_REACH, _STEPS = 9.0, 400  # deviations of a Gaussian that `with_gaussian` takes apart, and parts
_NODES = 512  # of a profile that is composed with another
_FAR = 50.0  # beyond this ε, whatever is left counts as revealed
_ROUNDING, _LOST = 1 + 1e-6, 1e-15  # above all that floating point can lose in its sums
_OFFSETS = np.array([0.0, *(2.0**k for k in range(-30, 18))])  # from ε: where to look first
_ZOOMS, _POINTS = 10, 9  # each to a quarter
TINY = 1e-300  # a Gaussian's δ is never 0: underflow must not look like pure privacy


def gaussian_profile(mu: Values) -> Profile:
    """δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) of a Gaussian mechanism.

    Parameters
    ----------
    mu : float or array
        Sensitivity/σ.

    Returns
    -------
    callable
        ε -> δ(ε).
    """
    _validate.real("mu", mu if np.isscalar(mu) else float(np.min(mu, initial=inf)), low=0)
    ratio = np.asarray(mu, dtype=float)
    regular = (ratio > 0) & np.isfinite(ratio)
    safe = np.where(regular, ratio, 1.0)
    extreme = np.where(ratio > 0, 1.0, 0.0)  # where μ is infinite, or 0

    def delta(epsilon: Values) -> Values:
        far = np.minimum(epsilon, 1e308) / safe
        second = np.exp(np.minimum(0.0, epsilon + log_ndtr(-safe / 2 - far)))
        values = np.maximum(TINY, ndtr(safe / 2 - far) - second)
        return _at_infinity(epsilon, np.where(regular, values, extreme))

    return _quiet(delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest sensitivity/σ of an (ε, δ)-private Gaussian mechanism, to 10⁻¹², rounded down."""
    most = 10 * max(1.0, epsilon)

    def keeps(mu: float) -> bool:
        return bool(gaussian_profile(mu)(epsilon) <= delta)

    return most if keeps(most) else bisect(keeps, 0.0, most, absolute=1e-12, relative=1e-12)


def pure_profile(epsilon_p: Values) -> Profile:
    """The worst profile of a pure ε_p mechanism: randomised response, δ(ε) = (e^ε_p - e^ε)/(1 +
    e^ε_p) below ε_p."""
    pure = np.asarray(epsilon_p, dtype=float)

    def delta(epsilon: Values) -> Values:
        values = -np.expm1(np.minimum(0.0, epsilon - pure)) / (1 + np.exp(-pure))
        return np.where(np.isinf(pure), 1.0, np.where(epsilon >= pure, 0.0, values))

    return _quiet(delta)


def nothing_profile(epsilon: Values) -> Values:
    """No protection at all: δ = 1 for every finite ε."""
    return _scalar(np.where(np.isinf(epsilon), 0.0, 1.0))


def better_of(*profiles: Profile) -> Profile:
    """Two valid bounds on the same mechanism are both true, so the smaller one is."""
    return lambda epsilon: reduce(np.minimum, (profile(epsilon) for profile in profiles))


def worst_of(profile: Profile) -> Profile:
    """Of a profile with an entry for each kind of person: that of whoever is worst off at ε."""
    return lambda epsilon: np.max(profile(np.asarray(epsilon)[..., None]), axis=-1)[()]


def plus(profile: Profile, delta: Values) -> Profile:
    """A mechanism composed with one that is (0, ``delta``)-private: their δ add up."""
    return _quiet(lambda epsilon: _at_infinity(epsilon, np.minimum(1.0, profile(epsilon) + delta)))


def truncated_gaussian_profile(mu: Values, *, outside: Values, edge: Values) -> Profile:
    """Gaussian noise conditioned on a box, against the same noise shifted.

    Both densities are the Gaussian's divided by the same mass 1 - o (``outside`` = o), each on its
    own box. Where both live their ratio is the Gaussian's; where only the first lives, on a strip
    of mass at most ``edge`` under the first and o under the second Gaussian, p takes the place of p
    - e^ε q. So δ̃ <= (δ(ε) + min(edge, e^ε o))/(1 - o). The part with e^ε is lowest at ε = -μΦ⁻¹(o)
    - μ²/2; a profile never grows, so beyond it stays there.
    """
    ratio, cut = np.asarray(mu, dtype=float), np.asarray(outside, dtype=float)
    protects = (cut >= 0) & (cut < 1)
    mass = np.where(protects, cut, 0.0)
    gaussian = gaussian_profile(ratio)
    with np.errstate(invalid="ignore", over="ignore"):
        turn = np.maximum(0.0, -ratio * ndtri(mass) - ratio * ratio / 2)
    lowest = np.where((mass == 0) | np.isinf(ratio), inf, turn)

    def delta(epsilon: Values) -> Values:
        least = np.minimum(epsilon, lowest)
        tail = np.exp(np.minimum(least, 700.0)) * mass
        values = np.minimum(gaussian(epsilon) + edge, gaussian(least) + tail) / (1 - mass)
        return _at_infinity(epsilon, np.where(protects, np.minimum(1.0, values), 1.0))

    return _quiet(delta)


def joint_profile(epsilon: Values, profile: Profile, classes: Values = 2) -> Profile:
    """Profile of K-ary randomised response ε followed by a mechanism with ``profile`` on its
    output; exact for two classes.

    δ_J(e') = α·δ_M(ln(1 + (e^e' - 1)/α)), α = (e^ε - e^e')/(e^ε + K - 1), for e' < ε, else 0.

    Parameters
    ----------
    epsilon : float or array
        Of randomised response. With ``classes`` = 2 it may be any mechanism that is ε-private
        without a δ, such as several reports of one label.
    profile : callable
        δ_M.
    classes : int or array
        K.

    Returns
    -------
    callable
        δ_J.
    """
    flip = np.asarray(epsilon, dtype=float)
    if np.isinf(flip).all():
        return profile

    def delta(target: Values) -> Values:
        inside = target < flip
        gap = -np.expm1(np.where(inside, target - flip, -1.0))  # 1 - e^(e' - ε)
        ahead = gap / (1 + (np.asarray(classes) - 1) * np.exp(-flip))  # α
        # 1 + (e^e' - 1)/α = e^e' (1 + (1 - α)(1 - e^-e')/α), which does not overflow
        inner = target + np.log1p((1 - ahead) * -np.expm1(-target) / ahead)
        reached = profile(np.where(inside, np.maximum(0.0, inner), 0.0))
        return np.where(inside, ahead * reached, 0.0)

    return _quiet(delta)


def with_gaussian(profile: Profile, mu: Values) -> Profile:
    """A mechanism composed with a Gaussian one that may depend on its output: δ(ε) <=
    E[δ_M(ε - L)], L ~ N(μ²/2, μ²) the Gaussian's privacy loss.

    δ_M falls, so that a sum over parts of L's range with the largest L of each is never below the
    mean; for e < 0 every mechanism that is (-e, δ)-private in both orders has δ(e) <= 1 -
    e^e (1 - δ(-e)).
    """
    ratio = np.asarray(mu, dtype=float)
    finite = np.where(np.isfinite(ratio), ratio, 0.0)
    ends = np.linspace(-_REACH, _REACH, _STEPS + 1)
    mass = np.diff(ndtr(ends))
    mass[0] += ndtr(-_REACH)  # what lies lower counts as the first part

    def delta(epsilon: Values) -> Values:
        targets = np.asarray(epsilon, dtype=float) + np.zeros(ratio.shape)
        steps = ends[1:].reshape(-1, *(1,) * targets.ndim)
        left = np.minimum(targets, 1e5) - finite * (finite / 2 + steps)
        size = np.abs(left)
        reached = profile(size)
        reached = np.where(left < 0, 1 - np.exp(-size) * (1 - reached), reached)
        values = np.tensordot(mass, reached, axes=1) + ndtr(-_REACH)
        values = np.where(ratio == 0, profile(targets), np.minimum(1.0, values))
        return _at_infinity(targets, np.where(np.isinf(ratio), 1.0, values))

    return _quiet(delta)


def chords(levels: Array, bounds: Array) -> Profile:
    """Above a profile of both orders of a pair, of which bounds are known at levels from 0 on.

    It is convex in e^ε, and falls: chords and the last value lie above it. Both orders are alike,
    so that δ(-ε) = 1 - e^-ε + e^-ε δ(ε).
    """

    def delta(epsilon: Values) -> Values:
        size = np.abs(epsilon)
        above = np.interp(np.exp(np.minimum(size, levels[-1])), np.exp(levels), bounds)
        below = np.exp(-size) * above - np.expm1(-size)
        return np.where(np.asarray(epsilon) < 0, below, above)

    return delta


def composed(first: Profile, second: Profile) -> Profile:
    """Two mechanisms on the same data, the second of which may know what the first released
    (privacy.md, section 18): δ(ε) <= E[δ_first(ε - L)], L the privacy loss of a discrete pair
    whose profile lies above the second."""
    first_delta, (losses, mass, mirrored, rest, lost) = (
        chords(*_hull(first)),
        _atoms(*_hull(second)),
    )
    reach = _end(first) + _end(second)
    levels = reach * np.linspace(0, 1, _NODES) ** 1.5
    ahead, behind = (first_delta(levels[:, None] + sign * losses) for sign in (-1, 1))
    deltas = ahead @ mass + behind @ mirrored + rest * first_delta(levels) + lost
    return chords(levels, np.minimum(1.0, _ROUNDING * deltas + _LOST))


def _end(profile: Profile) -> float:
    """From where on δ is next to nothing, or falls no more."""
    least = _LOST + _ROUNDING * float(profile(_FAR))
    return float(min(_FAR, epsilon_at(profile, min(1.0, least))))


def _hull(profile: Profile) -> tuple[Array, Array]:
    """Levels and bounds whose chords are convex in e^ε, on both sides of 0: what is above a convex
    function has a lower hull that is so too."""
    levels = max(1e-3, _end(profile)) * np.linspace(0, 1, _NODES) ** 1.5
    ratio, bounds = np.exp(levels), np.array(profile(levels), dtype=float)
    # the chord from each level to its mirror image
    bounds[0] = np.min(bounds + (1 - bounds) * (ratio - 1) / (ratio + 1))
    kept: list[int] = []
    for k in range(len(ratio)):
        while len(kept) > 1 and _above(ratio, bounds, kept[-2], kept[-1], k):
            kept.pop()
        kept.append(k)
    return levels[kept], np.minimum.accumulate(bounds[kept])


def _above(x: Array, y: Array, left: int, middle: int, right: int) -> bool:
    return bool(
        (y[middle] - y[left]) * (x[right] - x[middle])
        >= (y[right] - y[middle]) * (x[middle] - x[left])
    )


def _atoms(levels: Array, bounds: Array) -> tuple[Array, Array, Array, float, float]:
    """The pair whose profile has these chords: losses above 0, their mass and that of the opposite
    losses, the mass of loss 0, and of an endless one."""
    ratio = np.exp(levels)
    slopes = np.append(np.diff(bounds) / np.diff(ratio), 0.0)
    mirrored = np.maximum(0.0, np.diff(slopes))
    mass = ratio[1:] * mirrored
    lost = float(bounds[-1])
    rest = max(0.0, 1 - lost - float((mass + mirrored).sum()))
    return levels[1:], mass, mirrored, rest, lost


def joint_epsilon(epsilon: float, epsilon_p: float) -> float:
    """tanh(ε_J/2) = tanh(ε/2)·tanh(ε_p/2): the joint degree of two pure mechanisms in a row.

    Parameters
    ----------
    epsilon : float
        Of binary randomised response.
    epsilon_p : float
        Of the mechanism that its output goes through.

    Returns
    -------
    float
        ε_J, at most the smaller of the two.
    """
    if max(epsilon, epsilon_p) < 10:
        return 2 * atanh(tanh(epsilon / 2) * tanh(epsilon_p / 2))
    if isinf(epsilon) or isinf(epsilon_p):
        return min(epsilon, epsilon_p)
    # tanh would round to 1
    return float(np.logaddexp(epsilon + epsilon_p, 0) - np.logaddexp(epsilon, epsilon_p))


def epsilon_at(profile: Profile, delta: float, *, most: float = 1e5) -> Values:
    """The smallest ε with δ(ε) <= ``delta``.

    All entries are looked for at once, each between ends of its own.

    Parameters
    ----------
    profile : callable
        ε -> δ(ε).
    delta : float
        The chance for which nothing is promised.
    most : float
        Where to stop looking.

    Returns
    -------
    float or array
        To 1e-9, rounded up; infinity above ``most``.
    """
    _validate.real("delta", delta, low=0, high=1)
    start = np.asarray(profile(0.0))

    def bracket(ends: Array) -> tuple[Array, Array]:
        """Of ascending ``ends``, the last at which δ is too large, and the next. That it is so at
        the first and not at the last is taken on trust."""
        wanting = np.concatenate([np.full((1, *start.shape), True), profile(ends[1:-1]) > delta])
        last = len(wanting) - 1 - np.argmax(wanting[::-1], axis=0)
        low, high = (np.take_along_axis(ends, index[None], axis=0)[0] for index in (last, last + 1))
        return low, high

    doublings = np.array([0.0, *(2.0**k for k in range(1024) if 2.0**k < most), most, most])
    low, high = bracket(doublings.reshape(-1, *(1,) * start.ndim) + np.zeros(start.shape))
    lost = low >= most
    parts = int(np.clip(4096 // max(1, start.size), 2, 64))
    steps = np.linspace(0, 1, parts + 1).reshape(-1, *(1,) * start.ndim)
    while (high - low > 1e-9 * np.maximum(1.0, high)).any():
        ends = low + steps * (high - low)
        ends[-1] = high
        low, high = bracket(ends)
    return _scalar(np.where(start <= delta, 0.0, np.where(lost, inf, high)))


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


def _at_infinity(epsilon: Values, values: Array) -> Array:
    """Every mechanism is (∞, 0)-private."""
    return np.where(np.isinf(epsilon), 0.0, values)


def _quiet(delta: Profile) -> Profile:
    """What overflows or is undefined is replaced: no need to warn. A number in is a number out."""

    def quiet(epsilon: Values) -> Values:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            return _scalar(delta(epsilon))

    return quiet


def _scalar(values: Array) -> Values:
    """An array without axes as the number that it is."""
    return values[()]
