"""Phase 1 under attack: how often does the real `flip_labels` report the truth?"""

import numpy as np

from pdml.audit.confidence import epsilon_bound
from pdml.audit.finding import FALSE_ALARM, Finding, compare
from pdml.audit.victim import Effort
from pdml.mechanisms.label_flip import LabelFlip, flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated

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
