"""What was released, as frozen records. Mechanisms make them, the ledger reads them, and neither
knows the other.

Journals and statements keep events by name, for as long as their data sets live. So no event and no
field is ever removed or renamed, and none changes its meaning: what is new is an event of its own,
or a field whose default means what leaving it out has always meant. `tests/vectors/events.json`
holds every one that was ever written, and a test reads them all.
"""

from dataclasses import dataclass
from typing import NamedTuple

from pdml import _validate
from pdml.accounting import kinds


class AnswerFlipped(NamedTuple):
    """A part of `LabelFlipped`: one of a record's answers went through randomised response on its
    own, with at most this ε, once for all trainings.
    """

    name: str
    levels: int
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class LabelFlipped:
    """A server's labels went through randomised response, with at most this ε.

    ``by`` says who flipped them (`kinds.RANDOMISED_BY`). The others never saw the true labels,
    so that against them every flip counts; against the own server it counts only if that server
    never had them either. ``answers`` were randomised each on its own; ``in_clear``: the server has
    others as they are.
    """

    epsilon: float
    by: str = kinds.DEVICES
    epsilons: tuple[float, ...] = ()  # every ε in use, where it is known: whoever is worst counts
    answers: tuple[AnswerFlipped, ...] = ()
    in_clear: bool = True

    def __post_init__(self) -> None:
        _validate.choice("by", self.by, kinds.RANDOMISED_BY)


@dataclass(frozen=True, kw_only=True)
class ObjectiveNoised:
    """Server i fixed q_i - η_i/n; all that others see of its labels is a function of this one
    vector.

    ``label_shift`` bounds how far one reported label moves q_i (already divided by m_i), in
    Euclidean norm; ``fixed_shift`` is its part that is the same for every label: rounding (None:
    not known, so that all of it must count as such). ``encoding`` is as of `SumsReleased`.
    """

    kind: str
    bound: float  # R
    stddev: float  # σ of the Gaussian before truncation
    size: int  # coordinates
    n_servers: int
    label_shift: float
    fixed_shift: float | None = None
    encoding: str = ""
    report_epsilon: float = 0.0  # as of `SumsReleased`


@dataclass(frozen=True, kw_only=True)
class IterateReleased:
    """Server i sent w_i(t) + θ_i(t).

    ``label_sensitivity`` and ``record_sensitivity`` bound how far one reported label, or one whole
    record, moves w_i(t); both hold the certified tolerance of the primal solve, of which
    ``solver_slack`` is the part that no label can make smaller (None: not known, so that all of the
    label's sensitivity must count as such).
    """

    t: int
    stddev: float
    label_sensitivity: float
    record_sensitivity: float
    solver_slack: float | None = None
    report_epsilon: float = 0.0  # as of `SumsReleased`


@dataclass(frozen=True, kw_only=True)
class SumsReleased:
    """Server i sent its two sums Q_i and S_i once, each with Gaussian noise
    (docs/concepts/sums.md).

    The shifts bound how far one reported label moves Q_i, one whole record moves Q_i, and one
    record moves S_i (Frobenius norm), for people whose label has ``epsilon``, the largest in use.
    Reports weigh 1/κ(ε)², so that somebody with a smaller ε moves Q_i less by κ(epsilon)/κ(ε) and
    S_i by its square. ``fixed_shift`` is the part of each that is the same for everybody: rounding.
    ``encoding`` is a digest of how a person's answers became the row: two releases with the same
    one moved by the same row. "": not known, so that it counts as an encoding of its own.
    ``report_epsilon`` is the ε of the person's report that went into it, where their label was
    reported more than once. 0: not known, so that all reports count as having gone into it.
    """

    label_stddev: float  # of what this server adds to every number of Q_i
    square_stddev: float  # to S_i's diagonal; beside it a √2-th
    label_shift: float
    record_shift: float
    square_shift: float
    fixed_shift: float
    epsilon: float
    hidden_among: int = 1  # servers whose sums appear in one total only; 1: everybody's own is seen
    encoding: str = ""
    report_epsilon: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CountsReleased:
    """Somebody who has records with their *true* labels told once how often a model is right on
    them: a table of counts, each with Gaussian noise (docs/guide/evaluate.md).

    ``shift`` bounds how far one record, or its label alone, moves the table in Euclidean norm. No
    device randomised these labels, and whoever counts them has them.
    """

    stddev: float  # of what is added to every count
    shift: float  # √2: one count falls by one, another rises by one


Event = LabelFlipped | ObjectiveNoised | IterateReleased | SumsReleased | CountsReleased
