"""What a study allows to be spent, and the last round that stays within it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Self

from pdml import _validate
from pdml.accounting import randomized_attributes
from pdml.accounting.events import Event, IterateReleased, group_events
from pdml.accounting.kinds import Data
from pdml.accounting.per_release_loss import concatenate_losses, release_loss
from pdml.errors import InvalidInput

MOST_ROUNDS = 20_000  # ADMM is done long before, and fading noise protects nobody by then


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that ``colluding`` other servers together may learn, by default all of them: (ε, δ)
    for features and for labels; ε = ∞ leaves a row free.

    Against the own server nothing is spent round by round: labels and other randomised answers have
    the ε of their devices, all else nothing. So these answers need no limit of their own; where
    every answer was randomised, features are limited with that counted, the label's among them.

    Parameters
    ----------
    features_epsilon, features_delta : float
        (ε, δ) for the features of a record.
    labels_epsilon, labels_delta : float
        The same for labels.
    colluding : int, optional
        How many other servers put together what they see; by default all.

    Raises
    ------
    InvalidInput
        For other names than these, and for values outside (0, ∞] and [0, 1).
    """

    features_epsilon: float = inf
    features_delta: float = 1e-6
    labels_epsilon: float = inf
    labels_delta: float = 1e-6
    colluding: int | None = None  # k; None: all others

    def __new__(cls, *unnamed: object, **named: object) -> Self:
        """Refuse, in a sentence, what is no field of it."""
        limits = cls.__dataclass_fields__
        other = [*map(str, unnamed), *(name for name in named if name not in limits)]
        if other:
            raise InvalidInput(
                f"a Budget must be given by the names {', '.join(limits)}, got {other[0]}",
                setting="budget",
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if self.colluding is not None:
            _validate.integer("colluding", self.colluding, low=1, why="each server sees something")
        for name in ("features_epsilon", "labels_epsilon"):
            why = "0 would allow no release at all, and infinity is no limit"
            _validate.real(name, getattr(self, name), low=0, open_low=True, why=why)
        for name in ("features_delta", "labels_delta"):
            _validate.real(
                name,
                getattr(self, name),
                low=0,
                high=1,
                open_high=True,
                why="a delta of 1 allows everything",
            )

    @property
    def whom(self) -> str:
        """Against whom it holds, in words."""
        k = self.colluding
        if k is None:
            return "all other servers together"
        return any_of(k, "the other servers")

    def limit(self, data: str) -> tuple[float, float]:
        """(ε, δ) for "features" or "label"."""
        return (
            (self.features_epsilon, self.features_delta)
            if data == Data.FEATURES
            else (self.labels_epsilon, self.labels_delta)
        )

    def bound(self, data: str) -> tuple[float, float]:
        """(ε, δ) that holds for a piece of data by any of the limits: every answer is a part of its
        record, which the limit of features is about."""
        own = Data.LABEL if data == Data.LABEL else Data.FEATURES
        return min(self.limit(Data.FEATURES), self.limit(own))


def any_of(colluding: int, others: str) -> str:
    """So many of others, whichever they are, in words."""
    return f"any one of {others}" if colluding == 1 else f"any {colluding:,} of {others} together"


def last_safe_round(
    planned: Sequence[Sequence[Event]],
    *,
    budget: Budget,
    classes: int = 2,
    already: Sequence[Sequence[Event]] | None = None,
) -> int:
    """The last round of a planned training up to which every server stays within a budget.

    Parameters
    ----------
    planned : sequence of sequences of events
        For each server those of all rounds.
    budget : Budget
        The most that the other servers together may learn, or so many of them.
    classes : int
        How many the label has.
    already : sequence of sequences of events, optional
        For each server those of earlier trainings on the same records, spent whatever happens.

    Returns
    -------
    int
        0 if the first round is too much.
    """
    before = [()] * len(planned) if already is None else already
    if len(before) != len(planned):
        raise InvalidInput(
            f"already must hold the events of every server ({len(planned)} of them), got "
            f"{len(before)}"
        )
    for events in planned:
        groups = group_events(events)
        rounds = [event.t for event in groups.released] or [1 for _ in groups.sums]
        if len(set(rounds)) < len(rounds):
            twice = next(t for t in rounds if rounds.count(t) > 1)
            why = "a planned training releases once per round"
            raise InvalidInput(f"{why}, got round {twice} twice: earlier ones go to already")
    if not planned:
        return 0
    sent = [
        group_events([*_past(early), *late]) for early, late in zip(before, planned, strict=True)
    ]
    spent = concatenate_losses(
        [
            release_loss(server_events, classes=classes, colluding=budget.colluding, by_round=True)
            for server_events in sent
        ]
    )

    def holds(t: int) -> bool:
        return all(
            randomized_attributes.within_limit(data, sent, spent.after(t), *budget.limit(data))
            for data in (Data.FEATURES, Data.LABEL)
        )

    safe, unsafe = 0, len(spent.epsilon)
    while unsafe - safe > 1:
        middle = (safe + unsafe) // 2
        safe, unsafe = (middle, unsafe) if holds(middle) else (safe, middle)
    return safe


def _past(events: Sequence[Event]) -> Iterator[Event]:
    """What was released before round 1, in whatever round of whatever training."""
    for event in events:
        yield replace(event, t=0) if isinstance(event, IterateReleased) else event
