"""The coefficients of a model with what noise does to each: the largest first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml.formatting import numbers
from pdml.pages.charts.scatter import Whisker, whisker_figure
from pdml.pages.charts.svg import Figure

if TYPE_CHECKING:
    from pdml.model.intervals import Intervals

MOST_COEFFICIENTS = 20


def coefficient_figure(
    intervals: "Intervals", names: Sequence[str], classes: Sequence[Any]
) -> Figure | None:
    """Which coefficients are more than noise."""
    size = np.abs(intervals.coefficients)
    if not size.size:
        return None
    many = size.shape[1]
    order = np.argsort(-size, axis=None, kind="stable")[:MOST_COEFFICIENTS]
    rows = []
    for flat in order.tolist():
        code, column = divmod(flat, many)
        name = names[column] if names else f"column {column + 1}"
        rows.append(
            Whisker(
                name=name if len(size) == 1 else f"{classes[code]}: {name}",
                value=float(intervals.coefficients[code, column]),
                low=float(intervals.low[code, column]),
                high=float(intervals.high[code, column]),
                quiet=intervals.whole and not intervals.more_than_noise[code, column],
            )
        )
    left = f"The {len(rows)} largest of {size.size:,}. " if size.size > len(rows) else ""
    towards = f"Above zero speaks for {classes[-1]}. " if len(size) == 1 else ""
    first, apart = rows[0], ""
    if intervals.whole:
        nonzero = numbers.count(int(intervals.more_than_noise.sum()))
        apart = f"Of all {size.size:,} intervals {nonzero} do not hold zero. "
    hollow = "Hollow dots may be noise alone: their interval holds zero. " if apart else ""
    return whisker_figure(
        rows,
        x="Coefficient",
        name="coefficients",
        heading="Which of these is more than noise?"
        if apart
        else "What the last round’s noise did",
        caption=f"{left}{towards}{hollow}{apart}Intervals cover {intervals.covers}.",
        words=f"The largest coefficient is that of {first.name}, "
        f"{numbers.significant(first.value)}, with an interval from "
        f"{numbers.significant(first.low)} to {numbers.significant(first.high)}. {apart}",
    )
