"""How often rows will be clipped to norm 1, by a study's own declarations: no record is read."""

from dataclasses import asdict, dataclass

import numpy as np

from pdml.encoding.encoder import Encoder, Number
from pdml.encoding.scaling import MARGIN

PEOPLE = 4_000  # simulated: shares are told to a whole percent


@dataclass(frozen=True, kw_only=True)
class ClippingForecast:
    """What is to be expected of rows, if people are as declared."""

    share: float  # Of rows that are clipped
    factor: float  # To which part of its length half of those are clipped, or more; 1 where none is

    def to_dict(self) -> dict[str, float]:
        """Plain values for JSON."""
        return asdict(self)


def forecast_clipping(encoder: Encoder) -> ClippingForecast:
    """How often rows will be clipped, if people are as declared."""
    source = np.random.default_rng(0)
    columns: list[np.ndarray] = []
    for attribute in encoder.attributes:
        if isinstance(attribute, Number):
            values = np.clip(source.normal(*attribute.scale, PEOPLE), attribute.low, attribute.high)
            columns.append(np.round(values) if attribute.whole else values)
        else:
            columns.append(source.integers(len(attribute.levels), size=PEOPLE))
    lengths = encoder.lengths(columns)
    long = lengths > MARGIN
    factor = float(np.median(MARGIN / lengths[long])) if long.any() else 1.0
    return ClippingForecast(share=float(np.mean(long)), factor=factor)
