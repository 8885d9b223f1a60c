"""How far do certified solutions of neighbouring data sets lie apart? Never farther than the
ledger's events say.

Random servers of many shapes, neighbours that differ by one reported label or one whole record,
states and messages from moderate to far out (saturated slopes), solvers with different histories,
tolerances from negligible to dominant. And hostile ones: up to 400,000 records with nearly equal
columns, and messages as long as a node lets in, along what the records hardly see. There a solver
that trusts its own arithmetic certifies what is not so.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.accounting.events import IterateReleased
from pdml.accounting.kinds import Data
from pdml.audit.confidence import Finding, compare
from pdml.audit.rounds_attacks import FAR, record_victims
from pdml.audit.victim import Effort, Victim
from pdml.errors import NotCertified
from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import steps
from pdml.numerics.admm.labels import record_shift
from pdml.numerics.admm.losses import Loss
from pdml.numerics.admm.rows import gram
from pdml.planning.training_plan import TrainingPlan
from pdml.research.processes import run_parallel
from pdml.training.server import Node, NodeState

CHUNK = 100
MOST_RECORDS = 400_000
EXACT = 1 - 1e-12  # a difference of floats and its norm, as a share of themselves


@dataclass(frozen=True)
class Pair:
    """Two neighbouring servers, and the state and message from which both take one step."""

    first: Victim
    second: Victim
    data: str
    state: NodeState
    message: Array
    detours: tuple[tuple[Array, ...], ...]  # messages that each solver had answered before


def sensitivity(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """The largest movement and the largest gradient left, each as a share of its bound."""
    tasks = [(seed, low, min(low + CHUNK, effort.pairs)) for low in range(0, effort.pairs, CHUNK)]
    moved, left = np.max(run_parallel(_chunk, tasks, effort.jobs), axis=0)
    return (
        compare(
            "sensitivity: movement",
            1.0,
            moved,
            f"the largest movement over {effort.pairs:,} neighbour pairs, as a share of its "
            "bound (tolerance included)",
            quantity="ratio",
            confidence=1.0,
        ),
        compare(
            "sensitivity: tolerance",
            1.0,
            left,
            f"the largest gradient left by {2 * effort.pairs:,} certified solves, as a "
            "share of the tolerance",
            quantity="ratio",
            confidence=1.0,
        ),
    )


def _chunk(seed: int, low: int, high: int) -> tuple[float, float]:
    with threadpool_limits(1):
        ratios = [measure(draw_pair(np.random.default_rng([seed, k]))) for k in range(low, high)]
    return max(moved for moved, _ in ratios), max(left for _, left in ratios)


def measure(pair: Pair) -> tuple[float, float]:
    """Movement over its bound, and the larger gradient left over the tolerance, both recomputed
    from the records.
    """
    event = next(event for event in pair.first.events() if isinstance(event, IterateReleased))
    bound = event.label_sensitivity if pair.data == Data.LABEL else event.record_sensitivity
    points, shares = [], []
    for victim, detours in zip((pair.first, pair.second), pair.detours, strict=True):
        node = Node(victim.server(Simulated(0)), victim.plan, Simulated(0))
        try:
            for message in (*detours, pair.message):
                _, point = node.step(pair.state, [message] * victim.degree)
        except NotCertified:  # floats are too coarse so far out: nothing is released
            return 0.0, 0.0
        points.append(point)
        shares.append(_gradient_left(node, victim, pair, point) / node.tolerance)
    apart = float(np.linalg.norm(points[0] - points[1]))
    return EXACT * apart / bound, max(shares)


def _gradient_left(node: Node, victim: Victim, pair: Pair, point: Array) -> float:
    """|∇G(w) + μw - b| in the machine's extended precision, less what rounding can add there."""
    settings = {"degree": victim.degree, "penalty": victim.plan.penalty}
    total = steps.sum_messages([pair.message] * victim.degree, pair.state.sent)
    dual = steps.dual_step(pair.state.dual, pair.state.sent, total, **settings)
    target = steps.primal_target(node.linear, dual, pair.state.sent, total, **settings)
    loss = victim.plan.loss_for(victim.classes)
    ridge = victim.plan.ridge(victim.degree, victim.n_servers)
    matrix, fine = victim.matrix.astype(np.longdouble), point.astype(np.longdouble)
    scores: Any = matrix @ fine.T
    slopes = (matrix.T @ loss.slope(scores)).T / len(matrix)
    left = float(np.sqrt(np.square(slopes + ridge * fine - target).sum()))
    return max(0.0, left - _rounding(victim, loss, ridge, target, point))


def _rounding(victim: Victim, loss: Loss, ridge: float, target: Array, point: Array) -> float:
    """At least what extended precision is off by: a sum over m records, products of width d."""
    longest, length = victim.norm_bound, float(np.linalg.norm(point))
    steepest = loss.curvature_bound * longest * length
    slope = loss.slope_bound if loss.slope_bound < np.inf else steepest
    sums = (len(victim.matrix) + 64) * slope * longest
    products = 64 * (steepest * longest + ridge * length + float(np.linalg.norm(target)))
    return float(np.finfo(np.longdouble).eps) * (sums + products)


def draw_pair(rng: np.random.Generator) -> Pair:
    """One in four pairs is near the worst case, one in ten hostile, the others of every shape."""
    kind = rng.random()
    if kind < 0.1:
        return _hostile(rng)
    first, second, data = _worst(rng) if kind < 0.35 else _random(rng)
    shape = (1 if first.classes == 2 else first.classes, first.matrix.shape[1])
    reach = 10 ** rng.uniform(-1, 3)
    if len(first.messages):
        message, sent = first.messages[-1], first.messages[-1]
    else:
        message, sent = rng.normal(size=shape) * reach, rng.normal(size=shape) * reach
    dual = rng.normal(size=shape) * first.plan.penalty * (0.0 if len(first.messages) else reach)
    detours = tuple(
        tuple(
            message + rng.normal(size=shape) * 10 ** rng.uniform(-3, 1)
            for _ in range(rng.integers(0, 3))
        )
        for _ in range(2)
    )
    return Pair(first, second, data, NodeState(1, sent, dual), message, detours)


def _plan(penalty: float, regularization: float, loss: str = "logistic") -> TrainingPlan:
    return TrainingPlan(
        rounds=1,
        objective_bound=0.0,
        noise_scale=0.0,
        penalty=penalty,
        regularization=regularization,
        loss=loss,
    )


def _worst(rng: np.random.Generator) -> tuple[Victim, Victim, str]:
    """The mirrored record of `record_membership` with more or fewer others, and a strong
    penalty.
    """
    pair = record_victims()
    angle = rng.uniform(0, 0.15)
    plan = _plan(float(10 ** rng.uniform(0, 2)), float(10 ** rng.uniform(-3, 0)))
    others = np.zeros((int(rng.integers(0, 6)), 2))
    mirrored = [np.vstack([[np.sin(angle), side * np.cos(angle)], others]) for side in (1, -1)]
    labels = np.zeros(len(others) + 1, dtype=np.int64)
    messages = pair[0].messages * (rng.uniform(0, 100) / FAR)
    worlds = [
        replace(victim, plan=plan, matrix=x, labels=labels, messages=messages)
        for victim, x in zip(pair, mirrored, strict=True)
    ]
    return worlds[0], worlds[1], Data.FEATURES


def _random(rng: np.random.Generator) -> tuple[Victim, Victim, str]:
    m, d, classes = int(rng.integers(1, 30)), int(rng.integers(1, 7)), int(rng.choice([2, 2, 2, 4]))
    data = Data(rng.choice([Data.LABEL, Data.FEATURES]))
    losses = (
        ["logistic", "matsushita", "square"] if data == Data.LABEL else ["logistic", "matsushita"]
    )
    plan = _plan(
        float(10 ** rng.uniform(-2, 1)),
        float(10 ** rng.uniform(-3, 0)),
        str(rng.choice(losses)) if classes == 2 else "logistic",
    )
    bound = float(10 ** rng.uniform(-1, 1))
    rows = _rows(rng, m + 1, d, bound)
    first = Victim(
        plan=plan,
        matrix=rows[:m],
        labels=rng.integers(0, classes, m),
        epsilon=float(rng.choice([0.2, 1.0, 4.0])),
        messages=np.empty((0, 1, d)),
        n_servers=int(rng.integers(2, 12)),
        degree=int(rng.integers(1, 5)),
        norm_bound=bound,
        classes=classes,
    )
    if rng.random() < 0.3:  # a tolerance that weighs as much as the record itself
        coarse = float(rng.uniform(0.1, 1.0)) * 100 * plan.tolerance_for(first.spec)
        first = replace(first, plan=replace(plan, tolerance=coarse))
    labels = first.labels.copy()
    labels[0] = (labels[0] + rng.integers(1, classes)) % classes
    if data == Data.LABEL:
        return first, replace(first, labels=labels), data
    labels = labels if rng.random() < 0.5 else first.labels
    return first, replace(first, matrix=np.vstack([rows[m:], rows[1:m]]), labels=labels), data


def _hostile(rng: np.random.Generator) -> Pair:
    """Many records with nearly equal columns; long messages along what they seem not to see."""
    m, d = int(10 ** rng.uniform(3, np.log10(MOST_RECORDS))), int(rng.integers(2, 5))
    classes = int(rng.choice([2, 2, 3]))
    loss = str(rng.choice(["logistic", "matsushita"])) if classes == 2 else "logistic"
    plan = _plan(float(10 ** rng.uniform(-1.5, 0)), float(10 ** rng.uniform(-4, -3)), loss)
    matrix, unseen = _nearly_equal(rng, m, d, np.float32 if rng.random() < 0.3 else np.float64)
    first = Victim(
        plan=plan,
        matrix=matrix,
        labels=rng.integers(0, classes, m),
        epsilon=float(rng.choice([0.2, 1.0, 4.0])),
        messages=np.empty((0, 1, d)),
        n_servers=int(10 ** rng.uniform(1.5, 2.5)),
        degree=int(rng.integers(1, 5)),
        classes=classes,
    )
    replaced = matrix.copy()
    replaced[0] *= -1
    shape = (1 if classes == 2 else classes, d)
    usual = rng.uniform(-3, 3, size=(shape[0], 1)) + 0.1 * rng.normal(size=shape)
    away = rng.normal(size=(shape[0], 1)) * unseen
    far = usual + rng.uniform(0.3, 0.9) * _norm_cap(first) * away / np.linalg.norm(away)
    message, pasts = (far, (usual,)) if rng.random() < 0.7 else (usual, (far, 0.5 * far))
    state = NodeState(1, np.zeros(shape), np.zeros(shape))
    return Pair(first, replace(first, matrix=replaced), Data.FEATURES, state, message, (pasts, ()))


def _nearly_equal(rng: np.random.Generator, m: int, d: int, dtype: type) -> tuple[Array, Array]:
    """Records whose columns differ as much as rounding hides, and where they seem to vanish."""
    base = rng.uniform(0.7, 0.99, size=(m, 1)) / np.sqrt(d)
    signs = rng.choice([-1, 1], size=(m, d))
    for gap in 10 ** -np.arange(7, 9, 0.25):
        matrix = (base + gap * signs).astype(dtype)
        values, directions = np.linalg.eigh(gram(matrix) / m)
        if values[0] < gap**2 / 10:  # of about gap², were it not rounded
            break
    return matrix, directions[:, 0]


def _norm_cap(victim: Victim) -> float:
    """The least that `JobTerms.norm_cap` lets in: without any noise."""
    loss = victim.plan.loss_for(victim.classes)
    shift = record_shift(victim.epsilon, victim.norm_bound, loss, victim.classes)
    return 10 * (shift / 2) * victim.n_servers / victim.plan.regularization


def _rows(rng: np.random.Generator, count: int, width: int, bound: float) -> Array:
    """Rows on the sphere of radius B, often crowded into one direction."""
    rows = rng.normal(size=(count, width)) + (rng.random() < 0.5) * 3 * rng.normal(size=width)
    return np.asarray(
        rows * (bound / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
    )
