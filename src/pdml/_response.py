"""Randomised response, as both who de-biases a report and who counts its cost must know it."""

import numpy as np

from pdml._types import Array


def keep_weight(epsilon: Array | float, classes: int) -> Array:
    """(e^ε + K - 1)/(e^ε - 1) = 1 + K/(e^ε - 1): how much louder a report must speak to be right on
    average; for K = 2 this is κ(ε).
    """
    with np.errstate(over="ignore"):
        return np.asarray(1 + classes / np.expm1(np.asarray(epsilon, dtype=float)))
