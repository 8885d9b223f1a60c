"""PDML: machine learning from sensitive answers, without a server that everybody must trust."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pdml._version import __version__

if TYPE_CHECKING:
    from pdml.accounting import Budget
    from pdml.encoding.encoding import Encoding
    from pdml.model.model import load_model
    from pdml.planning.training_plan import TrainingPlan
    from pdml.simulation.estimator import PDMLClassifier
    from pdml.simulation.privacy_session import PrivacyLedgerSession
    from pdml.simulation.study_training import train_study
    from pdml.simulation.table_training import (
        evaluate_privately,
        evaluate_table,
        predict_table,
        train_table,
    )
    from pdml.study import Study

__all__ = [
    "Budget",
    "Encoding",
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
    "Encoding": "pdml.encoding.encoding",
    "PDMLClassifier": "pdml.simulation.estimator",
    "PrivacyLedgerSession": "pdml.simulation.privacy_session",
    "Study": "pdml.study",
    "TrainingPlan": "pdml.planning.training_plan",
    "evaluate_privately": "pdml.simulation.table_training",
    "evaluate_table": "pdml.simulation.table_training",
    "load_model": "pdml.model.model",
    "predict_table": "pdml.simulation.table_training",
    "train_study": "pdml.simulation.study_training",
    "train_table": "pdml.simulation.table_training",
}


def __getattr__(name: str) -> Any:
    """Public names are loaded when asked for: `import pdml` and `pdml --help` stay instant."""
    if name in _HOMES:
        from pdml.extras import needed

        with needed():
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pdml' has no attribute {name!r}")
