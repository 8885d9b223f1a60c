"""The paper's table and figures, its bounds and its rivals, measured again: one module each, loaded
when it is asked for.
"""

from collections.abc import Sequence
from importlib import import_module

from pdml import _validate
from pdml.errors import InvalidInput
from pdml.research.paper.reproduction import Claim, Progress, Reproduction, write

__all__ = ["MODULES", "Claim", "Progress", "Reproduction", "chosen", "run", "write"]

MODULES = {
    "table1": "table1",
    "fig3a": "convergence_figure",
    "fig3b": "convergence_figure",
    "fig4a": "effects",
    "fig4b": "effects",
    "fig4c": "effects",
    "baselines": "baselines",
}
"""What can be reproduced, and the module that has a function of that name: ``name(*, seeds,
processes, progress) -> Reproduction``.
"""


def chosen(names: Sequence[str]) -> list[str]:
    """What is asked for.

    Parameters
    ----------
    names : sequence of str
        Of `MODULES`; "all" alone stands for all of them.

    Returns
    -------
    list of str
        Each once.

    Raises
    ------
    InvalidInput
        For any other name.
    """
    wanted = list(MODULES) if list(names) == ["all"] else list(dict.fromkeys(names))
    for name in wanted:
        if name not in MODULES:
            raise InvalidInput(
                f"NAME must be one of {', '.join(MODULES)}, or all alone, got {name!r}"
            )
    return wanted


def run(
    name: str,
    *,
    seeds: int | None = None,
    processes: int = 0,
    progress: Progress = lambda done, of: None,
) -> Reproduction:
    """Measure one table or figure of the paper again.

    Parameters
    ----------
    name : str
        One of `MODULES`.
    seeds : int, optional
        Random repetitions; the experiment's own number unless given.
    processes : int
        How many to use; 0 is one per core. The result does not depend on it.
    progress : callable
        Hears (done, of how many).

    Returns
    -------
    Reproduction
        Rows, a figure, and what the paper claims against what was measured; `write` makes files of
        it.

    Raises
    ------
    DataError
        The data sets are not on this machine: ``pdml data fetch all`` brings them.
    """
    _validate.choice("name", name, tuple(MODULES))
    experiment = getattr(import_module(f"pdml.research.paper.{MODULES[name]}"), name)
    reproduction: Reproduction = experiment(seeds=seeds, processes=processes, progress=progress)
    return reproduction
