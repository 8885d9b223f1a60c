"""What a number alone does to the margin, where maps let it bend: an additive model, as curves."""

from dataclasses import dataclass

import numpy as np

from pdml._threads import single_thread
from pdml._types import Array
from pdml.encoding import scaling
from pdml.encoding.encoder import Encoder
from pdml.encoding.maps import Bins, Splines, Squares
from pdml.mechanisms.integer_gaussian import Units
from pdml.numerics.interval import QUANTILE
from pdml.numerics.sums.noise_split import deviations
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_fit

_GRID = np.linspace(-2.0, 2.0, 17)  # spreads: knots and edges of the usual maps, and between them


@dataclass(frozen=True, kw_only=True, eq=False)
class AdditiveEffect:
    """How one number moves the margin (log odds of the second class) of a record as long as typical
    ones, from where it is at the declared value; all else equal."""

    name: str
    values: Array  # of the number, in its own unit
    margins: Array
    deviations: Array  # What noise adds to each, as a standard deviation

    @property
    def low(self) -> Array:
        """1.96 standard deviations below, as `Intervals` has them."""
        return self.margins - QUANTILE * self.deviations

    @property
    def high(self) -> Array:
        """As many above."""
        return self.margins + QUANTILE * self.deviations


def of_sums(
    total: Units,
    plan: TrainingPlan,
    spec: ServerSpec,
    encoder: Encoder,
    weights: Array,
    *,
    intercept: bool = True,
) -> tuple[AdditiveEffect, ...]:
    """Of every number that a map of it alone bends; of two classes, after one exchange of sums."""
    inputs, kinds = encoder.expansion.inputs, (Squares, Splines, Bins)
    bent = {k for one in encoder.maps if isinstance(one, kinds) for k in one.uses(inputs)}
    numbers = [k for k in inputs.positions(()) if k in bent] if inputs.numbers else []
    if not numbers or len(weights) > 1:
        return ()
    grids = [_GRID[_inside(encoder, k)] for k in numbers]
    rows = [
        _rows(encoder, k, grid, spec.width) * spec.norm_bound
        for k, grid in zip(numbers, grids, strict=True)
    ]
    with single_thread():
        fit = sums_fit.fit_total(total, plan, spec, intercept)
        every = deviations(*fit, plan.loss_for(2), along=np.vstack(rows))[0] / spec.norm_bound
    effects, ends = [], np.cumsum([len(grid) for grid in grids])
    for k, grid, part, stddevs in zip(
        numbers, grids, rows, np.split(every, ends[:-1]), strict=True
    ):
        values = encoder.scale.origin[k] + encoder.scale.unit[k] * grid
        effect = AdditiveEffect(
            name=inputs.names[k], values=values, margins=part @ weights[0], deviations=stddevs
        )
        effects.append(effect)
    return tuple(effects)


def _inside(encoder: Encoder, k: int) -> Array:
    """Which points of the grid the declared range holds."""
    low, high = float(encoder.scale.low[k]), float(encoder.scale.high[k])
    return np.asarray(np.clip(_GRID, low, high) == _GRID)


def _rows(encoder: Encoder, k: int, grid: Array, width: int) -> Array:
    """By how much a row with the number at each point differs from one with it at 0."""
    entries = np.zeros((len(grid), len(encoder.expansion.inputs.names)))
    start = encoder.expansion.apply(entries[:1])
    entries[:, k] = grid
    typical = encoder.constant / scaling.CONSTANT  # by which clipping shortens a typical row
    factor = typical * scaling.row_factor(encoder.mass)
    moved = (encoder.expansion.apply(entries) - start) * factor
    return np.hstack([moved, np.zeros((len(grid), width - moved.shape[1]))])
