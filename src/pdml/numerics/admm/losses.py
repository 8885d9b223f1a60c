"""Linear-odd losses: ℓ(y, z) = g(z) - c·y·z, each one object with all that belongs to it.

Assumption 1 of the paper (`loss_assumption`: equal second derivatives for y and -y) says exactly
this, so a label enters training only through the number c·y. Nothing here ever sees a label:
`numerics.admm.labels` turns labels into codes, and a loss is only its even-curvature part g with
the constants that the proofs need and, where it has them, its loops for numba.

Shapes: margins Z are (..., C) with one score per class code: C = 1 for binary losses, C = K for
softmax.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from pdml import _validate
from pdml._math import logsumexp, softmax
from pdml._registry import Registry
from pdml._types import Array
from pdml.errors import InvalidInput

Margins = Callable[[Array], Array]


@dataclass(frozen=True)
class Kernels:
    """What numba compiles in the place of ``slope`` and ``curvature``.

    ``loops`` is a `NamedTuple` class with two methods that work in place: ``slopes(self, z, bits,
    powers, count)`` and ``curvatures(self, z)``. numba tells losses apart by this class, so that no
    loss can meet the loops of another. ``bits`` and ``powers`` are one scratch array, read as
    integers and as numbers.
    """

    slope: Margins
    curvature: Margins
    loops: type[Any]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One linear-odd loss, as g, its derivatives, and the constants that bound them.

    Parameters
    ----------
    name : str
        What a plan calls it.
    label_weight : float
        c, positive.
    slope_bound : float
        sup |g'|; infinite for a quadratic g alone, because certificates count on slopes that are
        exact given the margins, and no replaced record can be bounded.
    curvature_bound, third_bound : float
        sup of g'' (Boehning's bound) and of its rate of change, in the Euclidean norm over the
        class codes.
    value, slope, curvature : callable
        g of margins (..., C) as (...); g' as (..., C); g'' of (m, C) as (m, C, C).
    kernels : Kernels, optional
        Loops for numba; without them, NumPy computes. Dropped where they were written for another
        ``slope`` or ``curvature``.

    Guarantees
    ----------
    - What trains is this g: a loss without kernels of its own never runs those of another.
    - Certificates hold if the three bounds do, and ``slope`` and ``curvature`` are off by no more
      than 34 and 140 units in the last place of their bounds (docs/proofs/solver.md).
    """

    name: str
    label_weight: float  # c
    slope_bound: float
    curvature_bound: float
    third_bound: float
    value: Margins
    slope: Margins
    curvature: Margins
    kernels: Kernels | None = None

    def __post_init__(self) -> None:
        own = self.kernels
        if own and not (own.slope is self.slope and own.curvature is self.curvature):
            object.__setattr__(self, "kernels", None)

    def check(self) -> None:
        """Refuse, in a sentence, a binary loss whose functions and bounds contradict one another
        at some margin from -50 to 50."""
        _validate.real("label_weight", self.label_weight, low=0, open_low=True)
        if self.slope_bound == inf and self.third_bound != 0:
            raise self._contradiction("slope_bound must be finite where g is not quadratic")
        z = np.linspace(-50, 50, 2001)[:, None]
        step = 1e-4
        slope, curvature = self.slope(z.copy())[:, 0], self.curvature(z.copy())[:, 0, 0]
        ahead, behind = z + step, z - step
        rise = (self.value(ahead) - self.value(behind)) / (2 * step)
        bend = (self.slope(ahead.copy()) - self.slope(behind.copy()))[:, 0] / (2 * step)
        turn = (self.curvature(ahead) - self.curvature(behind))[:, 0, 0] / (2 * step)
        rough = 1e-6 + 1e-6 * self.third_bound  # what differences leave
        for why, off in (
            ("slope must be the derivative of value", np.abs(rise - slope) - rough * 50),
            ("curvature must be the derivative of slope", np.abs(bend - curvature) - rough * 50),
            ("g must be convex", -curvature),
            ("slope_bound must bound |slope|", np.abs(slope) - self.slope_bound * (1 + 1e-12)),
            (
                "curvature_bound must bound curvature",
                curvature - self.curvature_bound * (1 + 1e-12),
            ),
            (
                "third_bound must bound how fast curvature changes",
                np.abs(turn) - self.third_bound * (1 + 1e-6) - 1e-6,
            ),
        ):
            if not (off <= 0).all():
                at = float(z[int(np.argmax(np.nan_to_num(off, nan=inf))), 0])
                raise self._contradiction(f"{why}, and does not at a margin of {at:g}")

    def _contradiction(self, why: str) -> InvalidInput:
        return InvalidInput(f"loss {self.name!r}: {why}", setting="loss")


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


class LogisticLoops(NamedTuple):
    """tanh(z/2)/2 = (1 - e)/(1 + e)/2 with e = exp(-|z|) by range reduction and a polynomial:
    numba's wheels carry no vectorised exp."""

    def slopes(self, z, bits, powers, count):  # type: ignore[no-untyped-def]
        for j in range(count):
            k = np.floor(max(-abs(z[j]), -700.0) * 1.4426950408889634 + 0.5)
            bits[j] = (np.int64(k) + 1023) << 52
        for j in range(count):
            x = max(-abs(z[j]), -700.0)
            k = np.floor(x * 1.4426950408889634 + 0.5)
            r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
            # Horner, written out: a loop here would not be vectorised
            e = r / 6227020800.0 + 1.0 / 479001600.0
            e = (
                ((e * r + 1.0 / 39916800.0) * r + 1.0 / 3628800.0) * r + 1.0 / 362880.0
            ) * r + 1.0 / 40320.0
            e = (((e * r + 1.0 / 5040.0) * r + 1.0 / 720.0) * r + 1.0 / 120.0) * r + 1.0 / 24.0
            e = ((((e * r + 1.0 / 6.0) * r + 0.5) * r + 1.0) * r + 1.0) * powers[j]
            t = 0.5 * (1.0 - e) / (1.0 + e)
            z[j] = t if z[j] >= 0.0 else -t

    def curvatures(self, z):  # type: ignore[no-untyped-def]
        for j in range(z.size):
            e = np.exp(-abs(z[j]))
            z[j] = e / ((1.0 + e) * (1.0 + e))


LOGISTIC = Loss(
    name="logistic",  # log(1 + e^(-yz)): g = log(2 cosh(z/2)), c = 1/2
    label_weight=0.5,
    slope_bound=0.5,
    curvature_bound=0.25,
    third_bound=1 / (6 * sqrt(3)),  # at tanh²(z/2) = 1/3
    value=_logistic_value,
    slope=_logistic_slope,
    curvature=_logistic_curvature,
    kernels=Kernels(_logistic_slope, _logistic_curvature, LogisticLoops),
)


def _square_slope(z: Array) -> Array:
    return 2 * z


def _square_curvature(z: Array) -> Array:
    return np.full((*z.shape, 1), 2.0)


class SquareLoops(NamedTuple):
    def slopes(self, z, bits, powers, count):  # type: ignore[no-untyped-def]
        for j in range(count):
            z[j] = 2.0 * z[j]

    def curvatures(self, z):  # type: ignore[no-untyped-def]
        for j in range(z.size):
            z[j] = 2.0


SQUARE = Loss(
    name="square",  # (1 - yz)²: g = 1 + z², c = 2
    label_weight=2.0,
    slope_bound=float("inf"),
    curvature_bound=2.0,
    third_bound=0.0,
    value=lambda z: 1 + z[..., 0] ** 2,
    slope=_square_slope,
    curvature=_square_curvature,
    kernels=Kernels(_square_slope, _square_curvature, SquareLoops),
)


def _matsushita_slope(z: Array) -> Array:
    return np.asarray(z / np.sqrt(1 + z**2))


def _matsushita_curvature(z: Array) -> Array:
    return np.asarray(((1 + z**2) ** -1.5)[..., None])


class MatsushitaLoops(NamedTuple):
    def slopes(self, z, bits, powers, count):  # type: ignore[no-untyped-def]
        for j in range(count):
            z[j] = z[j] / np.sqrt(1.0 + z[j] * z[j])

    def curvatures(self, z):  # type: ignore[no-untyped-def]
        for j in range(z.size):
            z[j] = (1.0 + z[j] * z[j]) ** -1.5


MATSUSHITA = Loss(
    name="matsushita",  # sqrt(1 + z²) - yz: c = 1
    label_weight=1.0,
    slope_bound=1.0,
    curvature_bound=1.0,
    third_bound=1.5 / 1.25**2.5,  # |3z (1 + z²)^(-5/2)|, largest at z = 1/2
    value=lambda z: np.sqrt(1 + z[..., 0] ** 2),
    slope=_matsushita_slope,
    curvature=_matsushita_curvature,
    kernels=Kernels(_matsushita_slope, _matsushita_curvature, MatsushitaLoops),
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

BINARY: Registry[Loss] = Registry("loss", Loss, (LOGISTIC, SQUARE, MATSUSHITA))


def register(loss: Loss) -> Loss:
    """Make a binary loss known by its name, in this process; refused where its functions and bounds
    contradict one another. Between organisations only a built-in loss is accepted."""
    loss.check()
    return BINARY.register(loss)
