"""Each person's own line: what their choice of ε gives them, beside the worst case that speaks for
all.

A reported label enters q_i with weight κ(ε_j), so flipping it moves q_i by 2cκ(ε_j)B/m_i: the
*smaller* a person's ε, the louder their label in training and the larger its μ_j there, while the
randomised response before it hides more. Both are the person's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Self

import numpy as np

from pdml._math import keep_weight
from pdml._types import Array, IntArray
from pdml.accounting import bounds, profiles, randomized_attributes
from pdml.accounting.events import Event, EventGroups, group_events
from pdml.accounting.kinds import Data
from pdml.accounting.per_release_loss import ReleaseLoss, release_loss
from pdml.accounting.profiles import Profile, certainty_at
from pdml.errors import InvalidInput

_AT_ONCE = 1024  # distinct people: more would need much memory for nothing


@dataclass(frozen=True, eq=False)
class Reports:
    """One entry per record, in the order of the input: public settings, no data.

    ``weights`` say how far each reported label moves q_i against the loudest one of its server:
    κ(ε_j)/κ(smallest ε), in (0, 1]. ``answers`` are the ε that people chose for other randomised
    answers, by question; of what is not there everybody counts as having chosen the largest.
    """

    servers: IntArray
    epsilons: Array
    weights: Array
    answers: Mapping[str, Array] = field(default_factory=dict)

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
        for name, chosen in self.answers.items():
            if chosen.shape != self.servers.shape or not (chosen > 0).all():
                raise InvalidInput(
                    f"answers must hold one epsilon > 0 per record for {name!r}, got {chosen.shape}"
                )

    @classmethod
    def of(
        cls,
        servers: IntArray,
        epsilons: Array,
        classes: int,
        answers: Mapping[str, Array] | None = None,
    ) -> Self:
        """Of labels that were reported once, with these ε."""
        loud = keep_weight(epsilons, classes)
        loudest = np.zeros(1 + servers.max(initial=0))
        np.maximum.at(loudest, servers, loud)
        return cls(servers, epsilons, loud / loudest[servers], answers or {})


@dataclass(frozen=True, eq=False)
class PersonAnswerRows:
    """Of one randomised answer, or of all with the label: one entry per record, as `PersonRows`."""

    receiving_server: Array
    other_servers: Array
    other_servers_certainty: Array


@dataclass(frozen=True, eq=False)
class PersonRows:
    """One entry per record, in the order of the input; ``delta`` is that of what others learn.

    A certainty is how sure they can be of the truth, from even odds, but for a chance of δ; against
    the own server it is e^ε/(1 + e^ε), without exception.
    """

    # pure ε of all reports, ∞ if that server had the label; own and others alike
    label_receiving_server: Array
    label_other_servers: Array  # ε_J of the person's own flips and weight
    label_other_servers_certainty: Array
    features_other_servers: Array  # of the person's own weight
    features_other_servers_certainty: Array
    delta: float
    # of randomised answers by the ledger's row, with the person's own choices
    answers: Mapping[str, PersonAnswerRows] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.label_receiving_server)


def person_rows(
    events: Sequence[Sequence[Event]], reports: Reports, *, delta: float, classes: int
) -> PersonRows:
    """Lines of all records at once; the work is done once per distinct (server, ε, weight), and ε
    of each answer."""
    if len(reports.servers) and not 0 <= reports.servers.min() <= reports.servers.max() < len(
        events
    ):
        raise InvalidInput(f"reports must name servers from 0 to {len(events) - 1}")
    rows = randomized_attributes.rows([group_events(happened) for happened in events])
    lines = np.zeros((5 + 3 * len(rows), len(reports.epsilons)))
    choices = [reports.epsilons, reports.weights, *reports.answers.values()]
    for server, happened in enumerate(events):
        records = np.flatnonzero(reports.servers == server)
        if not len(records):
            continue
        sent = group_events(happened)
        people = np.column_stack([values[records] for values in choices])
        kinds, back = np.unique(people, axis=0, return_inverse=True)
        parts = []
        for start in range(0, len(kinds), _AT_ONCE):
            epsilons, loud, *chosen = kinds[start : start + _AT_ONCE].T
            spent = release_loss(sent, epsilons, loud, classes=classes)
            chose = dict(zip(reports.answers, chosen, strict=True))
            parts.append(_lines(rows, sent, spent, chose, delta))
        lines[:, records] = np.concatenate(parts, axis=1)[:, back.ravel()]
    label_receiving, label, label_sure, features, features_sure, *more = lines
    named = {row.name: PersonAnswerRows(*more[3 * k : 3 * k + 3]) for k, row in enumerate(rows)}
    return PersonRows(label_receiving, label, label_sure, features, features_sure, delta, named)


def _lines(
    rows: Sequence[randomized_attributes.AnswerRow],
    sent: EventGroups,
    spent: ReleaseLoss,
    chosen: Mapping[str, Array],
    delta: float,
) -> Array:
    """The arrays of `PersonRows` for each kind of person, then of each row's `PersonAnswerRows`."""
    arrays = [np.where(np.isinf(sent.server_epsilon), inf, spent.epsilon)]
    whole = randomized_attributes.features([sent])
    for data in (Data.LABEL, Data.FEATURES):
        profile = bounds.against_others(data, spent)
        if data == Data.FEATURES and whole is not None:
            profile = whole.profile(sent, spent, whole.answers_epsilon(chosen))
        arrays += _against_others(profile, delta)
    for row in rows:
        answers = row.answers_epsilon(chosen) + np.zeros_like(spent.epsilon)
        epsilon = answers + (spent.epsilon if row.label else 0.0)
        arrays.append(np.where(np.isinf(row.server_epsilon(sent)), inf, epsilon))
        arrays += _against_others(row.profile(sent, spent, answers), delta)
    return np.array(arrays)


def _against_others(profile: Profile, delta: float) -> list[Array]:
    """ε at δ, and how sure others can be."""
    epsilons = profiles.epsilon_at(profile, delta)
    return [epsilons, certainty_at(profile, delta, epsilons)]
