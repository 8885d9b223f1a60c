"""Linear-odd losses: ℓ(y, z) = g(z) - c·y·z.

Assumption 1 of the paper (`loss_assumption`: equal second derivatives for y and -y) says exactly
this, so a label enters training only through the number c·y. Nothing here ever sees a label:
`numerics.admm.labels` turns labels into codes, and a loss is only its even-curvature part g with
the constants that the proofs need.

Shapes: margins Z are (..., C) with one score per class code: C = 1 for binary losses, C = K for
softmax.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from pdml import _validate
from pdml._special import logsumexp, softmax
from pdml._types import Array


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One linear-odd loss, as g, its derivatives, and the constants that bound them.

    ``slope_bound`` is sup|g'| (infinite where the loss has none: then no replaced record can be
    bounded), ``curvature_bound`` is sup of g'' (Boehning's bound) and ``third_bound`` of its rate
    of change; both hold in the Euclidean norm over the class codes. An infinite ``slope_bound`` is
    for a quadratic g alone: `numerics.admm.rounding` counts on slopes that are exact given the
    margins.
    """

    name: str
    label_weight: float  # c
    slope_bound: float
    curvature_bound: float
    third_bound: float
    value: Callable[[Array], Array]  # (..., C) -> (...)
    slope: Callable[[Array], Array]  # (..., C) -> (..., C)
    curvature: Callable[[Array], Array]  # (m, C) -> (m, C, C)

    @property
    def compiled_code(self) -> int | None:
        """The number of its loops in `numerics.admm.compiled`; None where there are none.

        All fields must agree: another loss of the same name has no compiled loops.
        """
        return COMPILED.index(self) if self in COMPILED else None


def _logistic_value(z: Array) -> Array:
    size = np.abs(z[..., 0])
    return np.asarray(size / 2 + np.log1p(np.exp(-size)))


def _logistic_slope(z: Array) -> Array:
    slope = np.tanh(z * 0.5)
    slope *= 0.5
    return slope


def _logistic_curvature(z: Array) -> Array:
    slope = np.tanh(z / 2) / 2
    return np.asarray((0.25 - slope**2)[..., None])


LOGISTIC = Loss(
    name="logistic",  # log(1 + e^(-yz)): g = log(2 cosh(z/2)), c = 1/2
    label_weight=0.5,
    slope_bound=0.5,
    curvature_bound=0.25,
    third_bound=1 / (6 * sqrt(3)),  # at tanh²(z/2) = 1/3
    value=_logistic_value,
    slope=_logistic_slope,
    curvature=_logistic_curvature,
)

SQUARE = Loss(
    name="square",  # (1 - yz)²: g = 1 + z², c = 2
    label_weight=2.0,
    slope_bound=float("inf"),
    curvature_bound=2.0,
    third_bound=0.0,
    value=lambda z: 1 + z[..., 0] ** 2,
    slope=lambda z: 2 * z,
    curvature=lambda z: np.full((*z.shape, 1), 2.0),
)

MATSUSHITA = Loss(
    name="matsushita",  # sqrt(1 + z²) - yz: c = 1
    label_weight=1.0,
    slope_bound=1.0,
    curvature_bound=1.0,
    third_bound=1.5 / 1.25**2.5,  # |3z (1 + z²)^(-5/2)|, largest at z = 1/2
    value=lambda z: np.sqrt(1 + z[..., 0] ** 2),
    slope=lambda z: z / np.sqrt(1 + z**2),
    curvature=lambda z: ((1 + z**2) ** -1.5)[..., None],
)


def _softmax_curvature(z: Array) -> Array:
    p = softmax(z, axis=-1)
    outer = -p[..., :, None] * p[..., None, :]
    codes = np.arange(z.shape[-1])
    outer[..., codes, codes] += p
    return np.asarray(outer)


SOFTMAX = Loss(
    name="softmax",  # log Σ e^(z_k) - z_y: K codes, label one-hot, c = 1
    label_weight=1.0,
    slope_bound=1.0,
    curvature_bound=0.5,  # Var_p(u) <= range(u)²/4 <= |u|²/2
    third_bound=1 / sqrt(2),  # |cumulant(u, u', v)| <= range(v) sd(u) sd(u') <= √2|v| · |u||u'|/2
    value=lambda z: np.asarray(logsumexp(z, axis=-1)),
    slope=lambda z: np.asarray(softmax(z, axis=-1)),
    curvature=_softmax_curvature,
)

COMPILED = (LOGISTIC, SQUARE, MATSUSHITA)  # in the order of the codes of `numerics.admm.compiled`
BINARY = {loss.name: loss for loss in (LOGISTIC, SQUARE, MATSUSHITA)}


def binary_loss(name: str) -> Loss:
    """Look a binary loss up by its name."""
    return BINARY[_validate.choice("loss", name, tuple(BINARY))]
