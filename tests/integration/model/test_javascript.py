"""A model as a person's own device computes it: JavaScript gives Python's probabilities."""

import json
import shutil
import subprocess
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
import pytest
from models import (
    ENCODERS,
    INPUTS,
    SCALES,
    model,
    numbers,
    people,
    rows,
    small_rows,
    trained_on_a_table,
)

from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.encoding.pipeline import unnamed
from pdml.errors import InvalidInput
from pdml.model.export.javascript import device_pipeline
from pdml.model.model import Model

RNG = np.random.default_rng(0)
ENGINE = shutil.which("node")
SCRIPTS = (("device", "encoding.js"), ("pages", "templates/predicting.js"))
RUN = """
const { sheet, people } = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(people.map((answers) => predicted(sheet, answers))));
"""
needs_engine = pytest.mark.skipif(ENGINE is None, reason="needs a JavaScript engine (node)")

MENU = Menu(menu=(0.5, 2.0), default=2.0)
_AGE = Number(name="age", low=18, high=100, average=40, spread=15, missing="average")
_TOWN = Category(name="town", levels=("Öhringen", "Ulm", "Aalen"), missing="level", epsilon=MENU)
_INCOME = Number(name="income", low=0, high=200, bins=(20, 50, 100), missing="level", epsilon=MENU)
_SEX = Category(name="sex", levels=("female", "male"), epsilon=MENU)
SENSITIVE = {
    "some": Encoder(attributes=(_TOWN, _AGE, _INCOME)),
    "all": Encoder(attributes=(_SEX, _INCOME)),
    "with maps": Encoder(
        attributes=(_INCOME, _AGE, _SEX),
        maps=({"map": "squares"}, {"map": "splines"}, {"map": "fourier", "count": 5, "seed": 2}),  # type: ignore[arg-type]
    ),
}


def in_javascript(ours: Model, given: list[list[Any]]) -> tuple[Any, Any]:
    """(probabilities, chosen classes) of people, whose answers are in the order of the questions."""
    files = [resources.files(f"pdml.{room}").joinpath(name) for room, name in SCRIPTS]
    script = "".join([file.read_text("utf-8") for file in files]) + RUN
    summary = json.dumps({"sheet": device_pipeline(ours).to_dict(), "people": given})
    done = subprocess.run(
        [str(ENGINE), "-e", script], input=summary, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [one["chances"] for one in found], [one["chosen"] for one in found]


def assert_same(ours: Model, given: list[list[Any]], x: Any) -> None:
    chances, chosen = in_javascript(ours, given)
    np.testing.assert_allclose(chances, ours.predict_proba(x), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(chosen, ours.choose(x))


def answers(cells: dict[str, Any], names: list[str]) -> list[list[Any]]:
    columns = [cells[name] for name in names]
    return [[None if cell != cell else cell for cell in row] for row in zip(*columns, strict=True)]


@needs_engine
@pytest.mark.parametrize("classes", [("ja", "nein"), (1.5, 2.5, 4.0)])
@pytest.mark.parametrize("kind", ENCODERS)
def test_answers_to_declared_questions(kind, classes):
    ours, cells = trained_on_a_table(RNG, classes, kind), people(RNG, gaps=kind == "gaps")
    given = answers(cells, [each.name for each in ENCODERS[kind].attributes])
    assert_same(ours, given, ours.features(pd.DataFrame(cells)))


@needs_engine
@pytest.mark.parametrize("classes", [(0, 1), ("a", "b", "c", "d")])
@pytest.mark.parametrize("kind", SENSITIVE)
def test_what_a_study_randomises_counts_as_it_is(kind, classes):
    encoder, count = SENSITIVE[kind], 200
    fields = {"encoder": encoder.to_dict(), "feature_names": encoder.feature_names}
    ours = model(RNG, classes=classes, width=encoder.n_features, **fields)
    cells = people(RNG, count, gaps=True)
    cells["income"] = RNG.choice([np.nan, 0, 19.9, 20, 50, 99, 100, 200], count)  # edges, too
    cells["sex"] = RNG.choice(["female", "male"], count).astype(object)
    given = answers(cells, [each.name for each in encoder.attributes])
    assert_same(ours, given, ours.features(pd.DataFrame(cells)))


@needs_engine
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", INPUTS)
def test_columns_of_numbers(kind, bias):
    names, scales = ("a", "b", "c", "__proto__"), SCALES
    if kind == "maps":  # names stand in its maps: one more column makes them a table's
        names, scales = (*unnamed(4), "last"), np.vstack([SCALES, [0.0, 1.0]])
    encoder = numbers(names, scales=scales, **INPUTS[kind])
    fields = {"encoder": encoder.to_dict(), "width": encoder.n_features}
    ours = model(RNG, classes=("a", "b", "c"), fit_intercept=bias, norm_bound=2.5, **fields)
    for x in (rows(RNG), small_rows(RNG), np.zeros((1, 4))):
        wide = np.hstack([x, RNG.normal(size=(len(x), len(names) - 4))])
        assert_same(ours, wide.tolist(), wide)


@pytest.mark.parametrize(
    "fields",
    [{}, {"feature_names": ("a", "b", "c", "d")}, {"encoder": numbers(unnamed(4)).to_dict()}],
    ids=["nothing", "names alone", "numbered columns"],
)
def test_a_model_that_declares_no_questions_is_refused(fields):
    with pytest.raises(InvalidInput, match="declares none: train it by a study"):
        device_pipeline(model(RNG, classes=(0, 1), **fields))
