"""A model as a person's own device computes it: the questions to ask, and the numbers that turn
answers into probabilities (`pages/templates/predicting.js` does the arithmetic).

Whatever is public and the same for everybody is worked out here once: positions, scales, directions
of waves. The device is left with one record and with what the study's encoder does to it.
"""

import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pdml._types import Array
from pdml.encoding import fourier, scaling
from pdml.encoding.encoder import Encoder
from pdml.encoding.expansion import Expansion
from pdml.encoding.maps import Bins, Fourier, Inputs
from pdml.encoding.numeric_columns import NumericColumns, unnamed
from pdml.errors import InvalidInput
from pdml.model.model import Model
from pdml.model.prediction_pipeline import refuse_untranslated
from pdml.numerics.coded_rows import Block

ANY = sys.float_info.max  # the end of a range that nobody has declared


@dataclass(frozen=True, kw_only=True)
class DevicePipeline:
    """From answers to margins, as plain values."""

    # The questions, spelt as in a study: `pdml.encoding.encoder.Encoder.to_dict`
    attributes: list[dict[str, Any]]
    version: int  # Of the encoder: what becomes of an answer
    kept: list[int]  # Which entries of answers in the clear stay in the row
    # What is made of them: the kind, the positions of what it uses, and its public numbers
    maps: list[dict[str, Any]]
    factor: float  # What these are multiplied by
    # Levels and scale of each question that a study randomises, in order: the next entries
    codes: list[dict[str, Any]]
    constant: float | None  # The last entry
    room: float  # The norm to which all but codes are shrunk
    bound: float  # What everything is multiplied by in the end
    weights: list[list[float]]  # One row for each margin, the constant's last

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def device_pipeline(model: Model) -> DevicePipeline:
    """What a device needs to predict by itself."""
    refuse_untranslated(model)
    if model.encoder is not None:
        encoder = Encoder.from_dict(model.encoder)
        questions = [attribute.to_dict() for attribute in encoder.attributes]
        if encoder.version > 1:
            expansion, blocks = encoder.expansion, encoder.blocks
            return _scaled(model, questions, expansion, encoder.mass, blocks)
        return _in_ranges(model, questions)
    if model.inputs is not None:
        columns = NumericColumns.from_dict(model.inputs)
        if columns.names != unnamed(len(columns.names)):
            questions = _numbers(columns.names, columns.ranges, columns.scales)
            return _scaled(model, questions, columns.expansion, columns.expansion.mass)
    elif model.ranges is not None and model.feature_names:
        return _in_ranges(model, _numbers(model.feature_names, model.ranges))
    raise InvalidInput(
        "a page asks a person for declared answers, and this model declares none: train it by a "
        "study, on a table, or on named columns with feature_scales or feature_ranges",
        setting="model",
    )


def _scaled(
    model: Model,
    questions: list[dict[str, Any]],
    expansion: Expansion,
    mass: float,
    blocks: tuple[Block, ...] = (),
) -> DevicePipeline:
    """Version 2: `pdml.encoding.scaling.scale_and_clip`."""
    return DevicePipeline(
        attributes=questions,
        version=2,
        kept=expansion.kept.tolist(),
        maps=[_map(feature_map, expansion.inputs) for feature_map in expansion.maps],
        factor=scaling.row_factor(mass),
        codes=[{"levels": block.levels, "scale": block.scale} for block in blocks],
        constant=scaling.CONSTANT if model.fit_intercept else None,
        room=scaling.room(blocks),
        bound=model.norm_bound,
        weights=_weights(model),
    )


def _in_ranges(model: Model, questions: list[dict[str, Any]]) -> DevicePipeline:
    """Version 1: shares of ranges and ones for levels, with a constant of 1, shrunk to the norm
    bound.
    """
    return DevicePipeline(
        attributes=questions,
        version=1,
        kept=list(range(model.coefficients.shape[1])),
        maps=[],
        factor=1.0,
        codes=[],
        constant=1.0 if model.fit_intercept else None,
        room=model.norm_bound,
        bound=1.0,
        weights=_weights(model),
    )


def _weights(model: Model) -> list[list[float]]:
    weights = model.coefficients
    if model.fit_intercept:
        weights = np.hstack([weights, model.intercepts[:, None]])
    return [[float(weight) for weight in row] for row in weights]


def _numbers(
    names: tuple[str, ...], ranges: Array | None, scales: Array | None = None
) -> list[dict[str, Any]]:
    """Columns of numbers as questions."""
    questions = []
    for k, name in enumerate(names):
        ends = [-ANY, ANY] if ranges is None else ranges[k].tolist()
        question: dict[str, Any] = {"kind": "number", "name": name, "range": ends}
        if scales is not None:
            question |= {"typical": float(scales[k, 0]), "spread": float(scales[k, 1])}
        questions.append(question)
    return questions


def _map(feature_map: Any, inputs: Inputs) -> dict[str, Any]:
    """A map with the positions that it uses, and what `encoding.js` would work out of it."""
    used = list(feature_map.uses(inputs))
    fields: dict[str, Any] = {"map": feature_map.kind, "used": used}
    if isinstance(feature_map, Bins):
        fields |= {"inner": list(feature_map.inner)}
    if isinstance(feature_map, Fourier):
        directions = fourier.directions(
            feature_map.seed, (feature_map.count + 1) // 2, len(used), feature_map.scale
        )
        fields |= {"count": feature_map.count, "directions": directions.tolist()}
    return fields
