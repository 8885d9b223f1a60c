"""The inner loop of the primal solve, written once and run two ways: by NumPy, or compiled by numba
when it is there.

`advance` takes one server from its last solve to the next. It knows the data only through
`data_gradient`, the mean slope (1/m) Σ g'(x_j·w) x_j, which costs one pass over the records;
everything else is small dense algebra.

Two ideas make passes rare:

- The step is a quasi-Newton step on a Hessian H_a kept from an *anchor* point a, and a few secant
  pairs since.
- **A certificate that needs no pass.** At the last evaluated point v the data gradient is known
  exactly, so for a step p

      ∇G(v+p) = ∇G(v) + H_a p + e,   |e| <= c₃·B·(|v-a|_S + |p|_S/2)·|p|_S,   |u|²_S = (1/m) Σ
      (x_j·u)²,

  because the Hessian changes by at most c₃·|x_j·u| in record j (c₃ = `third_bound`, B the longest
  row; Cauchy-Schwarz over records). When the linear residual plus this bound is below the
  tolerance, the step is certified unseen.

Every number here is rounded, and nearly collinear columns or long vectors turn that into anything
at all. So each bound carries what rounding can have done to it (`RoundingLimits`; the proof is in
docs/proofs/solver.md): a certificate is a theorem about the point that is returned, not about the
one that was meant. Anything that is not finite is never certified.

Compiled and interpreted runs execute the same source; only the small algebra and what touches the
records have other bodies in `numerics.admm.compiled`.
"""

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy
from scipy.linalg.lapack import dpotrf, dpotri

from pdml._types import Array, IntArray, Matrix
from pdml.numerics.admm.losses import Loss
from pdml.numerics.admm.rows import gram

ATTEMPTS = 40
MEMORY = 2  # secant pairs: more bring nothing (measured on Adult)
UNIT = 2.0**-53  # u: one operation is off by at most this share of its result
SAFE = 1.0 + 1e-6  # for products of roundings, and for those of the certificate's own sum
TINY = 1e-140  # for what underflows


class SolverState(NamedTuple):
    """What one server keeps between rounds, for ``runs`` trainings on the same records; arrays
    change in place.

    ``size`` is C·d. ``hessian`` and ``inverse`` belong to ``anchor``; the last evaluated ``points``
    have data gradients ``gradients`` and lie at ``distance`` (in the S norm) from the anchor.
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
    curvatures: Array  # (runs, MEMORY): step·change, always positive
    counts: IntArray  # (runs,) pairs ever stored
    work: IntArray  # [passes, passes since the Hessian was built, Hessians]


class RoundingLimits(NamedTuple):
    """The certificate's constants, all but the first for rounding
    (`numerics.admm.solver.rounding_limits`)."""

    bend: float  # c₃·B
    fixed: float  # of a data gradient, wherever it is taken
    per_point: float  # and more of it per |v|
    per_step: float  # of the Hessian and of products with it, per |p|
    per_anchor: float  # and more per |p|·|a|
    slack: float  # of uᵀSu, per |u|²
    nudge: float  # of the S norm of the step really taken, per |v| + |p|


class Rows(NamedTuple):
    """Records as NumPy and SciPy read them, with the transpose made once."""

    matrix: Matrix  # (m, d)
    transposed: Matrix  # (d, m)


def data_gradient(rows: Rows, loss: Loss, points: Array, width: int, out: Array) -> None:
    """out <- (1/m) Σ_j g'(x_j·w) x_j for each row of ``points`` (runs, C·d)."""
    m = rows.matrix.shape[0]
    if points.size == width:  # one run of a binary loss: SciPy is faster on vectors
        out[0] = rows.transposed @ loss.slope(rows.matrix @ points[0])
    else:
        margins = rows.matrix @ points.reshape(-1, width).T
        slopes = loss.slope(margins.reshape(m, len(points), -1)).reshape(margins.shape)
        out[:] = (rows.transposed @ slopes).T.reshape(points.shape)
    out /= m


# Small algebra with results written in place: these few are all that `advance` uses besides
# scalars, so that numba has little to compile (a second or two instead of ten with array
# expressions).


def dot(a: Array, b: Array) -> float:
    return a.dot(b)  # type: ignore[no-any-return]


def times(matrix: Array, vector: Array, out: Array) -> None:
    """out <- A v."""
    matrix.dot(vector, out)


def put(source: Array, out: Array) -> None:
    """out <- source."""
    out[:] = source


def add(out: Array, factor: float, vector: Array) -> None:
    """out <- out + factor·v."""
    daxpy(vector, out, a=factor)


def spread(moment: Array, step: Array, scratch: Array, slack: float) -> float:
    """At least |p|_S = sqrt((1/m) Σ_j |x_j·p|²), the root mean square change of a margin.

    One block of d per class code. Where columns are nearly collinear pᵀSp cancels to nothing, or
    below it; then ``slack``·|p|² is all that counts.
    """
    width = moment.shape[0]
    total = 0.0
    for k in range(0, step.size, width):
        times(moment, step[k : k + width], scratch[k : k + width])
        total += dot(step[k : k + width], scratch[k : k + width])
    # abs, not max(0, ...), which would make 0 of a NaN
    return sqrt(abs(total) + slack * dot(step, step)) + TINY


def blur(limits: RoundingLimits, point: Array, target: Array) -> float:
    """How far rounding can have moved a gradient computed at ``point``."""
    lengths = limits.per_point * sqrt(dot(point, point)) + 4.0 * UNIT * sqrt(dot(target, target))
    return limits.fixed + lengths


def quasi_newton(
    inverse: Array,
    gradient: Array,
    steps: Array,
    changes: Array,
    curvatures: Array,
    count: int,
    p: Array,
    q: Array,
) -> None:
    """p <- the two-loop recursion on the base (H_a + ridge)^-1; q is scratch."""
    memory = steps.shape[0]
    have = min(count, memory)
    weights = np.empty(memory)
    put(gradient, q)
    for back in range(have):
        j = (count - 1 - back) % memory
        weights[j] = dot(steps[j], q) / curvatures[j]
        add(q, -weights[j], changes[j])
    times(inverse, q, p)
    for ahead in range(have):
        j = (count - have + ahead) % memory
        add(p, weights[j] - dot(changes[j], p) / curvatures[j], steps[j])


def hessian(rows: Rows, loss: Loss, point: Array, out: Array, width: int) -> None:
    """∇²G(w) into ``out``: blocks (1/m) Xᵀ diag(h_kl) X for each pair of class codes."""
    codes = point.size // width
    weights = loss.curvature(rows.matrix @ point.reshape(codes, width).T)
    for k in range(codes):
        for j in range(k + 1):
            block = gram(rows.matrix, np.ascontiguousarray(weights[:, k, j])) / len(weights)
            out[k * width : (k + 1) * width, j * width : (j + 1) * width] = block
            out[j * width : (j + 1) * width, k * width : (k + 1) * width] = block


def invert(matrix: Array, ridge: float, out: Array) -> None:
    """out <- (A + ridge I)^-1 for a positive semidefinite A; NaN where A is not finite.

    The ridge is lifted where rounding ate it.
    """
    lift, trace = 0.0, float(np.trace(matrix))
    while lift < np.inf:
        shifted = np.array(matrix, order="F")
        shifted.flat[:: len(matrix) + 1] += ridge + lift
        factor, info = dpotrf(shifted, lower=1, overwrite_a=1)  # zeros above the diagonal
        if info == 0:
            lower = dpotri(factor, lower=1, overwrite_c=1)[0]
            np.add(lower, lower.T, out=out)
            np.fill_diagonal(out, lower.diagonal())
            return
        lift = max(10 * lift, 1e-15 * trace, 1e-300)
    out[:] = np.nan


def rebuild(rows: Any, loss: Any, ridge: float, limits: RoundingLimits, state: SolverState) -> None:
    """A new Hessian at the last evaluated point (at the mean, if several trainings share it)."""
    runs, size = state.points.shape
    away, scratch = np.empty(size), np.empty(size)
    put(state.points[0], state.anchor)
    for c in range(1, runs):
        add(state.anchor, 1.0, state.points[c])
    add(state.anchor, 1.0 / runs - 1.0, state.anchor)
    hessian(rows, loss, state.anchor, state.hessian, state.moment.shape[0])
    invert(state.hessian, ridge, state.inverse)
    for c in range(runs):
        put(state.points[c], away)
        add(away, -1.0, state.anchor)
        state.distance[c] = spread(state.moment, away, scratch, limits.slack)
        state.counts[c] = 0
    state.work[1] = 0
    state.work[2] += 1


def advance(
    rows: Any,
    loss: Any,
    ridge: float,
    limits: RoundingLimits,
    patience: int,
    tolerance: float,
    state: SolverState,
    target: Array,
    out: Array,
    reached: Array,
) -> bool:
    """Solve ∇G(w) + ridge·w = target for every run; write the points to ``out`` and certified norms
    to ``reached``.

    A new Hessian is built when steps converge slowly, or when ``patience`` passes were spent since
    the last one. Returns False where even that does not make the gradient shrink: then the
    safeguard must take over.
    """
    runs, size = state.points.shape
    width = state.moment.shape[0]
    memory = state.steps.shape[1]
    unsolved, previous, order = np.ones(runs), np.full(runs, np.inf), np.zeros(runs, np.int64)
    residual, trial, fresh = np.empty((runs, size)), np.empty((runs, size)), np.empty((runs, size))
    p, scratch, fuzz = np.empty(size), np.empty(size), np.empty(runs)
    since = 0  # passes since this call began, or since it built a Hessian
    for _ in range(ATTEMPTS):
        slow = False
        for c in range(runs):
            if unsolved[c] == 0.0:
                continue
            g = residual[c]
            put(state.gradients[c], g)
            add(g, ridge, state.points[c])
            add(g, -1.0, target[c])
            norm = sqrt(dot(g, g))
            fuzz[c] = blur(limits, state.points[c], target[c])
            certificate = SAFE * (norm + fuzz[c])
            if certificate <= tolerance:
                put(state.points[c], out[c])
                reached[c] = certificate
                unsolved[c] = 0.0
                continue
            if norm == 0.0 or not norm < np.inf:  # only rounding is left, or no number at all
                return False
            if not norm <= 0.5 * previous[c]:
                if state.work[1] <= 1:  # with a Hessian as new as can be
                    return False
                slow = True
            elif since >= 2 and log(certificate / tolerance) > patience / 10 * log(
                previous[c] / norm
            ):
                slow = True  # at this pace more passes are left than a Hessian is worth
            previous[c] = norm
        if slow:
            rebuild(rows, loss, ridge, limits, state)
            since = 0
        pending = 0
        for c in range(runs):
            if unsolved[c] == 0.0:
                continue
            g = residual[c]
            times(state.inverse, g, p)
            reach = sqrt(dot(p, p))
            nudge = limits.nudge * (sqrt(dot(state.points[c], state.points[c])) + reach)
            length = spread(state.moment, p, scratch, limits.slack) + nudge
            remainder = limits.bend * (state.distance[c] + 0.5 * length) * length
            if remainder < tolerance:
                times(state.hessian, p, scratch)  # what the linear model leaves: g - H p - ridge p
                add(scratch, ridge, p)
                add(scratch, -1.0, g)
                left = sqrt(dot(scratch, scratch))
                far = sqrt(dot(state.anchor, state.anchor))
                tilt = (limits.per_step + limits.per_anchor * far) * reach
                certificate = SAFE * (left + remainder + fuzz[c] + tilt)
                if certificate <= tolerance:
                    put(state.points[c], out[c])
                    add(out[c], -1.0, p)
                    reached[c] = certificate
                    unsolved[c] = 0.0
                    continue
            if state.counts[c] > 0:
                bends = state.curvatures[c]
                quasi_newton(
                    state.inverse,
                    g,
                    state.steps[c],
                    state.changes[c],
                    bends,
                    state.counts[c],
                    p,
                    scratch,
                )
            put(state.points[c], trial[pending])
            add(trial[pending], -1.0, p)
            order[pending] = c
            pending += 1
        if pending == 0:
            if state.work[1] >= patience:
                rebuild(rows, loss, ridge, limits, state)
            return True
        data_gradient(rows, loss, trial[:pending], width, fresh[:pending])
        since += 1
        state.work[0] += 1
        state.work[1] += 1
        for k in range(pending):
            c = order[k]
            slot = state.counts[c] % memory
            step, change = state.steps[c, slot], state.changes[c, slot]
            put(trial[k], step)
            add(step, -1.0, state.points[c])
            put(fresh[k], change)
            add(change, -1.0, state.gradients[c])
            add(change, ridge, step)
            bent = dot(step, change)
            if bent > 0.0:
                state.curvatures[c, slot] = bent
                state.counts[c] += 1
            elif state.counts[c] >= memory:
                state.counts[c] = 0  # a useless pair has just overwritten the oldest: begin anew
            put(trial[k], state.points[c])
            put(fresh[k], state.gradients[c])
            put(trial[k], p)
            add(p, -1.0, state.anchor)
            state.distance[c] = spread(state.moment, p, scratch, limits.slack)
    return False
