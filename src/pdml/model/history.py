"""What happened round by round; a node needs it and no scikit-learn."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.extras import needed
from pdml.planning.training_plan import TrainingPlan

_TITLES = MappingProxyType(
    {
        "noise": "noise on a release",
        "consensus": "largest distance of two servers",
        "spent": "epsilon of features spent",
        "risk": "risk (unprotected: do not publish)",
    }
)
_LOGARITHMIC = ("noise", "consensus")


@dataclass(frozen=True)
class History:
    """What happened round by round; every field is (T,). All but ``risk`` are functions of releases
    and public settings; that is computed from the records, NaN unless it was wanted.
    """

    risk: Array
    consensus: Array  # largest distance between two servers' releases
    noise: Array  # σ(t) by the plan, root mean square over servers; never what was drawn
    spent: Array  # ε of features against other servers so far, at the ledger's δ

    def plot(self, axes: Any = None) -> Any:
        """Draw noise, consensus, the budget spent, and the risk if recorded, over the rounds."""
        titles = {name: words for name, words in _TITLES.items() if self._has_values(name)}
        if not titles:
            raise InvalidInput(
                "a history without rounds cannot be drawn: one exchange of sums has none"
            )
        with needed():
            from matplotlib import pyplot as plt
        if axes is None:
            size = (3.6 * len(titles), 3.0)
            _, axes = plt.subplots(1, len(titles), figsize=size, layout="constrained")
        panels = np.ravel(axes)
        if len(panels) != len(titles):
            raise InvalidInput(
                f"axes must be {len(titles)}, for {', '.join(titles)}, got {len(panels)}",
                setting="axes",
            )
        for (name, words), panel in zip(titles.items(), panels, strict=True):
            values = getattr(self, name)
            marker = "." if len(values) < 30 else ""
            panel.plot(np.arange(1, len(values) + 1), values, marker=marker)
            panel.set(xlabel="round", title=words)
            if name in _LOGARITHMIC and (values > 0).all() and np.isfinite(values).all():
                panel.set_yscale("log")
        return panels

    def _has_values(self, name: str) -> bool:
        return bool(np.isfinite(getattr(self, name)).any())

    def to_dict(self) -> dict[str, list[float]]:
        return {name: values.tolist() for name, values in vars(self).items()}


NO_ROUNDS = History(*([np.zeros(0)] * 4))  # one exchange of sums: nothing happens round by round


def noise_level(plan: TrainingPlan, n_servers: int) -> Array:
    """How loud the noise is by the plan: what is published of it."""
    return np.asarray(np.sqrt(np.mean(plan.stddevs(n_servers) ** 2, axis=1)))
