"""Label inference and record membership: from all releases of one server, which of two neighbouring
worlds is it?

The adversary simulates both worlds as often as it likes, learns the best linear test from that
(Fisher's: the likelihood ratio for Gaussian noise, because earlier releases move later iterates
almost linearly), and is then counted on fresh transcripts. Settings are such that the sensitivity
bounds are nearly attained, so that a wrong factor shows.
"""

from dataclasses import replace

import numpy as np

from pdml._types import Array
from pdml.audit.confidence import separate
from pdml.audit.finding import Finding, compare, require_ledger_rows
from pdml.audit.victim import Effort, Victim, transcripts
from pdml.planning.training_plan import TrainingPlan

MU = 1.6  # of all releases together, as the ledger reckons
DELTA = 0.15  # where a few thousand samples come closest to a Gaussian's true ε
FAR = 200.0  # what neighbours send to saturate the slopes of a record
ROUNDS = 3


def label_inference(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One reported label, flipped: through θ, through η, and jointly with the randomised response
    that reported it.
    """
    plain = label_victim()
    cases = (
        ("label_inference through theta", plain.with_noise(MU, "label"), DELTA),
        ("label_inference through eta", plain.with_objective_noise(MU), DELTA),
        ("label_inference jointly", replace(plain.with_noise(2.5, "label"), randomise=True), 0.01),
        (
            "label_inference, 3 classes, both noises, jointly",
            replace(with_both(three_classes(), 5.0, 5.0), randomise=True),
            0.01,
        ),
    )
    findings = []
    for k, (name, victim, delta) in enumerate(cases):
        findings.append(attack(name, victim, flip_first(victim), "label", delta, effort, seed + k))
    return tuple(findings)


def record_membership(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One whole record, replaced."""
    victim, other = record_victims()
    return (attack("record_membership", victim, other, "features", DELTA, effort, seed),)


def attack(
    name: str, victim: Victim, other: Victim, data: str, delta: float, effort: Effort, seed: int
) -> Finding:
    """Tell ``victim`` from ``other`` by their transcripts, and compare with the ledger's row."""
    worlds = [
        transcripts(candidate, effort.transcripts, seed, world, effort.jobs)
        for world, candidate in enumerate((victim, other))
    ]
    separation = separate(worlds[0], worlds[1], delta)
    sent = victim.trainings * len(victim.messages)
    finding = compare(
        name,
        victim.claim(data, delta),
        separation.epsilon,
        f"from {sent} releases, at delta {delta:g}, with {effort.transcripts:,} transcripts "
        "per world; "
        f"a guess at even odds is right {separation.accuracy:.1%} of the time",
    )
    return require_ledger_rows(finding, sent, victim.charged())


def label_victim() -> Victim:
    """Four records whose curvature is small beside μ_i, so that a flipped label moves w_i by almost
    its bound.
    """
    matrix = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.0, -1.0]])
    plan = TrainingPlan(rounds=ROUNDS, penalty=5.0, objective_bound=0.0, noise_decay=0.8)
    return Victim(
        plan=plan,
        matrix=matrix,
        labels=np.array([0, 1, 1, 0]),
        epsilon=1.0,
        messages=_repeat_message(np.array([[0.5, -0.5]])),
    )


def three_classes() -> Victim:
    """The same with three classes: a reported label moves w_i by almost its bound."""
    message = np.array([[0.5, -0.5], [0.0, 0.3], [-0.2, 0.1]])
    return Victim(
        plan=TrainingPlan(rounds=2, penalty=100.0, noise_decay=0.5),
        matrix=label_victim().matrix,
        labels=np.array([0, 1, 2, 0]),
        epsilon=1.0,
        messages=np.array([np.zeros_like(message), message]),
        classes=3,
    )


def with_both(victim: Victim, theta: float, eta: float, data: str = "label") -> Victim:
    """The same with θ alone ``theta``-GDP and η alone ``eta``-GDP for labels."""
    loud = victim.with_noise(theta, data).plan
    bound = victim.with_objective_noise(eta).plan.objective_bound
    return replace(
        victim,
        plan=replace(loud, objective_noise="truncated_gaussian", objective_bound=bound),
    )


def flip_first(victim: Victim) -> Victim:
    changed = victim.labels.copy()
    changed[0] = 1 - changed[0]
    return replace(victim, labels=changed)


def record_victims() -> tuple[Victim, Victim]:
    """Neighbours push w_i so far that the record's slope saturates in both worlds; its mirror image
    then pulls the other way.
    """
    across, along = np.sqrt(0.99), 0.1
    rest = np.array([[0.0, 1.0], [0.0, -1.0], [0.6, 0.8]])
    plan = TrainingPlan(rounds=ROUNDS, penalty=5.0, objective_bound=0.0, noise_decay=0.8)
    worlds = [
        Victim(
            plan=plan,
            matrix=np.vstack([[along, side * across], rest]),
            labels=np.array([0, 1, 0, 1]),
            epsilon=0.5,
            messages=_repeat_message(np.array([[FAR, 0.0]])),
        ).with_noise(MU, "record")
        for side in (1, -1)
    ]
    return worlds[0], worlds[1]


def _repeat_message(message: Array) -> Array:
    """Zero before round 1, as the protocol has it, then the same message every round."""
    return np.array([np.zeros_like(message), *[message] * (ROUNDS - 1)])
