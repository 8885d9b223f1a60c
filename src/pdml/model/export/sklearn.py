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
from pdml.model.prediction_pipeline import (
    Column,
    PredictionPipeline,
    Scaled,
    describe_model,
    wave_directions,
)

Step = tuple[str, Any]


def pipeline(model: Model) -> Pipeline:
    """The same classes and probabilities by scikit-learn alone.

    Guarantees
    ----------
    - It holds classes of scikit-learn and functions of NumPy alone, so that a pickle of it can be
      loaded where there is no pdml.
    - Classes, and probabilities to rounding (waves: to 1e-9), are the model's on every record that
      the model takes. What the model refuses is refused too, except a fraction where a table has
      whole numbers.
    """
    stages = describe_model(model)
    first = [("columns", _columns(stages.columns))] if stages.columns else []
    scaled = _scaled(stages.scaled, stages.width, stages.names)
    steps = [
        *first,
        ("scale", scaled),
        *_clip(stages.scaled),
        *_expanded(stages),
        *_constant(stages),
    ]
    return Pipeline([*steps, *_shrink(stages.bound), ("classes", _classifier(stages, model))])


def _columns(columns: tuple[Column, ...]) -> ColumnTransformer:
    """From a table's columns to numbers."""
    with extras.needed():
        import pandas as pd
    transformer = ColumnTransformer(
        [(name, step, [column.name]) for column in columns for name, step in _cells(column)],
        verbose_feature_names_out=False,
    )
    record = {column.name: [column.levels[0] if column.levels else 0.0] for column in columns}
    return transformer.fit(pd.DataFrame(record))  # learns the names; all else is declared


def _cells(column: Column) -> list[Step]:
    """The steps whose outcomes stand side by side for one column."""
    if column.levels:
        levels = [*column.levels, ""] if column.gaps else list(column.levels)
        hot = OneHotEncoder(categories=[levels], sparse_output=False)
        filled = SimpleImputer(strategy="constant", fill_value="")
        return [(column.name, Pipeline([("gaps", filled), ("level", hot)]) if column.gaps else hot)]
    if not column.gaps:
        return [(column.name, "passthrough")]
    filled = SimpleImputer(strategy="constant", fill_value=column.fill)
    return [(column.name, filled), (f"{column.name} is missing", MissingIndicator(features="all"))]


def _scaled(scaler: Scaled | None, width: int, names: tuple[str, ...]) -> StandardScaler:
    """(x - origin)/unit; without either it still checks what it is given."""
    step = StandardScaler(with_mean=scaler is not None, with_std=scaler is not None)
    step.fit(np.zeros((1, width)))
    if scaler is not None:
        step.mean_, step.scale_, step.var_ = scaler.origin, scaler.unit, scaler.unit**2
    if names:
        step.feature_names_in_ = np.array(names, dtype=object)
    return step


def _clip(scaler: Scaled | None) -> list[Step]:
    return (
        []
        if scaler is None
        else [("clip", _function(np.clip, a_min=scaler.low, a_max=scaler.high))]
    )


def _expanded(stages: PredictionPipeline) -> list[Step]:
    """The entries that stay, and what maps make of them."""
    if stages.expansion is None:
        return []
    check = _function(np.asarray_chkfinite)  # what a map drops would go unnoticed
    return [("finite", check), ("maps", _maps(stages.expansion).fit(np.zeros((1, stages.width))))]


def _maps(expansion: Expansion) -> ColumnTransformer:
    transformers = [("kept", "passthrough", expansion.kept)]
    for k, feature_map in enumerate(expansion.maps):
        used = np.array(feature_map.uses(expansion.inputs), dtype=np.int64)
        if isinstance(feature_map, Products):
            step = Pipeline([("product", _function(np.prod, axis=1, keepdims=True)), _limits()])
            pairs = enumerate(used.reshape(-1, 2))
            transformers += [(f"map {k + 1}, pair {j + 1}", step, pair) for j, pair in pairs]
        else:
            transformers.append((f"map {k + 1}", _map(feature_map, expansion.inputs), used))
    return ColumnTransformer(transformers)


def _map(feature_map: FeatureMap, inputs: Inputs) -> Pipeline:
    """A map of all the columns that it uses at once."""
    many = len(feature_map.uses(inputs))
    if isinstance(feature_map, Bins):
        number = _function(np.digitize, bins=np.array(feature_map.inner))
        categories = [np.arange(feature_map.count)] * many
        hot = OneHotEncoder(categories=categories, sparse_output=False)
        share = 1 / feature_map.count
        centred = _function(np.interp, xp=[0.0, 1.0], fp=[-share, 1 - share])
        return Pipeline([("number", number), ("hot", hot), ("centred", centred)])
    if isinstance(feature_map, Fourier):
        turns, phases = wave_directions(feature_map, inputs)
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


def _constant(stages: PredictionPipeline) -> list[Step]:
    """Put the constant first."""
    if stages.constant is None:
        return []
    width = stages.weights.shape[1] - 1
    size = StandardScaler(with_mean=False).fit(np.zeros((1, width + 1)))
    size.scale_[0] = 1 / stages.constant
    intercept = PolynomialFeatures(degree=1).fit(np.zeros((1, width)))
    return [("one", intercept), ("constant", size)]


def _shrink(bound: float) -> list[Step]:
    """z/max(‖z‖, B), and a last entry without a meaning."""
    norm = _function(np.linalg.norm, axis=1, keepdims=True)
    longest = Pipeline([("norm", norm), ("bound", _function(np.clip, a_min=bound, a_max=None))])
    both = FeatureUnion([("row", "passthrough"), ("longest", longest)])
    return [("length", both), ("shrink", Normalizer(norm="max"))]


def _classifier(stages: PredictionPipeline, model: Model) -> LogisticRegression:
    """From shrunk rows to classes."""
    weights = stages.weights * stages.bound
    if stages.constant is not None:
        weights = np.hstack([weights[:, -1:], weights[:, :-1]])
    classifier = LogisticRegression()
    classifier.coef_ = np.hstack([weights, np.zeros((len(weights), 1))])
    classifier.intercept_ = np.zeros(len(weights))
    classifier.classes_ = np.asarray(model.classes)
    classifier.n_features_in_ = classifier.coef_.shape[1]
    return classifier


def _function(function: Any, **settings: Any) -> FunctionTransformer:
    return FunctionTransformer(function, kw_args=settings)
