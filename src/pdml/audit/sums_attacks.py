"""Label inference and record membership by one exchange of sums.

Pairs are those that attain what the ledger counts on: a label moves Q by its whole shift; a record
and its opposite move Q alone, records across move S by all they can. With randomised response the
worst pair of records lies in between: `ANGLE`, by a scan at this ε and these noises.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pdml._types import Array
from pdml.accounting.events import Event, SumsReleased
from pdml.audit import sums_transcripts
from pdml.audit.finding import Finding
from pdml.audit.inference import MU, flip_first, label_victim, three_classes
from pdml.audit.sums_transcripts import WorldPair
from pdml.audit.victim import Effort, Victim
from pdml.planning.training_plan import TrainingPlan

RESPONSE_MU = 2.5  # of a report, where randomised response hides it too
FAINT = 0.1  # μ of the sum that is not in question
ANGLE = 0.56 * np.pi
SHARE = 4  # there are more pairs than of transcripts


def sums_inference(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One label, from Q and S: as it was reported, and jointly with the randomised response."""
    return _attack("sums_inference", label_pairs(), effort, seed)


def sums_membership(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One whole record, from Q and S: as it was reported, and jointly with randomised response."""
    return _attack("sums_membership", record_pairs(), effort, seed)


def _attack(
    name: str, pairs: tuple[WorldPair[Victim], ...], effort: Effort, seed: int
) -> tuple[Finding, ...]:
    findings, plain = [], []
    runs = effort.transcripts // SHARE
    for k, pair in enumerate(pairs):
        releases = [
            sums_transcripts.releases(victim, runs, seed + k, world, effort.jobs)
            for world, victim in enumerate(pair.worlds)
        ]
        claims = pair.worlds[0].claims(pair.data)
        findings.append(sums_transcripts.distinguish(name, pair, releases, claims))
        if not pair.worlds[0].randomise:
            plain += [
                (target, rows, 1.0) for target, rows in zip(pair.worlds, releases, strict=True)
            ]
    return (*findings, sums_transcripts.width(f"{name}: noise", plain))


def label_pairs() -> tuple[WorldPair[Victim], ...]:
    """Two classes and three."""
    two, three = sums_victim(label_victim()), sums_victim(three_classes())
    hidden = [
        replace(with_noise(victim, RESPONSE_MU, MU), randomise=True) for victim in (two, three)
    ]
    return (
        flipped("2 classes", with_noise(two, MU, MU)),
        flipped("2 classes, jointly", hidden[0]),
        flipped("3 classes, jointly", hidden[1]),
    )


def record_pairs() -> tuple[WorldPair[Victim], ...]:
    """Through Q, through S, and through both with randomised response. At a large ε the worst
    record is the opposite one.
    """
    two, three = sums_victim(label_victim()), sums_victim(three_classes())
    randomised = replace(with_noise(two, RESPONSE_MU, 0.8), randomise=True)
    weak = replace(two, epsilon=2.0, randomise=True, trainings=4)
    return (
        records("opposite, 2 classes", with_noise(two, MU, FAINT), np.pi),
        records("opposite, 3 classes", with_noise(three, MU, FAINT), np.pi),
        records("across", with_noise(two, FAINT, MU), np.pi / 2),
        records("randomised response", randomised, ANGLE, start=np.pi / 8),
        records("randomised response, four trainings", with_noise(weak, 1.0, FAINT), np.pi),
    )


def sums_victim(victim: Victim) -> Victim:
    """The same records, trained by one exchange of sums."""
    return replace(victim, plan=TrainingPlan(method="sums"), messages=victim.messages[:0])


def with_noise(victim: Victim, label_mu: float, square_mu: float) -> Victim:
    """The same with `noisy` of its plan."""
    return replace(victim, plan=noisy(victim.plan, victim.events(), label_mu, square_mu))


def noisy(
    plan: TrainingPlan, events: Sequence[Event], label_mu: float, square_mu: float
) -> TrainingPlan:
    """The same with σ_Q and σ_S such that a record moves either by so many deviations, and where
    that is more than a reported label does, a label by fewer.
    """
    (event,) = (release for release in events if isinstance(release, SumsReleased))
    return replace(
        plan,
        label_noise=event.record_shift / label_mu,
        square_noise=event.square_shift / square_mu,
    )


def flipped(name: str, victim: Victim) -> WorldPair[Victim]:
    """Two labels of one record."""
    return WorldPair(name=name, worlds=(victim, flip_first(victim)), data="label")


def records(name: str, victim: Victim, angle: float, start: float = 0.0) -> WorldPair[Victim]:
    """Two records of full length at an ``angle``, with the same label."""
    worlds = tuple(
        replace(victim, matrix=np.vstack([_at(turned), victim.matrix[1:]]))
        for turned in (start, start + angle)
    )
    return WorldPair(name=name, worlds=(worlds[0], worlds[1]), data="features")


def _at(angle: float) -> Array:
    return np.array([np.cos(angle), np.sin(angle)])
