"""The loops of `numerics.admm.kernel`, compiled by numba: import this module only where numba is
installed (``pdml[fast]``).

Rules that were measured: unsigned indices (numba checks signed ones for wrap-around, which doubles
the time of a CSR pass), slopes in vectorised blocks with an exp of our own (the wheels carry no
SVML), no `parallel=True` (it compiles for 10 to 20 s and misses the cache): threads run over
servers instead, and results do not depend on their number.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import intrinsic, overload

from pdml.numerics.admm import kernel, losses
from pdml.numerics.admm.losses import Kernels

_SOURCES = b"".join(
    Path(str(path)).read_bytes() for path in (__file__, kernel.__file__, losses.__file__)
)
_STAMP = int.from_bytes(hashlib.sha256(_SOURCES).digest()[:6], "big") | 1
LANES = 32  # rows whose slopes are taken together; a block of dense rows stays in the first cache

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},  # NaN and infinity keep their meaning
}
jit = numba.njit(**OPTIONS)


def slopes(loops, z, bits, powers, count):
    """z <- g'(z) in place: the method of the loss's own loops (`numerics.admm.losses.Kernels`)."""
    raise NotImplementedError


def curvatures(loops, z):
    """z <- g''(z) in place, in the same way."""
    raise NotImplementedError


@jit
def pass_csr(data, columns, starts, loops, w, g):
    """g <- Σ_j g'(x_j·w) x_j."""
    z, bits = np.empty(LANES), np.empty(LANES, np.int64)
    powers = bits.view(np.float64)
    m = starts.size - 1
    g[:] = 0.0
    for low in range(0, m, LANES):
        high = min(low + LANES, m)
        for i in range(low, high):
            s = 0.0
            for t in range(starts[i], starts[i + 1]):
                s += data[t] * w[columns[t]]
            z[i - low] = s
        slopes(loops, z, bits, powers, high - low)
        for i in range(low, high):
            s = z[i - low]
            for t in range(starts[i], starts[i + 1]):
                g[columns[t]] += data[t] * s


@jit
def pass_dense(x, loops, w, g):
    """g <- Σ_j g'(x_j·w) x_j, each row read once from memory."""
    z, bits = np.empty(LANES), np.empty(LANES, np.int64)
    powers = bits.view(np.float64)
    m, d = x.shape
    g[:] = 0.0
    for low in range(0, m, LANES):
        high = min(low + LANES, m)
        for i in range(low, high):
            row, s = x[i], 0.0
            for t in range(d):
                s += row[t] * w[t]
            z[i - low] = s
        slopes(loops, z, bits, powers, high - low)
        i = low
        while i + 4 <= high:
            a, b, c, e = x[i], x[i + 1], x[i + 2], x[i + 3]
            k = i - low
            sa, sb, sc, se = z[k], z[k + 1], z[k + 2], z[k + 3]
            for t in range(d):
                g[t] += a[t] * sa + b[t] * sb + c[t] * sc + e[t] * se
            i += 4
        while i < high:
            row, s = x[i], z[i - low]
            for t in range(d):
                g[t] += row[t] * s
            i += 1


@jit
def passes_csr(data, columns, starts, loops, w, g):
    """The same for several runs at once, (d, runs): one read of a record serves all, in vector
    registers."""
    runs = w.shape[1]
    z, bits = np.empty(runs), np.empty(runs, np.int64)
    powers = bits.view(np.float64)
    g[:] = 0.0
    for i in range(starts.size - 1):
        z[:] = 0.0
        for t in range(starts[i], starts[i + 1]):
            v, source = data[t], w[columns[t]]
            for k in range(runs):
                z[k] += v * source[k]
        slopes(loops, z, bits, powers, runs)
        for t in range(starts[i], starts[i + 1]):
            v, sink = data[t], g[columns[t]]
            for k in range(runs):
                sink[k] += v * z[k]


@jit
def passes_dense(x, loops, w, g):
    """The same in blocks through BLAS: X_b W, slopes, X_bᵀ Z."""
    m, block = x.shape[0], 4 * LANES
    bits = np.empty(block * w.shape[1], np.int64)
    powers = bits.view(np.float64)
    g[:] = 0.0
    for low in range(0, m, block):
        part = x[low : min(low + block, m)].astype(np.float64)
        z = np.dot(part, w)
        slopes(loops, z.reshape(-1), bits, powers, z.size)
        g += np.dot(part.T, z)


def _gradient_csr(rows, loss, points, width, out):
    data, columns, starts = rows
    if points.shape[0] == 1:
        pass_csr(data, columns, starts, loss, points[0], out[0])
    else:
        across, total = np.empty((width, len(points))), np.empty((width, len(points)))
        flip(points, across)
        passes_csr(data, columns, starts, loss, across, total)
        flip(total, out)
    divide(out, starts.size - 1)


def _gradient_dense(rows, loss, points, width, out):
    if points.shape[0] == 1:
        pass_dense(rows, loss, points[0], out[0])
    else:
        across, total = np.empty((width, len(points))), np.empty((width, len(points)))
        flip(points, across)
        passes_dense(rows, loss, across, total)
        flip(total, out)
    divide(out, rows.shape[0])


@jit
def flip(source, out):
    """out <- sourceᵀ."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            out[j, i] = source[i, j]


@jit
def divide(out, by):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] /= by


def _hessian_csr(rows, loss, point, out, width):
    data, columns, starts = rows
    m = starts.size - 1
    h = np.empty(m)
    for i in range(m):
        s = 0.0
        for t in range(starts[i], starts[i + 1]):
            s += data[t] * point[columns[t]]
        h[i] = s
    curvatures(loss, h)
    out[:] = 0.0
    for i in range(m):
        for t in range(starts[i], starts[i + 1]):
            v, row = data[t] * h[i], out[columns[t]]
            for u in range(t, starts[i + 1]):
                row[columns[u]] += v * data[u]
    for i in range(width):
        for j in range(i):
            out[i, j] = (out[i, j] + out[j, i]) / m
            out[j, i] = out[i, j]
        out[i, i] /= m


@jit
def add_block(out, i, j, block):
    for k in range(block.shape[0]):
        for t in range(block.shape[1]):
            out[i + k, j + t] += block[k, t]


def _hessian_dense(rows, loss, point, out, width):
    m = rows.shape[0]
    half = width // 2  # of the columns: three products, not four, as the result is symmetric
    out[:] = 0.0
    for low in range(0, m, 512):
        count = min(512, m - low)
        left, right, h = np.empty((count, half)), np.empty((count, width - half)), np.empty(count)
        for i in range(count):
            s = 0.0
            for t in range(width):
                s += rows[low + i, t] * point[t]
            h[i] = s
        curvatures(loss, h)
        for i in range(count):
            root = np.sqrt(h[i])
            for t in range(half):
                left[i, t] = root * rows[low + i, t]
            for t in range(half, width):
                right[i, t - half] = root * rows[low + i, t]
        if half:
            add_block(out, 0, 0, np.dot(left.T, left))
            add_block(out, half, 0, np.dot(right.T, left))
        add_block(out, half, half, np.dot(right.T, right))
    for i in range(width):
        for j in range(i + 1):
            out[i, j] /= m
            out[j, i] = out[i, j]


def _invert(matrix, ridge, out):
    shifted = matrix.copy()
    for i in range(len(shifted)):
        shifted[i, i] += ridge
    inverse = np.linalg.inv(shifted)
    for i in range(len(shifted)):  # a slice assignment would compile a library of error messages
        for j in range(len(shifted)):
            out[i, j] = inverse[i, j]


def _dot(a, b):
    s = 0.0
    for i in range(a.size):
        s += a[i] * b[i]
    return s


def _times(matrix, vector, out):
    for i in range(vector.size):
        row, s = matrix[i], 0.0
        for j in range(vector.size):
            s += row[j] * vector[j]
        out[i] = s


def _put(source, out):
    for i in range(source.size):
        out[i] = source[i]


def _add(out, factor, vector):
    for i in range(vector.size):
        out[i] += factor * vector[i]


@intrinsic
def take_ticket(typing_context, tickets):
    """The next number of a counter that threads share: an atomic addition."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw(
            "add", array.data, context.get_constant(numba.types.int64, 1), "seq_cst"
        )

    return numba.types.int64(tickets), generate


def records_of(rows, cuts, server):
    """One server's records out of the pooled ones, without copying; CSR pointers keep counting from
    the pool's start."""
    low, high = cuts[server], cuts[server + 1]
    return (
        (rows[0], rows[1], rows[2][low : high + 1]) if isinstance(rows, tuple) else rows[low:high]
    )


def _records_csr(rows, cuts, server):
    return rows[0], rows[1], rows[2][cuts[server] : cuts[server + 1] + 1]


def _records_dense(rows, cuts, server):
    return rows[cuts[server] : cuts[server + 1]]


def _is_dense(rows: Any) -> bool:
    return isinstance(rows, numba.types.Array)


def _teach() -> None:
    """Tell numba what each function of `numerics.admm.kernel` means in compiled code: its own
    source, or a body of this file."""
    how: dict[str, Any] = {"jit_options": OPTIONS, "strict": False}
    overload(kernel.data_gradient, **how)(
        lambda rows, loss, points, width, out: _gradient_dense if _is_dense(rows) else _gradient_csr
    )
    overload(kernel.hessian, **how)(
        lambda rows, loss, point, out, width: _hessian_dense if _is_dense(rows) else _hessian_csr
    )
    overload(records_of, **how)(
        lambda rows, cuts, server: _records_dense if _is_dense(rows) else _records_csr
    )
    overload(slopes, **how)(lambda loops, z, bits, powers, count: loops.instance_class.slopes)
    overload(curvatures, **how)(lambda loops, z: loops.instance_class.curvatures)
    overload(kernel.invert, **how)(lambda matrix, ridge, out: _invert)
    overload(kernel.dot, **how)(lambda a, b: _dot)
    overload(kernel.times, **how)(lambda matrix, vector, out: _times)
    overload(kernel.put, **how)(lambda source, out: _put)
    overload(kernel.add, **how)(lambda out, factor, vector: _add)
    overload(kernel.blur, **how)(lambda limits, point, target: kernel.blur)
    overload(kernel.spread, **how)(lambda moment, step, scratch, slack: kernel.spread)
    overload(kernel.quasi_newton, **how)(
        lambda inverse, gradient, steps, changes, curvatures, count, p, q: kernel.quasi_newton
    )
    overload(kernel.rebuild, **how)(lambda rows, loss, ridge, limits, state: kernel.rebuild)
    overload(kernel.advance, **how)(
        lambda rows, loss, ridge, limits, patience, tolerance, state, target, out, reached: (
            kernel.advance
        )
    )


class Entries(NamedTuple):
    """What the solver calls; ``loops`` goes in as the loss."""

    loops: Any
    advance_many: Callable[..., Any]
    hessian: Callable[..., Any]


@cache
def entries(kernels: Kernels) -> Entries:
    """The entry points of one loss. Those of built-in losses are cached on disk under a ``stamp``
    of all sources, because numba alone would look at one file only; of other losses, whose sources
    may change anywhere, nothing is kept."""
    stamp = _STAMP
    on_disk = kernels.loops.__module__ == losses.__name__

    def many(
        rows,
        cuts,
        loss,
        ridges,
        limits,
        patiences,
        tolerances,
        states,
        targets,
        out,
        reached,
        tickets,
    ):
        """`kernel.advance` for server after server: one call per thread and round, each taking the
        next ticket when free.

        ``states`` and ``limits`` are stacked by server. Where `advance` fails, ``reached`` stays
        above the tolerance.
        """
        assert stamp
        while True:
            s: int = take_ticket(tickets)  # type: ignore[call-arg]
            if s >= ridges.size:
                return
            state = kernel.SolverState(
                states.points[s],
                states.gradients[s],
                states.distance[s],
                states.anchor[s],
                states.hessian[s],
                states.inverse[s],
                states.moment[s],
                states.steps[s],
                states.changes[s],
                states.curvatures[s],
                states.counts[s],
                states.work[s],
            )
            bounds = kernel.RoundingLimits(
                limits.bend[s],
                limits.fixed[s],
                limits.per_point[s],
                limits.per_step[s],
                limits.per_anchor[s],
                limits.slack[s],
                limits.nudge[s],
            )
            records = records_of(rows, cuts, s)
            kernel.advance(
                records,
                loss,
                ridges[s],
                bounds,
                patiences[s],
                tolerances[s],
                state,
                targets[s],
                out[s],
                reached[s],
            )

    def curved(rows, loss, point, out, width):
        assert stamp
        kernel.hessian(rows, loss, point, out, width)

    def cached(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return numba.njit(cache=on_disk, **OPTIONS)(function)
        except RuntimeError:  # no folder to write the cache to
            return numba.njit(**OPTIONS)(function)

    return Entries(kernels.loops(), cached(many), cached(curved))


_teach()
