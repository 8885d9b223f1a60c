"""Models of every shape, made by hand: what other programs do with them is compared with ours."""

from typing import Any

import numpy as np

from pdml.release.model import Model
from pdml.study.encoder import Category, Encoder, Number

ENCODER = Encoder(
    attributes=(
        Number(name="age", low=18, high=100, whole=True),
        Category(name="town", levels=("Öhringen", "Ulm", "Aalen")),
        Number(
            name="year", low=1e9, high=1e9 + 3
        ),  # far from 0: where careless scaling loses digits
    )
)
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
    rng: np.random.Generator, classes: tuple[Any, ...] = ("ja", "nein")
) -> Model:
    names, width = ENCODER.feature_names, ENCODER.n_features
    taught = {"encoder": ENCODER.to_dict(), "feature_names": names, "label": "ill"}
    return model(rng, classes=classes, width=width, **taught)


SHAPES = [
    {"classes": classes, "fit_intercept": bias, "ranges": ranges, "norm_bound": bound}
    for classes in ((0, 1), ("a", "b", "c"))
    for bias in (True, False)
    for ranges in (None, RANGES)
    for bound in (1.0, 2.5)
]


def rows(rng: np.random.Generator, count: int = 200) -> np.ndarray[Any, Any]:
    """Inside and outside the ranges, short and long."""
    low, high = RANGES.T
    return rng.uniform(low - (high - low), high + (high - low), (count, 4))


def small_rows(rng: np.random.Generator, count: int = 200) -> np.ndarray[Any, Any]:
    """About the norm bound: some are shrunk, some are not."""
    return rng.normal(size=(count, 4)) * rng.uniform(0, 1.5, (count, 1))


def people(rng: np.random.Generator, count: int = 200) -> dict[str, Any]:
    """Cells for the columns of `ENCODER`, and one that it does not know."""
    return {
        "year": rng.uniform(1e9 - 3, 1e9 + 6, count),
        "other": np.zeros(count),
        "town": rng.choice(["Öhringen", "Ulm", "Aalen"], count).astype(object),
        "age": rng.integers(10, 110, count).astype(float),
    }
