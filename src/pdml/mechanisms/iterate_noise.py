"""θ_i(t) ~ N(0, ρ^(t-1) V_i² I), added to every iterate before it leaves the server
(`wi_perturb`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.mechanisms.randomness import SecureStream, Stream

LARGEST = 1e9  # V


@dataclass(frozen=True)
class IterateNoise:
    """Gaussian noise that fades by ρ in variance each round.

    Guarantees
    ----------
    - Each release is Gaussian with the sensitivity of a certified primal solve; T of them compose
      to one with μ² = Σ_t D²/(ρ^(t-1) V²), which grows like ρ^-T: every run has a last safe round.
    """

    scale: float  # V_i
    decay: float  # ρ

    def __post_init__(self) -> None:
        _validate.real("noise_scale", self.scale, low=0, high=LARGEST)
        _validate.real(
            "noise_decay",
            self.decay,
            low=0,
            high=1,
            open_low=True,
            open_high=True,
            why="the iterate noise must fade (Theorem 1)",
        )

    def stddev(self, t: int) -> float:
        """Standard deviation of θ(t), whose variance is ρ^(t-1) V²; rounds count from 1."""
        return self.scale * sqrt(self.decay ** (t - 1))

    def draw(self, t: int, out: Array, rng: Stream) -> Array:
        """θ(t), written into ``out``."""
        if self.scale == 0:
            out[:] = 0
            return out
        if isinstance(rng, SecureStream):
            return rng.gaussian(out, self.stddev(t))
        rng.standard_normal(out=out)
        return np.multiply(out, self.stddev(t), out=out)


def draw_round(
    noises: Sequence[IterateNoise], t: int, out: Array, streams: Sequence[Stream]
) -> Array:
    """θ_i(t) of every server i, written into ``out`` (n, C, d): in one go if all streams draw fresh
    entropy anyway."""
    first = streams[0]
    if isinstance(first, SecureStream) and all(
        isinstance(stream, SecureStream) for stream in streams
    ):
        return first.gaussian(out, np.array([noise.stddev(t) for noise in noises])[:, None, None])
    for noise, values, stream in zip(noises, out, streams, strict=True):
        noise.draw(t, values, stream)
    return out
