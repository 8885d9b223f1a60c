"""The ledger: from events to who can learn what, with numbers (theory, section 3).

Rows are {label, features} x {own server, other servers, own and others together}; the servers' worst one speaks for all
unless a server is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, expm1, inf, isinf, log1p, sqrt

from scipy.special import betainc, log_ndtr

from pdml.accounting import profiles
from pdml.accounting.events import Event, IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.profiles import Profile
from pdml.errors import InvalidInput

DATA = ("label", "features")
ADVERSARIES = ("own server", "other servers", "own and others together")


def objective_profile(*events: ObjectiveNoised) -> Profile:
    """Labels against others through η: one additive release per training, whatever T; several trainings compose."""
    square, inside, flat = 0.0, 1.0, 0.0  # Σ μ², Π of the masses kept by truncation, Σ δ of uniform noises
    for event in events:
        shift = event.n_servers * event.label_shift
        if event.kind == "none" or event.bound == 0:
            return profiles.nothing_profile
        if event.kind == "truncated_gaussian":
            square += _square(shift / event.stddev)
            tail = 2 * exp(float(log_ndtr(-event.bound / event.stddev)))
            inside *= 1 + _expm1_product(tail, event.size)
        elif event.kind == "uniform_box":
            # 1 - Π(1 - |s_k|/2R). In u_k = s_k² each -log(1 - sqrt(u_k)/2R) is concave while |s_k| <= R, so that for a given
            # Euclidean shift up to R the worst direction spreads it evenly; beyond R nothing is claimed.
            each = shift / sqrt(event.size) / (2 * event.bound)
            flat += -_expm1_product(each, event.size) if shift <= event.bound else 1.0
        elif event.kind == "uniform_ball":
            # Two balls of radius R whose centres are s apart: the share of one outside the other, exactly.
            flat += float(betainc(0.5, (event.size + 1) / 2, min(1.0, shift / (2 * event.bound)) ** 2))
        else:
            raise InvalidInput(f"the ledger does not know objective noise of kind {event.kind!r}, so it cannot say what was spent")
    gaussian = profiles.truncated(profiles.gaussian_profile(sqrt(square)), 1 - inside) if square or inside < 1 else (lambda _: 0.0)
    return profiles.plus(gaussian, min(1.0, flat)) if flat else gaussian


def _expm1_product(part: float, times: int) -> float:
    """(1 - part)^times - 1, without losing small parts."""
    return -1.0 if part >= 1 else expm1(times * log1p(-part))


def _square(ratio: float) -> float:
    return ratio * ratio  # infinite where ** would raise


def _mu(events: Sequence[IterateReleased], sensitivity: str) -> float:
    """T adaptive Gaussian releases equal one with μ² = Σ (D/σ_t)²."""
    return sqrt(sum(_cost(event, sensitivity) for event in events))


def _cost(event: IterateReleased, sensitivity: str) -> float:
    """(D/σ)² of one release; infinite without noise."""
    moved = getattr(event, sensitivity)
    if moved == 0:
        return 0.0
    return inf if event.stddev == 0 else _square(moved / event.stddev)


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

    def _split(self, server: int) -> tuple[float, list[ObjectiveNoised], list[IterateReleased]]:
        """The largest label ε, the objective noises, and the iterate releases of one server."""
        epsilon, noised, released = 0.0, [], []
        flips = 0
        for event in self.events[server]:
            match event:
                case LabelFlipped():
                    flips += 1
                    epsilon = max(epsilon, event.epsilon)
                case ObjectiveNoised():
                    noised.append(event)
                case IterateReleased():
                    released.append(event)
                case _:
                    raise InvalidInput(f"the ledger does not know the event {event!r}, so it cannot say what was spent")
        return (epsilon if flips else inf), noised, released

    def profile(self, data: str, adversary: str, server: int) -> Profile:
        """δ(ε) for one piece of data at one server against one adversary."""
        _check_row(data, adversary)
        epsilon, noised, released = self._split(server)
        if adversary != "other servers":
            return profiles.pure_profile(epsilon) if data == "label" else profiles.nothing_profile
        if not released:
            return lambda _: 0.0
        if data == "features":
            return profiles.gaussian_profile(_mu(released, "record_sensitivity"))
        phase2 = profiles.gaussian_profile(_mu(released, "label_sensitivity"))
        if noised:  # everything seen of the labels went through η
            phase2 = profiles.better_of(phase2, objective_profile(*noised))
        if self.classes == 2:
            return profiles.joint_profile(epsilon, phase2)
        return profiles.better_of(profiles.pure_profile(epsilon), phase2)

    def line(self, data: str, adversary: str, server: int | None = None) -> Line:
        """One row; the worst server's unless one is named."""
        _check_row(data, adversary)
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
        released = [self._split(i)[2] for i in range(len(self.events))]
        rounds = max((event.t for sent in released for event in sent), default=0)
        worst = [0.0] * rounds
        for sent in released:
            costs = [0.0] * rounds
            for event in sent:
                costs[event.t - 1] += _cost(event, "record_sensitivity")
            worst = [max(pair) for pair in zip(worst, accumulate(costs), strict=True)]
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
