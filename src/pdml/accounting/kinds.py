"""The strings that mean something to a ledger, a plan or an event; files and JSON spell them so.

Who randomised the labels: whoever did it had the true ones, and hides nothing from itself.
"""

from enum import StrEnum
from math import isinf


class _Word(StrEnum):
    """Shown as the string that it is."""

    def __repr__(self) -> str:
        return repr(self.value)


class Data(_Word):
    """What a row of the ledger is about; rows of randomised answers have names of their own."""

    LABEL = "label"
    FEATURES = "features"


class Adversary(_Word):
    """Against whom a row of the ledger is."""

    OWN = "own server"
    OTHERS = "other servers"
    TOGETHER = "own and others together"


class Method(_Word):
    """How servers train: ADMM, or one exchange of sufficient statistics."""

    ROUNDS = "rounds"
    SUMS = "sums"


class NoiseKind(_Word):
    """The built-in distributions of objective noise."""

    TRUNCATED_GAUSSIAN = "truncated_gaussian"
    UNIFORM_BOX = "uniform_box"
    UNIFORM_BALL = "uniform_ball"
    NONE = "none"


class Randomiser(_Word):
    """Who randomised labels; the later, the worse for the people."""

    DEVICES = "devices"  # people's, which sent reports to a collection service
    ELSEWHERE = "elsewhere"  # before the server got them, as its operator says
    SIMULATION = "simulation"  # in one process that played every party
    UNSAID = ""  # nobody recorded it
    OPERATOR = "operator"  # by the own server, which had the true labels


RANDOMISED_BY = tuple(Randomiser)
DEVICES, ELSEWHERE, SIMULATION, UNSAID, OPERATOR = RANDOMISED_BY

_HIDDEN_REASONS: dict[str, str] = {
    DEVICES: "randomised on the device; training cannot weaken it",
    ELSEWHERE: "randomised on a device, as its server declares; training cannot weaken it",
    SIMULATION: "as if randomised on a device: one process played every party and had the label",
}
_EXPOSED_REASONS: dict[str, str] = {
    UNSAID: "nobody recorded who randomised it: the collecting organisation may have had the true "
    "label",
    OPERATOR: "the collecting organisation had the true label and randomised it itself: "
    "no protection",
}
_NOTES: dict[str, str] = {
    ELSEWHERE: "{0} declares that its labels were randomised on people's devices.",
    SIMULATION: "One process played {0} and had its true labels.",
    UNSAID: "The data set of {0} does not say who randomised its labels: {0} may have had them.",
    OPERATOR: "{0} had the true labels and randomised them: nothing protects them from it.",
}


def randomiser_note(server: str, by: str) -> str:
    """What a reader must know about the labels of one server."""
    return _NOTES[by].format(server) if by in _NOTES else ""


def worst_randomiser(*named: str) -> str:
    """Of several, the one that is worst for the people."""
    return max(map(Randomiser, named), key=RANDOMISED_BY.index)


def server_may_know_labels(by: str) -> bool:
    """Whether the collecting organisation had true labels, or nobody can say that it had not."""
    return by in _EXPOSED_REASONS


def randomiser_reason(by: str, epsilon: float, *, alone: bool) -> str:
    """How a label stands against whoever collected it, ``alone`` or with all others."""
    if server_may_know_labels(by):
        return _EXPOSED_REASONS[by]
    if isinf(epsilon):
        return "not randomised: the collecting organisation receives it as it is"
    return _HIDDEN_REASONS[by] if alone else "back to the randomised response alone"
