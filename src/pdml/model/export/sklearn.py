"""A model as a pipeline of scikit-learn's own classes: it predicts where there is no pdml.

To shrink a row z to the norm B where it is longer is z·B/max(‖z‖, B). scikit-learn has no such
step; but the largest entry of (z, max(‖z‖, B)) is its last, so that `Normalizer(norm="max")`
divides by it, and the factor B is left to the coefficients.

Whatever stands inside of a `ColumnTransformer` is made anew when that is fitted, so it has
settings and no fitted numbers: `np.interp` between two points is a linear function within limits.
"""

from math import pi, sqrt
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from pdml import extras
from pdml.encoding import scaling
from pdml.encoding.expansion import Expansion
from pdml.encoding.maps import Bins, FeatureMap, Fourier, Inputs, Products
from pdml.model.model import Model
from pdml.model.prediction_pipeline import Column, Recipe, Scaled, recipe, turns_of

Step = tuple[str, Any]


def pipeline(model: Model) -> Pipeline:
    """The same classes and probabilities by scikit-learn alone.

    Parameters
    ----------
    model : Model
        Any.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Ready to predict. It takes a dense array of rows or, if the model was trained on a table, a
        DataFrame with its columns, in any order and among others, with NaN in gaps.

    Raises
    ------
    InvalidInput
        If the model does something with a record that scikit-learn cannot.
    MissingExtra
        If the model was trained on a table and pandas is not installed.

    Guarantees
    ----------
    - It holds classes of scikit-learn and functions of NumPy alone, so that a pickle of it can be
      loaded where there is no pdml.
    - Classes, and probabilities to rounding (waves: to 1e-9), are the model's on every record that
      the model takes. What the model refuses is refused too, except a fraction where a table has
      whole numbers.
    """
    told = recipe(model)
    first = [("columns", _columns(told.columns))] if told.columns else []
    scaled = _scaled(told.scaled, told.width, told.names)
    steps = [*first, ("scale", scaled), *_clip(told.scaled), *_expanded(told), *_constant(told)]
    return Pipeline([*steps, *_shrink(told.bound), ("classes", _classifier(told, model))])


def _columns(columns: tuple[Column, ...]) -> ColumnTransformer:
    """From a table's columns to numbers."""
    with extras.needed():
        import pandas as pd
    made = ColumnTransformer(
        [(name, step, [column.name]) for column in columns for name, step in _cells(column)],
        verbose_feature_names_out=False,
    )
    record = {column.name: [column.levels[0] if column.levels else 0.0] for column in columns}
    return made.fit(pd.DataFrame(record))  # learns the names; all else is declared


def _cells(column: Column) -> list[Step]:
    """The steps whose outcomes stand side by side for one column."""
    if column.levels:
        known = [*column.levels, ""] if column.gaps else list(column.levels)
        hot = OneHotEncoder(categories=[known], sparse_output=False)
        filled = SimpleImputer(strategy="constant", fill_value="")
        return [(column.name, Pipeline([("gaps", filled), ("level", hot)]) if column.gaps else hot)]
    if not column.gaps:
        return [(column.name, "passthrough")]
    filled = SimpleImputer(strategy="constant", fill_value=column.fill)
    return [(column.name, filled), (f"{column.name} is missing", MissingIndicator(features="all"))]


def _scaled(told: Scaled | None, width: int, names: tuple[str, ...]) -> StandardScaler:
    """(x - origin)/unit; without either it still checks what it is given."""
    step = StandardScaler(with_mean=told is not None, with_std=told is not None)
    step.fit(np.zeros((1, width)))
    if told is not None:
        step.mean_, step.scale_, step.var_ = told.origin, told.unit, told.unit**2
    if names:
        step.feature_names_in_ = np.array(names, dtype=object)
    return step


def _clip(told: Scaled | None) -> list[Step]:
    return [] if told is None else [("clip", _function(np.clip, a_min=told.low, a_max=told.high))]


def _expanded(told: Recipe) -> list[Step]:
    """The entries that stay, and what maps make of them."""
    if told.expansion is None:
        return []
    check = _function(np.asarray_chkfinite)  # what a map drops would go unnoticed
    return [("finite", check), ("maps", _maps(told.expansion).fit(np.zeros((1, told.width))))]


def _maps(expansion: Expansion) -> ColumnTransformer:
    made = [("kept", "passthrough", expansion.kept)]
    for k, each in enumerate(expansion.maps):
        used = np.array(each.uses(expansion.inputs), dtype=np.int64)
        if isinstance(each, Products):
            step = Pipeline([("product", _function(np.prod, axis=1, keepdims=True)), _limits()])
            pairs = enumerate(used.reshape(-1, 2))
            made += [(f"map {k + 1}, pair {j + 1}", step, pair) for j, pair in pairs]
        else:
            made.append((f"map {k + 1}", _map(each, expansion.inputs), used))
    return ColumnTransformer(made)


def _map(each: FeatureMap, inputs: Inputs) -> Pipeline:
    """A map of all the columns that it uses at once."""
    many = len(each.uses(inputs))
    if isinstance(each, Bins):
        number = _function(np.digitize, bins=np.array(each.inner))
        known = [np.arange(each.count)] * many
        hot = OneHotEncoder(categories=known, sparse_output=False)
        share = 1 / each.count
        centred = _function(np.interp, xp=[0.0, 1.0], fp=[-share, 1 - share])
        return Pipeline([("number", number), ("hot", hot), ("centred", centred)])
    if isinstance(each, Fourier):
        turns, phases = turns_of(each, inputs)
        angles = 2 * pi * np.vstack([phases, turns.T])  # the constant comes first
        wide = _function(np.interp, xp=[-1.0, 1.0], fp=[-sqrt(2), sqrt(2)])
        return Pipeline(
            [
                ("constant", PolynomialFeatures(degree=1)),
                ("angles", _function(np.dot, b=angles)),
                ("waves", _function(np.cos)),
                ("wide", wide),
            ]
        )
    top = 1 + scaling.LIMIT * sqrt(2)  # (e² - 1)/√2, at most 3
    scaled = _function(np.interp, xp=[0.0, top], fp=[-sqrt(0.5), scaling.LIMIT])
    return Pipeline([("square", _function(np.square)), ("scaled", scaled)])


def _limits() -> Step:
    return ("limits", _function(np.clip, a_min=-scaling.LIMIT, a_max=scaling.LIMIT))


def _constant(told: Recipe) -> list[Step]:
    """Put the constant first."""
    if told.constant is None:
        return []
    width = told.weights.shape[1] - 1
    size = StandardScaler(with_mean=False).fit(np.zeros((1, width + 1)))
    size.scale_[0] = 1 / told.constant
    one = PolynomialFeatures(degree=1).fit(np.zeros((1, width)))
    return [("one", one), ("constant", size)]


def _shrink(bound: float) -> list[Step]:
    """z/max(‖z‖, B), and a last entry without a meaning."""
    norm = _function(np.linalg.norm, axis=1, keepdims=True)
    longest = Pipeline([("norm", norm), ("bound", _function(np.clip, a_min=bound, a_max=None))])
    both = FeatureUnion([("row", "passthrough"), ("longest", longest)])
    return [("length", both), ("shrink", Normalizer(norm="max"))]


def _classifier(told: Recipe, model: Model) -> LogisticRegression:
    """From shrunk rows to classes."""
    weights = told.weights * told.bound
    if told.constant is not None:
        weights = np.hstack([weights[:, -1:], weights[:, :-1]])
    made = LogisticRegression()
    made.coef_ = np.hstack([weights, np.zeros((len(weights), 1))])
    made.intercept_ = np.zeros(len(weights))
    made.classes_ = np.asarray(model.classes)
    made.n_features_in_ = made.coef_.shape[1]
    return made


def _function(function: Any, **settings: Any) -> FunctionTransformer:
    return FunctionTransformer(function, kw_args=settings)
