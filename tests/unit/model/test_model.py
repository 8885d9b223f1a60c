"""The model file: what is written is what is read, and nothing else is accepted."""

import json
from math import ceil

import numpy as np
import pytest

from pdml import PDMLClassifier, load_model
from pdml.encoding.encoder import Encoder, Number
from pdml.encoding.pipeline import Pipeline
from pdml.errors import DataError
from pdml.model.model import THIS_TRAINING
from pdml.research.datasets import twonorm

ONE = {"attributes": [{"kind": "number", "name": "x0", "range": [0, 1]}]}


@pytest.fixture(scope="module")
def fitted():
    x, y = twonorm(400, np.random.default_rng(0))
    return PDMLClassifier(n_servers=3, plan={"rounds": 5}, random_state=0).fit(x, y), x


@pytest.fixture
def saved(fitted, tmp_path):
    path = tmp_path / "model.json"
    fitted[0].model_.save(path)
    return path


def test_round_trip_predicts_the_same(fitted, saved):
    model, x = fitted
    loaded = load_model(saved)
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    np.testing.assert_array_equal(loaded.coefficients, model.coef_)
    summary = json.loads(json.dumps(model.privacy_.to_dict()))
    for line in summary[
        "rows"
    ]:  # the file's certainties have the digits that all machines agree on
        line["certainty"] = min(1.0, ceil(line["certainty"] * 1e9) / 1e9)
    assert loaded.privacy == {**summary, "counted": THIS_TRAINING}
    assert loaded.plan["rounds"] == 5


def test_the_released_model_is_the_average_of_noisy_releases(fitted):
    model, _ = fitted
    mean = np.mean([server.coefficients for server in model.server_models_], axis=0)
    np.testing.assert_allclose(model.coef_, mean, rtol=1e-12)


def test_three_classes_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 3)), rng.choice(["a", "b", "c"], 200)
    model = PDMLClassifier(n_servers=2, plan={"rounds": 3}, random_state=0).fit(x, y)
    model.model_.save(tmp_path / "m.json")
    loaded = load_model(tmp_path / "m.json")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    np.testing.assert_allclose(loaded.predict_proba(x).sum(axis=1), 1)


def change(saved, **fields):
    card = json.loads(saved.read_text())
    card.update(fields)
    saved.write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"format": "pdml-model/9"}, "a pdml newer than"),
        ({"coefficients": []}, "not a rectangular table"),
        ({"coefficients": [[1.0], [2.0]]}, "2 rows of coefficients for 2 classes"),
        ({"encoder": {"attributes": []}}, "an encoder that no training has"),
        ({"encoder": ONE}, "an encoder of 1 features and coefficients for 20"),
        ({"classes": ["only"]}, "for 1 classes"),
        ({"norm_bound": -1.0}, "norm bound that is not positive"),
        ({"surprise": 1}, "unknown field"),
        ({"intercepts": ["x"]}, "is not a model of pdml"),
    ],
)
def test_other_files_are_refused(saved, fields, sentence):
    change(saved, **fields)
    with pytest.raises(DataError, match=sentence):
        load_model(saved)


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_model(tmp_path / "none.json")
    (tmp_path / "bad.json").write_bytes(b"\xff\x00{")
    with pytest.raises(DataError, match="is not a model of pdml"):
        load_model(tmp_path / "bad.json")


def test_the_wrong_number_of_features_is_refused(saved):
    with pytest.raises(DataError, match="trained on 20 features, got 3"):
        load_model(saved).predict(np.ones((2, 3)))


def test_preparing_is_rowwise():
    """Scaling, bias and clipping look at one record and public settings only."""
    x = np.random.default_rng(0).normal(size=(50, 3)) * 5
    numbers = tuple(Number(name=f"x{k}", low=-1, high=1) for k in range(3))
    pipeline = Pipeline(encoder=Encoder(attributes=numbers))
    whole, _ = pipeline.rows(x)
    for j in range(50):
        alone, _ = pipeline.rows(x[j : j + 1])
        np.testing.assert_array_equal(alone[0], whole[j])
