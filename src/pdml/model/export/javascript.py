"""A model as a person's own device computes it: questions, and all that is public worked out once.

`pages/templates/predicting.js` does the arithmetic.
"""

import sys
from dataclasses import asdict, dataclass
from typing import Any

from pdml.encoding.maps import Bins, Fourier, Inputs
from pdml.encoding.row_steps import AppendCodes, AppendConstant, ClipRows, Multiply
from pdml.errors import InvalidInput
from pdml.model.model import Model

ANY = sys.float_info.max  # the end of a range that nobody has declared


@dataclass(frozen=True, kw_only=True)
class DevicePipeline:
    """From answers to margins, as plain values."""

    # The questions, spelt as in a study: `pdml.encoding.encoder.Encoder.to_dict`
    attributes: list[dict[str, Any]]
    kept: list[int]  # which entries of answers in the clear stay in the row
    # What is made of them: the kind, the positions of what it uses, and its public numbers
    maps: list[dict[str, Any]]
    factor: float  # what these are multiplied by
    # Levels and scale of each question that a study randomises, in order: the next entries
    codes: list[dict[str, Any]]
    constant: float | None  # the last entry
    room: float  # the norm to which all but codes are clipped
    bound: float  # what everything is multiplied by in the end
    weights: list[list[float]]  # one row for each margin, the constant's last

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def device_pipeline(model: Model) -> DevicePipeline:
    """What a device needs to predict by itself."""
    pipeline = model.pipeline
    if pipeline.encoder is None or not pipeline.by_name:
        raise InvalidInput(
            "a page asks a person for declared answers, and this model declares none: train it by "
            "a study, on a table, or on named columns with declared scales or ranges",
            setting="model",
        )
    encoder, factors = pipeline.encoder, []
    codes: list[dict[str, Any]] = []
    constant, room = None, 0.0
    for step in pipeline.steps(model.coefficients.shape[1]):
        match step:
            case Multiply():
                factors.append(step.factor)
            case AppendCodes():
                codes = [{"levels": block.levels, "scale": block.scale} for block in step.blocks]
            case AppendConstant():
                constant = step.value
            case ClipRows():
                room = step.bound
    factor, bound = factors
    expansion = encoder.expansion
    questions = [attribute.to_dict() for attribute in encoder.attributes]
    limitless = {"range": [-ANY, ANY]}
    return DevicePipeline(
        attributes=[limitless | q if q["kind"] == "number" else q for q in questions],
        kept=expansion.kept.tolist(),
        maps=[_map(feature_map, expansion.inputs) for feature_map in expansion.maps],
        factor=factor,
        codes=codes,
        constant=constant,
        room=room,
        bound=bound,
        weights=model.weights.tolist(),
    )


def _map(feature_map: Any, inputs: Inputs) -> dict[str, Any]:
    """A map with the positions that it uses, and what `encoding.js` would work out of it."""
    used = list(feature_map.uses(inputs))
    fields: dict[str, Any] = {"map": feature_map.kind, "used": used}
    if isinstance(feature_map, Bins):
        fields |= {"inner": list(feature_map.inner)}
    if isinstance(feature_map, Fourier):
        waves, _ = feature_map.waves(len(used))  # cosine and sine by turns, in one direction
        fields |= {"count": feature_map.count, "directions": waves[::2].tolist()}
    return fields
