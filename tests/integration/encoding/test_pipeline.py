"""One list of steps: NumPy, DataFrames, scikit-learn, ONNX and JavaScript make the same of the
shared vectors, tests/vectors/encoding.json.
"""

import json
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pdml import Encoding, PDMLClassifier, TrainingPlan
from pdml.encoding.device_encoding import encode
from pdml.encoding.encoder import Category, Number
from pdml.encoding.pipeline import Pipeline
from pdml.encoding.row_steps import (
    AppendConstant,
    ClipRows,
    ExpandMaps,
    Multiply,
    ReadColumns,
    ScaleNumbers,
)
from pdml.errors import DataError
from pdml.model.export.javascript import device_pipeline
from pdml.model.model import Model
from pdml.study import Study

PATH = Path(__file__).parents[2] / "vectors" / "encoding.json"
STUDIES = {
    study.id: (study, [case["answers"] for case in stored["cases"]], stored["cases"])
    for stored in json.loads(PATH.read_text(encoding="utf-8"))["studies"]
    for study in [Study.from_canonical(stored["canonical"].encode())]
    if not study.encoder.sensitive  # of these a row holds what was drawn
}
by_study = pytest.mark.parametrize("name", STUDIES)


def frame_of(name):
    study, people, _ = STUDIES[name]
    cells = {
        one.name: [np.nan if person[one.name] is None else person[one.name] for person in people]
        for one in study.encoder.attributes
    }
    return pd.DataFrame(
        {
            one.name: pd.Series(cells[one.name], dtype=None if kind else object)
            for one in study.encoder.attributes
            for kind in [isinstance(one, Number)]
        }
    )


def rows_of(name):
    study = STUDIES[name][0]
    pipeline = Pipeline(encoder=study.encoder)
    return pipeline.rows(pipeline.read(frame_of(name)))[0]


def model_of(name, seed=0):
    encoder = STUDIES[name][0].encoder
    rng = np.random.default_rng(seed)
    return Model(
        classes=("a", "b", "c"),
        coefficients=3 * rng.normal(size=(3, encoder.n_features)),
        intercepts=rng.normal(size=3),
        norm_bound=1.0,
        fit_intercept=True,
        encoder=encoder.to_dict(),
    )


def interpret(steps, table):
    """The list taken at its word, in NumPy."""
    rows = np.empty((len(table), 0))
    for step in steps:
        match step:
            case ReadColumns():
                parts = [cells_of(column, table[column.name]) for column in step.columns]
                rows = np.column_stack([rows, *parts])
            case ScaleNumbers():
                rows = np.clip((rows - step.origin) / step.unit, step.low, step.high)
            case ExpandMaps():
                rows = step.expansion.apply(rows)
            case Multiply():
                rows = rows * step.factor
            case AppendConstant():
                rows = np.column_stack([rows, np.full(len(rows), step.value)])
            case ClipRows():
                norms = np.sqrt(np.cumsum(rows * rows, axis=1)[:, -1])  # from left to right
                rows = rows * (step.bound / np.maximum(norms, step.bound))[:, None]
            case _:
                raise AssertionError(step)
    return rows


def cells_of(column, cells):
    gaps = cells.isna().to_numpy()
    if column.levels:
        numbers = np.array([[cell == level for level in column.levels] for cell in cells], float)
    else:
        numbers = np.where(gaps, column.fill, cells.to_numpy(dtype=float, na_value=np.nan))[:, None]
    return np.column_stack([numbers, gaps.astype(float)]) if column.gaps else numbers


@by_study
def test_numpy_has_the_bits_of_the_vectors(name):
    study, people, cases = STUDIES[name]
    wanted = [case["features_hex"] for case in cases]
    assert [encode(study.encoder, person).tobytes().hex() for person in people] == wanted


@by_study
def test_a_data_frame_has_the_bits_of_the_vectors(name):
    wanted = [case["features_hex"] for case in STUDIES[name][2]]
    assert [row.tobytes().hex() for row in rows_of(name).astype(np.float32)] == wanted


@by_study
def test_the_steps_are_what_numpy_does(name):
    encoder = STUDIES[name][0].encoder
    steps = Pipeline(encoder=encoder).steps(encoder.n_features)
    np.testing.assert_array_equal(interpret(steps, frame_of(name)), rows_of(name))


@by_study
def test_scikit_learn_follows_the_steps(name):
    model, frame = model_of(name), frame_of(name)
    found = model.to_sklearn().predict_proba(frame)
    np.testing.assert_allclose(found, model.predict_proba(frame), rtol=0, atol=1e-9)


@by_study
def test_onnx_follows_the_steps(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model, frame = model_of(name), frame_of(name)
    model.to_onnx(tmp_path / "model.onnx")
    feeds = {
        one.name: frame[[one.name]].fillna("").to_numpy(dtype=object)
        if isinstance(one, Category)
        else frame[[one.name]].to_numpy(dtype=float)
        for one in STUDIES[name][0].encoder.attributes
    }
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(["probabilities"], feeds)
    np.testing.assert_allclose(found, model.predict_proba(frame), rtol=0, atol=1e-9)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs a JavaScript engine (node)")
@by_study
def test_the_prediction_page_follows_the_steps(name):
    """The page's rows; the contributor page has the vectors' bits in test_device_encoding.py."""
    model, people = model_of(name), STUDIES[name][1]
    files = (("device", "encoding.js"), ("pages", "templates/predicting.js"))
    script = "".join(
        resources.files(f"pdml.{package}").joinpath(file).read_text("utf-8")
        for package, file in files
    )
    script += """
    const { sheet, people } = JSON.parse(require("fs").readFileSync(0, "utf8"));
    console.log(JSON.stringify(people.map((answers) => rowBy(sheet, answers))));"""
    names = [one.name for one in STUDIES[name][0].encoder.attributes]
    given = {
        "sheet": device_pipeline(model).to_dict(),
        "people": [[person[name] for name in names] for person in people],
    }
    done = subprocess.run(
        ["node", "-e", script], input=json.dumps(given), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(json.loads(done.stdout), rows_of(name))


# What else records may come in


class ForeignFrame:
    """A DataFrame of another library, such as polars: names, and cells by ``to_dict``."""

    def __init__(self, cells):
        self._cells, self.columns = cells, list(cells)

    def to_dict(self, *, as_series):
        assert not as_series
        return self._cells

    def __len__(self):
        return len(next(iter(self._cells.values())))


class ArrowFrame:
    """A DataFrame that gives an Arrow stream and nothing else."""

    def __init__(self, frame):
        self._table = sys.modules["pyarrow"].Table.from_pandas(frame, preserve_index=False)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def people(many=120):
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 90, many).astype(float)
    cells = {"age": ages.tolist(), "town": rng.choice(["Bern", "Basel"], many).tolist()}
    cells["age"][3] = cells["town"][5] = None
    return cells, ages > 50


ENCODING = {
    "scales": {"age": (50, 15)},
    "levels": {"town": ["Bern", "Basel"]},
    "missing": ("average", "level"),
}


def test_frames_of_every_library_give_the_same_rows():
    pytest.importorskip("pyarrow")
    cells, y = people()
    pandas = pd.DataFrame(cells)
    rows = []
    for given in (pandas, ForeignFrame(cells), ArrowFrame(pandas)):
        pipeline, x, _ = Encoding(**ENCODING).resolve(PDMLClassifier(), given, y)
        rows.append(pipeline.rows(x)[0])
        np.testing.assert_array_equal(pipeline.rows(pipeline.read(given))[0], rows[0])
    np.testing.assert_array_equal(rows[1], rows[0])
    np.testing.assert_array_equal(rows[2], rows[0])


def test_polars_frames_are_read():
    polars = pytest.importorskip("polars")
    cells, y = people()
    for given in (polars.DataFrame(cells), ForeignFrame(cells)):
        pipeline, x, _ = Encoding(**ENCODING).resolve(PDMLClassifier(), given, y)
        assert pipeline.rows(x)[0].shape == (len(y), 6)


def test_a_model_predicts_from_tables_frames_arrays_and_files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 200), "weight": rng.normal(70, 9, 200)})
    y = frame["age"] > 50
    fitted = PDMLClassifier(
        n_servers=2,
        plan=TrainingPlan(method="sums", label_noise=0.5, square_noise=0.5),
        classes=(False, True),
        encoding=Encoding(scales={"age": (50, 15), "weight": (70, 9)}),
        random_state=0,
    ).fit(frame, y)
    frame.to_csv(tmp_path / "people.csv", index=False)
    foreign = ForeignFrame({name: frame[name].tolist() for name in ("weight", "age")})
    model = fitted.model_
    for given in (
        frame,
        frame[["weight", "age"]],
        frame.to_numpy(),
        foreign,
        tmp_path / "people.csv",
    ):
        np.testing.assert_array_equal(model.predict_proba(given), fitted.predict_proba(frame))
    with pytest.raises(DataError, match="lacks columns the model needs: 'age'"):
        model.predict(frame[["weight"]])
