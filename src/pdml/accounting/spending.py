"""From one server's events to profiles: what each kind of noise is worth against the other servers
(theory, section 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import exp, expm1, inf, log1p, sqrt

import numpy as np
from scipy.special import betainc, log_ndtr, ndtr

from pdml._types import Array
from pdml.accounting import profiles, provenance
from pdml.accounting.events import Event, IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.profiles import Profile, Values
from pdml.errors import InvalidInput


@dataclass(frozen=True)
class Split:
    """One server's events by kind; ``flips`` are the ε of every report of its labels."""

    flips: tuple[float, ...]
    noised: tuple[ObjectiveNoised, ...]
    released: tuple[IterateReleased, ...]
    by: str = provenance.DEVICES  # the worst of those who flipped the labels

    @property
    def own_epsilon(self) -> float:
        """ε of a label against its own server: a flip hides nothing from whoever made it."""
        return inf if provenance.is_seen(self.by) else self.epsilon

    @property
    def epsilon(self) -> float:
        """Of all reports of a label, each with fresh randomness; infinite if none was flipped."""
        return sum(self.flips) if self.flips else inf

    @property
    def eta(self) -> "ObjectiveParts":
        """What all objective noises amount to."""
        return objective_parts(self.noised)


def split(events: Sequence[Event]) -> Split:
    """Sort the events of one server; an unknown one is refused, because its cost is."""
    flips: list[float] = []
    by = provenance.DEVICES
    noised: list[ObjectiveNoised] = []
    released: list[IterateReleased] = []
    for event in events:
        match event:
            case LabelFlipped():
                flips.append(event.epsilon)
                by = provenance.worst(by, event.by)
            case ObjectiveNoised():
                noised.append(event)
            case IterateReleased():
                released.append(event)
            case _:
                raise InvalidInput(
                    f"the ledger does not know the event {event!r}, so it cannot say what was spent"
                )
    return Split(tuple(flips), tuple(noised), tuple(released), by)


def against_others(
    data: str,
    epsilon: Values,
    mu: Values,
    eta: "ObjectiveParts",
    classes: int,
) -> Profile:
    """δ(ε') of a server's releases: ``mu`` of all iterates together, ``eta`` of its trainings."""
    phase2 = profiles.gaussian_profile(mu)
    if data == "features":  # differences of gradients cancel η
        return phase2
    phase2 = profiles.better_of(phase2, eta.profile)  # all that is seen of labels went through η
    if classes == 2:
        return profiles.joint_profile(epsilon, phase2)
    return profiles.better_of(profiles.pure_profile(epsilon), phase2)


def cost(event: IterateReleased, data: str) -> float:
    """(D/σ)² of one release; infinite without noise."""
    moved = event.record_sensitivity if data == "features" else event.label_sensitivity
    if moved == 0:
        return 0.0
    ratio = inf if event.stddev == 0 else moved / event.stddev
    return ratio * ratio  # infinite where ** would raise


def iterate_mu(events: Sequence[IterateReleased], data: str) -> float:
    """T adaptive Gaussian releases equal one with μ² = Σ (D/σ_t)²."""
    return sqrt(sum(cost(event, data) for event in events))


def summed(events: Sequence[Event]) -> tuple[Event, ...]:
    """The same spending in fewer events: all iterates as the one Gaussian release that they equal.

    Parameters
    ----------
    events : sequence of Event
        Of one server, in any number of rounds.

    Returns
    -------
    tuple of Event
        Every other event as it is, then one `IterateReleased` of standard deviation 1 whose
        sensitivities are the μ of all iterates together. Its slack is not known, so that a
        person's own line counts all of it.
    """
    released = split(events).released
    others = tuple(event for event in events if not isinstance(event, IterateReleased))
    if not released:
        return others
    label, record = (iterate_mu(released, data) for data in ("label", "features"))
    one = IterateReleased(t=1, stddev=1.0, label_sensitivity=label, record_sensitivity=record)
    return (*others, one)


def costs(sent: Sequence[Split], data: str) -> Array:
    """`cost` of every round at every server: (rounds, servers)."""
    rounds = max((event.t for server in sent for event in server.released), default=0)
    found = np.zeros((rounds, len(sent)))
    for i, server in enumerate(sent):
        for event in server.released:
            found[event.t - 1, i] += cost(event, data)
    return found


@dataclass(frozen=True)
class ObjectiveParts:
    """What all objective noises of a server amount to, for one server or report, or for many."""

    mu: Values  # of the Gaussians before truncation
    edge: Values  # mass that truncation leaves on one side only
    outside: Values  # mass cut off by truncation
    flat: Values  # δ of the uniform noises; 1 where nothing protects

    @property
    def profile(self) -> Profile:
        """δ(ε) of labels against others through η."""
        cut = {"outside": self.outside, "edge": self.edge}
        return profiles.plus(profiles.truncated_gaussian_profile(self.mu, **cut), self.flat)


def objective_parts(events: Sequence[ObjectiveNoised], weight: Values = 1.0) -> ObjectiveParts:
    """One additive release per training, whatever T; several compose, one without noise undoes all.

    ``weight`` <= 1 is how far a report moves q_i against the loudest one of its server.
    """
    scale = np.asarray(weight, dtype=float)
    square, edge = np.zeros_like(scale), np.zeros_like(scale)
    flat = np.zeros_like(scale) if events else np.ones_like(scale)
    kept = 1.0
    for event in events:
        fixed = (
            event.label_shift
            if event.fixed_shift is None
            else min(event.fixed_shift, event.label_shift)
        )
        shift = event.n_servers * (scale * (event.label_shift - fixed) + fixed)
        if event.kind == "none" or event.bound == 0:
            flat = np.ones_like(scale)
            continue
        if event.kind == "truncated_gaussian":
            with np.errstate(over="ignore"):
                ratio, reach = shift / event.stddev, event.bound / event.stddev
                square = square + ratio * ratio
            tail = exp(float(log_ndtr(-reach)))
            kept *= 1 + _expm1_product(2 * tail, event.size)
            # Only [-R, -R + |s_k|] of coordinate k is missing from the shifted box. Its mass h(s_k)
            # is convex up to R, so that Σ h(s_k) <= Σ s_k/|s| h(|s|) <= √d h(|s|); beyond R nothing
            # is claimed.
            strip = sqrt(event.size) * np.maximum(0.0, ndtr(ratio - reach) - tail)
            edge = edge + np.where(ratio <= reach, strip, inf)
        elif event.kind == "uniform_box":
            # 1 - Π(1 - |s_k|/2R). In u_k = s_k² each -log(1 - sqrt(u_k)/2R) is concave while |s_k|
            # <= R, so that for a given Euclidean shift up to R the worst direction spreads it
            # evenly; beyond R nothing is claimed.
            each = np.minimum(0.5, shift / (2 * event.bound)) / sqrt(event.size)
            flat = flat + np.where(
                shift <= event.bound, -np.expm1(event.size * np.log1p(-each)), 1.0
            )
        elif event.kind == "uniform_ball":
            # Two balls of radius R whose centres are s apart: the share of one outside the other,
            # exactly.
            flat = flat + betainc(
                0.5, (event.size + 1) / 2, np.minimum(1.0, shift / (2 * event.bound)) ** 2
            )
        else:
            raise InvalidInput(
                f"the ledger does not know objective noise of kind {event.kind!r}, so it "
                "cannot say what was spent"
            )
    return ObjectiveParts(np.sqrt(square), edge, 1 - kept, np.minimum(1.0, flat))


def objective_profile(*events: ObjectiveNoised) -> Profile:
    """Labels against others through η."""
    return objective_parts(events).profile


def together(sent: Sequence[Split]) -> tuple[Array, ObjectiveParts]:
    """ε of labels and what η amounts to, with an entry for each server: for `against_others`."""
    parts = [each.eta for each in sent]
    names = [field.name for field in fields(ObjectiveParts)]
    columns = (np.array([getattr(part, name) for part in parts]) for name in names)
    return np.array([each.epsilon for each in sent]), ObjectiveParts(*columns)


def _expm1_product(part: float, times: int) -> float:
    """(1 - part)^times - 1, without losing small parts."""
    return -1.0 if part >= 1 else expm1(times * log1p(-part))
