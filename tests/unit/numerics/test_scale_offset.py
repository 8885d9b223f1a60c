"""How sure a model may be, and where one class begins (on real data: tests/release)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit

from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.numerics.sums import posterior

AT, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def result(scale, offset, mean, deviation, *, doubt=0.0):
    """Of margins N(mean, deviation²) and labels whose log odds are scale·z + offset."""
    z = mean + deviation * AT
    y = 2 * expit(scale * z + offset) - 1
    share = WEIGHTS @ y
    return posterior.MarginMoments(
        mean=np.array([mean]),
        covariance=np.array([[deviation**2]]),
        noisy=deviation**2,
        doubt=doubt,
        shared=(WEIGHTS @ (y * z) - share * mean) / 2,
        classes=np.array([share / 2]),
        blur=1e-6,
        constant=np.array([offset / scale]),
        believed=np.array([share / 2]),
        offset=True,
    )


cases = st.tuples(
    st.floats(0.2, 2.0), st.floats(-1.5, 1.5), st.floats(-1.0, 1.0), st.floats(0.3, 1.0)
)


@settings(deadline=None, max_examples=50)
@given(cases)
def test_without_noise_the_odds_of_gaussian_margins_are_found(case):
    """Equal up to the ridge and 512 points, where they are not cut to a root mean square of 3."""
    scale, offset, mean, deviation = case
    assume(np.hypot(scale * mean + offset, scale * deviation) < 2.9)
    found, constant = posterior.fit_scale_and_offset(result(*case), LOGISTIC)
    assert found == pytest.approx(scale, abs=0.02)
    assert constant[0] == pytest.approx(offset, abs=0.02)


@settings(deadline=None, max_examples=50)
@given(cases, st.floats(-2, 2))
def test_where_noise_hides_the_variance_the_shares_of_classes_are_kept(case, own):
    """Whatever constant the direction has."""
    known = replace(result(*case, doubt=20.0), constant=np.array([own]))
    assume(abs(known.classes[0]) > 0.1)  # else they might be equal
    found, constant = posterior.fit_scale_and_offset(known, LOGISTIC)
    wide = posterior._points(known, 0.25 - known.classes[0] ** 2)
    assert np.mean(expit(found * wide + constant) - 0.5) == pytest.approx(
        known.classes[0], abs=0.02
    )


@settings(deadline=None, max_examples=50)
@given(cases, st.floats(0, 10), st.floats(0.01, 20), st.floats(1e-3, 3))
def test_margins_are_never_steeper_than_three(case, doubt, noisy, blur):
    known = replace(result(*case, doubt=doubt), noisy=noisy, blur=blur)
    found, constant = posterior.fit_scale_and_offset(known, LOGISTIC)
    mean, deviation = case[2], case[3]
    assert found >= 0
    # by S without its noise, of which margins are a twelfth as wide at least
    assert np.hypot(found * mean + constant[0], found * deviation / 3.5) <= 3 + 1e-9


@settings(deadline=None, max_examples=50)
@given(cases)
def test_wider_margins_make_the_scale_smaller(case):
    known = result(*case, doubt=0.05)
    found = [
        posterior.fit_scale_and_offset(replace(known, noisy=v), LOGISTIC)[0]
        for v in (0.3, 1.0, 3.0)
    ]
    assert found[0] >= found[1] >= found[2]


def test_labels_that_say_nothing_give_the_share_of_classes_alone():
    known = replace(result(1.0, 1.0, 0.0, 1.0, doubt=100.0), shared=0.0)
    found, constant = posterior.fit_scale_and_offset(known, LOGISTIC)
    assert found == pytest.approx(0.0, abs=1e-4)
    share = 2 * known.classes[0]
    assert constant[0] == pytest.approx(np.log((1 + share) / (1 - share)), rel=0.02)


def test_blurred_shares_are_taken_for_equal_ones():
    """Then the constant is the direction's own."""
    known = replace(result(1.0, 0.3, 0.0, 1.0, doubt=100.0), blur=1.0)
    found, constant = posterior.fit_scale_and_offset(known, LOGISTIC)
    assert constant[0] == pytest.approx(0.3 * found, rel=0.05)


def test_shares_of_three_classes_without_any_signal():
    shares = np.array([0.6, 0.3, 0.1])
    nothing = np.zeros(3)
    known = posterior.MarginMoments(
        mean=nothing,
        covariance=np.eye(3),
        noisy=3.0,
        doubt=300.0,
        shared=0.0,
        classes=shares - 1 / 3,
        blur=1e-6,
        constant=nothing,
        believed=nothing,
        offset=True,
    )
    _, constants = posterior.fit_scale_and_offset(known, SOFTMAX)
    np.testing.assert_allclose(np.exp(constants) / np.exp(constants).sum(), shares, atol=0.01)
