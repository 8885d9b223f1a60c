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
from pdml.accounting import bounds, profiles, provenance, spending
from pdml.accounting.certainty import certainty_at
from pdml.accounting.events import Event
from pdml.accounting.exposure import exposure
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
    features_other_servers: Array  # of the person's own weight
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
    lines = np.zeros((5, len(reports.epsilons)))
    for server, happened in enumerate(events):
        mine = np.flatnonzero(reports.servers == server)
        if not len(mine):
            continue
        sent = spending.split(happened)
        kinds, back = np.unique(
            np.column_stack([reports.epsilons[mine], reports.weights[mine]]),
            axis=0,
            return_inverse=True,
        )
        parts = [
            _lines(sent, kinds[start : start + _AT_ONCE], delta, classes)
            for start in range(0, len(kinds), _AT_ONCE)
        ]
        lines[:, mine] = np.concatenate(parts, axis=1)[:, back.ravel()]
    own, label, label_sure, features, features_sure = lines
    return UserLines(own, label, label_sure, features, features_sure, delta)


def _lines(sent: spending.Split, kinds: Array, delta: float, classes: int) -> Array:
    """The rows of `UserLines` for each kind of person, (ε, weight)."""
    spent = exposure(sent, kinds[:, 0], kinds[:, 1], classes=classes)
    rows = [np.where(provenance.is_seen(sent.by), inf, spent.epsilon)]
    for data in ("label", "features"):
        profile = bounds.against_others(data, spent)
        found = profiles.epsilon_at(profile, delta)
        rows += [found, certainty_at(profile, delta, found)]
    return np.array(rows)
