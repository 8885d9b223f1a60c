"""The strings that mean something to a ledger, a plan or an event; files and JSON spell them so."""

from enum import StrEnum


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


class EventKind(_Word):
    """What a server released: the name of a class of `accounting.events`."""

    LABEL_FLIPPED = "LabelFlipped"
    OBJECTIVE_NOISED = "ObjectiveNoised"
    ITERATE_RELEASED = "IterateReleased"
    SUMS_RELEASED = "SumsReleased"
    COUNTS_RELEASED = "CountsReleased"


class Randomiser(_Word):
    """Who randomised labels; the later, the worse for the people."""

    DEVICES = "devices"  # people's, which sent reports to a collection service
    ELSEWHERE = "elsewhere"  # before the server got them, as its operator says
    SIMULATION = "simulation"  # in one process that played every party
    UNSAID = ""  # nobody recorded it
    OPERATOR = "operator"  # by the own server, which had the true labels
