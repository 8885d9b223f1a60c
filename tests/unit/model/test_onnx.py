"""A model as ONNX: a runtime that knows nothing of pdml predicts the same."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from models import ENCODERS, SHAPES, model, people, rows, small_rows, trained_on_a_table

from pdml import PDMLClassifier
from pdml.encoding.encoder import Encoder, Number
from pdml.errors import InvalidInput
from pdml.model.export.onnx import to_onnx
from pdml.model.model import Model
from pdml.research.datasets import twonorm

RNG = np.random.default_rng(0)


def running(data: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def as_given(cells: dict) -> dict:
    given = {name: np.asarray(values)[:, None] for name, values in cells.items() if name != "other"}
    given["town"] = np.where(given["town"] == given["town"], given["town"], "")  # NaN is a gap
    return given


def assert_same(ours: Model, given: dict, x) -> None:
    label, chances = running(to_onnx(ours)).run(["label", "probabilities"], given)
    close = 1e-9 if "fourier" in ours.to_bytes().decode() else 1e-12
    np.testing.assert_allclose(chances, ours.predict_proba(x), rtol=0, atol=close)
    np.testing.assert_array_equal(label, ours.predict(x))


@pytest.mark.parametrize("shape", SHAPES)
def test_it_predicts_what_the_model_predicts(shape):
    ours = model(RNG, **SHAPES[shape])
    for x in (rows(RNG), small_rows(RNG), np.zeros((1, 4))):
        assert_same(ours, {"rows": x}, x)


@pytest.mark.parametrize("classes", [("ja", "nein"), (True, False), (1.5, 2.5, 4.0)])
@pytest.mark.parametrize("kind", ENCODERS)
def test_a_table_s_model_takes_its_columns_by_name(kind, classes):
    ours, cells = trained_on_a_table(RNG, classes, kind), people(RNG, gaps=kind == "gaps")
    assert_same(ours, as_given(cells), ours.features(pd.DataFrame(cells)))


def test_a_level_that_is_not_declared_fails():
    session, cells = running(to_onnx(trained_on_a_table(RNG))), people(RNG, 3)
    with pytest.raises(Exception, match=r"[Uu]nknown"):
        session.run(None, as_given(cells | {"town": np.array(["Ulm", "Bonn", "Ulm"], object)}))


def test_the_file_says_what_was_spent_and_where_it_comes_from(tmp_path):
    x, y = twonorm(600, np.random.default_rng(0))
    ours = PDMLClassifier(n_servers=3, plan="auto", random_state=0).fit(x, y).model_
    ours.to_onnx(tmp_path / "model.onnx")
    data = (tmp_path / "model.onnx").read_bytes()
    assert data == to_onnx(ours)
    said = running(data).get_modelmeta().custom_metadata_map
    for name in ("plan", "privacy", "provenance"):
        assert json.loads(said[f"pdml.{name}"]) == json.loads(ours.to_bytes())[name]
    lines = json.loads(said["pdml.privacy"])["rows"]
    assert [float(line["epsilon"]) for line in lines] == [
        line.epsilon for line in ours.ledger_rows()
    ]


def test_a_local_model_stays_with_its_owner(tmp_path):
    model(RNG, classes=(0, 1), local="alice").to_onnx(tmp_path / "local.onnx")
    assert (tmp_path / "local.onnx").stat().st_mode & 0o777 == 0o600


def test_a_column_cannot_have_the_name_of_what_comes_out():
    encoder = Encoder(attributes=(Number(name="label", low=0, high=1),))
    ours = model(RNG, classes=(0, 1), width=1, encoder=encoder.to_dict())
    with pytest.raises(InvalidInput, match="'label'"):
        to_onnx(ours)
