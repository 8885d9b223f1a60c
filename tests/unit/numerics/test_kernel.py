"""What the certificate assumes of rounding, piece by piece, against 60 digits."""

from math import inf
from unittest.mock import patch

import exact
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.numerics.admm import kernel, rows, solver
from pdml.numerics.admm.kernel import UNIT
from pdml.numerics.admm.losses import BINARY, LOGISTIC, SOFTMAX
from pdml.numerics.admm.solver import PrimalSolver

LOSSES = {**BINARY, "softmax": SOFTMAX}
STORAGES = {
    "dense": np.ascontiguousarray,
    "csr": sp.csr_array,
    "float32": lambda x: x.astype(np.float32),
    "csr of float32": lambda x: sp.csr_array(x.astype(np.float32)),
}
HAS_NUMBA = solver.compiled_loops() is not None
needs_numba = pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
ways = pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_numba)])
MARGINS = np.concatenate(
    [
        np.linspace(-40, 40, 1601),
        np.random.default_rng(0).normal(size=1500),
        *(sign * 10.0 ** np.linspace(-300, 300, 601) for sign in (1, -1)),
        [0.0, -0.0, 700.0, -700.0, 745.2, np.log(2) / 2, -1.5 * np.log(2)],
    ]
)


def slopes_and_curvatures(name, compiled):
    """g' and g'' of every margin, by NumPy or by the compiled loops."""
    if not compiled:
        z = MARGINS[:, None].copy()
        with np.errstate(over="ignore"):
            return LOSSES[name].slope(z)[:, 0], LOSSES[name].curvature(z)[:, 0, 0]
    slopes, curvatures = MARGINS.copy(), MARGINS.copy()
    bits = np.empty(len(MARGINS), np.int64)
    loops = BINARY[name].kernels.loops()
    compile_loop = solver.compiled_loops().jit
    compile_loop(type(loops).slopes)(loops, slopes, bits, bits.view(np.float64), len(slopes))
    compile_loop(type(loops).curvatures)(loops, curvatures)
    return slopes, curvatures


@ways
@pytest.mark.parametrize("name", ["logistic", "matsushita"])
def test_slopes_and_curvatures_are_as_good_as_the_theorem_needs(name, compiled):
    """Beyond 1e100, where a square may overflow, it does not count on them: u·|z| is above all."""
    loss, usual = BINARY[name], np.abs(MARGINS) < 1e100
    of_slopes, of_curvatures = solver.evaluation_errors(1)
    slopes, curvatures = slopes_and_curvatures(name, compiled)
    for z, slope, curvature in zip(MARGINS[usual], slopes[usual], curvatures[usual], strict=True):
        score = exact.decimals([z])
        off, bent_off = (
            exact.apart(slope, exact.slopes(name, score)),
            exact.apart(curvature, exact.curvatures(name, score)[0]),
        )
        assert off <= of_slopes * UNIT * loss.slope_bound
        assert bent_off <= of_curvatures * UNIT * loss.curvature_bound
    assert (np.abs(slopes) <= loss.slope_bound).all()
    assert ((curvatures >= 0) & (curvatures <= loss.curvature_bound * (1 + 4 * UNIT))).all()


@ways
def test_the_square_loss_is_exact_given_its_margins(compiled):
    slopes, curvatures = slopes_and_curvatures("square", compiled)
    np.testing.assert_array_equal(slopes, 2 * MARGINS)
    np.testing.assert_array_equal(curvatures, 2.0)


@given(st.integers(2, 9), st.integers(0, 2**32 - 1), st.floats(-3, 9))
def test_softmax_is_as_good_as_the_theorem_needs(codes, seed, size):
    """And absolute values, which sums are bounded by, keep the norm of its curvature in bounds."""
    z = np.random.default_rng(seed).normal(size=(1, codes)) * 10**size
    of_slopes, of_curvatures = solver.evaluation_errors(codes)
    true, bent = (f("softmax", exact.decimals(z[0])) for f in (exact.slopes, exact.curvatures))
    flat = [value for line in bent for value in line]
    assert exact.apart(SOFTMAX.slope(z), true) <= of_slopes * UNIT
    assert exact.apart(SOFTMAX.curvature(z), flat) <= of_curvatures * UNIT * 0.5
    absolute = np.abs(np.array(bent, dtype=float))
    assert np.linalg.norm(absolute, 2) <= SOFTMAX.curvature_bound * (1 + 1e-12)


@st.composite
def hostile_rows(draw):
    """Few records, long and short; columns nearly equal, or zero here and there."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, d, gap = draw(st.integers(1, 24)), draw(st.integers(1, 4)), 10 ** draw(st.floats(-16, 0))
    base = rng.uniform(0.3, 1, (m, 1)) * rng.choice([-1, 1], (m, 1))
    x = base + gap * rng.normal(size=(m, d))
    x *= rng.random((m, d)) < draw(st.sampled_from([1.0, 0.5, 0.1]))
    x *= 10 ** rng.uniform(-draw(st.sampled_from([0, 3])), 0, size=(m, 1))
    return x * 10 ** draw(st.sampled_from([0, -2, 2]))


@settings(max_examples=80)
@given(
    hostile_rows(),
    st.sampled_from(list(STORAGES)),
    st.sampled_from(list(LOSSES)),
    st.booleans(),
    st.floats(-2, 9),
    st.integers(0, 2**32 - 1),
)
def test_what_the_solver_remembers_is_within_its_limits(x, storage, name, fast, length, seed):
    """Gradients, S, H, |v - a|_S: every number that a later certificate rests on.

    Two trainings share the Hessian, so that neither stands at its anchor; a patience of 0 builds it
    anew in every solve.
    """
    x, codes = STORAGES[storage](x), 3 if name == "softmax" else 1
    shape, rng = (codes, x.shape[1]), np.random.default_rng(seed)
    unit = PrimalSolver(x, LOSSES[name], 0.01, codes=codes, runs=2, use_numba=fast)
    check_memory(unit, x, name, shape)
    for far, patience in ((1.0, 0), (10.0**length, 0), (10.0**length, 100), (1.0, 100)):
        unit.patience = patience
        targets = 0.1 * rng.normal(size=(2, *shape)) + far * unit.ridge * rng.normal(size=shape)
        flat = targets.reshape(2, -1)
        reach = np.linalg.norm(x if isinstance(x, np.ndarray) else x.toarray(), axis=1).max(
            initial=0.0
        )  # of the data's gradient
        rounded = max(
            kernel.blur(unit.limits, np.array([np.linalg.norm(b) + 3 * reach]) / unit.ridge, b)
            for b in flat
        )
        unit.solve(targets, 1e-7 + 100 * rounded)
        check_memory(unit, x, name, shape)


def check_memory(unit, x, name, shape):
    limits, state = unit.limits, unit.state
    anchor = state.anchor.reshape(shape)
    bent = limits.per_step + limits.per_anchor * np.linalg.norm(anchor)
    assert exact.apart(state.hessian, exact.hessian(x, name, anchor)) <= bent
    twice = exact.hessian(x, "square", anchor[:1])  # 2S, whatever the point
    assert exact.apart(2 * state.moment, twice) <= 2 * limits.slack
    for c in range(2):
        point = state.points[c].reshape(shape)
        off = exact.apart(state.gradients[c], exact.data_gradient(x, name, point))
        assert off <= limits.fixed + limits.per_point * np.linalg.norm(point)
        assert exact.distance(x, point, anchor) <= state.distance[c]
        for step in (point, np.resize([1.0, -1.0], shape)):
            flat = np.ravel(step).copy()
            found = kernel.spread(state.moment, flat, np.empty(flat.size), limits.slack)
            assert exact.spread(x, step) <= found


def test_the_spread_of_cancelling_columns_is_not_zero():
    """What went wrong once: pᵀSp cancels, and the step seems to change no margin at all."""
    x = np.array([[0.5, 0.5 + 2.0**-28], [0.5, 0.5 - 2.0**-28]])
    moment, step = np.full((2, 2), 0.25), np.array([1e6, -1e6])  # S, rounded
    assert step @ moment @ step == 0
    slack = solver.rounding_limits(x, LOGISTIC, 0.1, 1).slack
    assert kernel.spread(moment, step, np.empty(2), slack) >= exact.spread(x, step[None]) > 3e-3


def test_the_kernel_sums_margins_in_the_s_norm():
    """And rounding adds next to nothing where columns are not collinear."""
    x = np.random.default_rng(0).normal(size=(50, 4))
    p = np.arange(8.0)
    expected = np.sqrt((np.square(x @ p.reshape(2, 4).T)).sum() / 50)
    slack = solver.rounding_limits(x, LOGISTIC, 0.1, 2).slack
    found = kernel.spread(x.T @ x / 50, p, np.empty(8), slack)
    assert expected < found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nothing_that_is_not_finite_becomes_a_length(bad):
    """max(0, NaN) is 0 in Python: so a NaN would have been the shortest step of all."""
    for moment, step in ((np.array([[bad]]), np.ones(1)), (np.ones((1, 1)), np.array([bad]))):
        assert not kernel.spread(moment, step, np.empty(1), 1e-16) < inf


def test_limits_of_more_records_than_was_proved_are_infinite():
    with patch.object(solver, "MOST_ROUNDINGS", 10):
        limits = solver.rounding_limits(np.ones((8, 2)), LOGISTIC, 0.1, 1)
    assert all(value == inf for value in limits)


@given(hostile_rows(), st.sampled_from(list(BINARY.values())))
def test_limits_follow_the_units_of_the_features(x, loss):
    """Features 4 times as large, μ 16 times: each limit scales as what it bounds."""
    one, two = (
        solver.rounding_limits(x, loss, 0.01, 1),
        solver.rounding_limits(4 * x, loss, 0.16, 1),
    )
    powers = kernel.RoundingLimits(
        bend=1, fixed=1, per_point=2, per_step=2, per_anchor=3, slack=2, nudge=1
    )
    for name in kernel.RoundingLimits._fields:
        expected = getattr(one, name) * 4.0 ** getattr(powers, name)
        assert getattr(two, name) == pytest.approx(expected, rel=1e-12, abs=1e-130)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_grams_of_float32_are_taken_in_double(kind):
    """A Hessian rounded to 24 bits would be a million times worse than its limit."""
    rng = np.random.default_rng(0)
    x = (rng.random((500, 40)) * (rng.random((500, 40)) < 0.1)).astype(np.float32)
    wide, weights = x.astype(float), rng.random(500)
    for h, expected in ((None, wide.T @ wide), (weights, (wide.T * weights) @ wide)):
        np.testing.assert_allclose(rows.gram(kind(x), h), expected, rtol=1e-13)
