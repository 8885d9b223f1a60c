"""What a study allows to be spent, and the last round that stays within it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from pdml import _validate
from pdml.accounting import spending
from pdml.accounting.events import Event
from pdml.errors import InvalidInput

MOST_ROUNDS = 20_000  # ADMM is done long before, and fading noise protects nobody by then


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that the other servers together may learn: (ε, δ) for features and for labels; ε = ∞
    leaves a row free.

    Against the own server nothing is spent round by round: labels have the ε of their devices,
    features nothing.
    """

    features_epsilon: float = inf
    features_delta: float = 1e-6
    labels_epsilon: float = inf
    labels_delta: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("features_epsilon", "labels_epsilon"):
            _validate.real(name, getattr(self, name), low=0)
        for name in ("features_delta", "labels_delta"):
            _validate.real(
                name,
                getattr(self, name),
                low=0,
                high=1,
                open_high=True,
                why="a delta of 1 allows everything",
            )

    def limit(self, data: str) -> tuple[float, float]:
        """(ε, δ) for "features" or "label"."""
        return (
            (self.features_epsilon, self.features_delta)
            if data == "features"
            else (self.labels_epsilon, self.labels_delta)
        )


def last_safe_round(
    planned: Sequence[Sequence[Event]],
    *,
    budget: Budget,
    classes: int = 2,
    already: Sequence[Sequence[Event]] | None = None,
) -> int:
    """The last round of a planned training up to which every server stays within ``budget``; 0 if
    the first is too much.

    ``planned[i]`` are the events of server i in all rounds, ``already[i]`` those of earlier
    trainings on the same records, which are spent whatever happens.
    """
    before = [()] * len(planned) if already is None else already
    if len(before) != len(planned):
        raise InvalidInput(
            f"already must hold the events of every server ({len(planned)} of them), got "
            f"{len(before)}"
        )
    new, old = ([spending.split(events) for events in each] for each in (planned, before))
    whole = [(*early, *late) for early, late in zip(before, planned, strict=True)]
    label_epsilon, eta = spending.together([spending.split(events) for events in whole])
    for server in new:
        rounds = [event.t for event in server.released]
        if len(set(rounds)) < len(rounds):
            twice = next(t for t in rounds if rounds.count(t) > 1)
            why = "a planned training releases once per round"
            raise InvalidInput(f"{why}, got round {twice} twice: earlier ones go to already")
    spent = {}
    for data in ("features", "label"):
        first = np.array([spending.iterate_mu(each.released, data) for each in old]) ** 2
        spent[data] = np.cumsum([first, *spending.costs(new, data)], axis=0)

    def holds(t: int) -> bool:
        for data, totals in spent.items():
            epsilon, delta = budget.limit(data)
            profile = spending.against_others(data, label_epsilon, np.sqrt(totals[t]), eta, classes)
            if not (profile(epsilon) <= delta).all():
                return False
        return True

    safe, unsafe = 0, len(spent["label"])
    while unsafe - safe > 1:
        middle = (safe + unsafe) // 2
        safe, unsafe = (middle, unsafe) if holds(middle) else (safe, middle)
    return safe
