"""The ledger: from events to who can learn what, with numbers (theory, section 3).

Rows are {label, features} x {own server, other servers, own and others together}; the servers'
worst one speaks for all unless a server is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isinf

import numpy as np
from scipy.special import expit

from pdml._types import Array
from pdml.accounting import profiles, provenance, spending
from pdml.accounting.budget import Budget, last_safe_round
from pdml.accounting.certainty import certainty_at
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
    """One row of the ledger: (ε, δ) of a piece of data against an adversary, and why.

    ``certainty`` is how sure the adversary can be of the truth, from even odds, but for a chance of
    δ (`accounting.certainty`).
    """

    data: str
    adversary: str
    epsilon: float
    delta: float
    reason: str
    certainty: float


@dataclass(frozen=True)
class Ledger:
    """What a training has spent, server by server.

    ``events[i]`` are those of server i; ``source`` says what the noise was drawn from ("simulated"
    protects nobody); ``reports``, where known, give every record its own line.
    """

    events: tuple[tuple[Event, ...], ...]
    source: str = "simulated"
    delta: float = 1e-6
    classes: int = 2
    reports: Reports | None = field(default=None, compare=False, repr=False)

    def profile(self, data: str, adversary: str, server: int) -> Profile:
        """δ(ε) for one piece of data at one server against one adversary."""
        _check_row(data, adversary)
        sent = spending.split(self.events[server])
        if adversary == "other servers":
            mu = spending.iterate_mu(sent.released, data)
            return spending.against_others(data, sent.epsilon, mu, sent.eta, self.classes)
        if data == "features":
            return profiles.nothing_profile
        return profiles.pure_profile(sent.own_epsilon)

    def _profile(self, data: str, sent: Sequence[spending.Split], mu: Array) -> Profile:
        """The same against other servers, with an entry for each of several servers."""
        epsilon, eta = spending.together(sent)
        return spending.against_others(data, epsilon, mu, eta, self.classes)

    def line(self, data: str, adversary: str, server: int | None = None) -> Line:
        """One row; the worst server's unless one is named."""
        _check_row(data, adversary)
        chosen = self.events if server is None else self.events[server : server + 1]
        sent = [spending.split(events) for events in chosen]
        if adversary == "other servers":
            mu = np.array([spending.iterate_mu(each.released, data) for each in sent])
            profile, delta = self._profile(data, sent, mu), self.delta
            spent = profiles.epsilon_at(profile, delta)
            sure = certainty_at(profile, delta, spent)
        else:
            spent, delta = [each.own_epsilon if data == "label" else inf for each in sent], 0.0
            sure = expit(spent)
        if data == "label" and adversary != "other servers":  # it depends on who flipped them
            worst = max(spent)
            known = [each.by for each, own in zip(sent, spent, strict=True) if own == worst]
            alone = adversary == "own server"
            reason = provenance.reason(provenance.worst(*known), worst, alone=alone)
        else:
            reason = _REASONS[data, adversary]
        return Line(
            data=data,
            adversary=adversary,
            epsilon=float(np.max(spent)),
            delta=delta,
            reason=reason,
            certainty=float(np.max(sure)),
        )

    def lines(self, server: int | None = None) -> list[Line]:
        """The whole table."""
        return [self.line(data, adversary, server) for data in DATA for adversary in ADVERSARIES]

    def up_to(self, rounds: int) -> "Ledger":
        """The ledger as it stood after ``rounds`` rounds."""
        kept = tuple(
            tuple(e for e in events if not isinstance(e, IterateReleased) or e.t <= rounds)
            for events in self.events
        )
        return replace(self, events=kept)

    def check(self, budget: Budget) -> None:
        """Refuse, in one sentence, a ledger that spends more than ``budget`` against the other
        servers.
        """
        for data in ("features", "label"):
            limit, delta = budget.limit(data)
            each = [self.profile(data, "other servers", i) for i in range(len(self.events))]
            if all(profile(limit) <= delta for profile in each):
                continue
            spent = [profiles.epsilon_at(profile, delta) for profile in each]
            server = max(range(len(spent)), key=spent.__getitem__)
            rounds = max(
                (e.t for events in self.events for e in events if isinstance(e, IterateReleased)),
                default=0,
            )
            what = "no bound at all" if isinf(spent[server]) else f"epsilon {spent[server]:.3g}"
            raise BudgetExceeded(
                f"{rounds} rounds would spend {what} on the {data} against other servers "
                f"(delta {delta:g}, server {server + 1}), "
                f"but the budget is epsilon {limit:.3g}{self._way_out(budget)}"
            )

    def _way_out(self, budget: Budget) -> str:
        sent = [[e.t for e in events if isinstance(e, IterateReleased)] for events in self.events]
        if any(
            len(set(rounds)) < len(rounds) for rounds in sent
        ):  # several trainings: `last_safe_round` takes them apart
            return ""
        safe = self.last_safe_round(budget)
        return f": the last safe round is {safe}" if safe else ": not even the first round is safe"

    def last_safe_round(self, budget: Budget) -> int:
        """The last round up to which this one training stays within ``budget``; 0 if the first is
        too much.
        """
        return last_safe_round(self.events, budget=budget, classes=self.classes)

    def user_lines(self) -> UserLines:
        """Each record's own ε, in the order of the input: never above the worst case in `lines`."""
        if self.reports is None:
            raise InvalidInput(
                "this ledger does not know who reported with which epsilon: only its worst "
                "case can be told"
            )
        return user_lines(self.events, self.reports, delta=self.delta, classes=self.classes)

    def user_line(self, record: int) -> list[Line]:
        """The whole table as it stands for one record."""
        if self.reports is None or not 0 <= record < len(self.reports.servers):
            known = 0 if self.reports is None else len(self.reports.servers)
            raise InvalidInput(
                f"record must be the index of one of the {known} known reports, got {record}"
            )
        chosen = slice(record, record + 1)
        alone = Reports(
            self.reports.servers[chosen],
            self.reports.epsilons[chosen],
            self.reports.weights[chosen],
        )
        own = user_lines(self.events, alone, delta=self.delta, classes=self.classes)
        table = []
        for line in self.lines(int(alone.servers[0])):
            if line.data == "label" and line.adversary == "other servers":
                spent, sure = own.label_other_servers, own.label_other_servers_certainty
                line = replace(line, epsilon=float(spent[0]), certainty=float(sure[0]))
            elif line.data == "label":
                alone_knows = float(own.label_own_server[0])
                line = replace(line, epsilon=alone_knows, certainty=float(expit(alone_knows)))
            table.append(line)
        return table

    def epsilons(self, data: str) -> list[float]:
        """ε of labels or features against other servers after each round (worst server), at the
        ledger's δ.
        """
        _check_row(data, "other servers")
        sent = [spending.split(events) for events in self.events]
        mu = np.sqrt(np.cumsum(spending.costs(sent, data), axis=0))
        if not len(mu):
            return []
        each = profiles.epsilon_at(self._profile(data, sent, mu), self.delta)
        worst: list[float] = each.max(axis=1).tolist()
        return worst

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
                    "certainty": line.certainty,
                    "reason": line.reason,
                }
                for line in self.lines()
            ],
        }


def _check_row(data: str, adversary: str) -> None:
    if data not in DATA or adversary not in ADVERSARIES:
        raise InvalidInput(
            f"the ledger has rows for {DATA} against {ADVERSARIES}, got {data!r} against "
            f"{adversary!r}"
        )


_REASONS = {
    (
        "label",
        "other servers",
    ): "randomised response, then objective noise or iterate noise, whichever is better",
    ("features", "own server"): "the own server receives them: no protection",
    ("features", "other servers"): "iterate noise over all rounds sent",
    ("features", "own and others together"): "no protection",
}
