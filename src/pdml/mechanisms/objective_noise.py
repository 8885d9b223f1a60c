"""η_i, drawn once per training and added to the objective (`per_obj`): what protects labels against
other servers.

The paper bounds |η_i|_∞ by R in the text and |η_i|_2 by R in the proof; both uniforms are offered.
They give only (0, δ)-privacy with a large δ, so the default is a Gaussian with σ = R/6, truncated
to the box.
"""

from dataclasses import dataclass

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.mechanisms.randomness import SecureStream, Stream

KINDS = ("truncated_gaussian", "uniform_box", "uniform_ball", "none")
SIGMAS = 6.0  # the box reaches this many standard deviations: at 4, eps(1e-5) is infinite


@dataclass(frozen=True)
class ObjectiveNoise:
    """A bounded distribution for η_i.

    Guarantees
    ----------
    - ``truncated_gaussian``: labels, in ONE release whatever the number of rounds (see
      `accounting.ledger`).
    - ``uniform_box`` and ``uniform_ball``: (0, δ) only.
    - Features: the label's part of a record, once; nothing of the rest, because differences of
      gradients cancel η.
    """

    kind: str
    bound: float  # R

    def __post_init__(self) -> None:
        _validate.choice("objective_noise", self.kind, KINDS)
        _validate.real("objective_bound", self.bound, low=0, high=1e9)

    @property
    def active(self) -> bool:
        return self.kind != "none" and self.bound > 0

    @property
    def stddev(self) -> float:
        """σ of the Gaussian before truncation."""
        return self.bound / SIGMAS

    def draw(self, shape: tuple[int, ...], rng: Stream) -> Array:
        if not self.active:
            return np.zeros(shape)
        if isinstance(rng, SecureStream):
            return self._draw_on_grid(shape, rng)
        if self.kind == "uniform_box":
            return rng.uniform(-self.bound, self.bound, shape)
        if self.kind == "uniform_ball":
            direction = rng.standard_normal(shape)
            radius = rng.uniform() ** (1 / direction.size)
            return np.asarray(direction * (self.bound * radius / np.linalg.norm(direction)))
        noise = rng.standard_normal(shape)
        while (outside := np.abs(noise) > SIGMAS).any():
            noise[outside] = rng.standard_normal(int(outside.sum()))
        return noise * self.stddev

    def _draw_on_grid(self, shape: tuple[int, ...], stream: SecureStream) -> Array:
        if self.kind == "uniform_box":
            return stream.uniform_box(shape, self.bound)
        if self.kind == "uniform_ball":
            return stream.uniform_ball(shape, self.bound)
        return stream.truncated_gaussian(shape, self.stddev, self.bound)
