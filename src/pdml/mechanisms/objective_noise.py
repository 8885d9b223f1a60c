"""η_i, drawn once per training and added to the objective (`per_obj`): what protects labels against
other servers.

The paper bounds |η_i|_∞ by R in the text and |η_i|_2 by R in the proof; both uniforms are offered.
They give only (0, δ)-privacy with a large δ, so the default is a Gaussian with σ = R/6, truncated
to the box.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from pdml import _validate
from pdml._registry import Registry
from pdml._types import Array
from pdml.accounting import objective_loss
from pdml.accounting.events import ObjectiveNoised
from pdml.accounting.kinds import NoiseKind
from pdml.accounting.objective_loss import Hides
from pdml.errors import InvalidInput
from pdml.mechanisms.randomness import SecureStream, Stream

SIGMAS = 6.0  # the box reaches this many standard deviations: at 4, eps(1e-5) is infinite


@dataclass(frozen=True, kw_only=True)
class NoiseFamily:
    """One kind of objective noise: how it is drawn, how long it gets and what it hides.

    Parameters
    ----------
    name : str
        What a plan calls it, and an event that reaches a ledger.
    draw : callable
        (shape, R, numpy generator) -> array, for simulations.
    draw_securely : callable, optional
        The same from a `SecureStream`, exact on its grid; without it the family is for simulations
        only.
    hides : callable
        (event, shift) -> `accounting.objective_loss.Hidden`: what is left to tell when a label
        moves what the noise is added to by ``shift``. The ledger is as right as this is.
    longest : callable
        (R, d) -> the largest Euclidean norm of a draw.
    mean_square : callable
        (R, d) -> at least the mean of its square.
    """

    name: str
    draw: Callable[[tuple[int, ...], float, Any], Array]
    draw_securely: Callable[[tuple[int, ...], float, SecureStream], Array] | None = None
    hides: Hides
    longest: Callable[[float, int], float] = lambda bound, size: sqrt(size) * bound
    mean_square: Callable[[float, int], float] = lambda bound, size: size * bound**2


def _draw_truncated_gaussian(shape: tuple[int, ...], bound: float, rng: Any) -> Array:
    noise = rng.standard_normal(shape)
    while (outside := np.abs(noise) > SIGMAS).any():
        noise[outside] = rng.standard_normal(int(outside.sum()))
    return np.asarray(noise * (bound / SIGMAS))


def _draw_uniform_ball(shape: tuple[int, ...], bound: float, rng: Any) -> Array:
    direction = rng.standard_normal(shape)
    radius = rng.uniform() ** (1 / direction.size)
    return np.asarray(direction * (bound * radius / np.linalg.norm(direction)))


TRUNCATED_GAUSSIAN = NoiseFamily(
    name=NoiseKind.TRUNCATED_GAUSSIAN,
    draw=_draw_truncated_gaussian,
    draw_securely=lambda shape, bound, stream: stream.truncated_gaussian(
        shape, bound / SIGMAS, bound
    ),
    hides=objective_loss.truncated_gaussian,
    mean_square=lambda bound, size: size * (bound / SIGMAS) ** 2,
)
UNIFORM_BOX = NoiseFamily(
    name=NoiseKind.UNIFORM_BOX,
    draw=lambda shape, bound, rng: np.asarray(rng.uniform(-bound, bound, shape)),
    draw_securely=lambda shape, bound, stream: stream.uniform_box(shape, bound),
    hides=objective_loss.uniform_box,
    mean_square=lambda bound, size: size * bound**2 / 3,
)
UNIFORM_BALL = NoiseFamily(
    name=NoiseKind.UNIFORM_BALL,
    draw=_draw_uniform_ball,
    hides=objective_loss.uniform_ball,
    longest=lambda bound, size: bound,
    mean_square=lambda bound, size: bound**2 * size / (size + 2),
)
NONE = NoiseFamily(
    name=NoiseKind.NONE,
    draw=lambda shape, bound, rng: np.zeros(shape),
    draw_securely=lambda shape, bound, stream: np.zeros(shape),
    hides=objective_loss.nothing,
    longest=lambda bound, size: 0.0,
    mean_square=lambda bound, size: 0.0,
)
FAMILIES: Registry[NoiseFamily] = Registry(
    "objective_noise", NoiseFamily, (TRUNCATED_GAUSSIAN, UNIFORM_BOX, UNIFORM_BALL, NONE)
)


def register(family: NoiseFamily) -> NoiseFamily:
    """Make a family known by its name to plans and ledgers, in this process."""
    FAMILIES.register(family)
    objective_loss.HIDES[family.name] = family.hides
    return family


@dataclass(frozen=True)
class ObjectiveNoise:
    """η_i of one plan: a family, and R.

    Guarantees
    ----------
    - ``truncated_gaussian``: labels, in ONE release whatever the number of rounds (see
      `accounting.ledger`).
    - ``uniform_box`` and ``uniform_ball``: (0, δ) only.
    - Features: the label's part of a record, once; nothing of the rest, because differences of
      gradients cancel η.
    """

    kind: str | NoiseFamily
    bound: float  # R

    def __post_init__(self) -> None:
        FAMILIES.resolve(self.kind)
        _validate.real("objective_bound", self.bound, low=0, high=1e9)

    @property
    def family(self) -> NoiseFamily:
        return FAMILIES.resolve(self.kind)

    @property
    def active(self) -> bool:
        return self.family != NONE and self.bound > 0

    @property
    def stddev(self) -> float:
        """σ of the Gaussian before truncation."""
        return self.bound / SIGMAS

    def longest(self, size: int) -> float:
        """The largest Euclidean norm of η_i."""
        return self.family.longest(self.bound, size) if self.active else 0.0

    def mean_square(self, size: int) -> float:
        """At least E|η_i|²."""
        return self.family.mean_square(self.bound, size) if self.active else 0.0

    def draw(self, shape: tuple[int, ...], rng: Stream) -> Array:
        if not self.active:
            return np.zeros(shape)
        family = self.family
        if not isinstance(rng, SecureStream):
            return family.draw(shape, self.bound, rng)
        if family.draw_securely is None:
            exact = " and ".join(
                repr(name)
                for name, other in FAMILIES.built_in.items()
                if other.draw_securely and other != NONE
            )
            raise InvalidInput(
                f"objective_noise={family.name!r} is for simulations only: it is not exact on a "
                f"grid; secure noise offers {exact}",
                setting="objective_noise",
            )
        return family.draw_securely(shape, self.bound, rng)

    def event(
        self, *, size: int, n_servers: int, label_shift: float, fixed_shift: float, encoding: str
    ) -> ObjectiveNoised:
        """What a server that adds it leaves behind."""
        return ObjectiveNoised(
            kind=str(self.family.name),
            bound=self.bound,
            stddev=self.stddev,
            size=size,
            n_servers=n_servers,
            label_shift=label_shift,
            fixed_shift=fixed_shift,
            encoding=encoding,
        )
