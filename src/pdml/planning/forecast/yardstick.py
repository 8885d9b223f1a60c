"""What a model is worth: by the classes it chooses, and by the order in which it puts people.

Where a class is rare, whoever always chooses the other one is right nearly always: there the order
says whether a model is of use.
"""

from enum import StrEnum

import numpy as np

from pdml._types import Array, BoolArray, IntArray

TOP_SHARE = 0.2
SPECIFICITY = 0.9


class Yardstick(StrEnum):
    """A column of forecasts' scores; of several classes those of order are means over classes."""

    AGREEMENT = "agreement"  # with the class that an unprotected model chooses
    ACCURACY = "accuracy"
    AUC = "auc"
    TOP_FIFTH = "top fifth"  # share of the class among the 20% with the highest score
    SENSITIVITY = "sensitivity"  # at a specificity of 90%

    @property
    def column(self) -> int:
        """Where it stands in an array of scores."""
        return list(Yardstick).index(self)


def score_classes(chosen: IntArray, truth: IntArray, reference: IntArray) -> tuple[float, float]:
    """(Agreement, accuracy) of chosen classes."""
    return float(np.mean(chosen == reference)), float(np.mean(chosen == truth))


def score_order(scores: Array, positive: BoolArray) -> tuple[float, float, float]:
    """(AUC, top fifth, sensitivity) of one score; of equal scores, those of pure chance."""
    if positive.all() or not positive.any():
        return 0.5, TOP_SHARE, 1 - SPECIFICITY
    others = np.sort(scores[~positive])
    below, not_above = (
        np.searchsorted(others, scores[positive], side) for side in ("left", "right")
    )
    return (
        float(np.mean(below + not_above)) / (2 * len(others)),
        _share_above(scores, positive, np.ones(len(scores), dtype=bool), TOP_SHARE),
        _share_above(scores, positive, ~positive, 1 - SPECIFICITY),
    )


def _share_above(scores: Array, positive: BoolArray, among: BoolArray, share: float) -> float:
    """How many of the positive lie above the line that a share of ``among`` exceeds; those on the
    line count in part, as if ties were broken by chance."""
    line = np.quantile(scores[among], 1 - share, method="inverted_cdf")
    above, on = np.mean(scores[among] > line), np.mean(scores[among] == line)
    part = (share - above) / on
    return float(np.mean(scores[positive] > line) + part * np.mean(scores[positive] == line))
