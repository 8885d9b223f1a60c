"""The ledger: from events to who can learn what, with numbers (theory, section 3).

Rows are {label, features} x {own server, other servers, own and others together}; the servers' worst one speaks for all
unless a server is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, isinf, log1p, sqrt

from scipy.special import betainc, log_ndtr

from pdml.accounting import profiles
from pdml.accounting.events import Event, IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.profiles import Profile
from pdml.errors import InvalidInput

DATA = ("label", "features")
ADVERSARIES = ("own server", "other servers", "own and others together")


def objective_profile(event: ObjectiveNoised) -> Profile:
    """Label against others through η: one additive release, whatever T."""
    if event.kind == "none" or event.bound == 0:
        return profiles.nothing_profile
    shift = event.n_servers * event.label_shift
    if event.kind == "truncated_gaussian":
        tail = 2 * exp(float(log_ndtr(-event.bound / event.stddev)))
        outside = -_expm1_product(tail, event.size)
        return profiles.truncated(profiles.gaussian_profile(shift / event.stddev), outside)
    if event.kind == "uniform_box":
        # 1 - Π(1 - |s_k|/2R). In u_k = s_k² each -log(1 - sqrt(u_k)/2R) is concave while |s_k| <= R, so that for a given
        # Euclidean shift up to R the worst direction spreads it evenly; beyond R nothing is claimed.
        each = shift / sqrt(event.size) / (2 * event.bound)
        delta = -_expm1_product(each, event.size) if shift <= event.bound else 1.0
    else:
        # Two balls of radius R whose centres are s apart: the share of one outside the other, exactly.
        delta = float(betainc(0.5, (event.size + 1) / 2, min(1.0, shift / (2 * event.bound)) ** 2))
    return lambda epsilon: 0.0 if isinf(epsilon) else delta


def _expm1_product(part: float, times: int) -> float:
    """(1 - part)^times - 1, without losing small parts."""
    if part >= 1:
        return -1.0
    power = times * log1p(-part)
    return exp(power) - 1 if power < -1e-3 else power + power**2 / 2


def _mu(events: Sequence[IterateReleased], sensitivity: str) -> float:
    """T adaptive Gaussian releases equal one with μ² = Σ (D/σ_t)²."""
    total = 0.0
    for event in events:
        if getattr(event, sensitivity) > 0:
            if event.stddev == 0:
                return inf
            total += (getattr(event, sensitivity) / event.stddev) ** 2
    return sqrt(total)


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

    ``events[i]`` are those of server i; ``source`` says what the noise was drawn from ("simulated" protects nobody).
    """

    events: tuple[tuple[Event, ...], ...]
    source: str = "simulated"
    delta: float = 1e-6
    classes: int = 2

    def _split(self, server: int) -> tuple[float, list[Profile], list[IterateReleased]]:
        """The largest label ε, the η profiles, and the iterate releases of one server."""
        epsilon, through_objective, released = 0.0, [], []
        flips = 0
        for event in self.events[server]:
            match event:
                case LabelFlipped():
                    flips += 1
                    epsilon = max(epsilon, event.epsilon)
                case ObjectiveNoised():
                    through_objective.append(objective_profile(event))
                case IterateReleased():
                    released.append(event)
                case _:
                    raise InvalidInput(f"the ledger does not know the event {event!r}, so it cannot say what was spent")
        return (epsilon if flips else inf), through_objective, released

    def profile(self, data: str, adversary: str, server: int) -> Profile:
        """δ(ε) for one piece of data at one server against one adversary."""
        epsilon, through_objective, released = self._split(server)
        if adversary not in ADVERSARIES or data not in DATA:
            raise InvalidInput(f"the ledger has rows for {DATA} against {ADVERSARIES}, got {data!r} against {adversary!r}")
        if adversary != "other servers":
            return profiles.pure_profile(epsilon) if data == "label" else profiles.nothing_profile
        if not released:
            return lambda _: 0.0
        if data == "features":
            return profiles.gaussian_profile(_mu(released, "record_sensitivity"))
        phase2 = profiles.better_of(profiles.gaussian_profile(_mu(released, "label_sensitivity")), *through_objective)
        if self.classes == 2:
            return profiles.joint_profile(epsilon, phase2)
        return profiles.better_of(profiles.pure_profile(epsilon), phase2)

    def line(self, data: str, adversary: str, server: int | None = None) -> Line:
        """One row; the worst server's unless one is named."""
        servers = range(len(self.events)) if server is None else [server]
        exact = adversary != "other servers"
        spent = []
        for i in servers:
            if exact:
                spent.append(self._split(i)[0] if data == "label" else inf)
            else:
                spent.append(profiles.epsilon_at(self.profile(data, adversary, i), self.delta))
        return Line(data, adversary, max(spent), 0.0 if exact else self.delta, _REASONS[data, adversary])

    def lines(self, server: int | None = None) -> list[Line]:
        """The whole table."""
        return [self.line(data, adversary, server) for data in DATA for adversary in ADVERSARIES]

    def up_to(self, rounds: int) -> "Ledger":
        """The ledger as it stood after ``rounds`` rounds."""
        kept = tuple(tuple(e for e in events if not isinstance(e, IterateReleased) or e.t <= rounds) for events in self.events)
        return Ledger(kept, self.source, self.delta, self.classes)

    def feature_epsilons(self) -> list[float]:
        """ε of features against other servers after each round (worst server), at the ledger's δ."""
        rounds = max((e.t for events in self.events for e in events if isinstance(e, IterateReleased)), default=0)
        worst = [0.0] * rounds
        for events in self.events:
            total = 0.0
            for event in events:
                if isinstance(event, IterateReleased):
                    total += inf if event.stddev == 0 and event.record_sensitivity > 0 else _square(event)
                    worst[event.t - 1] = max(worst[event.t - 1], total)
        return [profiles.epsilon_at(profiles.gaussian_profile(sqrt(total)), self.delta) for total in worst]

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


def _square(event: IterateReleased) -> float:
    return (event.record_sensitivity / event.stddev) ** 2 if event.record_sensitivity > 0 else 0.0


_REASONS = {
    ("label", "own server"): "randomised on the device; training cannot weaken it",
    ("label", "other servers"): "randomised response, then objective noise or iterate noise, whichever is better",
    ("label", "own and others together"): "back to the randomised response alone",
    ("features", "own server"): "the own server receives them: no protection",
    ("features", "other servers"): "iterate noise over all rounds sent",
    ("features", "own and others together"): "no protection",
}
