"""The inner loop of the primal solve, written once and run two ways: by NumPy, or compiled by numba when it is there.

`advance` takes one server from its last solve to the next. It knows the data only through `data_gradient`, the mean
slope (1/m) Σ g'(x_j·w) x_j, which costs one pass over the records; everything else is small dense algebra.

Two ideas make passes rare:

- The step is a quasi-Newton step on a Hessian H_a kept from an *anchor* point a, and a few secant pairs since.
- **A certificate that needs no pass.** At the last evaluated point v the data gradient is known exactly, so for a step p

      ∇G(v+p) = ∇G(v) + H_a p + e,   |e| <= c₃·B·(|v-a|_S + |p|_S/2)·|p|_S,   |u|²_S = (1/m) Σ (x_j·u)²,

  because the Hessian changes by at most c₃·|x_j·u| in record j (c₃ = `third_bound`, B the longest row; Cauchy-Schwarz
  over records). When the linear residual plus this bound is below the tolerance, the step is certified unseen.

Compiled and interpreted runs execute the same source; only `data_gradient`, `hessian`, `invert` and `take_ticket` have
other bodies in `core.compiled`.
"""

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from pdml._types import Array, IntArray, Matrix
from pdml.core.losses import Loss
from pdml.core.rows import gram

ATTEMPTS = 40
MEMORY = 4  # secant pairs: more bring nothing (measured on Adult)


class State(NamedTuple):
    """What one server keeps between rounds, for ``runs`` trainings on the same records; arrays change in place.

    ``size`` is C·d. ``hessian`` and ``inverse`` belong to ``anchor``; the last evaluated ``points`` have data
    gradients ``gradients`` and lie at ``distance`` (in the S norm) from the anchor.
    """

    points: Array  # (runs, size)
    gradients: Array  # (runs, size)
    distance: Array  # (runs,)
    anchor: Array  # (size,)
    hessian: Array  # (size, size)
    inverse: Array  # (size, size): (H + ridge I)^-1
    moment: Array  # (d, d): S
    steps: Array  # (runs, MEMORY, size)
    changes: Array  # (runs, MEMORY, size)
    counts: IntArray  # (runs,) pairs ever stored
    work: IntArray  # [passes, passes since the Hessian was built, Hessians]


class Rows(NamedTuple):
    """Records as NumPy and SciPy read them, with the transpose made once."""

    matrix: Matrix  # (m, d)
    transposed: Matrix  # (d, m)


def data_gradient(rows: Rows, loss: Loss, points: Array, width: int) -> Array:
    """(1/m) Σ_j g'(x_j·w) x_j for each row of ``points`` (runs, C·d)."""
    m = rows.matrix.shape[0]
    if points.size == width:  # one run of a binary loss: SciPy is faster on vectors
        slope: Array = rows.transposed @ loss.slope(rows.matrix @ points[0])
        return np.asarray(slope[None] / m)
    margins = rows.matrix @ points.reshape(-1, width).T
    slopes = loss.slope(margins.reshape(m, len(points), -1)).reshape(margins.shape)
    return np.asarray(np.ascontiguousarray((rows.transposed @ slopes).T).reshape(points.shape) / m)


def spread(moment: Array, step: Array) -> float:
    """|p|_S = sqrt((1/m) Σ_j |x_j·p|²), the root mean square change of a margin."""
    pushed = np.dot(step.reshape((-1, moment.shape[0])), moment)
    return sqrt(max(0.0, np.dot(pushed.reshape(-1), step)))


def quasi_newton(inverse: Array, gradient: Array, steps: Array, changes: Array, count: int) -> Array:
    """The two-loop recursion on the base (H_a + ridge)^-1."""
    memory = steps.shape[0]
    have = min(count, memory)
    weights = np.empty(memory)
    q = gradient.copy()
    for back in range(have):
        j = (count - 1 - back) % memory
        weights[j] = np.dot(steps[j], q) / np.dot(steps[j], changes[j])
        q -= weights[j] * changes[j]
    p: Array = np.dot(inverse, q)
    for ahead in range(have):
        j = (count - have + ahead) % memory
        p += (weights[j] - np.dot(changes[j], p) / np.dot(steps[j], changes[j])) * steps[j]
    return p


def hessian(rows: Rows, loss: Loss, point: Array, out: Array, width: int) -> None:
    """∇²G(w) into ``out``: blocks (1/m) Xᵀ diag(h_kl) X for each pair of class codes."""
    codes = point.size // width
    weights = loss.curvature(rows.matrix @ point.reshape(codes, width).T)
    for k in range(codes):
        for j in range(k + 1):
            block = gram(rows.matrix, np.ascontiguousarray(weights[:, k, j])) / len(weights)
            out[k * width : (k + 1) * width, j * width : (j + 1) * width] = block
            out[j * width : (j + 1) * width, k * width : (k + 1) * width] = block


def invert(matrix: Array) -> Array:
    """The inverse of a positive definite matrix; its diagonal is lifted where rounding ate a tiny ridge."""
    lift = 0.0
    while True:
        factor, info = dpotrf(matrix + lift * np.eye(len(matrix)) if lift else matrix, lower=1)
        if info == 0:
            lower = np.tril(dpotri(factor, lower=1)[0])
            return np.ascontiguousarray(lower + np.tril(lower, -1).T)
        lift = max(10 * lift, 1e-15 * float(np.trace(matrix)), 1e-300)


def rebuild(rows: Any, loss: Any, ridge: float, state: State) -> None:
    """A new Hessian at the last evaluated point (at the mean, if several trainings share it)."""
    runs, size = state.points.shape
    state.anchor[:] = 0.0
    for c in range(runs):
        state.anchor[:] += state.points[c] / runs
    hessian(rows, loss, state.anchor, state.hessian, state.moment.shape[0])
    shifted = state.hessian.copy()
    for i in range(size):
        shifted[i, i] += ridge
    state.inverse[:] = invert(shifted)
    for c in range(runs):
        state.distance[c] = spread(state.moment, state.points[c] - state.anchor)
        state.counts[c] = 0
    state.work[1] = 0
    state.work[2] += 1


def advance(
    rows: Any,
    loss: Any,
    ridge: float,
    reach: float,
    patience: int,
    tolerance: float,
    state: State,
    target: Array,
    out: Array,
    reached: Array,
) -> bool:
    """Solve ∇G(w) + ridge·w = target for every run; write the points to ``out`` and certified norms to ``reached``.

    A new Hessian is built when steps converge slowly, or when ``patience`` passes were spent since the last one. Returns
    False where even that does not make the gradient shrink: then the safeguard must take over.
    """
    runs, size = state.points.shape
    width = state.moment.shape[0]
    memory = state.steps.shape[1]
    unsolved = np.ones(runs, np.bool_)
    previous = np.full(runs, np.inf)
    order = np.zeros(runs, np.int64)
    trial, residual = np.empty((runs, size)), np.empty((runs, size))
    since = 0  # passes since this call began, or since it built a Hessian
    for _ in range(ATTEMPTS):
        pending = 0
        slow = False
        for c in range(runs):
            if not unsolved[c]:
                continue
            g = state.gradients[c] + ridge * state.points[c] - target[c]
            norm = sqrt(np.dot(g, g))
            residual[c] = g
            if norm <= tolerance:
                out[c] = state.points[c]
                reached[c] = norm
                unsolved[c] = False
                continue
            if not norm <= 0.5 * previous[c]:
                if state.work[1] <= 1:  # with a Hessian as new as can be
                    return False
                slow = True
            if since >= 2 and log(norm / tolerance) > patience / 10 * log(previous[c] / norm):
                slow = True  # at this pace more passes are left than a Hessian is worth
            previous[c] = norm
        if slow:
            rebuild(rows, loss, ridge, state)
            since = 0
        for c in range(runs):
            if not unsolved[c]:
                continue
            g = residual[c]
            p = np.dot(state.inverse, g)
            length = spread(state.moment, p)
            remainder = reach * (state.distance[c] + 0.5 * length) * length
            if remainder < tolerance:
                left = g - np.dot(state.hessian, p) - ridge * p
                certificate = sqrt(np.dot(left, left)) + remainder
                if certificate <= tolerance:
                    out[c] = state.points[c] - p
                    reached[c] = certificate
                    unsolved[c] = False
                    continue
            if state.counts[c] > 0:
                p = quasi_newton(state.inverse, g, state.steps[c], state.changes[c], state.counts[c])
            trial[pending] = state.points[c] - p
            order[pending] = c
            pending += 1
        if pending == 0:
            if state.work[1] >= patience:
                rebuild(rows, loss, ridge, state)
            return True
        fresh = data_gradient(rows, loss, trial[:pending], width)
        since += 1
        state.work[0] += 1
        state.work[1] += 1
        for k in range(pending):
            c = order[k]
            step = trial[k] - state.points[c]
            change = fresh[k] - state.gradients[c] + ridge * step
            if np.dot(step, change) > 0.0:
                slot = state.counts[c] % memory
                state.steps[c, slot] = step
                state.changes[c, slot] = change
                state.counts[c] += 1
            state.points[c] = trial[k]
            state.gradients[c] = fresh[k]
            state.distance[c] = spread(state.moment, trial[k] - state.anchor)
    return False


def records_of(rows: Any, cuts: IntArray, server: int) -> Any:
    """One server's records out of the pooled ones."""
    return rows[cuts[server] : cuts[server + 1]]


def take_ticket(tickets: IntArray) -> int:
    """The next number; atomic when compiled."""
    tickets[0] += 1
    return int(tickets[0]) - 1


def advance_many(
    rows: Any,
    cuts: IntArray,
    loss: Any,
    ridges: Array,
    reaches: Array,
    patiences: IntArray,
    tolerances: Array,
    states: State,
    targets: Array,
    out: Array,
    reached: Array,
    tickets: IntArray,
) -> None:
    """`advance` for server after server: one call per thread and round, each thread taking the next ticket when free.

    ``states`` are stacked by server. Where `advance` fails, ``reached`` stays above the tolerance.
    """
    while True:
        s = take_ticket(tickets)
        if s >= ridges.size:
            return
        state = State(
            states.points[s],
            states.gradients[s],
            states.distance[s],
            states.anchor[s],
            states.hessian[s],
            states.inverse[s],
            states.moment[s],
            states.steps[s],
            states.changes[s],
            states.counts[s],
            states.work[s],
        )
        mine = records_of(rows, cuts, s)
        advance(mine, loss, ridges[s], reaches[s], patiences[s], tolerances[s], state, targets[s], out[s], reached[s])
