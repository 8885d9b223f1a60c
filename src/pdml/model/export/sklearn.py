"""A model as a pipeline of scikit-learn's own classes: it predicts where there is no pdml.

To clip a row z to the norm B is z·B/max(‖z‖, B). scikit-learn has no such step; but the largest
entry of (z, max(‖z‖, B)) is its last, so `Normalizer(norm="max")` divides by it, and B is left to
the coefficients. A `ColumnTransformer` makes its steps anew when fitted, so they have settings and
no fitted numbers: `np.interp` between two points is a linear function within limits.
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
from pdml.encoding import row_steps, scaling
from pdml.encoding.maps import (
    HAT_MEANS,
    KNOTS,
    Bins,
    FeatureMap,
    Fourier,
    Inputs,
    Products,
    Splines,
)
from pdml.encoding.row_steps import Column, Expansion
from pdml.errors import InvalidInput
from pdml.model.model import Model

Step = tuple[str, Any]


def pipeline(model: Model) -> Pipeline:
    """The same classes and probabilities by scikit-learn alone.

    Guarantees
    ----------
    - Only classes of scikit-learn and functions of NumPy: a pickle can be loaded without pdml.
    - Classes, and probabilities to rounding (waves: to 1e-9), are the model's on every record that
      the model takes. What the model refuses is refused too, except a fraction where a table has
      whole numbers.
    """
    chain: list[Step] = []
    width, constant, bound = model.coefficients.shape[1], False, 0.0
    for step in model.translatable_steps():
        match step:
            case row_steps.ReadColumns():
                chain.append(("columns", _columns(step.columns)))
                width = sum(column.width for column in step.columns)
            case row_steps.ReadNumbers():
                width = step.width
                chain.append(("numbers", _scaler(width, names=step.names)))
            case row_steps.ScaleNumbers():
                chain.append(("scale", _scaler(width, step.origin, step.unit)))
                chain.append(("clip", _function(np.clip, a_min=step.low, a_max=step.high)))
            case row_steps.ExpandMaps():
                check = _function(np.asarray_chkfinite)  # what a map drops would go unnoticed
                chain.append(("finite", check))
                chain.append(("maps", _maps(step.expansion).fit(np.zeros((1, width)))))
                width = step.expansion.width
            case row_steps.Multiply() if bound:
                bound *= step.factor
            case row_steps.Multiply():
                chain.append(("factor", _scaler(width, unit=np.full(width, 1 / step.factor))))
            case row_steps.AppendConstant():
                chain += _constant(width, step.value)
                constant = True
            case row_steps.ClipRows():
                chain += _clip_rows(step.bound)
                bound = step.bound
            case _:
                raise InvalidInput(f"scikit-learn has no translation of the step {step!r}")
    return Pipeline([*chain, ("classes", _classifier(model, bound, constant))])


def _columns(columns: tuple[Column, ...]) -> ColumnTransformer:
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


def _scaler(
    width: int, origin: Any = None, unit: Any = None, names: tuple[str, ...] = ()
) -> StandardScaler:
    """(x - origin)/unit; without either it still checks what it is given."""
    step = StandardScaler(with_mean=origin is not None, with_std=unit is not None)
    step = step.fit(np.zeros((1, width)))
    if origin is not None:
        step.mean_ = origin
    if unit is not None:
        with np.errstate(over="ignore"):  # what nothing is computed with
            step.scale_, step.var_ = unit, unit**2
    if names:
        step.feature_names_in_ = np.array(names, dtype=object)
    return step


def _maps(expansion: Expansion) -> ColumnTransformer:
    transformers = [("kept", "passthrough", expansion.kept)]
    for k, feature_map in enumerate(expansion.maps):
        used = np.array(feature_map.uses(expansion.inputs), dtype=np.int64)
        if isinstance(feature_map, Products):
            limits = _function(np.clip, a_min=-scaling.LIMIT, a_max=scaling.LIMIT)
            product = _function(np.prod, axis=1, keepdims=True)
            step = Pipeline([("product", product), ("limits", limits)])
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
    if isinstance(feature_map, Splines):
        hats = ColumnTransformer([(f"column {k + 1}", _hats(), [k]) for k in range(many)])
        return Pipeline([("hats", hats)])
    if isinstance(feature_map, Fourier):
        turns, phases = feature_map.waves(many)
        angles = 2 * pi * np.vstack([phases, turns.T])  # the constant comes first
        wide = _function(np.interp, xp=[-1.0, 1.0], fp=[-sqrt(2), sqrt(2)])
        constant, turned = PolynomialFeatures(degree=1), _function(np.dot, b=angles)
        waves = ("waves", _function(np.cos))
        return Pipeline([("constant", constant), ("angles", turned), waves, ("wide", wide)])
    top = 1 + scaling.LIMIT * sqrt(2)  # (e² - 1)/√2, at most 3
    scaled = _function(np.interp, xp=[0.0, top], fp=[-sqrt(0.5), scaling.LIMIT])
    return Pipeline([("square", _function(np.square)), ("scaled", scaled)])


def _hats() -> FeatureUnion:
    """The hats of one column, level beyond the outermost knots."""
    hats = np.eye(len(KNOTS)) - HAT_MEANS
    knots = zip(KNOTS, hats.T, strict=True)
    return FeatureUnion(
        [(f"{knot:g}", _function(np.interp, xp=KNOTS, fp=fp)) for knot, fp in knots]
    )


def _constant(width: int, value: float) -> list[Step]:
    size = StandardScaler(with_mean=False).fit(np.zeros((1, width + 1)))
    size.scale_[0] = 1 / value
    intercept = PolynomialFeatures(degree=1).fit(np.zeros((1, width)))
    return [("one", intercept), ("constant", size)]


def _clip_rows(bound: float) -> list[Step]:
    """z/max(‖z‖, B), and a last entry without a meaning."""
    norm = _function(np.linalg.norm, axis=1, keepdims=True)
    longest = Pipeline([("norm", norm), ("bound", _function(np.clip, a_min=bound, a_max=None))])
    both = FeatureUnion([("row", "passthrough"), ("longest", longest)])
    return [("length", both), ("shrink", Normalizer(norm="max"))]


def _classifier(model: Model, bound: float, constant: bool) -> LogisticRegression:
    """From clipped rows, in units of their bound, to classes."""
    weights = model.coefficients
    if constant:
        weights = np.hstack([model.intercepts[:, None], weights])
    classifier = LogisticRegression()
    classifier.coef_ = np.hstack([weights * bound, np.zeros((len(weights), 1))])
    classifier.intercept_ = np.zeros(len(weights))
    classifier.classes_ = np.asarray(model.classes)
    classifier.n_features_in_ = classifier.coef_.shape[1]
    return classifier


def _function(function: Any, **settings: Any) -> FunctionTransformer:
    return FunctionTransformer(function, kw_args=settings)
