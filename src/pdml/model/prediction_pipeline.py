"""What becomes of a record on its way to a class, step by step: the one description from which
other programs are taught to do what `Model` does (`to_sklearn.py`, `to_onnx.py`).

    answers -> numbers -> entries -> maps -> (entries, constant) -> shrunk to the bound -> margins
"""

from dataclasses import dataclass, fields

import numpy as np

from pdml._types import Array
from pdml.encoding import fourier, scaling
from pdml.encoding.encoder import Attribute, Category, Encoder
from pdml.encoding.expansion import Expansion
from pdml.encoding.maps import Fourier, Inputs
from pdml.encoding.numeric_columns import NumericColumns
from pdml.errors import InvalidInput
from pdml.model.model import Model

# What a record meets, and what only describes the model: whatever else a model has is refused, for
# another program would silently do without it.
_TRANSLATED = {"coefficients", "intercepts", "norm_bound", "fit_intercept", "ranges", "encoder"}
_TRANSLATED |= {"inputs"}
_DESCRIBES = {"classes", "feature_names", "label", "plan", "privacy", "provenance", "expected"}
_DESCRIBES |= {"house"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table, and the numbers that its cells become.

    Without levels: the number itself, or ``fill`` in a gap. With levels: a one for the level of the
    cell among zeros. Where there may be gaps, one more number is 1 in a gap and else 0.
    """

    name: str
    levels: tuple[str, ...] = ()
    gaps: bool = False
    fill: float = 0.0

    @property
    def width(self) -> int:
        """How many numbers a cell becomes."""
        return (len(self.levels) or 1) + self.gaps


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaled:
    """Numbers that become clip((x - origin)/unit, low, high), one by one."""

    origin: Array
    unit: Array
    low: Array
    high: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictionPipeline:
    """From answers to margins."""

    # Of a table, in the order of their numbers. Empty: rows of numbers are given as they are
    columns: tuple[Column, ...]
    names: tuple[str, ...]  # Of the numbers of a row that is given as it is, where they are known
    width: int  # How many numbers a row has
    scaled: Scaled | None  # What the numbers become; None leaves them as they are
    # Which entries stay, and what maps add; None: all stay, and nothing is added
    expansion: Expansion | None
    constant: float | None  # The last entry of every row; None: there is none
    bound: float  # The norm to which longer rows are shrunk
    weights: Array  # What a row is multiplied by, the constant's last


def describe_model(model: Model) -> PredictionPipeline:
    """What `Model` does with a record."""
    refuse_untranslated(model)
    encoder = None if model.encoder is None else Encoder.from_dict(model.encoder)
    if encoder is not None and encoder.sensitive:
        raise InvalidInput(
            "a model of randomised answers cannot be expressed in other programs: use the model "
            "itself"
        )
    columns = None if model.inputs is None else NumericColumns.from_dict(model.inputs)
    scaled = None if model.ranges is None else _scale_ranges(*model.ranges.T)
    expansion: Expansion | None = None
    constant, bound, factor, unit = 1.0, model.norm_bound, 1.0, 1.0
    if encoder is not None:
        scaled = _scaled_answers(encoder)
        expansion = encoder.expansion if encoder.version > 1 else None
    elif columns is not None:
        scaled, expansion = _scaled_numbers(columns), columns.expansion
    if expansion is not None:
        # `scaling.scale_and_clip` takes entries times a factor f, with its constant, and everything
        # times the norm bound: the same is entries as they are, with all else in units of f.
        factor, unit = scaling.row_factor(expansion.mass), model.norm_bound
        constant, bound = scaling.CONSTANT / factor, scaling.MARGIN / factor
    weights = model.coefficients
    if model.fit_intercept:
        weights = np.hstack([weights, model.intercepts[:, None]])
    names = model.feature_names if columns is None else _column_names(columns)
    return PredictionPipeline(
        columns=() if encoder is None else tuple(map(_column, encoder.attributes)),
        names=() if encoder is not None else names,
        width=model.coefficients.shape[1] if scaled is None else len(scaled.origin),
        scaled=scaled,
        expansion=expansion if expansion is not None and expansion.maps else None,
        constant=constant if model.fit_intercept else None,
        bound=bound,
        weights=weights * (factor * unit),
    )


def refuse_untranslated(model: Model) -> None:
    """Refuse a model with a field that no other program knows of."""
    for field in fields(model):
        if field.name not in _TRANSLATED | _DESCRIBES and getattr(model, field.name):
            raise InvalidInput(
                f"the model's {field.name} cannot be expressed in other programs: use the model "
                "itself"
            )


def wave_directions(waves: Fourier, inputs: Inputs) -> tuple[Array, Array]:
    """Waves as √2·cos(2π(e·w + phase)), one after the other: all w (waves, used), all phases."""
    w = fourier.directions(waves.seed, (waves.count + 1) // 2, len(waves.uses(inputs)), waves.scale)
    phases = np.tile([0.0, -0.25], len(w))  # cosine and sine by turns
    return np.repeat(w, 2, axis=0)[: waves.count], phases[: waves.count]


def _column(attribute: Attribute) -> Column:
    gaps = bool(attribute.missing)
    if isinstance(attribute, Category):
        return Column(name=attribute.name, levels=attribute.levels, gaps=gaps)
    return Column(name=attribute.name, gaps=gaps, fill=attribute.scale[0])


def _scaled_answers(encoder: Encoder) -> Scaled:
    make = _of_range if encoder.version == 1 else _of_scale
    parts = np.hstack([make(attribute) for attribute in encoder.attributes])
    return Scaled(origin=parts[0], unit=parts[1], low=parts[2], high=parts[3])


def _of_range(attribute: Attribute) -> Array:
    """Version 1 of the encoder: (origin, unit, low, high) of each number, (4, numbers)."""
    if isinstance(attribute, Category):
        return _repeat(0.0, 1.0, 0.0, 1.0, many=len(attribute.levels))
    return _repeat(attribute.low, attribute.high - attribute.low, 0.0, 1.0)


def _of_scale(attribute: Attribute) -> Array:
    """Version 2: levels are centred, numbers are distances from a typical value in spreads."""
    if isinstance(attribute, Category):
        levels = len(attribute.choices)
        return _repeat(1 / levels, 1.0, -1.0, 1.0, many=levels)
    typical, spread = attribute.scale
    ends = scaling.standardised(np.array([attribute.low, attribute.high]), typical, spread)
    silent = _repeat(0.0, 1.0, 0.0, 1.0, many=int(bool(attribute.missing)))
    return np.hstack([_repeat(typical, spread, *ends), silent])


def _repeat(*values: float, many: int = 1) -> Array:
    return np.tile(np.array(values, dtype=float)[:, None], many)


def _column_names(columns: NumericColumns) -> tuple[str, ...]:
    """Of the columns, unless they are the numbers that an array's columns are called by."""
    numbered = tuple(f"x{k}" for k in range(len(columns.names)))
    return () if columns.names == numbered else columns.names


def _scaled_numbers(columns: NumericColumns) -> Scaled:
    typical, spread = columns.scales.T
    far = np.full((2, len(typical)), np.inf) * [[-1.0], [1.0]]
    ends = far if columns.ranges is None else columns.ranges.T
    with np.errstate(invalid="ignore"):
        low, high = (scaling.standardised(end, typical, spread) for end in ends)
    return Scaled(origin=typical, unit=spread, low=low, high=high)


def _scale_ranges(low: Array, high: Array) -> Scaled:
    """A declared range becomes [0, 1]."""
    return Scaled(origin=low, unit=high - low, low=np.zeros_like(low), high=np.ones_like(low))
