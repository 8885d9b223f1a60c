"""Models of every shape, made by hand: what other programs do with them is compared with ours."""

from typing import Any

import numpy as np

from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.maps import Bins, Fourier, Products, Splines, Squares
from pdml.encoding.pipeline import unnamed
from pdml.model.model import Model

_TOWN = Category(name="town", levels=("Öhringen", "Ulm", "Aalen"))
_YEAR = Number(name="year", low=1e9, high=1e9 + 3)  # far from 0: careless scaling loses digits
MAPS = (
    Squares(columns=("age", "year")),
    Products(pairs=(("age", "year"), ("town=Ulm", "age"))),
    Splines(columns=("age",)),
    Bins(columns=("year",), count=4, keep=False),
    Fourier(count=7, scale=0.9, seed=3),
)
ENCODERS = {
    "ranges": Encoder(attributes=(Number(name="age", low=18, high=100, whole=True), _TOWN, _YEAR)),
    "scales": Encoder(
        attributes=(Number(name="age", low=18, high=100, average=40, spread=15), _TOWN, _YEAR),
    ),
    "maps": Encoder(
        attributes=(Number(name="age", low=0, high=200, average=40, spread=15), _TOWN, _YEAR),
        maps=MAPS,
    ),
    "gaps": Encoder(
        attributes=(
            Number(name="age", low=18, high=100, average=40, spread=15, missing="average"),
            Category(name="town", levels=_TOWN.levels, missing="level"),
            _YEAR,
        ),
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
    rng: np.random.Generator, classes: tuple[Any, ...] = ("ja", "nein"), kind: str = "ranges"
) -> Model:
    encoder = ENCODERS[kind]
    names, width = encoder.feature_names, encoder.n_features
    taught = {"encoder": encoder.to_dict(), "feature_names": names, "label": "ill"}
    return model(rng, classes=classes, width=width, **taught)


SCALES = np.array([[0.5, 0.5], [0.0, 2.0], [1e9 + 1, 1.0], [2.2, 0.1]])
MAPS_OF_NUMBERS = (
    Squares(keep=False),
    Products(pairs=(("x0", "x1"), ("x2", "x3"))),
    Splines(columns=("x2", "x0"), keep=False),
    Bins(columns=("x1", "x3"), edges=(-1.0, 0.5)),
    Fourier(columns=("x0", "x1"), count=4),
)


def numbers(names: Any, *, ranges: Any = None, scales: Any = SCALES, maps: Any = ()) -> Encoder:
    """Columns of numbers; without ranges they have no limits."""
    ends = [(-np.inf, np.inf)] * len(names) if ranges is None else ranges.tolist()
    return Encoder(
        attributes=tuple(
            Number(name=name, low=low, high=high, average=average, spread=spread)
            for name, (low, high), (average, spread) in zip(
                names, ends, scales.tolist(), strict=True
            )
        ),
        maps=maps,
    )


INPUTS: dict[str, dict[str, Any]] = {
    "scales": {},
    "scales and ranges": {"ranges": RANGES},
    "maps": {"maps": MAPS_OF_NUMBERS},
}


def _declared(kind: str) -> dict[str, Any]:
    """Fields of a model of rows."""
    if kind not in INPUTS:
        return {}
    encoder = numbers(unnamed(4), **INPUTS[kind])
    return {"encoder": encoder.to_dict(), "width": encoder.n_features}


SHAPES = {
    f"{kind}, {len(classes)} classes, intercept {bias}, bound {bound}": {
        "classes": classes,
        "fit_intercept": bias,
        "norm_bound": bound,
        **_declared(kind),
    }
    for kind in ("nothing", *INPUTS)
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
