"""A model as a scikit-learn pipeline: it predicts the same, also where there is no pdml."""

import json
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from models import ENCODERS, SHAPES, model, people, rows, small_rows, trained_on_a_table
from scipy.sparse import csr_array

from pdml import PDMLClassifier
from pdml.research.datasets import twonorm
from pdml.tables import Table

RNG = np.random.default_rng(0)


def assert_same(pipeline, ours, given, x):
    close = 1e-9 if "fourier" in ours.to_bytes().decode() else 1e-12
    np.testing.assert_allclose(
        pipeline.predict_proba(given), ours.predict_proba(x), rtol=0, atol=close
    )
    np.testing.assert_array_equal(pipeline.predict(given), ours.predict(x))
    margins = ours.decision_function(x)
    np.testing.assert_allclose(pipeline.decision_function(given), margins, rtol=0, atol=close)
    assert pipeline.predict(given).dtype == ours.predict(x).dtype


@pytest.mark.parametrize("shape", SHAPES)
def test_it_predicts_what_the_model_predicts(shape):
    ours = model(RNG, **SHAPES[shape])
    pipeline = ours.to_sklearn()
    for x in (rows(RNG), small_rows(RNG), np.zeros((1, 4)), rows(RNG).astype(int)):
        assert_same(pipeline, ours, x, x)


@pytest.mark.parametrize("classes", [("ja", "nein"), (True, False), (1.5, 2.5, 4.0)])
@pytest.mark.parametrize("kind", ENCODERS)
def test_a_table_s_model_takes_its_columns_by_name(kind, classes):
    ours, cells = trained_on_a_table(RNG, classes, kind), people(RNG, gaps=kind == "gaps")
    frame = pd.DataFrame(cells)
    assert_same(ours.to_sklearn(), ours, frame, ours.features(frame))


def test_it_predicts_where_there_is_no_pdml(tmp_path):
    ours, cells = trained_on_a_table(RNG, kind="maps"), people(RNG, 20)
    joblib.dump(ours.to_sklearn(), tmp_path / "model.joblib")
    pd.DataFrame(cells).to_json(tmp_path / "people.json")
    code = """
import sys
sys.modules["pdml"] = None
import joblib, pandas, json
pipeline = joblib.load(sys.argv[1] + "/model.joblib")
people = pandas.read_json(sys.argv[1] + "/people.json", convert_dates=False)
print(json.dumps(pipeline.predict_proba(people).tolist()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    x = ours.features(Table(columns=cells))
    np.testing.assert_allclose(json.loads(done.stdout), ours.predict_proba(x), rtol=0, atol=1e-9)


def test_what_the_model_refuses_is_refused():
    ours, x = model(RNG, classes=(0, 1)), rows(RNG, 3)
    pipeline = ours.to_sklearn()
    for wrong in (x[:, :3], np.where(x > 1, np.nan, x), np.where(x > 1, np.inf, x), csr_array(x)):
        with pytest.raises((ValueError, TypeError)):
            pipeline.predict(wrong)
    cells = pd.DataFrame(people(RNG, 3))
    for kind in ("ranges", "maps"):
        table = trained_on_a_table(RNG, kind=kind).to_sklearn()
        missing = [cells.assign(**{name: np.nan}) for name in ("age", "year", "town")]
        for wrong in (cells.drop(columns="age"), cells.assign(town="Bonn"), *missing):
            with pytest.raises((ValueError, TypeError)):
                table.predict(wrong)


def test_columns_in_another_order_are_noticed():
    x, y = twonorm(200, np.random.default_rng(0))
    frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(x.shape[1])])
    fitted = PDMLClassifier(n_servers=2, plan={"rounds": 2}, random_state=0).fit(frame, y)
    pipeline = fitted.model_.to_sklearn()
    np.testing.assert_array_equal(pipeline.predict(frame), fitted.predict(frame))
    with pytest.raises(ValueError, match="order"):
        pipeline.predict(frame.iloc[:, ::-1])
