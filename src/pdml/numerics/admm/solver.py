"""The primal solve, certified: argmin of G(w) + (ridge/2)|w|² - target·w, with a proved bound on
the gradient left.

The privacy proof replaces "the argmin" by "a point whose gradient norm is at most tol", so a solver
that stops without knowing where it stands voids the guarantee. Here every answer carries the norm
it reached, or an upper bound on it, and a solve that cannot reach the tolerance raises
`NotCertified`.

Three layers, from cheap to unfailing: `kernel.advance` (chord and secant steps, often without
touching the data), a new Hessian when that pays, and `newton`, a damped Newton method whose line
search is a root of a monotone function: on a strongly convex problem it descends from anywhere.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import inf, sqrt
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from pdml._types import Array, IntArray, Matrix
from pdml.errors import NotCertified
from pdml.numerics.admm import kernel, rows
from pdml.numerics.admm.kernel import SAFE, TINY, UNIT, RoundingLimits
from pdml.numerics.admm.losses import Loss

ServerMap = Callable[..., list[Any]]

WIDEST = 1500  # unknowns for which a dense Hessian is kept; beyond, conjugate gradients
MOST_ROUNDINGS = 2**29  # in a row, whose products with one another vanish in `kernel.SAFE`
COMPILE_FROM = 50_000_000  # stored values x rounds from which numba's start-up pays for itself


class PrimalSolver:
    """Solves one server's primal problems, round after round, for one or more trainings on the same
    records.

    ``matrix`` is (m, d), ``ridge`` the strong convexity μ_i = a/n + 2βN_i, ``codes`` the number C
    of score vectors. ``state`` and ``shared`` (packed rows) are given by `ManySolvers`, which keeps
    all servers' in one piece.
    """

    def __init__(
        self,
        matrix: Matrix,
        loss: Loss,
        ridge: float,
        *,
        codes: int = 1,
        runs: int = 1,
        use_numba: bool = False,
        state: kernel.SolverState | None = None,
        shared: Any = None,
    ) -> None:
        self.matrix, self.loss, self.ridge = matrix, loss, ridge
        self.codes, self.width = codes, matrix.shape[1]
        self.size = codes * self.width
        self.limits = rounding_limits(matrix, loss, ridge, codes)
        self._compiled = compiled_entries(loss, codes, self.width) if use_numba else None
        if self._compiled is None:
            self.matrix = matrix if matrix.dtype == np.float64 else matrix.astype(np.float64)
            self._rows: Any = kernel.Rows(self.matrix, transpose(self.matrix))
        else:
            self._rows = packed(matrix) if shared is None else shared
        self.patience = _patience(self.matrix, self.size, self._compiled is not None)
        self.state = state or blank_state(runs, codes, self.width)
        if self.size <= WIDEST:
            self._start()

    def _start(self) -> None:
        """Stand at w = 0."""
        zero, m = np.zeros(self.size), self.matrix.shape[0]
        slope = self.loss.slope(np.zeros((1, self.codes)))[0]
        if slope.any():  # never where g is even
            mean = np.asarray(self.matrix.sum(axis=0)).ravel() / m
            self.state.gradients[:] = np.outer(slope, mean).reshape(-1)
        bent, fast = self.loss.curvature(np.zeros((1, self.codes)))[0], self._compiled
        if fast is None or not sp.issparse(self.matrix):  # BLAS is faster than any loop
            self.state.moment[:] = rows.gram(self.matrix) / m
            self.state.hessian[:] = np.kron(bent, self.state.moment)
        else:  # of a single code, where the Hessian at 0 is g''(0)·S
            fast.hessian(self._rows, fast.loops, zero, self.state.hessian, self.width)
            self.state.moment[:] = self.state.hessian / bent
        kernel.invert(self.state.hessian, self.ridge, self.state.inverse)

    def solve(self, target: Array, tolerance: float) -> tuple[Array, Array]:
        """Points (runs, C, d) with |∇G(w) + ridge·w - target| <= tolerance, and the certified norms
        (runs,)."""
        runs = len(target)
        flat = np.ascontiguousarray(target).reshape(runs, self.size)
        out, reached = np.empty_like(flat), np.full(runs, np.inf)
        if self.size <= WIDEST and self._compiled is None:
            problem = (self._rows, self.loss, self.ridge, self.limits, self.patience, tolerance)
            kernel.advance(*problem, self.state, flat, out, reached)
        elif self._compiled is not None:
            alone = kernel.SolverState(*[cast(Any, field)[None] for field in self.state])
            place = (
                self._rows,
                np.array([0, self.matrix.shape[0]]),
                self._compiled.loops,
                *_settings([self]),
            )
            ticket = np.zeros(1, dtype=np.int64)
            self._compiled.advance_many(
                *place, np.array([tolerance]), alone, flat[None], out[None], reached[None], ticket
            )
        if not (reached <= tolerance).all():
            self.rescue(flat, tolerance, out, reached)
        return out.reshape(target.shape), reached

    def rescue(self, target: Array, tolerance: float, out: Array, reached: Array) -> None:
        """Every run by the safeguard, from where it stands; flat arrays as in `kernel.advance`."""
        for c in range(len(target)):
            start = (
                self.state.points[c]
                if np.isfinite(self.state.points[c]).all()
                else np.zeros(self.size)
            )
            out[c], reached[c], self.state.gradients[c] = self.newton(start, target[c], tolerance)
            self.state.points[c] = out[c]
        if self.size <= WIDEST:
            records = kernel.Rows(self.matrix, transpose(self.matrix))
            kernel.rebuild(records, self.loss, self.ridge, self.limits, self.state)

    def newton(self, point: Array, target: Array, tolerance: float) -> tuple[Array, float, Array]:
        """Damped Newton from ``point``: the solution, its gradient norm and its data gradient.

        It cannot fail on a strongly convex problem, save by a tolerance below the rounding of the
        gradient itself.
        """
        m, d = self.matrix.shape
        shape = (self.codes, d)
        w = point.reshape(shape).copy()
        b = target.reshape(shape)
        best = np.inf
        for _ in range(200):
            margins = self.matrix @ w.T
            data_gradient = (self.matrix.T @ self.loss.slope(margins)).T / m
            gradient = data_gradient + self.ridge * w - b
            norm = float(np.linalg.norm(gradient))
            fuzz = kernel.blur(self.limits, w.reshape(-1), target)
            certificate = kernel.SAFE * (norm + fuzz)
            self.state.work[0] += 1
            if certificate <= tolerance:
                return w.reshape(-1), certificate, data_gradient.reshape(-1)
            best = min(best, certificate)
            if not np.isfinite(norm) or tolerance < fuzz >= norm:  # rounding alone is too much
                break
            step = self._direction(w, margins, gradient)
            w = w - self._line_search(w, step, margins, b) * step
        raise _not_certified(best, tolerance)

    def _direction(self, w: Array, margins: Array, gradient: Array) -> Array:
        """(∇²G + ridge)^-1 gradient, exactly, or by conjugate gradients where the matrix would be
        too large."""
        if self.size <= WIDEST:
            curved = np.empty((self.size, self.size))
            kernel.hessian(
                kernel.Rows(self.matrix, self.matrix.T),
                self.loss,
                w.reshape(-1),
                curved,
                self.width,
            )
            kernel.invert(curved, self.ridge, curved)
            return (curved @ gradient.reshape(-1)).reshape(w.shape)
        m = self.matrix.shape[0]
        weights = self.loss.curvature(margins)

        def apply(vector: Array) -> Array:
            pushed = self.matrix @ vector.reshape(w.shape).T
            bent = np.einsum("mkl,ml->mk", weights, pushed)
            return np.asarray(
                (self.matrix.T @ bent).T / m + self.ridge * vector.reshape(w.shape)
            ).reshape(-1)

        operator = LinearOperator((self.size, self.size), matvec=apply, dtype=np.float64)
        norm = float(np.linalg.norm(gradient))
        solution, _ = cg(
            operator, gradient.reshape(-1), rtol=min(0.1, np.sqrt(norm)), maxiter=2 * self.size
        )
        return np.asarray(solution).reshape(w.shape)

    def _line_search(self, w: Array, step: Array, margins: Array, b: Array) -> float:
        """A size α in (0, ∞) where the slope along the step is a tenth of its start: the slope only
        grows with α."""
        m = self.matrix.shape[0]
        push = self.matrix @ step.T

        def slope(size: float) -> float:
            moved = self.loss.slope(margins - size * push)
            return -float(
                np.vdot(moved, push) / m + np.vdot(self.ridge * (w - size * step) - b, step)
            )

        start = slope(0.0)
        low, high = 0.0, 1.0
        while (at_high := slope(high)) < 0.1 * start and high < 1e12:
            low, high = high, 2 * high
        if at_high <= -0.1 * start:
            return high
        for _ in range(60):  # not `bisect`: a flat enough slope ends it, not a short interval
            middle = (low + high) / 2
            value = slope(middle)
            if abs(value) <= -0.1 * start:
                return middle
            low, high = (middle, high) if value < 0 else (low, middle)
        return (low + high) / 2


class ManySolvers:
    """The solvers of all servers, over pooled records: ``cuts`` says where each server's rows
    begin.

    Compiled, one call per thread takes a whole round; the rare rest (a new Hessian, the safeguard)
    goes server by server. ``map_servers`` calls a function for every server, or for those given,
    possibly in threads.
    """

    def __init__(
        self,
        pooled: Matrix,
        cuts: IntArray,
        loss: Loss,
        ridges: Array,
        *,
        codes: int,
        runs: int,
        threads: int,
        use_numba: Sequence[bool],
        map_servers: ServerMap,
    ) -> None:
        """``use_numba``: one word per server; where they differ, each server's solver goes its own
        way."""
        n = len(ridges)
        self.threads, self.map_servers = threads, map_servers
        self.states = blank_state(runs, codes, pooled.shape[1], servers=n)
        self._compiled = compiled_entries(loss, codes, pooled.shape[1]) if all(use_numba) else None
        self._rows = None if self._compiled is None else packed(pooled)

        def build_solver(i: int) -> PrimalSolver:
            matrix = rows.take(pooled, int(cuts[i]), int(cuts[i + 1]))
            view = kernel.SolverState(*(field[i] for field in self.states))
            shared = self._compiled and compiled_loops().records_of(self._rows, cuts, i)
            return PrimalSolver(
                matrix,
                loss,
                ridges[i],
                codes=codes,
                runs=runs,
                use_numba=use_numba[i],
                state=view,
                shared=shared,
            )

        self.solvers: list[PrimalSolver] = map_servers(build_solver)
        if self._compiled is not None:
            self._place = (self._rows, cuts, self._compiled.loops, *_settings(self.solvers))

    def solve(self, targets: Array, tolerances: Array) -> tuple[Array, Array]:
        """Points (n, runs, C, d) and certified norms (n, runs) for targets of the same shape."""
        n, runs = targets.shape[:2]
        flat = np.ascontiguousarray(targets).reshape(n, runs, -1)
        out, reached = np.empty_like(flat), np.full((n, runs), np.inf)
        if self._compiled is None:
            for i, solver in enumerate(self.solvers):
                out[i], reached[i] = solver.solve(flat[i], float(tolerances[i]))
            return out.reshape(targets.shape), reached
        problem = (
            *self._place,
            np.asarray(tolerances, dtype=float),
            self.states,
            flat,
            out,
            reached,
            np.zeros(1, dtype=np.int64),
        )
        self.map_servers(lambda _: self._compiled.advance_many(*problem), range(self.threads))
        failed = ~(reached <= tolerances[:, None]).all(axis=1)
        for k in np.flatnonzero(failed):  # the safeguard, for the rare rest
            self.solvers[k].rescue(flat[k], float(tolerances[k]), out[k], reached[k])
        return out.reshape(targets.shape), reached


def _settings(solvers: list[PrimalSolver]) -> tuple[Array, kernel.RoundingLimits, IntArray]:
    """Ridges, limits and patiences of these servers, as `compiled.advance_many` takes them."""
    return (
        np.array([solver.ridge for solver in solvers]),
        kernel.RoundingLimits(*np.array([solver.limits for solver in solvers]).T.copy()),
        np.array([solver.patience for solver in solvers]),
    )


def blank_state(
    runs: int, codes: int, width: int, servers: int | None = None
) -> kernel.SolverState:
    """Room for one server's state, or for several servers' with a leading axis."""
    size = codes * width
    front = () if servers is None else (servers,)
    small = size <= WIDEST
    square, moment = ((size, size), (width, width)) if small else ((0, 0), (0, 0))
    return kernel.SolverState(
        points=np.zeros((*front, runs, size)),
        gradients=np.zeros((*front, runs, size)),
        distance=np.zeros((*front, runs)),
        anchor=np.zeros((*front, size)),
        hessian=np.zeros((*front, *square)),
        inverse=np.zeros((*front, *square)),
        moment=np.zeros((*front, *moment)),
        steps=np.zeros((*front, runs, kernel.MEMORY, size)),
        changes=np.zeros((*front, runs, kernel.MEMORY, size)),
        curvatures=np.ones((*front, runs, kernel.MEMORY)),
        counts=np.zeros((*front, runs), dtype=np.int64),
        work=np.zeros((*front, 3), dtype=np.int64),
    )


@cache
def compiled_loops() -> Any:
    """The module `numerics.admm.compiled`, or None where numba is not installed."""
    try:
        from pdml.numerics.admm import compiled
    except ImportError:
        return None
    return compiled


def compiled_entries(loss: Loss, codes: int, width: int) -> Any:
    """The compiled loops of this very loss, where it has any and a Hessian fits; else None."""
    module = compiled_loops() if loss.kernels and codes == 1 and width <= WIDEST else None
    return module and module.entries(loss.kernels)


def worth_compiling(values: int, rounds: int) -> bool:
    """Whether a training of this many stored values is long enough to pay for loading numba (about
    a second)."""
    return values * rounds >= COMPILE_FROM


def _not_certified(reached: float, tolerance: float) -> NotCertified:
    return NotCertified(
        f"the primal solve reached a gradient norm of {reached:.3g}, above the tolerance "
        f"{tolerance:.3g}: "
        "the privacy proof does not cover its result, so nothing was released"
    )


def transpose(matrix: Matrix) -> Matrix:
    """Xᵀ in the form that multiplies fastest."""
    return sp.csc_array(matrix).T if sp.issparse(matrix) else matrix.T


def packed(matrix: Matrix) -> Any:
    """The form the compiled loops read: a dense array, or CSR with unsigned indices as narrow as
    the width allows."""
    if not sp.issparse(matrix):
        return np.ascontiguousarray(matrix)
    narrow = np.uint16 if matrix.shape[1] <= 2**16 else np.uint32
    return matrix.data, matrix.indices.astype(narrow), matrix.indptr.astype(np.uint64)


def _patience(matrix: Matrix, size: int, compiled: bool) -> int:
    """Passes to spend before a new Hessian is bought: a few times its price, as in renting or
    buying skis.

    The prices are rough times in nanoseconds, fixed so that results never depend on a clock.
    """
    m, d = matrix.shape
    inverse = 0.2 * size**3
    if not sp.issparse(matrix):
        pass_cost, gram = 0.45 * m * d, 0.045 * m * d * size
    else:
        pass_cost = (1.6 if compiled else 2.0) * matrix.nnz
        gram = 0.4 * matrix.nnz**2 / m if compiled else 0.06 * m * d * size
    if not compiled:
        pass_cost += 60_000.0  # what the interpreter spends around a pass
    return int(np.clip(5 * (gram + inverse) / max(pass_cost, 1.0), 12, 400))


def rounding_limits(matrix: Matrix, loss: Loss, ridge: float, codes: int) -> RoundingLimits:
    """The constants by which `kernel.advance` certifies: of the theorem in docs/proofs/solver.md.

    Each counts roundings along the longest way through a computation, whatever the order of its
    sums, so that BLAS, SciPy, NumPy's pairwise sums and the compiled loops are covered alike.
    """
    m, d = matrix.shape
    size = codes * d
    if m + 2 * size > MOST_ROUNDINGS:
        return RoundingLimits(inf, inf, inf, inf, inf, inf, inf)
    lengths = rows.norms(matrix)
    longest = float(lengths.max(initial=0.0))  # B
    square = float(np.square(lengths).sum()) / max(m, 1)  # T, the mean of |x|²
    bent = loss.curvature_bound * square  # at least the norm of |∇²G|
    slopes, curvatures = evaluation_errors(codes)
    per_point = (d + 2) * bent + 5 * ridge
    if loss.slope_bound < inf:
        fixed = (m + 8 + slopes) * loss.slope_bound * sqrt(square)
    else:  # the square loss: slopes grow with the margins, and are exact given them
        fixed, per_point = 0.0, per_point + (m + 8) * bent
    return RoundingLimits(
        bend=SAFE * loss.third_bound * longest,
        fixed=SAFE * UNIT * fixed + TINY,
        per_point=SAFE * UNIT * per_point,
        per_step=SAFE * UNIT * ((m + size + 12 + curvatures) * bent + 5 * ridge),
        per_anchor=SAFE * UNIT * d * loss.third_bound * longest * square,
        slack=SAFE * UNIT * (m + 2 * d + codes + 16) * square + TINY**2,
        nudge=SAFE * UNIT * sqrt(square),
    )


def evaluation_errors(codes: int) -> tuple[int, int]:
    """How well slopes and curvatures are computed, given the margins.

    Guarantees
    ----------
    They hold where the libraries' exp, tanh and power are right to four units in the last place.
    """
    return 32 + 2 * codes, 128 + 12 * codes
