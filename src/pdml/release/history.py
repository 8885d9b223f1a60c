"""What happened round by round, as far as it is told; a node needs it and no scikit-learn."""

from dataclasses import dataclass

import numpy as np

from pdml._types import Array
from pdml.plan.training_plan import TrainingPlan


@dataclass(frozen=True)
class History:
    """What happened round by round; every field is (T,).

    ``risk`` (the corrected empirical risk of the average release) is a diagnostic computed from the
    records and covered by no guarantee; NaN unless it was asked for. The other fields are functions
    of releases and public settings.
    """

    risk: Array
    consensus: Array  # largest distance between two servers' releases
    noise: Array  # σ(t) by the plan, root mean square over servers; never what was drawn
    spent: Array  # ε of features against other servers so far, at the ledger's δ

    def to_dict(self) -> dict[str, list[float]]:
        names = ("risk", "consensus", "noise", "spent")
        return {name: getattr(self, name).tolist() for name in names}


NO_ROUNDS = History(*([np.zeros(0)] * 4))  # one exchange of sums: nothing happens round by round


def noise_level(plan: TrainingPlan, n_servers: int) -> Array:
    """How loud the noise is by the plan: what is published of it.

    Parameters
    ----------
    plan : TrainingPlan
        Public settings.
    n_servers : int
        How many servers.

    Returns
    -------
    array of shape (T,)
        σ(t) of one coordinate of θ(t), root mean square over servers.
    """
    return np.asarray(np.sqrt(np.mean(plan.stddevs(n_servers) ** 2, axis=1)))
