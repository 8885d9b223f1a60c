"""Each person's own line: what their choice of ε gives them, beside the worst case that speaks for all.

A reported label enters q_i with weight κ(ε_j), so flipping it moves q_i by 2cκ(ε_j)B/m_i: the *smaller* a person's ε, the louder
their label in training and the larger its μ_j there, while the randomised response before it hides more. Both are the person's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from pdml._types import Array, IntArray
from pdml.accounting import profiles, provenance, spending
from pdml.accounting.events import Event, IterateReleased
from pdml.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Reports:
    """One entry per record, in the order of the input: public settings, no data.

    ``weights`` say how far each reported label moves q_i against the loudest one of its server: κ(ε_j)/κ(smallest ε), in (0, 1].
    """

    servers: IntArray
    epsilons: Array
    weights: Array

    def __post_init__(self) -> None:
        if not self.servers.shape == self.epsilons.shape == self.weights.shape or self.servers.ndim != 1:
            raise InvalidInput("servers, epsilons and weights must hold one entry per record")
        if not ((self.weights > 0) & (self.weights <= 1)).all():
            raise InvalidInput("weights must lie in (0, 1]: they compare with the loudest report of the server")
        if not (self.epsilons > 0).all():
            raise InvalidInput("epsilons must be > 0: 0 would report pure noise")


@dataclass(frozen=True, eq=False)
class UserLines:
    """ε per record, in the order of the input; ``delta`` belongs to both columns against the other servers."""

    label_own_server: Array  # pure ε_j, ∞ if that server had the label; own and others alike
    label_other_servers: Array  # ε_J of the person's own flip and weight
    features_other_servers: Array  # their server's
    delta: float

    def __len__(self) -> int:
        return len(self.label_own_server)


def user_lines(events: Sequence[Sequence[Event]], reports: Reports, *, delta: float, classes: int) -> UserLines:
    """Lines of all records at once; the work is done once per distinct (server, ε, weight)."""
    if len(reports.servers) and not 0 <= reports.servers.min() <= reports.servers.max() < len(events):
        raise InvalidInput(f"reports must name servers from 0 to {len(events) - 1}")
    others = np.zeros(len(reports.epsilons))
    features = np.zeros(len(reports.epsilons))
    own = np.array(reports.epsilons, dtype=float)
    for server, happened in enumerate(events):
        mine = np.flatnonzero(reports.servers == server)
        if not len(mine):
            continue
        sent = spending.split(happened)
        if provenance.is_seen(sent.by):
            own[mine] = inf
        pairs, back = np.unique(np.column_stack([reports.epsilons[mine], reports.weights[mine]]), axis=0, return_inverse=True)
        if sent.released:
            others[mine] = _label_epsilons(sent, pairs[:, 0], pairs[:, 1], delta, classes)[back.ravel()]
        total = profiles.gaussian_profile(spending.iterate_mu(sent.released, "features"))
        features[mine] = profiles.epsilon_at(total, delta)
    return UserLines(own, others, features, delta)


def _label_epsilons(sent: spending.Split, epsilons: Array, weights: Array, delta: float, classes: int, most: float = 1e5) -> Array:
    """Smallest ε' with δ_J(ε') <= δ for every (ε, weight), by one bisection for all of them."""
    mu = _iterate_mus(sent.released, weights)
    parts = spending.objective_parts(sent.noised, weights) if sent.noised else None

    def phase2(target: Array) -> Array:
        found = _gaussian(mu, target)
        return found if parts is None else np.minimum(found, _objective(parts, target))

    def joint(target: Array) -> Array:
        inside = target < epsilons
        with np.errstate(divide="ignore", invalid="ignore"):
            if classes == 2:
                gap = -np.expm1(target - epsilons)
                inner = np.maximum(0.0, target + np.log(-np.expm1(-epsilons - target)) - np.log(gap))
                return np.where(inside, gap / (1 + np.exp(-epsilons)) * phase2(np.where(inside, inner, 0.0)), 0.0)
            pure = np.where(np.isinf(epsilons), 1.0, -np.expm1(target - epsilons) / (1 + np.exp(-epsilons)))
            return np.where(inside, np.minimum(pure, phase2(target)), 0.0)

    low, high = np.zeros_like(epsilons), np.minimum(epsilons, most)
    lost = joint(high) > delta
    while (high - low > 1e-9 * np.maximum(1.0, high)).any():
        middle = (low + high) / 2
        fine = joint(middle) <= delta
        low, high = np.where(fine, low, middle), np.where(fine, middle, high)
    return np.where(lost, inf, np.where(joint(np.zeros_like(epsilons)) <= delta, 0.0, high))


def _iterate_mus(released: Sequence[IterateReleased], weights: Array) -> Array:
    """μ_j of all rounds: D_j = weight·(D - slack) + slack, because the solver's slack does not shrink with the label."""
    if any(spending.cost(event, "label") == inf for event in released):
        return np.full_like(weights, inf)
    slack = [event.label_sensitivity if event.solver_slack is None else event.solver_slack for event in released]
    noise = np.array([event.stddev or 1.0 for event in released])  # without noise nothing moves here, or the above is infinite
    moved = np.array([event.label_sensitivity for event in released])
    fixed = np.where(moved == 0, 0.0, np.minimum(slack, moved)) / noise
    label = moved / noise - fixed
    return np.asarray(np.sqrt(weights**2 * (label @ label) + 2 * weights * (label @ fixed) + fixed @ fixed))


def _gaussian(mu: Array, epsilon: Array) -> Array:
    """`profiles.gaussian_profile`, for arrays."""
    safe = np.where((mu > 0) & np.isfinite(mu), mu, 1.0)
    with np.errstate(over="ignore"):
        second = np.exp(np.minimum(0.0, epsilon + log_ndtr(-safe / 2 - epsilon / safe)))
        found = np.maximum(profiles.TINY, ndtr(safe / 2 - epsilon / safe) - second)
    return np.where(mu == 0, 0.0, np.where(np.isinf(mu), 1.0, found))


def _objective(parts: spending.ObjectiveParts, epsilon: Array) -> Array:
    """`spending.objective_profile`, for arrays."""
    if not 0 <= parts.outside < 1:
        return np.ones_like(epsilon)
    least = epsilon
    if parts.outside > 0:
        with np.errstate(invalid="ignore", over="ignore"):
            lowest = np.maximum(0.0, -parts.mu * ndtri(parts.outside) - parts.mu**2 / 2)
        least = np.minimum(epsilon, np.where(np.isfinite(lowest), lowest, inf))
    tail = _gaussian(parts.mu, least) + np.exp(np.minimum(least, 700.0)) * parts.outside
    cut = np.minimum(_gaussian(parts.mu, epsilon) + parts.edge, tail) / (1 - parts.outside)
    return np.minimum(1.0, cut + parts.flat)
