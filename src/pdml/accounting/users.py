"""Each person's own line: what their choice of ε gives them, beside the worst case that speaks for
all.

A reported label enters q_i with weight κ(ε_j), so flipping it moves q_i by 2cκ(ε_j)B/m_i: the
*smaller* a person's ε, the louder their label in training and the larger its μ_j there, while the
randomised response before it hides more. Both are the person's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from pdml._types import Array, IntArray
from pdml.accounting import profiles, provenance, spending
from pdml.accounting.certainty import certainty_at
from pdml.accounting.events import Event, IterateReleased
from pdml.accounting.profiles import Profile
from pdml.errors import InvalidInput

_AT_ONCE = 1024  # distinct people: more would need much memory for nothing


@dataclass(frozen=True, eq=False)
class Reports:
    """One entry per record, in the order of the input: public settings, no data.

    ``weights`` say how far each reported label moves q_i against the loudest one of its server:
    κ(ε_j)/κ(smallest ε), in (0, 1].
    """

    servers: IntArray
    epsilons: Array
    weights: Array

    def __post_init__(self) -> None:
        if (
            not self.servers.shape == self.epsilons.shape == self.weights.shape
            or self.servers.ndim != 1
        ):
            raise InvalidInput("servers, epsilons and weights must hold one entry per record")
        if not ((self.weights > 0) & (self.weights <= 1)).all():
            raise InvalidInput(
                "weights must lie in (0, 1]: they compare with the loudest report of the server"
            )
        if not (self.epsilons > 0).all():
            raise InvalidInput("epsilons must be > 0: 0 would report pure noise")


@dataclass(frozen=True, eq=False)
class UserLines:
    """One entry per record, in the order of the input; ``delta`` is that of what others learn.

    A certainty is how sure they can be of the truth, from even odds, but for a chance of δ; against
    the own server it is e^ε/(1 + e^ε), without exception.
    """

    label_own_server: (
        Array  # pure ε of all reports, ∞ if that server had the label; own and others alike
    )
    label_other_servers: Array  # ε_J of the person's own flips and weight
    label_other_servers_certainty: Array
    features_other_servers: Array  # their server's
    features_other_servers_certainty: Array
    delta: float

    def __len__(self) -> int:
        return len(self.label_own_server)


def user_lines(
    events: Sequence[Sequence[Event]], reports: Reports, *, delta: float, classes: int
) -> UserLines:
    """Lines of all records at once; the work is done once per distinct (server, ε, weight)."""
    if len(reports.servers) and not 0 <= reports.servers.min() <= reports.servers.max() < len(
        events
    ):
        raise InvalidInput(f"reports must name servers from 0 to {len(events) - 1}")
    own, label, label_sure, features, features_sure = np.zeros((5, len(reports.epsilons)))
    for server, happened in enumerate(events):
        mine = np.flatnonzero(reports.servers == server)
        if not len(mine):
            continue
        sent = spending.split(happened)
        pairs, back = np.unique(
            np.column_stack([reports.epsilons[mine], reports.weights[mine]]),
            axis=0,
            return_inverse=True,
        )
        for start in range(0, len(pairs), _AT_ONCE):
            some = pairs[start : start + _AT_ONCE]
            there = (start <= back.ravel()) & (back.ravel() < start + len(some))
            people, row = mine[there], back.ravel()[there] - start
            total, profile = _label(sent, some[:, 0], some[:, 1], classes)
            own[people] = total[row]
            spent = profiles.epsilon_at(profile, delta)
            label[people], label_sure[people] = spent[row], certainty_at(profile, delta, spent)[row]
        if provenance.is_seen(sent.by):
            own[mine] = inf
        seen = profiles.gaussian_profile(spending.iterate_mu(sent.released, "features"))
        features[mine] = profiles.epsilon_at(seen, delta)
        features_sure[mine] = certainty_at(seen, delta)
    return UserLines(own, label, label_sure, features, features_sure, delta)


def _label(
    sent: spending.Split,
    epsilons: Array,
    weights: Array,
    classes: int,
) -> tuple[Array, Profile]:
    """ε of all reports of each person, and the profile of their label against the other servers."""
    if len(sent.flips) > 1:  # with which ε anybody made the others is not known: as loud as can be
        epsilons, weights = _repeated(sent.flips, epsilons), np.ones_like(weights)
    mu, eta = _iterate_mus(sent.released, weights), spending.objective_parts(sent.noised, weights)
    return epsilons, spending.against_others("label", epsilons, mu, eta, classes)


def _repeated(flips: Sequence[float], epsilons: Array) -> Array:
    """ε_j and the largest ε of every other report. Which of the reports ε_j belongs to is not
    known: of those that it can, the one with the smallest, so that the others are largest."""
    ordered = np.sort(flips)
    own = np.searchsorted(ordered, epsilons)  # the first not below ε_j; none: all are others
    others = [np.delete(ordered, own_is).sum() for own_is in range(len(ordered))]
    return np.asarray(epsilons + np.array([*others, ordered.sum()])[own])


def _iterate_mus(released: Sequence[IterateReleased], weights: Array) -> Array:
    """μ_j of all rounds: D_j = weight·(D - slack) + slack, because the solver's slack does not
    shrink with the label.
    """
    if any(spending.cost(event, "label") == inf for event in released):
        return np.full_like(weights, inf)
    slack = [
        event.label_sensitivity if event.solver_slack is None else event.solver_slack
        for event in released
    ]
    noise = np.array(
        [event.stddev or 1.0 for event in released]
    )  # without noise nothing moves here, or the above is infinite
    moved = np.array([event.label_sensitivity for event in released])
    fixed = np.where(moved == 0, 0.0, np.minimum(slack, moved)) / noise
    label = moved / noise - fixed
    return np.asarray(
        np.sqrt(weights**2 * (label @ label) + 2 * weights * (label @ fixed) + fixed @ fixed)
    )
