"""What the objective noises of a server hide (privacy.md, section 3).

The formula of each kind is one function, which `mechanisms.objective_noise` binds to how that kind
is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, expm1, inf, log1p, sqrt
from typing import NamedTuple

import numpy as np

from pdml._math import betainc, log_ndtr, ndtr
from pdml._types import Array
from pdml.accounting import profiles
from pdml.accounting.events import ObjectiveNoised
from pdml.accounting.kinds import NoiseKind
from pdml.accounting.profiles import Profile, Values
from pdml.errors import InvalidInput


@dataclass(frozen=True)
class LossBound:
    """One way to bound what releases tell of a piece of data, of one person or of many."""

    mu: Values  # of all Gaussians, those of η before truncation
    edge: Values  # mass that truncation leaves on one side only
    outside: Values  # mass cut off by truncation
    flat: Values  # δ of the uniform noises; 1 where nothing protects

    @property
    def profile(self) -> Profile:
        """δ(ε)."""
        cut = {"outside": self.outside, "edge": self.edge}
        return profiles.plus(profiles.truncated_gaussian_profile(self.mu, **cut), self.flat)


def shifts(event: ObjectiveNoised) -> tuple[float, float]:
    """How far the loudest report moves what η hides: with its weight, and whatever it weighs."""
    rounding = event.label_shift if event.fixed_shift is None else event.fixed_shift
    fixed = min(rounding, event.label_shift)
    return event.n_servers * (event.label_shift - fixed), event.n_servers * fixed


def is_gaussian(events: Sequence[ObjectiveNoised]) -> bool:
    """Whether every training of a server has added Gaussian noise, truncated, to its objective."""
    kinds = {(event.kind, event.bound > 0) for event in events}
    return kinds == {(NoiseKind.TRUNCATED_GAUSSIAN, True)}


class Hidden(NamedTuple):
    """What one noise does with a shift: a Gaussian part, and mass at which it hides nothing."""

    square: Values = 0.0  # μ² of a Gaussian, before truncation
    edge: Values = 0.0  # mass that truncation leaves on one side only
    kept: float = 1.0  # what is left of 1 after truncation
    flat: Values = 0.0  # δ at any ε: the total variation of the rest


Hides = Callable[[ObjectiveNoised, Array], Hidden]
"""Of an event and of how far, in Euclidean norm, a label moves what the noise is added to."""


def truncated_gaussian(event: ObjectiveNoised, shift: Array) -> Hidden:
    """Coordinates N(0, σ²) within ±R."""
    with np.errstate(over="ignore"):
        ratio, reach = shift / event.stddev, event.bound / event.stddev
        square = ratio * ratio
    tail = exp(float(log_ndtr(-reach)))
    # Only [-R, -R + |s_k|] of coordinate k is missing from the shifted box. Its mass h(s_k) is
    # convex up to R, so that Σ h(s_k) <= Σ s_k/|s| h(|s|) <= √d h(|s|); beyond R nothing is
    # claimed.
    strip = sqrt(event.size) * np.maximum(0.0, ndtr(ratio - reach) - tail)
    kept = 1 + _expm1_product(2 * tail, event.size)
    return Hidden(square=square, edge=np.where(ratio <= reach, strip, inf), kept=kept)


def uniform_box(event: ObjectiveNoised, shift: Array) -> Hidden:
    """1 - Π(1 - |s_k|/2R). In u_k = s_k² each -log(1 - sqrt(u_k)/2R) is concave while |s_k| <= R,
    so that for a given Euclidean shift up to R the worst direction spreads it evenly; beyond R
    nothing is claimed."""
    share = np.minimum(0.5, shift / (2 * event.bound)) / sqrt(event.size)
    outside = -np.expm1(event.size * np.log1p(-share))
    return Hidden(flat=np.where(shift <= event.bound, outside, 1.0))


def uniform_ball(event: ObjectiveNoised, shift: Array) -> Hidden:
    """Two balls of radius R whose centres are s apart: the share of one outside the other."""
    distance = np.minimum(1.0, shift / (2 * event.bound))
    return Hidden(flat=betainc(0.5, (event.size + 1) / 2, distance**2))


def nothing(event: ObjectiveNoised, shift: Array) -> Hidden:
    """No noise."""
    return Hidden(flat=np.ones_like(shift))


HIDES: dict[str, Hides] = {
    NoiseKind.TRUNCATED_GAUSSIAN: truncated_gaussian,
    NoiseKind.UNIFORM_BOX: uniform_box,
    NoiseKind.UNIFORM_BALL: uniform_ball,
    NoiseKind.NONE: nothing,
}


def objective_parts(events: Sequence[ObjectiveNoised], weight: Values = 1.0) -> LossBound:
    """One additive release per training, whatever T; several compose, one without noise undoes all.

    ``weight`` <= 1 is how far a report moves q_i against the loudest one of its server.
    """
    scale = np.asarray(weight, dtype=float)
    square, edge = np.zeros_like(scale), np.zeros_like(scale)
    flat = np.zeros_like(scale) if events else np.ones_like(scale)
    kept = 1.0
    for event in events:
        if event.kind not in HIDES:
            raise InvalidInput(
                f"the ledger does not know objective noise of kind {event.kind!r}, so it "
                "cannot say what was spent"
            )
        label_shift, fixed = shifts(event)
        hides = HIDES[event.kind] if event.bound > 0 else nothing
        hidden = hides(event, scale * label_shift + fixed)
        square = square + hidden.square
        edge = edge + hidden.edge
        kept, flat = kept * hidden.kept, flat + hidden.flat
    return LossBound(np.sqrt(square), edge, np.full_like(scale, 1 - kept), np.minimum(1.0, flat))


def objective_profile(*events: ObjectiveNoised) -> Profile:
    """Labels against others through η."""
    return objective_parts(events).profile


def _expm1_product(part: float, times: int) -> float:
    """(1 - part)^times - 1, without losing small parts."""
    return -1.0 if part >= 1 else expm1(times * log1p(-part))
