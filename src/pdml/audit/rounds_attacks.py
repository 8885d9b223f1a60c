"""Attacks on what one server releases round by round: label inference, record membership,
averaging, and the paper's own on objective noise.

The adversary simulates two neighbouring worlds as often as it likes, learns the best linear test
(Fisher's: the likelihood ratio for Gaussian noise, because earlier releases move later iterates
almost linearly), and is then counted on fresh transcripts. Settings are such that the sensitivity
bounds are nearly attained, so that a wrong factor shows.
"""

from dataclasses import dataclass, replace
from math import inf, isinf

import numpy as np
from scipy.special import gammaincinv
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import IterateReleased
from pdml.accounting.kinds import Adversary, Data
from pdml.audit.confidence import (
    FALSE_ALARM,
    Finding,
    compare,
    epsilon_bound,
    require_ledger_rows,
    separate,
)
from pdml.audit.victim import Effort, Victim, transcripts
from pdml.mechanisms.label_flip import LabelFlip, flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import steps
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Node

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
        ("label_inference through theta", plain.with_noise(MU, Data.LABEL), DELTA),
        ("label_inference through eta", plain.with_objective_noise(MU), DELTA),
        (
            "label_inference jointly",
            replace(plain.with_noise(2.5, Data.LABEL), randomise=True),
            0.01,
        ),
        (
            "label_inference, 3 classes, both noises, jointly",
            replace(with_both(three_classes(), 5.0, 5.0), randomise=True),
            0.01,
        ),
    )
    findings = []
    for k, (name, victim, delta) in enumerate(cases):
        findings.append(
            attack(name, victim, flip_first(victim), Data.LABEL, delta, effort, seed + k)
        )
    return tuple(findings)


def record_membership(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One whole record, replaced."""
    victim, other = record_victims()
    return (attack("record_membership", victim, other, Data.FEATURES, DELTA, effort, seed),)


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


def with_both(victim: Victim, theta: float, eta: float, data: str = Data.LABEL) -> Victim:
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
        ).with_noise(MU, Data.FEATURES)
        for side in (1, -1)
    ]
    return worlds[0], worlds[1]


def _repeat_message(message: Array) -> Array:
    """Zero before round 1, as the protocol has it, then the same message every round."""
    return np.array([np.zeros_like(message), *[message] * (ROUNDS - 1)])


EPSILON, REPORTS, MANY = 1.0, 5, 20
TRAININGS = 2


def averaging(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """Repeated reports of one label, and repeated trainings (or restarts that draw anew) on the
    same records.
    """
    plain = label_victim()
    share = MU / np.sqrt(TRAININGS)
    again = (
        ("averaging: trained twice, theta", plain.with_noise(share, Data.LABEL)),
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
    finding = attack(name, twice, flip_first(twice), Data.LABEL, DELTA, effort, seed)
    alone = once.claim(Data.LABEL, DELTA)
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


GRADIENT_ROUNDS, RECORDS, WIDTH = 6, 40, 5


@dataclass(frozen=True)
class GradientDifferences:
    """Differences of successive gradients, (T - 1, C, d): as recovered from the messages, and as
    they were.
    """

    guessed: Array
    true: Array

    @property
    def relative_error(self) -> float:
        return float(np.linalg.norm(self.guessed - self.true) / np.linalg.norm(self.true))

    @property
    def correlation(self) -> float:
        return float(np.corrcoef(self.guessed.ravel(), self.true.ravel())[0, 1])


def gradient_difference(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """With θ off the differences are recovered to the solver's tolerance; with θ on the error is
    the noise's.
    """
    victim = _victim(seed)
    with threadpool_limits(1):
        return _without_theta(
            replace(victim, plan=replace(victim.plan, noise_scale=0.0)), seed
        ), _with_theta(victim, effort, seed)


def _without_theta(victim: Victim, seed: int) -> Finding:
    differences = recover(victim, seed)
    tolerance = victim.plan.tolerance_for(victim.spec)
    off = float(np.linalg.norm(differences.guessed - differences.true, axis=(1, 2)).max())
    exact = off <= 2 * tolerance + 1e-9
    claim = victim.claim(Data.FEATURES, 1e-6)
    says = "promises nothing" if isinf(claim) else f"claims {claim:.3g}"
    return compare(
        "gradient_difference, theta off",
        claim,
        inf if exact else 0.0,
        f"gradient differences recovered with relative error {differences.relative_error:.1e} "
        f"(correlation {differences.correlation:.4f}): "
        f"features are open, and the ledger {says}",
        confidence=1.0,
    )


def _with_theta(victim: Victim, effort: Effort, seed: int) -> Finding:
    """The variance of the adversary's error, over disjoint pairs of rounds, against the one that
    the ledger counts on.
    """
    noise = {
        event.t: event.stddev for event in victim.events() if isinstance(event, IterateReleased)
    }
    factor = 2 * victim.plan.penalty * victim.degree
    total, freedom, errors, correlations = 0.0, 0, [], []
    for k in range(max(20, effort.transcripts // 100)):
        differences = recover(victim, seed + k)
        errors.append(differences.relative_error)
        correlations.append(differences.correlation)
        for t in range(1, GRADIENT_ROUNDS, 2):
            variance = factor**2 * (noise.get(t, 0.0) ** 2 + noise.get(t + 1, 0.0) ** 2)
            off = (differences.guessed - differences.true)[t - 1]
            total += float(np.vdot(off, off)) / variance if variance else 0.0
            freedom += off.size
    least = 2 * float(gammaincinv(freedom / 2, FALSE_ALARM))  # of a χ², but for that chance
    return compare(
        "gradient_difference, theta on",
        1.0,
        inf if total == 0 else least / total,
        f"relative error {np.median(errors):.3g}, correlation {np.median(correlations):.2f}; "
        "compared is the precision of the attack with the one that the noise allows",
        quantity="ratio",
    )


def recover(victim: Victim, seed: int) -> GradientDifferences:
    """Run the attack on one transcript; the true gradients come from a twin without θ that takes
    the same steps.
    """
    server = victim.server(Simulated(seed))
    node = Node(server, victim.plan, Simulated(seed))
    twin = Node(server, replace(victim.plan, noise_scale=0.0), Simulated(seed))
    loss, weight = (
        victim.plan.loss_for(victim.classes),
        victim.plan.regularization / victim.n_servers,
    )
    penalty, degree = victim.plan.penalty, victim.degree
    state = node.start()
    dual, sent = np.zeros_like(state.sent), state.sent  # the adversary's own copies
    guessed, true = [], []
    for message in victim.messages:
        point = twin.step(state, [message] * degree)[1]
        state, released = node.step(state, [message] * degree)
        dual = steps.dual_step(dual, sent, degree * message, degree=degree, penalty=penalty)
        guessed.append(
            -dual + penalty * degree * (sent + message) - 2 * penalty * degree * released
        )
        true.append(
            (victim.matrix.T @ loss.slope(victim.matrix @ point.T)).T / len(victim.matrix)
            + weight * point
        )
        sent = released
    return GradientDifferences(np.diff(guessed, axis=0), np.diff(true, axis=0))


def _victim(seed: int) -> Victim:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(RECORDS, WIDTH))
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    messages = rng.normal(size=(GRADIENT_ROUNDS, 1, WIDTH))
    messages[0] = 0
    plan = TrainingPlan(
        rounds=GRADIENT_ROUNDS,
        penalty=0.5,
        objective_bound=1.0,
        noise_scale=0.3,
        noise_decay=0.8,
        tolerance=1e-9,
    )
    return Victim(
        plan=plan, matrix=matrix, labels=rng.integers(0, 2, RECORDS), epsilon=1.0, messages=messages
    )
