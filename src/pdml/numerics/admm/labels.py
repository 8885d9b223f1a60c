"""Labels as training sees them: de-biased codes, whose mean is all that is needed (theory: the mean
operator).

Binary: y' = ±1 reported with ε becomes κ(ε)·y', κ = (e^ε + 1)/(e^ε - 1), so that its expectation is
the true y. K classes: the de-biased one-hot ((e^ε + K - 1)·e_{y'} - 1)/(e^ε - 1). Every record may
have its own ε; ε = ∞ means the label was not randomised.
"""

from typing import Any

import numpy as np

from pdml._math import keep_weight as keep_weight
from pdml._types import Array, IntArray, Matrix
from pdml.errors import InvalidInput
from pdml.numerics.admm.losses import Loss


def kappa(epsilon: Array | float) -> Array:
    """κ(ε) = (e^ε + 1)/(e^ε - 1) = 1/tanh(ε/2): how much louder a flipped label must speak."""
    return np.asarray(1 / np.tanh(np.asarray(epsilon, dtype=float) / 2))


def check_epsilons(epsilon: Any, size: int) -> Array:
    """One ε per record, each in (0, ∞]."""
    epsilons = np.asarray(epsilon)
    if epsilons.dtype.kind not in "fiu" or epsilons.shape not in ((), (size,)):
        got = repr(epsilon) if epsilons.ndim == 0 else f"shape {epsilons.shape} of {epsilons.dtype}"
        raise InvalidInput(
            f"epsilon must be one number or one per record ({size} of them), got {got}",
            setting="epsilon",
        )
    values = np.broadcast_to(epsilons.astype(float), (size,))
    bad = ~(values > 0)
    if bad.any():
        where = f" at record {int(np.argmax(bad)) + 1}" if epsilons.ndim else ""
        raise InvalidInput(
            f"epsilon must be > 0, got {values[bad][0]:g}{where}: 0 would report pure noise",
            setting="epsilon",
        )
    return values


def codes(labels: IntArray, epsilon: Array | float, classes: int) -> Array:
    """De-biased codes of reported class indices: (m, 1) for two classes (index 1 is +1), (m, K)
    otherwise.

    The binary code is scaled so that ``label_weight * code`` multiplies the margin (see
    `label_mean`).
    """
    epsilons = check_epsilons(epsilon, len(labels))
    if classes == 2:
        return (kappa(epsilons) * (2 * labels - 1))[:, None]
    low, step = _one_hot(epsilons, classes)
    result = np.repeat(low[:, None], classes, axis=1)
    result[np.arange(len(labels)), labels] += step
    return result


def _one_hot(epsilon: Array | float, classes: int) -> tuple[Array, Array]:
    """The entry of a code for other classes, and how much larger that of the reported one is."""
    with np.errstate(over="ignore"):
        return np.asarray(-1 / np.expm1(epsilon)), np.asarray(keep_weight(epsilon, classes))


def label_mean(x: Matrix, label_codes: Array, loss: Loss) -> Array:
    """q = (c/m) Σ_j ŷ_j x_jᵀ, shape (C, d): the only thing training ever takes from the labels."""
    return np.asarray(
        np.ascontiguousarray((x.T @ label_codes).T) * (loss.label_weight / x.shape[0])
    )


def label_shift(epsilon: float, norm_bound: float, loss: Loss, classes: int) -> float:
    """How far m·q moves, in Euclidean norm, when one reported label changes: 2cκB, or √2·(1 +
    K/(e^ε-1))·B."""
    if classes == 2:
        return 2 * loss.label_weight * float(kappa(epsilon)) * norm_bound
    return float(np.sqrt(2) * keep_weight(epsilon, classes)) * norm_bound


def record_shift(epsilon: float, norm_bound: float, loss: Loss, classes: int) -> float:
    """How far m·∇Ĵ moves when one record is replaced by another: twice the largest |slope of ℓ̂|·B.

    Binary: 2(sup|g'| + cκ)B, which is (1 + κ)B for logistic. K classes: |softmax - code| is convex
    in the softmax, so it is largest where all mass lies on a class other than the reported one.
    """
    if classes == 2:
        return 2 * (loss.slope_bound + loss.label_weight * float(kappa(epsilon))) * norm_bound
    low, step = map(float, _one_hot(epsilon, classes))
    top = step + low
    return 2 * float(np.sqrt(top**2 + (1 - low) ** 2 + (classes - 2) * low**2)) * norm_bound


def code_variance(epsilon: float, loss: Loss, classes: int) -> float:
    """E(c·ŷ)²: what one record adds to the variance of m·q along a direction with E x² = 1; c²κ²
    for two classes.

    For K classes that of one code about its mean 1/K, averaged over classes that are equally
    frequent.
    """
    if classes == 2:
        return (loss.label_weight * float(kappa(epsilon))) ** 2
    low, step = map(float, _one_hot(epsilon, classes))
    top = low + step
    return (top**2 + (classes - 1) * low**2) / classes - 1 / classes**2
