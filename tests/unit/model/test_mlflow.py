"""A model in MLflow, in a store that is one file: what is logged, and what can be loaded again."""

import numpy as np
import pandas as pd
import pytest
from models import model, people, trained_on_a_table

from pdml import PDMLClassifier, TrainingPlan
from pdml.errors import DataError, InvalidInput
from pdml.model.export.mlflow import log_model
from pdml.research.datasets import twonorm
from pdml.tables import Table

pytestmark = [  # MLflow's own
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*AnyType:UserWarning"),
]
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    """MLflow with an empty store, no server and no telemetry."""
    place = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        import mlflow

        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(f"sqlite:///{place}/mlflow.db")
        own = mlflow.create_experiment("pdml", artifact_location=(place / "artifacts").as_uri())
        mlflow.set_experiment(experiment_id=own)
        yield mlflow
        mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def fitted():
    x, y = twonorm(900, np.random.default_rng(0))
    plan = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0, colluding=1)
    return PDMLClassifier(n_servers=3, plan=plan, classes=[-1, 1], random_state=0).fit(x, y), x


def test_what_was_agreed_and_spent_is_logged_and_the_model_predicts(mlflow, fitted, tmp_path):
    ours, x = fitted[0].model_, fitted[1]
    (tmp_path / "report.html").write_text("a page")
    info = log_model(ours, metrics={"accuracy": 0.9}, page=tmp_path / "report.html")
    assert mlflow.active_run() is None
    run = mlflow.get_run(info.run_id)
    assert run.data.params["plan/method"] == "sums" and run.data.params["features"] == "20"
    for line in ours.ledger_rows():
        few = "" if line.colluding is None else f"{line.colluding} "
        who = f"{line.data}/{few}{line.adversary}"
        if np.isinf(line.epsilon):
            assert run.data.tags[f"epsilon/{who}"] == "no limit"
        else:
            assert run.data.metrics[f"epsilon/{who}"] == line.epsilon
        assert run.data.metrics[f"certainty/{who}"] == line.certainty
    result = {name for name in run.data.metrics if name.startswith("epsilon/")}
    result |= {name for name in run.data.tags if name.startswith("epsilon/")}
    assert len(result) == len(ours.ledger_rows())
    assert run.data.metrics["expected/accuracy"] == ours.expected.accuracy.middle
    assert run.data.metrics["accuracy"] == 0.9
    assert run.data.tags["noise_source"] == "simulated" and run.data.tags["leaks"] == "none"
    (page,) = mlflow.artifacts.list_artifacts(run_id=info.run_id)
    assert page.path == "report.html"
    found = mlflow.pyfunc.load_model(info.model_uri).predict(x)
    np.testing.assert_array_equal(found["prediction"], ours.predict(x))
    np.testing.assert_array_equal(found.iloc[:, 1:], ours.predict_proba(x))


def test_a_table_s_model_takes_a_dataframe_and_joins_the_run_that_is_active(mlflow):
    ours, cells = trained_on_a_table(RNG), people(RNG)
    with pytest.raises(DataError, match="no ledger"):
        log_model(ours)
    spent = {"data": "label", "adversary": "other servers", "reason": "", "delta": 0.0}
    object.__setattr__(ours, "privacy", {"rows": [spent | {"epsilon": 1.0, "certainty": 0.7}]})
    with mlflow.start_run() as run:
        info = log_model(ours)
        assert mlflow.active_run().info.run_id == run.info.run_id == info.run_id
    found = mlflow.pyfunc.load_model(info.model_uri).predict(pd.DataFrame(cells))
    x = ours.features(Table(columns=cells))
    np.testing.assert_array_equal(found["prediction"], ours.predict(x))
    np.testing.assert_array_equal(found["probability ja"], ours.predict_proba(x)[:, 0])


def test_a_local_model_is_refused():
    with pytest.raises(InvalidInput, match="local model of alice"):
        log_model(model(RNG, classes=(0, 1), local="alice"))
