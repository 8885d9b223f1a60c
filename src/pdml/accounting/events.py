"""What was released, as frozen records. Mechanisms make them, the ledger reads them, and neither
knows the other.
"""

from dataclasses import dataclass

from pdml import _validate
from pdml.accounting import provenance


@dataclass(frozen=True, kw_only=True)
class LabelFlipped:
    """A server's labels went through randomised response, with at most this ε.

    ``by`` says who flipped them (`provenance.RANDOMISED_BY`). The others never saw the true labels,
    so that against them every flip counts; against the own server it counts only if that server
    never had them either.
    """

    epsilon: float
    by: str = provenance.DEVICES

    def __post_init__(self) -> None:
        _validate.choice("by", self.by, provenance.RANDOMISED_BY)


@dataclass(frozen=True, kw_only=True)
class ObjectiveNoised:
    """Server i fixed q_i - η_i/n; all that others see of its labels is a function of this one
    vector.

    ``label_shift`` bounds how far one reported label moves q_i (already divided by m_i), in
    Euclidean norm; ``fixed_shift`` is its part that is the same for every label: rounding (None:
    not known, so that all of it must count as such).
    """

    kind: str
    bound: float  # R
    stddev: float  # σ of the Gaussian before truncation
    size: int  # coordinates
    n_servers: int
    label_shift: float
    fixed_shift: float | None = None


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


Event = LabelFlipped | ObjectiveNoised | IterateReleased
