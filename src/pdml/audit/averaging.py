"""Asking again: fresh randomness on the same secret averages away, and every repetition must be
paid for.
"""

from dataclasses import replace

import numpy as np

from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.kinds import Adversary, Data
from pdml.audit import inference
from pdml.audit.confidence import separate
from pdml.audit.finding import Finding, compare
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
