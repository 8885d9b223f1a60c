"""One server's steps against the paper's formulas, written out."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pdml.numerics.admm import steps
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.admm.solver import PrimalSolver


def setting(seed, m=30, d=4, neighbours=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    sent, dual, linear = rng.normal(size=(3, 1, d))
    heard = list(rng.normal(size=(neighbours, 1, d)))
    return x, sent, dual, linear * 0.1, heard


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.floats(0.01, 2), st.floats(0.001, 1))
def test_primal_step_is_the_argmin_of_the_augmented_lagrangian(seed, neighbours, penalty, weight):
    """wi_update: the gradient of J̃_i(w) + γᵀw + β Σ_l |w - (w̃_i + w̃_l)/2|² vanishes at the
    solution.
    """
    x, sent, dual, linear, heard = setting(seed, neighbours=neighbours)
    total = steps.sum_messages(heard, sent)
    target = steps.primal_target(linear, dual, sent, total, degree=neighbours, penalty=penalty)
    w, _ = PrimalSolver(x, LOGISTIC, weight + 2 * penalty * neighbours).solve(target[None], 1e-11)
    w = w[0]
    slope = (x.T @ LOGISTIC.slope(x @ w.T)).T / len(x) - linear + weight * w + dual
    pull = sum(2 * penalty * (w - (sent + message) / 2) for message in heard)
    np.testing.assert_allclose(slope + pull, 0, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 2), st.floats(0, 9))
def test_long_messages_cannot_be_told_from_the_rounding_of_the_target(seed, penalty, size):
    """What depends on records is rounded once, by u·|b|, however long the messages that cancel."""
    _, sent, dual, linear, heard = setting(seed)
    where = {"degree": 3, "penalty": penalty}
    sent, total = 10**size * sent, 10**size * sum(heard)
    dual = penalty * (3 * sent + total) + dual  # what is left is of the size of `linear`
    public = steps.primal_target(np.zeros_like(linear), dual, sent, total, **where)
    target = steps.primal_target(linear, dual, sent, total, **where)
    for b, x, p in zip(target.ravel(), linear.ravel(), public.ravel(), strict=True):
        assert abs(Fraction(b) - Fraction(x) - Fraction(p)) <= Fraction(1, 2**53) * abs(Fraction(b))


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 2))
def test_dual_step(seed, penalty):
    """gammai_update."""
    _, sent, dual, _, heard = setting(seed)
    total = steps.sum_messages(heard, sent)
    expected = dual + penalty * sum(sent - message for message in heard)
    np.testing.assert_allclose(
        steps.dual_step(dual, sent, total, degree=3, penalty=penalty),
        expected,
        rtol=1e-9,
        atol=1e-12,
    )


def test_release_adds_the_noise_to_the_iterate_and_nothing_else():
    np.testing.assert_array_equal(
        steps.release_step(np.array([[1.0, 2.0]]), np.array([[0.5, -0.5]])), [[1.5, 1.5]]
    )


@given(st.integers(0, 2**32 - 1))
def test_risk_is_the_mean_corrected_loss(seed):
    """Ĵ_i(w) by the mean operator equals the sum over records of g(z) - c·code·z, plus
    (a/2n)|w|².
    """
    rng = np.random.default_rng(seed)
    x, codes, w = rng.normal(size=(20, 3)), rng.normal(size=(20, 1)), rng.normal(size=(2, 1, 3))
    mean = (codes.T @ x) * LOGISTIC.label_weight / 20
    got = steps.risk(x, LOGISTIC, mean, 0.3, w)
    for point, value in zip(w, got, strict=True):
        z = x @ point.T
        direct = np.mean(LOGISTIC.value(z) - 0.5 * codes[:, 0] * z[:, 0]) + 0.15 * np.sum(point**2)
        np.testing.assert_allclose(value, direct, rtol=1e-10)
