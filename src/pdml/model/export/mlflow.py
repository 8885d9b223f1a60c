"""A model in MLflow: plan, ledger, and the model's own file as a pyfunc, without any pickle."""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from math import isfinite
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pdml import extras
from pdml._version import __version__
from pdml.accounting import LedgerRow
from pdml.errors import InvalidInput
from pdml.model.model import Model, load_model
from pdml.numerics.sums.expected_accuracy import Expectation

NO_LIMIT = "no limit"
_FILE = "model.json"


def log_model(
    model: Model,
    *,
    metrics: Mapping[str, float] | None = None,
    page: str | PathLike[str] | None = None,
    name: str = "model",
) -> Any:
    """Log a released model to MLflow: in the run that is active, else in a new one.

    Parameters are the plan and the model's settings; metrics every row of the ledger
    (``epsilon/features/other servers``) and what to expect; tags the noise's source, parties,
    leaks, and "no limit" where a row has no protection, for MLflow has no infinite numbers. The
    pyfunc takes a DataFrame with the columns of the training, or rows.

    Guarantees
    ----------
    - Without ``metrics`` and ``page``, all that is logged of the training stands in the model's own
      file. MLflow itself adds who logged it (the name of the login), with which script and commit.
    - MLflow's telemetry is off if this is what loads MLflow first and nobody has decided otherwise
      in the environment (MLFLOW_DISABLE_TELEMETRY).
    """
    if model.local:
        raise InvalidInput(
            f"model must be a released one, got the local model of {model.local}: it hangs on "
            "exact sums, and a tracking store has more readers than its owner"
        )
    rows = model.ledger_rows()
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    with extras.needed():
        import mlflow
        import mlflow.pyfunc
    with nullcontext() if mlflow.active_run() else mlflow.start_run():
        mlflow.log_params(_parameters(model))
        mlflow.log_metrics({**_spent(rows), **_expected(model.expected), **(metrics or {})})
        mlflow.set_tags(_tags(model, rows))
        if page is not None:
            mlflow.log_artifact(os.fspath(page))
        with TemporaryDirectory() as folder:
            model.save(Path(folder, _FILE))
            return mlflow.pyfunc.log_model(
                name=name,
                loader_module=__name__,
                data_path=str(Path(folder, _FILE)),
                pip_requirements=[f"pdml[mlflow]=={__version__}"],
            )


def _parameters(model: Model) -> dict[str, Any]:
    return {f"plan/{key}": value for key, value in model.plan.items()} | {
        "classes": ", ".join(map(str, model.classes)),
        "features": model.coefficients.shape[1],
        "fit_intercept": model.fit_intercept,
        "norm_bound": model.norm_bound,
        **({} if model.label is None else {"label": model.label}),
    }


def _spent(rows: Sequence[LedgerRow]) -> dict[str, float]:
    """By what it is and whom it is about; what is infinite is left out."""
    names = ("epsilon", "delta", "certainty")
    metrics = {f"{name}/{_who(row)}": float(getattr(row, name)) for row in rows for name in names}
    return {key: value for key, value in metrics.items() if isfinite(value)}


def _who(row: LedgerRow) -> str:
    few = "" if row.colluding is None else f"{row.colluding} "
    return f"{row.data}/{few}{row.adversary}"


def _expected(expected: Expectation | None) -> dict[str, float]:
    if expected is None:
        return {}
    metrics = {"expected/confidence": expected.confidence}
    for what in ("accuracy", "auc"):
        if (interval := getattr(expected, what)) is not None:
            metrics[f"expected/{what}"] = interval.middle
            metrics |= {f"expected/{what}/{end}": getattr(interval, end) for end in ("low", "high")}
    return metrics


def _tags(model: Model, rows: Sequence[LedgerRow]) -> dict[str, str]:
    tags = {f"epsilon/{_who(row)}": NO_LIMIT for row in rows if not isfinite(row.epsilon)}
    provenance = model.provenance
    tags |= {key: str(provenance[key]) for key in ("noise_source", "parties") if key in provenance}
    return tags | {
        "pdml_version": __version__,
        "counted": str(model.privacy.get("counted", "")),
        "leaks": "; ".join(provenance.get("leaks", ())) or "none",
    }


class _Predictor:
    def __init__(self, model: Model) -> None:
        self._model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """A DataFrame of the class of each record and of all probabilities."""
        import pandas as pd

        named = self._model.encoder or self._model.feature_names
        records = model_input if named else np.asarray(model_input, dtype=np.float64)
        x = self._model.features(records)
        return pd.DataFrame(self._model.prediction_columns(x, proba=True))


def _load_pyfunc(path: str) -> _Predictor:
    """What MLflow calls with the file that `log_model` wrote."""
    return _Predictor(load_model(path))
