"""A model as a pipeline of scikit-learn's own classes: it predicts where there is no pdml.

To shrink a row z to the norm B where it is longer is z·B/max(‖z‖, B). scikit-learn has no such
step; but the largest entry of (z, max(‖z‖, B)) is its last, so that `Normalizer(norm="max")`
divides by it, and the factor B is left to the coefficients.
"""

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
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
from pdml.release.model import Model
from pdml.release.recipe import Column, Recipe, Scaled, recipe


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
        DataFrame with its columns, in any order and among others.

    Raises
    ------
    MissingExtra
        If the model was trained on a table and pandas is not installed.

    Guarantees
    ----------
    - It holds classes of scikit-learn and functions of NumPy alone, so that a pickle of it can be
      loaded where there is no pdml.
    - Classes, and probabilities to rounding, are the model's on every record that the model takes.
      What the model refuses is refused too, except a fraction where a table has whole numbers.
    """
    told = recipe(model)
    first = [("columns", _columns(told.columns))] if told.columns else []
    scaled = _scaled(told.scaled, told.width, told.names)
    steps = [*first, ("scale", scaled), *_clip(told.scaled), *_constant(told)]
    return Pipeline([*steps, *_shrink(told.bound), ("classes", _classifier(told, model))])


def _columns(columns: tuple[Column, ...]) -> ColumnTransformer:
    """From a table's columns to numbers."""
    with extras.needed():
        import pandas as pd
    made = ColumnTransformer(
        [
            (
                column.name,
                OneHotEncoder(categories=[list(column.levels)], sparse_output=False)
                if column.levels
                else "passthrough",
                [column.name],
            )
            for column in columns
        ],
        verbose_feature_names_out=False,
    )
    record = {column.name: [column.levels[0] if column.levels else 0.0] for column in columns}
    return made.fit(pd.DataFrame(record))  # learns the names; all else is declared


def _scaled(told: Scaled | None, width: int, names: tuple[str, ...]) -> StandardScaler:
    """(x - origin)/unit; without either it still checks what it is given."""
    step = StandardScaler(with_mean=told is not None, with_std=told is not None)
    step.fit(np.zeros((1, width)))
    if told is not None:
        step.mean_, step.scale_, step.var_ = told.origin, told.unit, told.unit**2
    if names:
        step.feature_names_in_ = np.array(names, dtype=object)
    return step


def _clip(told: Scaled | None) -> list[tuple[str, Any]]:
    return [] if told is None else [("clip", _function(np.clip, a_min=told.low, a_max=told.high))]


def _constant(told: Recipe) -> list[tuple[str, Any]]:
    """Put the constant first."""
    if told.constant is None:
        return []
    return [("constant", PolynomialFeatures(degree=1).fit(np.zeros((1, told.width))))]


def _shrink(bound: float) -> list[tuple[str, Any]]:
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
