"""The ledger: from events to who can learn what, with numbers (theory, section 3).

Rows are {label, features} x {own server, other servers, own and others together}; the servers' worst one speaks for all
unless a server is named.
"""

from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import exp, inf, isinf, sqrt

from pdml.accounting import profiles, spending
from pdml.accounting.budget import Budget, last_safe_round
from pdml.accounting.events import Event, IterateReleased
from pdml.accounting.profiles import Profile
from pdml.accounting.spending import objective_profile
from pdml.accounting.users import Reports, UserLines, user_lines
from pdml.errors import BudgetExceeded, InvalidInput

__all__ = ["ADVERSARIES", "DATA", "Ledger", "Line", "objective_profile"]

DATA = ("label", "features")
ADVERSARIES = ("own server", "other servers", "own and others together")


@dataclass(frozen=True)
class Line:
    """One row of the ledger: (ε, δ) for a piece of data against an adversary, and how it is obtained."""

    data: str
    adversary: str
    epsilon: float
    delta: float
    reason: str

    @property
    def certainty(self) -> float:
        """How sure an adversary with even prior odds can become: e^ε/(1 + e^ε), up to δ."""
        return 1.0 if isinf(self.epsilon) else min(1.0, 1 / (1 + exp(-self.epsilon)) + self.delta)


@dataclass(frozen=True)
class Ledger:
    """What a training has spent, server by server.

    ``events[i]`` are those of server i; ``source`` says what the noise was drawn from ("simulated" protects nobody);
    ``reports``, where known, give every record its own line.
    """

    events: tuple[tuple[Event, ...], ...]
    source: str = "simulated"
    delta: float = 1e-6
    classes: int = 2
    reports: Reports | None = field(default=None, compare=False, repr=False)
    labels_seen: frozenset[int] = frozenset()  # servers that had the true labels and flipped them

    def profile(self, data: str, adversary: str, server: int) -> Profile:
        """δ(ε) for one piece of data at one server against one adversary."""
        _check_row(data, adversary)
        sent = spending.split(self.events[server])
        if adversary != "other servers":
            hidden = data == "label" and server not in self.labels_seen
            return profiles.pure_profile(sent.epsilon) if hidden else profiles.nothing_profile
        if not sent.released:
            return lambda _: 0.0
        through_eta = objective_profile(*sent.noised) if sent.noised and data == "label" else None
        return spending.against_others(data, sent.epsilon, spending.iterate_mu(sent.released, data), through_eta, self.classes)

    def line(self, data: str, adversary: str, server: int | None = None) -> Line:
        """One row; the worst server's unless one is named."""
        _check_row(data, adversary)
        servers = range(len(self.events)) if server is None else [server]
        exact = adversary != "other servers"
        spent = []
        for i in servers:
            if exact:
                hidden = data == "label" and i not in self.labels_seen
                spent.append(spending.split(self.events[i]).epsilon if hidden else inf)
            else:
                spent.append(profiles.epsilon_at(self.profile(data, adversary, i), self.delta))
        reason = _REASONS[data, adversary]
        if exact and data == "label" and not self.labels_seen.isdisjoint(servers):
            reason = "a server randomised the labels itself: it had seen them"
        return Line(data, adversary, max(spent), 0.0 if exact else self.delta, reason)

    def lines(self, server: int | None = None) -> list[Line]:
        """The whole table."""
        return [self.line(data, adversary, server) for data in DATA for adversary in ADVERSARIES]

    def up_to(self, rounds: int) -> "Ledger":
        """The ledger as it stood after ``rounds`` rounds."""
        kept = tuple(tuple(e for e in events if not isinstance(e, IterateReleased) or e.t <= rounds) for events in self.events)
        return replace(self, events=kept)

    def check(self, budget: Budget) -> None:
        """Refuse, in one sentence, a ledger that spends more than ``budget`` against the other servers."""
        for data in ("features", "label"):
            limit, delta = budget.limit(data)
            each = [self.profile(data, "other servers", i) for i in range(len(self.events))]
            if all(profile(limit) <= delta for profile in each):
                continue
            spent = [profiles.epsilon_at(profile, delta) for profile in each]
            server = max(range(len(spent)), key=spent.__getitem__)
            rounds = max((e.t for events in self.events for e in events if isinstance(e, IterateReleased)), default=0)
            what = "no bound at all" if isinf(spent[server]) else f"epsilon {spent[server]:.3g}"
            raise BudgetExceeded(
                f"{rounds} rounds would spend {what} on the {data} against other servers (delta {delta:g}, server {server + 1}), "
                f"but the budget is epsilon {limit:.3g}{self._way_out(budget)}"
            )

    def _way_out(self, budget: Budget) -> str:
        sent = [[e.t for e in events if isinstance(e, IterateReleased)] for events in self.events]
        if any(len(set(rounds)) < len(rounds) for rounds in sent):  # several trainings: `last_safe_round` takes them apart
            return ""
        safe = self.last_safe_round(budget)
        return f": the last safe round is {safe}" if safe else ": not even the first round is safe"

    def last_safe_round(self, budget: Budget) -> int:
        """The last round up to which this one training stays within ``budget``; 0 if the first is too much."""
        return last_safe_round(self.events, budget=budget, classes=self.classes)

    def user_lines(self) -> UserLines:
        """Each record's own ε, in the order of the input: never above the worst case in `lines`."""
        if self.reports is None:
            raise InvalidInput("this ledger does not know who reported with which epsilon: only its worst case can be told")
        return user_lines(self.events, self.reports, delta=self.delta, classes=self.classes)

    def user_line(self, record: int) -> list[Line]:
        """The whole table as it stands for one record."""
        if self.reports is None or not 0 <= record < len(self.reports.servers):
            known = 0 if self.reports is None else len(self.reports.servers)
            raise InvalidInput(f"record must be the index of one of the {known} known reports, got {record}")
        chosen = slice(record, record + 1)
        alone = Reports(self.reports.servers[chosen], self.reports.epsilons[chosen], self.reports.weights[chosen])
        own = user_lines(self.events, alone, delta=self.delta, classes=self.classes)
        table = []
        for line in self.lines(int(alone.servers[0])):
            if line.data == "label":
                column = own.label_other_servers if line.adversary == "other servers" else own.label_own_server
                line = replace(line, epsilon=float(column[0]))
            table.append(line)
        return table

    def epsilons(self, data: str) -> list[float]:
        """ε of labels or features against other servers after each round (worst server), at the ledger's δ."""
        _check_row(data, "other servers")
        sent = [spending.split(events) for events in self.events]
        rounds = max((event.t for server in sent for event in server.released), default=0)
        spent = [0.0] * rounds
        totals = [[0.0] * rounds for _ in sent]
        for server, costs in zip(sent, totals, strict=True):
            for event in server.released:
                costs[event.t - 1] += spending.cost(event, data)
            costs[:] = accumulate(costs)
        if data == "features":
            worst = [max(costs) for costs in zip(*totals, strict=True)]
            return [profiles.epsilon_at(profiles.gaussian_profile(sqrt(total)), self.delta) for total in worst]
        for server, costs in zip(sent, totals, strict=True):
            through_eta = objective_profile(*server.noised) if server.noised else None
            for t, total in enumerate(costs):
                if any(event.t <= t + 1 for event in server.released):
                    profile = spending.against_others(data, server.epsilon, sqrt(total), through_eta, self.classes)
                    spent[t] = max(spent[t], profiles.epsilon_at(profile, self.delta))
        return spent

    def feature_epsilons(self) -> list[float]:
        """`epsilons` of features: what every run watches."""
        return self.epsilons("features")

    def to_dict(self) -> dict[str, object]:
        """Plain numbers for JSON; infinity as the string "inf"."""
        return {
            "source": self.source,
            "delta": self.delta,
            "lines": [
                {
                    "data": line.data,
                    "adversary": line.adversary,
                    "epsilon": "inf" if isinf(line.epsilon) else line.epsilon,
                    "delta": line.delta,
                    "reason": line.reason,
                }
                for line in self.lines()
            ],
        }


def _check_row(data: str, adversary: str) -> None:
    if data not in DATA or adversary not in ADVERSARIES:
        raise InvalidInput(f"the ledger has rows for {DATA} against {ADVERSARIES}, got {data!r} against {adversary!r}")


_REASONS = {
    ("label", "own server"): "randomised on the device; training cannot weaken it",
    ("label", "other servers"): "randomised response, then objective noise or iterate noise, whichever is better",
    ("label", "own and others together"): "back to the randomised response alone",
    ("features", "own server"): "the own server receives them: no protection",
    ("features", "other servers"): "iterate noise over all rounds sent",
    ("features", "own and others together"): "no protection",
}
