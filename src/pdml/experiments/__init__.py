"""The paper's table and figures, its bounds and its rivals, measured again: one module each, loaded
when it is asked for.
"""

from importlib import import_module

from pdml import _validate
from pdml.experiments.outcome import Claim, Outcome, Progress, write

__all__ = ["MODULES", "Claim", "Outcome", "Progress", "run", "write"]

MODULES = {
    "table1": "table1",
    "fig3a": "convergence",
    "fig3b": "convergence",
    "fig4a": "effects",
    "fig4b": "effects",
    "fig4c": "effects",
    "baselines": "baselines",
}
"""What can be reproduced, and the module that has a function of that name: ``name(*, seeds,
processes, progress) -> Outcome``.
"""


def run(name: str, *, seeds: int | None, processes: int, progress: Progress) -> Outcome:
    """Measure one of `MODULES`; ``seeds`` = None takes the experiment's own number."""
    _validate.choice("name", name, tuple(MODULES))
    experiment = getattr(import_module(f"pdml.experiments.{MODULES[name]}"), name)
    outcome: Outcome = experiment(seeds=seeds, processes=processes, progress=progress)
    return outcome
