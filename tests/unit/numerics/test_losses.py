"""Losses: the paper's forms, their derivatives, and the constants that proofs rest on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import LabelFlip
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import (
    BINARY,
    LOGISTIC,
    MATSUSHITA,
    SOFTMAX,
    SQUARE,
    register,
)

TEXTBOOK = {
    "logistic": lambda y, z: np.logaddexp(0, -y * z),
    "square": lambda y, z: (1 - y * z) ** 2,
    "matsushita": lambda y, z: np.sqrt(1 + z**2) - y * z,
}
losses = st.sampled_from(list(BINARY.values()))
margins = st.floats(-30, 30)
signs = st.sampled_from([-1.0, 1.0])
epsilons = st.floats(0.05, 12)


def linear_odd(loss, code, z):
    """g(z) - c·code·z: what training minimises, as a function of the (de-biased) label code."""
    return float(loss.value(np.array([[z]]))[0] - loss.label_weight * code * z)


@given(losses, signs, margins)
def test_linear_odd_form_is_the_textbook_loss(loss, y, z):
    assert linear_odd(loss, y, z) == pytest.approx(TEXTBOOK[loss.name](y, z), rel=1e-12, abs=1e-12)


@given(losses, signs, margins, epsilons)
def test_debiased_code_gives_the_papers_modified_loss(loss, y, z, epsilon):
    """eq modified_loss: (e^ε l(y') - l(-y'))/(e^ε - 1)."""
    odds = np.exp(epsilon)
    printed = (odds * TEXTBOOK[loss.name](y, z) - TEXTBOOK[loss.name](-y, z)) / (odds - 1)
    assert linear_odd(loss, float(labels.kappa(epsilon)) * y, z) == pytest.approx(
        printed, rel=1e-9, abs=1e-7
    )


@given(losses, signs, margins, epsilons)
def test_corrected_loss_is_unbiased(loss, y, z, epsilon):
    """Proposition 2 (i): the exact expectation over the flip, no sampling."""
    epsilon = round(epsilon, 6)
    p = LabelFlip(epsilon).flip_probability
    code = float(labels.kappa(epsilon))
    expected = (1 - p) * linear_odd(loss, code * y, z) + p * linear_odd(loss, -code * y, z)
    assert expected == pytest.approx(TEXTBOOK[loss.name](y, z), rel=1e-9, abs=1e-7)


@given(
    st.sampled_from([*BINARY.values(), SOFTMAX]),
    arrays(float, 3, elements=st.floats(-5, 5)),
    arrays(float, 3, elements=st.floats(-1, 1)),
)
def test_slope_and_curvature_are_derivatives(loss, z, u):
    if loss is not SOFTMAX:
        z, u = z[:1], u[:1]
    step = 1e-5
    value = (loss.value((z + step * u)[None])[0] - loss.value((z - step * u)[None])[0]) / (2 * step)
    assert value == pytest.approx(float(loss.slope(z[None])[0] @ u), abs=1e-6)
    bent = (loss.slope((z + step * u)[None])[0] - loss.slope((z - step * u)[None])[0]) / (2 * step)
    np.testing.assert_allclose(bent, loss.curvature(z[None])[0] @ u, atol=1e-6)


@pytest.mark.parametrize("loss", BINARY.values(), ids=BINARY)
def test_binary_constants_hold_and_are_attained(loss):
    z = np.linspace(-40, 40, 400_001)[:, None]
    slope, curvature = loss.slope(z)[:, 0], loss.curvature(z)[:, 0, 0]
    third = np.abs(np.diff(curvature)) / np.diff(z[:, 0])
    assert np.abs(slope).max() <= loss.slope_bound
    assert curvature.max() <= loss.curvature_bound
    assert third.max() <= loss.third_bound * (1 + 1e-6) + 1e-12
    assert curvature.max() >= 0.999 * loss.curvature_bound
    assert third.max() >= 0.999 * loss.third_bound


def test_softmax_constants_hold_and_are_not_loose():
    rng = np.random.default_rng(0)
    worst_curve = worst_third = 0.0
    for _ in range(4000):
        z, u = rng.normal(size=(2, 3)) * rng.uniform(0, 4)
        curve = SOFTMAX.curvature(z[None])[0]
        worst_curve = max(worst_curve, np.linalg.eigvalsh(curve)[-1])
        step = 1e-4 * u / np.linalg.norm(u)
        change = (
            SOFTMAX.curvature((z + step)[None])[0] - SOFTMAX.curvature((z - step)[None])[0]
        ) / 2e-4
        worst_third = max(worst_third, np.linalg.norm(change, 2))
    assert 0.8 * SOFTMAX.curvature_bound < worst_curve <= SOFTMAX.curvature_bound
    assert 0.3 * SOFTMAX.third_bound < worst_third <= SOFTMAX.third_bound


def test_no_overflow_far_out():
    z = np.array([[800.0], [-800.0]])
    assert np.isfinite(LOGISTIC.value(z)).all()
    np.testing.assert_allclose(LOGISTIC.slope(z)[:, 0], [0.5, -0.5])
    assert (LOGISTIC.curvature(z) >= 0).all()


def test_unknown_loss_is_refused():
    with pytest.raises(
        InvalidInput, match="loss must be one of 'logistic', 'square', 'matsushita', got 'hinge'"
    ):
        BINARY.resolve("hinge")


def test_a_built_in_loss_agrees_with_itself():
    for loss in BINARY.values():
        loss.check()
        assert register(loss) is loss


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"slope": MATSUSHITA.slope}, "slope must be the derivative of value"),
        ({"curvature": MATSUSHITA.curvature}, "curvature must be the derivative of slope"),
        ({"slope_bound": 0.4}, "slope_bound must bound"),
        ({"curvature_bound": 0.2}, "curvature_bound must bound"),
        ({"third_bound": 0.09}, "third_bound must bound"),
        ({"slope_bound": float("inf")}, "slope_bound must be finite where g is not quadratic"),
        ({"label_weight": 0.0}, "label_weight must"),
        ({"curvature": lambda z: np.full((*z.shape, 1), np.nan)}, "curvature must"),
    ],
)
def test_a_loss_that_contradicts_itself_is_refused(changes, why):
    """A bound that does not hold would make certificates, and with them the ledger, false."""
    with pytest.raises(InvalidInput, match=why):
        register(replace(LOGISTIC, name="mine", **changes))
    assert "mine" not in BINARY


def test_the_name_of_a_built_in_loss_is_not_given_away():
    with pytest.raises(InvalidInput, match="a name of its own, got 'logistic'"):
        register(replace(SQUARE, name="logistic"))
