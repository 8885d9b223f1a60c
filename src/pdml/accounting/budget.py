"""What a study allows to be spent, and the last round that stays within it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf, sqrt

from pdml import _validate
from pdml.accounting import spending
from pdml.accounting.events import Event
from pdml.accounting.profiles import Profile
from pdml.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that the other servers together may learn: (ε, δ) for features and for labels; ε = ∞ leaves a row free.

    Against the own server nothing is spent round by round: labels have the ε of their devices, features nothing.
    """

    features_epsilon: float = inf
    features_delta: float = 1e-6
    labels_epsilon: float = inf
    labels_delta: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("features_epsilon", "labels_epsilon"):
            _validate.real(name, getattr(self, name), low=0)
        for name in ("features_delta", "labels_delta"):
            _validate.real(name, getattr(self, name), low=0, high=1, open_high=True, why="a delta of 1 allows everything")

    def limit(self, data: str) -> tuple[float, float]:
        """(ε, δ) for "features" or "label"."""
        return (self.features_epsilon, self.features_delta) if data == "features" else (self.labels_epsilon, self.labels_delta)


def last_safe_round(
    planned: Sequence[Sequence[Event]], *, budget: Budget, classes: int = 2, already: Sequence[Sequence[Event]] | None = None
) -> int:
    """The last round of a planned training up to which every server stays within ``budget``; 0 if the first is too much.

    ``planned[i]`` are the events of server i in all rounds, ``already[i]`` those of earlier trainings on the same records,
    which are spent whatever happens.
    """
    before = [()] * len(planned) if already is None else already
    if len(before) != len(planned):
        raise InvalidInput(f"already must hold the events of every server ({len(planned)} of them), got {len(before)}")
    servers = [_Server(new, old, budget, classes) for new, old in zip(planned, before, strict=True)]
    safe, unsafe = 0, 1 + max((server.rounds for server in servers), default=0)
    while unsafe - safe > 1:
        middle = (safe + unsafe) // 2
        safe, unsafe = (middle, unsafe) if all(server.holds(middle) for server in servers) else (safe, middle)
    return safe


class _Server:
    """One server's spending as a function of the round."""

    def __init__(self, planned: Sequence[Event], already: Sequence[Event], budget: Budget, classes: int) -> None:
        new, old = spending.split(planned), spending.split(already)
        self.epsilon = spending.split([*already, *planned]).epsilon
        self.budget, self.classes = budget, classes
        self.rounds = max((event.t for event in new.released), default=0)
        noised = (*old.noised, *new.noised)
        self.through_eta: Profile | None = spending.objective_profile(*noised) if noised else None
        self.totals: dict[str, list[float]] = {}
        for data in ("features", "label"):
            costs = [sum(spending.cost(event, data) for event in old.released)] + [0.0] * self.rounds
            seen = set()
            for event in new.released:
                if event.t in seen:
                    raise InvalidInput(f"a planned training releases once per round, got round {event.t} twice: earlier ones go to already")
                seen.add(event.t)
                costs[event.t] += spending.cost(event, data)
            self.totals[data] = list(accumulate(costs))

    def holds(self, t: int) -> bool:
        for data, totals in self.totals.items():
            epsilon, delta = self.budget.limit(data)
            mu = sqrt(totals[min(t, self.rounds)])
            if spending.against_others(data, self.epsilon, mu, self.through_eta, self.classes)(epsilon) > delta:
                return False
        return True
