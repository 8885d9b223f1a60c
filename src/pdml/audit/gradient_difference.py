"""The paper's attack on objective noise alone ("Limitation of objective function perturbation").

From wi_update, ∇J̃_i(w_i(t+1)) = -γ_i(t) + β Σ_l (w̃_i(t) + w̃_l(t)) - 2βN_i w_i(t+1), and γ_i
follows from the messages. η_i is the same in every round, so the difference of two such gradients
is one of ∇J_i: the records, without any noise. With θ on the adversary must put w̃_i for w_i, and
is off by 2βN_i (θ_i(t+1) - θ_i(t)).
"""

from dataclasses import dataclass, replace
from math import inf, isinf

import numpy as np
from scipy.special import gammaincinv
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.accounting.events import IterateReleased
from pdml.accounting.kinds import Data
from pdml.audit.finding import FALSE_ALARM, Finding, compare
from pdml.audit.victim import Effort, Victim
from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import steps
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Node

ROUNDS, RECORDS, WIDTH = 6, 40, 5


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
        for t in range(1, ROUNDS, 2):
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
    messages = rng.normal(size=(ROUNDS, 1, WIDTH))
    messages[0] = 0
    plan = TrainingPlan(
        rounds=ROUNDS,
        penalty=0.5,
        objective_bound=1.0,
        noise_scale=0.3,
        noise_decay=0.8,
        tolerance=1e-9,
    )
    return Victim(
        plan=plan, matrix=matrix, labels=rng.integers(0, 2, RECORDS), epsilon=1.0, messages=messages
    )
