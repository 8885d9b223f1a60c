"""Asking again: fresh randomness on the same secret averages away, and every repetition must be
paid for.

Phase 1 under attack: how often does the real `flip_labels` report the truth?
"""

from dataclasses import replace

import numpy as np

from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.kinds import Adversary, Data
from pdml.audit import inference
from pdml.audit.confidence import epsilon_bound, separate
from pdml.audit.finding import FALSE_ALARM, Finding, compare
from pdml.audit.victim import Effort, Victim
from pdml.mechanisms.label_flip import LabelFlip, flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated

EPSILON, REPORTS, MANY = 1.0, 5, 20
TRAININGS = 2


def averaging(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """Repeated reports of one label, and repeated trainings (or restarts that draw anew) on the
    same records.
    """
    plain = inference.label_victim()
    share = inference.MU / np.sqrt(TRAININGS)
    again = (
        ("averaging: trained twice, theta", plain.with_noise(share, "label")),
        ("averaging: trained twice, eta", plain.with_objective_noise(share)),
    )
    return (
        _reports(effort, seed),
        *(_trainings(name, victim, effort, seed + k) for k, (name, victim) in enumerate(again)),
    )


def _reports(effort: Effort, seed: int) -> Finding:
    """A device that does not memoise its answer: the ledger charges every report."""
    rng = Simulated(seed).stream(LABELS)
    count = effort.labels // 2
    sums = [_counts(truth, REPORTS, count, rng) for truth in (0, 1)]
    separation = separate(sums[0][:, None], sums[1][:, None], 0.0)
    sure = {k: _majority(k, min(count, 100_000), rng) for k in (1, REPORTS, MANY)}
    grows = ", ".join(f"{k} report{'s' * (k > 1)} {rate:.1%}" for k, rate in sure.items())
    book = Ledger(((LabelFlip(EPSILON).event(),) * REPORTS,))
    return compare(
        f"averaging: {REPORTS} reports",
        book.row(Data.LABEL, Adversary.OWN).epsilon,
        separation.epsilon,
        f"unless the device repeats its first answer, the truth emerges: {grows}; {REPORTS} "
        f"reports must be charged {REPORTS} times",
    )


def _counts(truth: int, reports: int, count: int, rng: np.random.Generator) -> Array:
    """How often 1 was reported, for each of ``count`` people."""
    epsilons, labels = np.full(count, EPSILON), np.full(count, truth)
    return np.asarray(
        np.sum([flip_labels(labels, epsilons, 2, rng) for _ in range(reports)], axis=0), dtype=float
    )


def _majority(reports: int, count: int, rng: np.random.Generator) -> float:
    """How often the majority of the reports is the truth; ties are halved."""
    ones = _counts(1, reports, count, rng)
    return float((ones > reports / 2).mean() + (ones == reports / 2).mean() / 2)


def _trainings(name: str, once: Victim, effort: Effort, seed: int) -> Finding:
    twice = replace(once, trainings=TRAININGS)
    finding = inference.attack(
        name, twice, inference.flip_first(twice), "label", inference.DELTA, effort, seed
    )
    alone = once.claim(Data.LABEL, inference.DELTA)
    return replace(finding, sentence=f"{finding.sentence}; one training alone would be {alone:.3g}")


CASES = ((0.4, 2), (1.0, 2), (3.0, 2), (1.0, 5))  # ε and K


def label_flips(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """Frequencies of every report under every pair of true labels: the worst of them against ε."""
    return tuple(
        _frequencies(epsilon, classes, effort.labels, seed + k)
        for k, (epsilon, classes) in enumerate(CASES)
    )


def _frequencies(epsilon: float, classes: int, count: int, seed: int) -> Finding:
    rng = Simulated(seed).stream(LABELS)
    epsilons = np.full(count, epsilon)
    table = np.array(
        [
            np.bincount(flip_labels(np.full(count, k), epsilons, classes, rng), minlength=classes)
            for k in range(classes)
        ]
    )
    alpha = FALSE_ALARM / (
        classes**2 * (classes - 1)
    )  # every report, under every ordered pair of truths
    measured = 0.0
    for truth in range(classes):
        for other in set(range(classes)) - {truth}:
            measured = max(
                measured,
                float(epsilon_bound(table[truth], count, table[other], count, 0.0, alpha).max()),
            )
    kept = float(np.trace(table)) / table.sum()
    keep_probability = 1 - LabelFlip(epsilon, classes).flip_probability
    return compare(
        f"label_flips epsilon {epsilon:g}, {classes} classes",
        epsilon,
        measured,
        f"the truth was reported {kept:.2%} of the time over {table.sum():,} labels "
        f"({keep_probability:.2%} asked for)",
    )
