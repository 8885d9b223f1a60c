"""Models of every shape, made by hand: what other programs do with them is compared with ours."""

from typing import Any

import numpy as np

from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.maps import Bins, Fourier, Products, Squares
from pdml.encoding.numeric_columns import NumericColumns
from pdml.model.model import Model

_TOWN = Category(name="town", levels=("Öhringen", "Ulm", "Aalen"))
_YEAR = Number(name="year", low=1e9, high=1e9 + 3)  # far from 0: careless scaling loses digits
MAPS = (
    Squares(columns=("age", "year")),
    Products(pairs=(("age", "year"), ("town=Ulm", "age"))),
    Bins(columns=("year",), count=4, keep=False),
    Fourier(count=7, scale=0.9, seed=3),
)
ENCODERS = {
    "version 1": Encoder(
        attributes=(Number(name="age", low=18, high=100, whole=True), _TOWN, _YEAR)
    ),
    "scales": Encoder(
        attributes=(Number(name="age", low=18, high=100, typical=40, spread=15), _TOWN, _YEAR),
        version=2,
    ),
    "maps": Encoder(
        attributes=(Number(name="age", low=0, high=200, typical=40, spread=15), _TOWN, _YEAR),
        version=2,
        maps=MAPS,
    ),
    "gaps": Encoder(
        attributes=(
            Number(name="age", low=18, high=100, typical=40, spread=15, missing="typical"),
            Category(name="town", levels=_TOWN.levels, missing="level"),
            _YEAR,
        ),
        version=2,
    ),
}
RANGES = np.array([[0.0, 1.0], [-5.0, 5.0], [1e9, 1e9 + 3], [2.0, 2.5]])


def model(
    rng: np.random.Generator, *, classes: tuple[Any, ...], width: int = 4, **fields: Any
) -> Model:
    """Coefficients large enough for probabilities near 0 and 1."""
    rows = 1 if len(classes) == 2 else len(classes)
    intercepts = 3 * rng.normal(size=rows)
    bias = fields.setdefault("fit_intercept", True)
    return Model(
        classes=classes,
        coefficients=10 * rng.normal(size=(rows, width)),
        intercepts=intercepts if bias else np.zeros(rows),
        **{"norm_bound": 1.0} | fields,
    )


def trained_on_a_table(
    rng: np.random.Generator, classes: tuple[Any, ...] = ("ja", "nein"), kind: str = "version 1"
) -> Model:
    encoder = ENCODERS[kind]
    names, width = encoder.feature_names, encoder.n_features
    taught = {"encoder": encoder.to_dict(), "feature_names": names, "label": "ill"}
    return model(rng, classes=classes, width=width, **taught)


SCALES = np.array([[0.5, 0.5], [0.0, 2.0], [1e9 + 1, 1.0], [2.2, 0.1]])
_NAMES = ("x0", "x1", "x2", "x3")
INPUTS = {
    "scales": NumericColumns(names=_NAMES, scales=SCALES),
    "scales and ranges": NumericColumns(names=_NAMES, scales=SCALES, ranges=RANGES),
    "maps": NumericColumns(
        names=_NAMES,
        scales=SCALES,
        maps=(
            Squares(keep=False),
            Products(pairs=(("x0", "x1"), ("x2", "x3"))),
            Bins(columns=("x1", "x3"), edges=(-1.0, 0.5)),
            Fourier(columns=("x0", "x1"), count=4),
        ),
    ),
}


def _declared(kind: str) -> dict[str, Any]:
    """Fields of a model of rows."""
    if kind in INPUTS:
        return {"inputs": INPUTS[kind].to_dict(), "width": INPUTS[kind].expansion.width}
    return {"ranges": RANGES if kind == "ranges" else None}


SHAPES = {
    f"{kind}, {len(classes)} classes, intercept {bias}, bound {bound}": {
        "classes": classes,
        "fit_intercept": bias,
        "norm_bound": bound,
        **_declared(kind),
    }
    for kind in ("nothing", "ranges", *INPUTS)
    for classes, bias, bound in (
        ((0, 1), True, 1.0),
        ((0, 1), False, 2.5),
        (("a", "b", "c"), True, 2.5),
        (("a", "b", "c"), False, 1.0),
    )
}


def rows(rng: np.random.Generator, count: int = 200) -> np.ndarray[Any, Any]:
    """Inside and outside the ranges, short and long."""
    low, high = RANGES.T
    return rng.uniform(low - (high - low), high + (high - low), (count, 4))


def small_rows(rng: np.random.Generator, count: int = 200) -> np.ndarray[Any, Any]:
    """About the norm bound: some are shrunk, some are not."""
    return rng.normal(size=(count, 4)) * rng.uniform(0, 1.5, (count, 1))


def people(rng: np.random.Generator, count: int = 200, *, gaps: bool = False) -> dict[str, Any]:
    """Cells for the columns of `ENCODERS`, and one that they do not know."""
    cells: dict[str, Any] = {
        "year": rng.uniform(1e9 - 3, 1e9 + 6, count),
        "other": np.zeros(count),
        "town": rng.choice(["Öhringen", "Ulm", "Aalen"], count).astype(object),
        "age": rng.integers(10, 110, count).astype(float),
    }
    if gaps:
        cells["age"][rng.random(count) < 0.2] = np.nan
        cells["town"][rng.random(count) < 0.2] = np.nan
    return cells
