"""PDML: machine learning in which nobody has to be trusted with what they need not know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdml.accounting import Budget
    from pdml.release.estimator import PDMLClassifier
    from pdml.release.model import load_model
    from pdml.release.training import train_study
    from pdml.study import Study
    from pdml.train.plan import TrainingPlan

__all__ = ["Budget", "PDMLClassifier", "Study", "TrainingPlan", "load_model", "train_study"]

_HOMES = {
    "Budget": "pdml.accounting",
    "PDMLClassifier": "pdml.release.estimator",
    "Study": "pdml.study",
    "TrainingPlan": "pdml.train.plan",
    "load_model": "pdml.release.model",
    "train_study": "pdml.release.training",
}


def __getattr__(name: str) -> Any:
    """Public names are loaded when asked for: `import pdml` and `pdml --help` stay instant."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pdml")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pdml' has no attribute {name!r}")
