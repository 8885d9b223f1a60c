"""What was released, as frozen records. Mechanisms make them, the ledger reads them, and neither knows the other."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LabelFlipped:
    """One label was reported through randomised response; the own server sees the report."""

    epsilon: float


@dataclass(frozen=True, kw_only=True)
class ObjectiveNoised:
    """Server i fixed q_i - η_i/n; all that others see of its labels is a function of this one vector.

    ``label_shift`` bounds how far one reported label moves q_i (already divided by m_i), in Euclidean norm.
    """

    kind: str
    bound: float  # R
    stddev: float  # σ of the Gaussian before truncation
    size: int  # coordinates
    n_servers: int
    label_shift: float


@dataclass(frozen=True, kw_only=True)
class IterateReleased:
    """Server i sent w_i(t) + θ_i(t).

    ``label_sensitivity`` and ``record_sensitivity`` bound how far one reported label, or one whole record, moves w_i(t);
    both hold the certified tolerance of the primal solve.
    """

    t: int
    stddev: float
    label_sensitivity: float
    record_sensitivity: float


Event = LabelFlipped | ObjectiveNoised | IterateReleased
