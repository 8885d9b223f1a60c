"""What becomes of a record on its way to a class, step by step: the one description from which
other programs are taught to do what `Model` does (`to_sklearn.py`, `to_onnx.py`).

    answers -> numbers -> entries -> (entries, constant) -> shrunk to the norm bound -> margins
"""

from dataclasses import dataclass, fields

import numpy as np

from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.release.model import Model
from pdml.study.encoder import Attribute, Category, Encoder

# What a record meets, and what only describes the model: whatever else a model has is refused, for
# another program would silently do without it.
_TRANSLATED = {"coefficients", "intercepts", "norm_bound", "fit_intercept", "ranges", "encoder"}
_DESCRIBES = {"classes", "feature_names", "label", "plan", "privacy", "provenance", "expected"}
_DESCRIBES |= {"house"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: numbers as they are or, where it has levels, a one for the level of each
    cell among zeros.
    """

    name: str
    levels: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers a cell becomes."""
        return len(self.levels) or 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaled:
    """Numbers that become clip((x - origin)/unit, low, high), one by one."""

    origin: Array
    unit: Array
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe:
    """From answers to margins.

    Attributes
    ----------
    columns : tuple of Column
        Of a table, in the order of their numbers. Empty: rows of numbers are given as they are.
    names : tuple of str
        Of the numbers of a row that is given as it is, where they are known.
    width : int
        How many numbers a row has.
    scaled : Scaled, optional
        What the numbers become; None leaves them as they are.
    constant : float, optional
        The last entry of every row; None: there is none.
    bound : float
        The norm to which longer rows are shrunk.
    weights : array of shape (C, width) or (C, width + 1)
        What a row is multiplied by, the constant's last.
    """

    columns: tuple[Column, ...]
    names: tuple[str, ...]
    width: int
    scaled: Scaled | None
    constant: float | None
    bound: float
    weights: Array


def recipe(model: Model) -> Recipe:
    """What `Model` does with a record.

    Parameters
    ----------
    model : Model
        Any.

    Returns
    -------
    Recipe
        Which gives the margins of `Model.decision_function`, to rounding.

    Raises
    ------
    InvalidInput
        If the model does something with a record that is no step of a recipe.
    """
    for each in fields(model):
        if each.name not in _TRANSLATED | _DESCRIBES and getattr(model, each.name):
            raise _no_step(each.name)
    if unknown := set(model.encoder or {}) - {"attributes"}:
        raise _no_step(f"encoder's {min(unknown)}")
    encoder = None if model.encoder is None else Encoder.from_dict(model.encoder)
    ranges = model.ranges if encoder is None else np.vstack([*map(_ranges, encoder.attributes)])
    weights = model.coefficients
    if model.fit_intercept:
        weights = np.hstack([weights, model.intercepts[:, None]])
    return Recipe(
        columns=() if encoder is None else tuple(map(_column, encoder.attributes)),
        names=() if encoder is not None else model.feature_names,
        width=model.coefficients.shape[1],
        scaled=None if ranges is None else _to_unit(*ranges.T),
        constant=1.0 if model.fit_intercept else None,
        bound=model.norm_bound,
        weights=weights,
    )


def _no_step(what: str) -> InvalidInput:
    return InvalidInput(
        f"the model's {what} cannot be expressed in other programs: use the model itself"
    )


def _column(attribute: Attribute) -> Column:
    levels = attribute.levels if isinstance(attribute, Category) else ()
    return Column(name=attribute.name, levels=levels)


def _ranges(attribute: Attribute) -> Array:
    """Of the numbers that an answer becomes, whose range is [0, 1] already if it is a level."""
    if isinstance(attribute, Category):
        return np.tile([0.0, 1.0], (len(attribute.levels), 1))
    return np.array([[attribute.low, attribute.high]])


def _to_unit(low: Array, high: Array) -> Scaled:
    """A declared range becomes [0, 1]."""
    return Scaled(origin=low, unit=high - low, low=0.0, high=1.0)
