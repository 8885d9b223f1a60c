"""The loops of `core.kernel`, compiled by numba: import this module only where numba is installed (``pdml[fast]``).

Rules that were measured: unsigned indices (numba checks signed ones for wrap-around, which doubles the time of a CSR
pass), slopes in vectorised blocks with an exp of our own (the wheels carry no SVML), no `parallel=True` (it compiles for
10 to 20 s and misses the cache): threads run over servers instead, and results do not depend on their number.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic, overload

from pdml.core import kernel
from pdml.core.losses import BINARY

CODES = {name: code for code, name in enumerate(BINARY)}  # logistic 0, square 1, matsushita 2
LANES = 32  # rows whose slopes are taken together; a block of dense rows stays in the first cache

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},  # NaN and infinity keep their meaning
}
jit = numba.njit(**OPTIONS)


@jit
def slopes(code, z, bits, powers, count):
    """z <- g'(z) in place. tanh(z/2)/2 = (1 - e)/(1 + e)/2 with e = exp(-|z|) by range reduction and a polynomial."""
    if code == 0:
        for j in range(count):
            k = np.floor(max(-abs(z[j]), -700.0) * 1.4426950408889634 + 0.5)
            bits[j] = (np.int64(k) + 1023) << 52
        for j in range(count):
            x = max(-abs(z[j]), -700.0)
            k = np.floor(x * 1.4426950408889634 + 0.5)
            r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
            e = r / 6227020800.0 + 1.0 / 479001600.0  # Horner, written out: a loop here would not be vectorised
            e = (((e * r + 1.0 / 39916800.0) * r + 1.0 / 3628800.0) * r + 1.0 / 362880.0) * r + 1.0 / 40320.0
            e = (((e * r + 1.0 / 5040.0) * r + 1.0 / 720.0) * r + 1.0 / 120.0) * r + 1.0 / 24.0
            e = ((((e * r + 1.0 / 6.0) * r + 0.5) * r + 1.0) * r + 1.0) * powers[j]
            t = 0.5 * (1.0 - e) / (1.0 + e)
            z[j] = t if z[j] >= 0.0 else -t
    elif code == 1:
        for j in range(count):
            z[j] = 2.0 * z[j]
    else:
        for j in range(count):
            z[j] = z[j] / np.sqrt(1.0 + z[j] * z[j])


@jit
def curvatures(code, z):
    """z <- g''(z) in place."""
    for j in range(z.size):
        if code == 0:
            e = np.exp(-abs(z[j]))
            z[j] = e / ((1.0 + e) * (1.0 + e))
        elif code == 1:
            z[j] = 2.0
        else:
            z[j] = (1.0 + z[j] * z[j]) ** -1.5


@jit
def pass_csr(data, columns, starts, code, w, g):
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
        slopes(code, z, bits, powers, high - low)
        for i in range(low, high):
            s = z[i - low]
            for t in range(starts[i], starts[i + 1]):
                g[columns[t]] += data[t] * s


@jit
def pass_dense(x, code, w, g):
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
        slopes(code, z, bits, powers, high - low)
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
def passes_csr(data, columns, starts, code, w, g):
    """The same for several runs at once, (d, runs): one read of a record serves all, in vector registers."""
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
        slopes(code, z, bits, powers, runs)
        for t in range(starts[i], starts[i + 1]):
            v, sink = data[t], g[columns[t]]
            for k in range(runs):
                sink[k] += v * z[k]


@jit
def passes_dense(x, code, w, g):
    """The same in blocks through BLAS: X_b W, slopes, X_bᵀ Z."""
    m, block = x.shape[0], 4 * LANES
    bits = np.empty(block * w.shape[1], np.int64)
    powers = bits.view(np.float64)
    g[:] = 0.0
    for low in range(0, m, block):
        part = x[low : min(low + block, m)].astype(np.float64)
        z = np.dot(part, w)
        slopes(code, z.reshape(-1), bits, powers, z.size)
        g += np.dot(part.T, z)


def _gradient_csr(rows, loss, points, width):
    result = np.empty_like(points)
    if points.shape[0] == 1:
        pass_csr(rows[0], rows[1], rows[2], loss, points[0], result[0])
    else:
        total = np.empty((width, points.shape[0]))
        passes_csr(rows[0], rows[1], rows[2], loss, np.ascontiguousarray(points.T), total)
        result[:] = total.T
    return result / (rows[2].size - 1)


def _gradient_dense(rows, loss, points, width):
    result = np.empty_like(points)
    if points.shape[0] == 1:
        pass_dense(rows, loss, points[0], result[0])
    else:
        total = np.empty((width, points.shape[0]))
        passes_dense(rows, loss, np.ascontiguousarray(points.T), total)
        result[:] = total.T
    return result / rows.shape[0]


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


def _hessian_dense(rows, loss, point, out, width):
    m = rows.shape[0]
    half = width // 2  # two halves of the columns: three products instead of four, as the result is symmetric
    out[:] = 0.0
    for low in range(0, m, 512):
        part = rows[low : min(low + 512, m)].astype(np.float64)
        h = np.dot(part, point)
        curvatures(loss, h)
        left, right = np.empty((len(h), half)), np.empty((len(h), width - half))
        for i in range(len(h)):
            root = np.sqrt(h[i])
            for t in range(half):
                left[i, t] = root * part[i, t]
            for t in range(half, width):
                right[i, t - half] = root * part[i, t]
        if half:
            out[:half, :half] += np.dot(left.T, left)
            out[half:, :half] += np.dot(right.T, left)
        out[half:, half:] += np.dot(right.T, right)
    out /= m
    out[:half, half:] = out[half:, :half].T


def _invert(matrix):
    return np.linalg.inv(matrix)


@intrinsic
def _fetch_add(typing_context, tickets):
    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, context.get_constant(numba.types.int64, 1), "seq_cst")

    return numba.types.int64(tickets), generate


def _take_ticket(tickets):
    return _fetch_add(tickets)  # type: ignore[call-arg]


def _records_csr(rows, cuts, server):
    return rows[0], rows[1], rows[2][cuts[server] : cuts[server + 1] + 1]


def _is_dense(rows: Any) -> bool:
    return isinstance(rows, numba.types.Array)


def _teach() -> None:
    """Tell numba what each function of `core.kernel` means in compiled code: its own source, or a body of this file."""
    how: dict[str, Any] = {"jit_options": OPTIONS, "strict": False}
    overload(kernel.data_gradient, **how)(lambda rows, loss, points, width: _gradient_dense if _is_dense(rows) else _gradient_csr)
    overload(kernel.hessian, **how)(lambda rows, loss, point, out, width: _hessian_dense if _is_dense(rows) else _hessian_csr)
    overload(kernel.records_of, **how)(lambda rows, cuts, server: kernel.records_of if _is_dense(rows) else _records_csr)
    overload(kernel.invert, **how)(lambda matrix: _invert)
    overload(kernel.take_ticket, **how)(lambda tickets: _take_ticket)
    overload(kernel.spread, **how)(lambda moment, step: kernel.spread)
    overload(kernel.quasi_newton, **how)(lambda inverse, gradient, steps, changes, count: kernel.quasi_newton)
    overload(kernel.rebuild, **how)(lambda rows, loss, ridge, state: kernel.rebuild)
    overload(kernel.advance, **how)(lambda rows, loss, ridge, reach, patience, tolerance, state, target, out, reached: kernel.advance)
    overload(kernel.advance_many, **how)(
        lambda rows, cuts, loss, ridges, reaches, patiences, tolerances, states, targets, out, reached, tickets: kernel.advance_many
    )


def _entries(stamp: int) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The entry points, cached on disk under a ``stamp`` of both sources: numba alone would look at one file only."""

    def one(rows, loss, ridge, reach, patience, tolerance, state, target, out, reached):
        assert stamp
        return kernel.advance(rows, loss, ridge, reach, patience, tolerance, state, target, out, reached)

    def many(rows, cuts, loss, ridges, reaches, patiences, tolerances, states, targets, out, reached, tickets):
        assert stamp
        kernel.advance_many(rows, cuts, loss, ridges, reaches, patiences, tolerances, states, targets, out, reached, tickets)

    def curved(rows, loss, point, out, width):
        assert stamp
        kernel.hessian(rows, loss, point, out, width)

    def cached(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return numba.njit(cache=True, **OPTIONS)(function)
        except RuntimeError:  # no folder to write the cache to
            return numba.njit(**OPTIONS)(function)

    return cached(one), cached(many), cached(curved)


_teach()
_sources = b"".join(Path(str(path)).read_bytes() for path in (__file__, kernel.__file__))
advance, advance_many, hessian = _entries(int.from_bytes(hashlib.sha256(_sources).digest()[:6], "big") | 1)
