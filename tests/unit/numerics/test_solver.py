"""The solver certifies: what it says of its gradient is true, and it cannot fail on a strongly
convex problem.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.errors import NotCertified
from pdml.numerics.admm import kernel, labels, rows, solver
from pdml.numerics.admm.losses import BINARY, LOGISTIC, SOFTMAX, SQUARE, Kernels, Loss
from pdml.numerics.admm.solver import PrimalSolver

STORAGES = {
    "dense": np.ascontiguousarray,
    "csr": sp.csr_array,
    "float32": lambda x: x.astype(np.float32),
}
HAS_NUMBA = solver.compiled_loops() is not None
modes = pytest.mark.parametrize(
    "use_numba",
    [
        False,
        pytest.param(
            True, marks=pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
        ),
    ],
)


def records(m, d, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, d)) * (rng.random((m, d)) < density)
    return x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None]


def true_gradient(x, loss, ridge, target, w):
    """∇G(w) + ridge·w - target, computed afresh in double precision from the stored rows."""
    x = np.asarray(x.toarray() if sp.issparse(x) else x, dtype=float)
    return (x.T @ loss.slope(x @ w.T)).T / len(x) + ridge * w - target


@modes
@pytest.mark.parametrize("loss", BINARY.values(), ids=BINARY)
@pytest.mark.parametrize("storage", STORAGES.values(), ids=STORAGES)
def test_certificates_are_true(storage, loss, use_numba):
    """The promised bound is at least the true gradient norm, also where the data was never touched
    (steps too small to look).
    """
    x = storage(records(300, 12, density=0.5))
    unit = PrimalSolver(x, loss, 0.05, use_numba=use_numba)
    rng = np.random.default_rng(1)
    target = rng.normal(size=(1, 1, 12)) * 0.3
    unseen = 0
    for t in range(60):
        before = unit.state.work[0]
        target = target + rng.normal(size=target.shape) * 0.03 * 0.8**t
        w, reached = unit.solve(target, 1e-8)
        unseen += unit.state.work[0] == before
        true = np.linalg.norm(true_gradient(x, loss, 0.05, target[0], w[0]))
        assert true <= reached[0] + 1e-14
        assert reached[0] <= 1e-8
    assert unseen > 0, (
        "no step was certified without a pass: the test would prove nothing about the certificate"
    )


def test_a_wrong_certificate_would_be_caught():
    """The same check bites: with the third-derivative bound switched off, some certified points are
    not within tolerance.
    """
    x = records(300, 12, density=0.5)
    unit = PrimalSolver(x, LOGISTIC, 0.05)
    unit.limits = unit.limits._replace(bend=0.0)
    rng = np.random.default_rng(1)
    target = rng.normal(size=(1, 1, 12)) * 0.3
    broken = False
    for _ in range(20):
        target = target + rng.normal(size=target.shape) * 0.03
        w, _ = unit.solve(target, 1e-8)
        broken |= np.linalg.norm(true_gradient(x, LOGISTIC, 0.05, target[0], w[0])) > 1e-8
    assert broken


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
    st.integers(1, 8),
    st.floats(-4, 1),
    st.floats(-1, 2),
    st.sampled_from(list(BINARY.values())),
)
def test_any_strongly_convex_problem_is_solved(seed, m, d, log_ridge, log_size, loss):
    rng = np.random.default_rng(seed)
    x = records(m, d, seed)
    ridge, size = 10**log_ridge, 10**log_size
    unit = PrimalSolver(x, loss, ridge)
    for _ in range(3):
        target = rng.normal(size=(1, 1, d)) * size
        tolerance = 1e-9 * max(1.0, float(np.linalg.norm(target)))
        w, reached = unit.solve(target, tolerance)
        true = np.linalg.norm(true_gradient(x, loss, ridge, target[0], w[0]))
        assert true <= reached[0] + 1e-12 * size
        assert reached[0] <= tolerance


EXTREMES = {
    "beta 1e-4": (records(200, 10), 2e-4, 1.0),
    "eta of size 100": (records(200, 10), 0.05, 100.0),
    "beta 1e-4, eta of size 100": (records(200, 10), 2e-4, 100.0),
    "separable": (np.sign(records(200, 1)) * np.ones((200, 10)) / np.sqrt(10), 2e-4, 10.0),
    "one row": (records(1, 10), 1e-3, 10.0),
    "identical rows": (np.ones((50, 10)) / np.sqrt(10), 1e-4, 100.0),
    "zero rows": (np.zeros((5, 10)), 1e-3, 1.0),
    "tiny ridge": (records(200, 10), 1e-8, 0.1),
}


@modes
@pytest.mark.parametrize("loss", BINARY.values(), ids=BINARY)
@pytest.mark.parametrize("case", EXTREMES)
def test_extreme_problems(case, loss, use_numba):
    """Where a plain Newton loop silently failed to converge (saturated data), every solve is
    certified, warm or cold.
    """
    x, ridge, size = EXTREMES[case]
    rng = np.random.default_rng(2)
    unit = PrimalSolver(x, loss, ridge, use_numba=use_numba)
    for _ in range(4):
        target = rng.normal(size=(1, 1, 10))
        target *= size / np.linalg.norm(target)
        tolerance = 1e-8 * size
        w, reached = unit.solve(target, tolerance)
        assert reached[0] <= tolerance
        assert (
            np.linalg.norm(true_gradient(x, loss, ridge, target[0], w[0]))
            <= reached[0] + 1e-12 * size
        )


@pytest.mark.parametrize("loss", [LOGISTIC, SOFTMAX], ids=["logistic", "softmax"])
def test_the_safeguard_alone_solves_from_anywhere(loss):
    codes = 3 if loss is SOFTMAX else 1
    x = records(200, 6)
    unit = PrimalSolver(x, loss, 1e-4, codes=codes)
    rng = np.random.default_rng(3)
    target = rng.normal(size=(codes, 6)) * 5
    for start in (np.zeros(codes * 6), rng.normal(size=codes * 6) * 1e5):
        w, norm, _ = unit.newton(start, target.reshape(-1), 1e-8)
        assert norm <= 1e-8
        assert np.linalg.norm(true_gradient(x, loss, 1e-4, target, w.reshape(codes, 6))) <= 1.01e-8


def test_wide_problems_need_no_hessian():
    """Beyond WIDEST unknowns conjugate gradients take over; the certificate is the same."""
    d = solver.WIDEST + 10
    x = sp.random_array((80, d), density=0.02, format="csr", rng=np.random.default_rng(0))
    x, _ = rows.clip(rows.as_rows(x), 1.0)
    unit = PrimalSolver(x, LOGISTIC, 0.01)
    target = np.random.default_rng(1).normal(size=(1, 1, d)) * 0.01
    w, reached = unit.solve(target, 1e-8)
    assert (
        np.linalg.norm(true_gradient(x, LOGISTIC, 0.01, target[0], w[0]))
        <= reached[0] + 1e-14
        <= 1.1e-8
    )


def test_an_unreachable_tolerance_fails_loudly():
    unit = PrimalSolver(records(50, 5), LOGISTIC, 0.1)
    with pytest.raises(
        NotCertified, match="above the tolerance 1e-30: the privacy proof does not cover"
    ):
        unit.solve(np.ones((1, 1, 5)), 1e-30)


def test_many_servers_fail_as_loudly():
    """Compiled rounds leave the rest to the safeguard, which says that it cannot."""
    cuts, ridges = np.array([0, 30, 60]), np.array([0.1, 0.2])
    many = solver.ManySolvers(
        records(60, 5),
        cuts,
        LOGISTIC,
        ridges,
        codes=1,
        runs=1,
        threads=1,
        use_numba=[True, True],
        map_servers=lambda function, which=range(2): [function(i) for i in which],
    )
    targets = np.ones((2, 1, 1, 5))
    _, reached = many.solve(targets, np.full(2, 1e-8))
    assert (reached <= 1e-8).all()
    with pytest.raises(NotCertified, match="above the tolerance 1e-30"):
        many.solve(targets, np.array([1e-8, 1e-30]))


def test_softmax_is_certified():
    x = records(300, 5)
    unit = PrimalSolver(x, SOFTMAX, 0.05, codes=4)
    rng = np.random.default_rng(0)
    for _ in range(10):
        target = rng.normal(size=(1, 4, 5)) * 0.2
        w, reached = unit.solve(target, 1e-9)
        assert (
            np.linalg.norm(true_gradient(x, SOFTMAX, 0.05, target[0], w[0]))
            <= reached[0] + 1e-14
            <= 1.1e-9
        )


@pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
@pytest.mark.parametrize("runs", [1, 5])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_compiled_and_interpreted_agree(storage, runs):
    x = STORAGES[storage](records(400, 9, density=0.4))
    rng = np.random.default_rng(5)
    for loss in BINARY.values():
        units = [PrimalSolver(x, loss, 0.02, runs=runs, use_numba=fast) for fast in (False, True)]
        for _ in range(8):
            target = rng.normal(size=(runs, 1, 9)) * 0.3
            slow, fast = (unit.solve(target, 1e-12)[0] for unit in units)
            np.testing.assert_allclose(fast, slow, atol=1e-10)


def test_sensitivity_never_exceeds_its_bound():
    """Replacing one record moves the certified solution by at most (record_shift/m + 2 tol)/μ: the
    heart of the proof.

    200 neighbouring pairs on saturated data (large targets); the worst ratio also comes near the
    bound, so it is not vacuous.
    """
    m, d, ridge, epsilon, tolerance = 20, 4, 0.02, 1.0, 1e-6
    rng = np.random.default_rng(7)
    bound = (labels.record_shift(epsilon, 1.0, LOGISTIC, 2) / m + 2 * tolerance) / ridge
    worst = 0.0
    for _ in range(200):
        x = records(m, d, int(rng.integers(1 << 30)))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        other = x.copy()
        direction = rng.normal(size=d)
        x[0], other[0] = (
            direction / np.linalg.norm(direction),
            -direction / np.linalg.norm(direction),
        )
        y = rng.integers(0, 2, m)
        push = rng.normal(size=(1, d)) * 0.2 + 3 * rng.integers(0, 2) * x[0]
        solutions = []
        for matrix in (x, other):
            q = labels.label_mean(matrix, labels.codes(y, epsilon, 2), LOGISTIC)
            solutions.append(
                PrimalSolver(matrix, LOGISTIC, ridge).solve((q + push)[None], tolerance)[0]
            )
        worst = max(worst, float(np.linalg.norm(solutions[0] - solutions[1])) / bound)
    assert 0.3 < worst <= 1.0


def test_an_inverse_is_one_or_says_that_there_is_none():
    rng, size = np.random.default_rng(0), 6
    half = rng.normal(size=(size, 2))
    flat, out = half @ half.T, np.empty((size, size))  # of rank 2
    kernel.invert(flat, 0.5, out)
    np.testing.assert_allclose(out @ (flat + 0.5 * np.eye(size)), np.eye(size), atol=1e-12)
    np.fill_diagonal(out, np.nan)
    kernel.invert(flat - 1e-14 * np.eye(size), 0.0, out)  # rounding ate the ridge: lifted
    assert np.isfinite(out).all() and np.linalg.eigvalsh(out).min() > 0
    for bad in (np.full((size, size), np.nan), np.diag([-1.0, np.inf, *np.ones(size - 2)])):
        kernel.invert(bad, 0.0, out)
        assert np.isnan(out).all()


def fourth_loss(name="cosh", tilt=0.0):
    """g = log cosh z + tilt·z, which `numerics.admm.compiled` does not know; not even where it is tilted."""
    return Loss(
        name=name,
        label_weight=1.0,
        slope_bound=1.0 + abs(tilt),
        curvature_bound=1.0,
        third_bound=4 / (3 * np.sqrt(3)),  # |2 sech² tanh|, at tanh² = 1/3
        value=lambda z: np.logaddexp(z, -z)[..., 0] - np.log(2) + tilt * z[..., 0],
        slope=lambda z: np.tanh(z) + tilt,
        curvature=lambda z: (1 - np.tanh(z) ** 2)[..., None],
    )


@pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
@pytest.mark.parametrize("name", ["cosh", "logistic", "matsushita"])
@pytest.mark.parametrize("storage", STORAGES.values(), ids=STORAGES)
def test_a_loss_without_compiled_loops_trains_without_them(storage, name):
    """Whatever its name: the certificate is of this loss, and numba changes nothing."""
    x, loss = storage(records(300, 12, density=0.5)), fourth_loss(name)
    assert loss.kernels is None
    plain, fast = (PrimalSolver(x, loss, 0.05, use_numba=flag) for flag in (False, True))
    cuts = np.array([0, 150, 300])
    many = solver.ManySolvers(
        x,
        cuts,
        loss,
        np.array([0.05, 0.05]),
        codes=1,
        runs=1,
        threads=1,
        use_numba=[True, True],
        map_servers=lambda call, servers=range(2): [call(i) for i in servers],
    )
    rng = np.random.default_rng(1)
    for t in range(20):
        target = rng.normal(size=(1, 1, 12)) * 0.5**t
        (slow, _), (w, reached) = plain.solve(target, 1e-8), fast.solve(target, 1e-8)
        np.testing.assert_array_equal(w, slow)
        true = np.linalg.norm(true_gradient(x, loss, 0.05, target[0], w[0]))
        assert true <= reached[0] + 1e-14 <= 1.1e-8
        both, norms = many.solve(np.stack([target, target]), np.array([1e-8, 1e-8]))
        for i in range(2):
            part = rows.take(x, int(cuts[i]), int(cuts[i + 1]))
            true = np.linalg.norm(true_gradient(part, loss, 0.05, target[0], both[i, 0]))
            assert true <= norms[i, 0] + 1e-14 <= 1.1e-8


@modes
def test_a_loss_that_is_not_even_is_certified_from_its_first_step(use_numba):
    x, loss = records(300, 12), fourth_loss(tilt=0.5)
    unit = PrimalSolver(x, loss, 0.05, use_numba=use_numba)
    target = np.full((1, 1, 12), 1e-3)
    w, reached = unit.solve(target, 1e-8)
    assert np.linalg.norm(true_gradient(x, loss, 0.05, target[0], w[0])) <= reached[0] + 1e-14


@pytest.mark.parametrize("loss", BINARY.values(), ids=BINARY)
def test_kernels_leave_a_loss_that_changes_what_they_compile(loss):
    """A changed slope or curvature trains by NumPy; other constants keep the loops."""
    assert loss.kernels is not None
    assert replace(loss, name="steeper", label_weight=3.0).kernels == loss.kernels
    for changed in ("slope", "curvature"):
        other = getattr(LOGISTIC if loss is not LOGISTIC else SQUARE, changed)
        assert replace(loss, **{changed: other}).kernels is None
    assert replace(fourth_loss(), kernels=loss.kernels).kernels is None


class CoshLoops(NamedTuple):
    def slopes(self, z, bits, powers, count):
        for j in range(count):
            z[j] = np.tanh(z[j])

    def curvatures(self, z):
        for j in range(z.size):
            z[j] = 1.0 - np.tanh(z[j]) ** 2


@pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
def test_a_loss_may_bring_loops_of_its_own():
    plain = fourth_loss()
    loss = replace(plain, kernels=Kernels(plain.slope, plain.curvature, CoshLoops))
    x, rng = records(300, 12), np.random.default_rng(2)
    assert solver.compiled_entries(loss, 1, 12) is not None
    slow, fast = (PrimalSolver(x, part, 0.05, use_numba=True) for part in (plain, loss))
    for t in range(5):
        target = rng.normal(size=(1, 1, 12)) * 0.5**t
        (w, reached), (other, _) = fast.solve(target, 1e-8), slow.solve(target, 1e-8)
        np.testing.assert_allclose(w, other, atol=1e-6)
        true = np.linalg.norm(true_gradient(x, loss, 0.05, target[0], w[0]))
        assert true <= reached[0] + 1e-14 <= 1.1e-8
