"""PDML: machine learning from sensitive answers, without a server that everybody must trust."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pdml._version import __version__

if TYPE_CHECKING:
    from pdml.accounting import Budget
    from pdml.plan.training_plan import TrainingPlan
    from pdml.release.estimator import PDMLClassifier
    from pdml.release.model import load_model
    from pdml.release.session import PrivacyLedgerSession
    from pdml.release.table import (
        evaluate_privately,
        evaluate_table,
        predict_table,
        train_table,
    )
    from pdml.release.training import train_study
    from pdml.study import Study

__all__ = [
    "Budget",
    "PDMLClassifier",
    "PrivacyLedgerSession",
    "Study",
    "TrainingPlan",
    "__version__",
    "evaluate_privately",
    "evaluate_table",
    "load_model",
    "predict_table",
    "train_study",
    "train_table",
]

_HOMES = {
    "Budget": "pdml.accounting",
    "PDMLClassifier": "pdml.release.estimator",
    "PrivacyLedgerSession": "pdml.release.session",
    "Study": "pdml.study",
    "TrainingPlan": "pdml.plan.training_plan",
    "evaluate_privately": "pdml.release.table",
    "evaluate_table": "pdml.release.table",
    "load_model": "pdml.release.model",
    "predict_table": "pdml.release.table",
    "train_study": "pdml.release.training",
    "train_table": "pdml.release.table",
}


def __getattr__(name: str) -> Any:
    """Public names are loaded when asked for: `import pdml` and `pdml --help` stay instant."""
    if name in _HOMES:
        from pdml.extras import needed

        with needed():
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pdml' has no attribute {name!r}")
