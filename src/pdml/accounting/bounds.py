"""Every bound that holds on what others learn of a label or of a record: the best one counts, and
its name says why.

All but one are closed forms. The one with the device's randomised response takes a tenth of a
second for each kind of person, so that it is asked only where it can help, and of no more people
than needed.

**The bound with randomised response.** Others see neither the features x nor the reported label.
With v = y·x, scaled to |v| <= 1, what reaches them is A_v x N(0, 1), and A_v' x N(ρ, 1) for a
neighbour, where

    A_v = k N(μv/2, I) + (1 - k) N(-μv/2, I),    k = e^ε/(1 + e^ε),

μ is how far a reported label moves in units of noise, and ρ how far everything moves that does not
depend on the response. A worst pair has full length (privacy.md, section 13, has every proof), so
that only half the angle between v and v', φ, is left. In the directions of v + v' and v - v' it is

    C·m + N(0, 1)  and  ±C·d + N(0, 1),    m = μ/2 cos φ,  d = μ/2 sin φ,  C = 1 or -1, with k,

with + for one record and - for the other. The first direction tells of C alone and leaves a binary
response with log-odds λ = ε + 2m·x; the second is then the joint profile of that and a Gaussian 2d.
All grows with m, d, ρ and ε, so that an arc of angles is covered by its largest m and largest d.
The means over x and over the Gaussian ρ are bounded by sums: a divergence is sublinear in the
masses of its two arguments, and between two nodes it lies below its chord.
"""

from dataclasses import replace
from functools import cache, lru_cache, reduce
from math import ceil, exp, frexp, hypot, inf, isinf, ldexp, log2, pi, sqrt

import numpy as np

from pdml import _validate
from pdml._math import ndtr
from pdml._types import Array
from pdml.accounting import profiles
from pdml.accounting.events import ENDLESS
from pdml.accounting.kinds import Data
from pdml.accounting.per_release_loss import ReleaseLoss, columns, of_kinds
from pdml.accounting.profiles import Profile, Values, chords, gaussian_profile, joint_profile

ALONE, THETA, ETA, BOTH = "response alone", "theta", "eta", "both noises"
WHOLE, ONCE, RESPONSE = "every round", "label part once", "randomised response"
BY_REPORT = "report by report"
_WORTH = 0.98  # of a closed form's μ: what randomised response must leave to be asked for
_MOST = 16  # people with tables of their own
_ARCS = 128  # of the quarter circle of φ: μ grows by at most π/4 of a 128th
_LEVELS = 128  # of ε' in a table
_NODES = 64  # for x
_REACH = 8.0  # deviations of noise with nodes; what lies farther out counts as revealed
_FAR, _SURE = 20.0, 30.0  # beyond this μ, or this ε, the response is not counted
_PARTS = 16  # of the arcs, so that what is computed stays in the processor's cache
_LEAST = 1e-3  # a label moves by no less, so that no difference loses all its digits
_ROUNDING = 1 + 1e-6  # above all that floating point can lose in these sums


def closed_forms(data: str, spent: ReleaseLoss) -> dict[str, Profile]:
    """δ(ε') of "label" or "features" against the other servers, for each kind of person, by the
    name of each closed form."""
    if data == Data.FEATURES:
        return {WHOLE: spent.whole.profile, ONCE: spent.once.profile}
    through = {THETA: spent.theta, ETA: spent.eta, BOTH: spent.both}
    behind = {name: bound.profile for name, bound in through.items()}
    forms = {
        name: profiles.joint_profile(spent.epsilon, profile, spent.classes)
        for name, profile in ({ALONE: profiles.nothing_profile} | behind).items()
    }
    if not np.any(spent.counted):
        return forms
    # Counts tell of the true label, beside whatever its reports do. Not to count randomised
    # response is a bound, too (a mixture tells no more than its parts), exact where there is none.
    beside = {name: profiles.with_gaussian(form, spent.counted) for name, form in forms.items()}
    for name, bound in through.items():
        plain = replace(bound, mu=np.hypot(bound.mu, spent.counted)).profile
        beside[name] = profiles.better_of(beside[name], plain)
    return beside


def against_others(data: str, spent: ReleaseLoss, *, worst: bool = False) -> Profile:
    """The best of all bounds, for each kind of person."""
    together = _together(data, spent, worst)
    if not spent.by_report:
        return together
    several = cache(lambda: _by_report(data, spent, worst))
    return lambda epsilon: np.minimum(together(epsilon), several()(epsilon))


def _together(data: str, spent: ReleaseLoss, worst: bool) -> Profile:
    """All releases at once."""
    forms = profiles.better_of(*closed_forms(data, spent).values())
    helped = _response_helps(data, spent)
    if not helped.any():
        return forms
    response = cache(lambda: _response_bound(spent, helped, worst))  # nobody may ever ask

    def delta(epsilon: Values) -> Values:
        shape = np.broadcast_shapes(np.shape(epsilon), helped.shape)
        wanted = np.broadcast_to(epsilon, shape)
        deltas = np.array(forms(wanted))
        deltas[..., helped] = np.minimum(deltas[..., helped], response()(wanted[..., helped]))
        return deltas

    return delta


def within_limit(data: str, spent: ReleaseLoss, epsilon: float, delta: float) -> bool:
    """Whether δ(ε) of everybody is at most ``delta``; quicker than to ask for a profile."""
    beyond = profiles.better_of(*closed_forms(data, spent).values())(epsilon) > delta
    if not beyond.any():
        return True
    left = profiles.gaussian_profile(_beside_the_label(spent))(epsilon)
    helps = beyond & _response_helps(data, spent) & (left <= delta)
    if not spent.by_report and (beyond & ~helps).any():
        return False
    if helps.any():
        beyond[helps] = _response_bound(spent, helps, worst=True)(epsilon) > delta
    if not (spent.by_report and beyond.any()):
        return not beyond.any()
    return bool((_by_report(data, of_kinds(spent, beyond), worst=True)(epsilon) <= delta).all())


def winners(data: str, spent: ReleaseLoss, epsilon: Array, deltas: Array) -> list[str]:
    """Which bound says so, of each kind of person for whom δ(``epsilon``) = ``deltas``: the first
    closed form, or else that of randomised response or of several reports."""
    forms = {name: profile(epsilon) for name, profile in closed_forms(data, spent).items()}
    names = np.where(_reported_more(spent), BY_REPORT, RESPONSE).astype(object)
    for name, delta in reversed(forms.items()):
        names[delta <= deltas] = name
    return list(names)


def _response_helps(data: str, spent: ReleaseLoss) -> Values:
    """For whom randomised response can tell less than a closed form, by what it leaves at least:
    nobody whose noise truncation leaves no mass, for then δ = 1 and there is nothing to divide by.
    """
    if data != Data.FEATURES:
        return np.zeros(np.shape(spent.epsilon), dtype=bool)
    once = np.where(spent.once.flat < 1, spent.once.mu, np.inf)
    with np.errstate(invalid="ignore"):
        helps = _beside_the_label(spent) < _WORTH * np.minimum(spent.whole.mu, once)
    hidden = (spent.response.flat < 1) & (spent.response.outside < 1)
    return np.asarray(helps & hidden & np.isfinite(spent.response.label))


def _beside_the_label(spent: ReleaseLoss) -> Values:
    """μ of what randomised response does not hide: the bound with it is never below this."""
    return np.hypot(spent.response.rest, spent.response.square)


def _reported_more(spent: ReleaseLoss) -> Values:
    """Who has releases of more than one report."""
    moved = [report.whole.mu > 0 for report in spent.by_report]
    return np.sum([*moved, np.zeros(np.shape(spent.epsilon))], axis=0) > 1


def _by_report(data: str, spent: ReleaseLoss, worst: bool) -> Profile:
    """The releases of each report by themselves, composed; 1 for whoever has those of one only."""
    several = _reported_more(spent)
    losses = columns(*(of_kinds(report, several) for report in spent.by_report))
    different, whose = np.unique(_covering(losses, worst), return_inverse=True)
    compositions = []
    for kind in np.flatnonzero(several)[different].tolist():
        reports = (of_kinds(report, [kind]) for report in spent.by_report)
        moved = [report for report in reports if report.whole.mu[0] > 0]
        compositions.append(
            reduce(profiles.composed, (_single_profile(data, report) for report in moved))
        )

    def delta(epsilon: Values) -> Values:
        wanted = np.broadcast_to(epsilon, np.broadcast_shapes(np.shape(epsilon), several.shape))
        deltas = np.ones(wanted.shape)
        for kind, owner in zip(np.flatnonzero(several), whose, strict=True):
            deltas[..., kind] = compositions[owner](wanted[..., kind])
        return deltas

    return delta


def _single_profile(data: str, spent: ReleaseLoss) -> Profile:
    """Numbers to numbers, for the one kind of person that there is."""
    profile = _together(data, spent, worst=False)
    return lambda epsilon: profile(np.asarray(epsilon)[..., None])[..., 0]


def _covering(losses: Array, worst: bool) -> Array:
    """For each column the place of one that is nowhere below it: the same one, or where only the
    worst matter one that is below no other."""
    different, first, back = np.unique(losses, axis=1, return_index=True, return_inverse=True)
    if worst:
        above: Values = (different[:, :, None] <= different[:, None, :]).all(axis=0)  # i under j
        front = above.sum(axis=1) == 1  # under nobody else
        first = first[front][np.argmax(above[:, front], axis=1)]
    return np.asarray(first[back.ravel()])


def _response_bound(spent: ReleaseLoss, selection: Values, worst: bool) -> Profile:
    """The bound with randomised response, for the selected."""
    loss = spent.response
    moved = (loss.label, loss.rest, loss.square, loss.rounding, loss.edge, loss.outside)
    parameters = _covered(np.array([spent.epsilon, *moved])[:, selection], worst)
    epsilon, label, rest, square, rounding, edge, outside = parameters
    profile = response_profile(epsilon, label, rest, square_mu=square, rounding_mu=rounding)

    def delta(target: Values) -> Values:
        return np.minimum(1.0, (profile(target) + edge) / (1 - outside))

    return delta


def _covered(columns: Array, worst: bool) -> Array:
    """The same columns, or larger ones, of which no more than a few are different: a bound for
    more of everything holds for less of it."""
    kinds, whose = np.unique(columns[:, _covering(columns, worst)], axis=1, return_inverse=True)
    groups = np.array_split(np.arange(kinds.shape[1]), min(_MOST, kinds.shape[1]))
    for group in groups:
        kinds[:, group] = kinds[:, group].max(axis=1, keepdims=True)
    return np.asarray(kinds[:, whose.ravel()])


def response_profile(
    epsilon: Values,
    label_mu: Values,
    rest_mu: Values,
    *,
    square_mu: Values = 0.0,
    rounding_mu: Values = 0.0,
) -> Profile:
    """δ(ε') of a record against others, its randomised response counted: certified over all pairs.

    Guarantees
    ----------
    - Never below the largest divergence over all pairs of records, in both orders.
    - Never above the profile of the same releases without randomised response.
    - Arguments are rounded up by less than 0.1%, so that tables are found again. For δ from 10⁻¹²
      to 10⁻³ ε' is within 3% of the smallest possible (without ``rounding_mu``).
    """
    arguments = {
        "epsilon": epsilon,
        "label_mu": label_mu,
        "rest_mu": rest_mu,
        "square_mu": square_mu,
        "rounding_mu": rounding_mu,
    }
    for name, values in arguments.items():
        _validate.real(name, float(np.min(np.asarray(values, dtype=float), initial=inf)), low=0)
    arrays = np.broadcast_arrays(
        *(np.asarray(values, dtype=float) for values in arguments.values())
    )
    tables = []
    for flip, *moved in zip(*(array.ravel().tolist() for array in arrays), strict=True):
        counted = _rounding_counted(*moved)
        table = _table(_rounded_up(flip), *map(_rounded_up, counted))
        tables.append((_without_response(*counted), *table))
    owner = np.arange(len(tables)).reshape(arrays[0].shape)

    def delta(target: Values) -> Values:
        wanted, whose = np.broadcast_arrays(np.asarray(target, dtype=float), owner)
        deltas = np.empty(wanted.shape)
        for index, (cap, levels, bounds) in enumerate(tables):
            targets = wanted[whose == index]
            deltas[whose == index] = np.minimum(
                gaussian_profile(cap)(targets), chords(levels, bounds)(targets)
            )
        return deltas[()]

    return delta


@lru_cache(maxsize=4096)
def _table(
    epsilon: float, label_mu: float, rest_mu: float, square_mu: float
) -> tuple[Array, Array]:
    """Some ε', and a bound on δ at each."""
    label_mu = max(_LEAST, label_mu)
    plain = _without_response(label_mu, rest_mu, square_mu)
    if not plain <= _FAR or epsilon > _SURE:
        return np.zeros(1), np.ones(1)
    # the next of four in an octave, so that many rests share what the response alone tells
    levels, alone = _arcs(epsilon, label_mu, 2 ** (ceil(4 * log2(plain)) / 4))
    # the largest sin 2φ of each arc, the same number on both sides of the middle
    arc = np.arange(_ARCS)
    turned = np.sin(pi * np.minimum(arc + 1, _ARCS - arc) / _ARCS)
    rests = np.maximum(_LEAST * label_mu, np.hypot(rest_mu, square_mu * turned))
    bounds = np.max([_and_rest(alone[rests == rest], rest, levels) for rest in set(rests)], axis=0)
    return levels, np.minimum(1.0, _ROUNDING * bounds)


@lru_cache(maxsize=64)
def _arcs(epsilon: float, label_mu: float, largest: float) -> tuple[Array, Array]:
    """Levels of ε' for a μ of up to ``largest`` without the response, and δ of each arc at each."""
    # most that matter are small against what a Gaussian without it would need
    levels = (largest * largest / 2 + _REACH * largest) * np.linspace(0, 1, _LEVELS) ** 1.5
    edges = pi / 2 * np.arange(_ARCS + 1) / _ARCS
    sides, shifts = label_mu / 2 * np.cos(edges[:-1, None]), label_mu / 2 * np.sin(edges[1:])
    parts = zip(np.split(sides, _PARTS), np.split(shifts, _PARTS), strict=True)
    return levels, np.concatenate([_with_response(epsilon, m, d, levels) for m, d in parts])


def _rounding_counted(
    label_mu: float, rest_mu: float, square_mu: float, rounding_mu: float
) -> tuple[float, float, float]:
    """The three μ with which a pair without rounding tells at least as much. The rest may hold a
    part of the matrix, so that it grows as that does."""
    size = max(_LEAST, hypot(label_mu, square_mu))
    if isinf(size + rounding_mu):
        return inf, rest_mu, square_mu
    longer = sqrt(1 + rounding_mu / size)
    added = sqrt(3 * rounding_mu * (rounding_mu + size))
    return hypot(longer * label_mu, added), hypot(longer * rest_mu, added), longer * square_mu


def _without_response(label_mu: float, rest_mu: float, square_mu: float) -> float:
    """The largest over φ of the root of (label sin φ)² + rest² + (square sin 2φ)²."""
    if max(label_mu, rest_mu, square_mu) > ENDLESS:
        return inf
    label, square = label_mu**2, 4 * square_mu**2
    worst = min(1.0, (label + square) / (2 * square)) if square > 0 else 1.0  # sin² φ
    return hypot(rest_mu, sqrt(worst * (label + square * (1 - worst))))


def _with_response(epsilon: float, sides: Array, shifts: Array, levels: Array) -> Array:
    """A bound on δ for each pair (m, d) at every level, if nothing else were released."""
    odds = -epsilon - 2 * sides * np.linspace(1, -1, _NODES) * (_REACH + sides)
    mass = _spread(-epsilon, 2 * sides, odds).sum(axis=0) / (1 + exp(-epsilon))
    certainty = np.full_like(sides, inf)
    log_odds = np.concatenate([certainty, np.abs(odds), certainty], axis=-1)[..., None]
    divergence = np.zeros((*log_odds.shape[:-1], len(levels)))
    inside = log_odds > levels
    pair, node, level = np.nonzero(inside)
    noisy = joint_profile(log_odds[pair, node, 0], gaussian_profile(2 * shifts[pair]))
    divergence[inside] = noisy(levels[level])
    return np.asarray((mass[:, None, :] @ divergence)[:, 0])


def _and_rest(alone: Array, rest: float, levels: Array) -> Array:
    """The largest of rows of δ at every level, with a Gaussian ρ released as well."""
    # both orders are alike, so that δ(-e) = 1 - e^-e + e^-e δ(e)
    below = np.exp(-levels[:0:-1]) * alone[:, :0:-1] - np.expm1(-levels[:0:-1])
    exposed, hidden = np.ones((len(alone), 1)), np.zeros((len(alone), 1))
    nodes = np.concatenate([-levels[:0:-1], levels])
    masses = _spread(levels[:, None], rest, nodes)[0]
    return np.asarray(np.max(np.hstack([exposed, below, alone, hidden]) @ masses.T, axis=0))


def _spread(start: Values, mu: Values, nodes: Array) -> Array:
    """N(0, 1) and e^start N(μ, 1) as atoms at which the second is 0, e^nodes, ∞ times the first.

    The mass of each cell between two nodes goes to its ends, so that both its masses are kept: any
    divergence grows.
    """
    z = (nodes - start) / mu + mu / 2
    ends = np.full((*z.shape[:-1], 1), inf)
    z = np.concatenate([-ends, z, ends], axis=-1)
    first, second = _between(z), np.exp(start) * _between(z - mu)
    ratio = np.exp(nodes)
    # the share of a cell's first mass that goes to its right end
    right = np.zeros_like(first)
    right[..., 0] = second[..., 0] / ratio[..., 0]
    excess = second[..., 1:-1] - ratio[..., :-1] * first[..., 1:-1]
    right[..., 1:-1] = excess / np.diff(ratio, axis=-1)
    right = np.clip(right, 0.0, first)
    first_masses, other = np.zeros((2, *z.shape))
    first_masses[..., 1:] += right
    first_masses[..., :-1] += first - right
    other[..., 1:-1] = first_masses[..., 1:-1] * ratio
    other[..., -1] = np.maximum(0.0, second[..., -1] - first[..., -1] * ratio[..., -1])
    return np.stack([first_masses, other])


def _between(z: Array) -> Array:
    """Φ from each entry to the next, by tails, which lose nothing."""
    tail = ndtr(-np.abs(z))
    left, right = tail[..., :-1], tail[..., 1:]
    around = (z[..., :-1] < 0) & (z[..., 1:] > 0)
    return np.asarray(np.where(around, 1 - left - right, np.abs(right - left)))


def _rounded_up(value: float) -> float:
    """To the next multiple of a 2048th of its power of two."""
    if isinf(value):
        return value
    digits, power = frexp(value)
    return ldexp(ceil(2048 * digits), power - 11)
