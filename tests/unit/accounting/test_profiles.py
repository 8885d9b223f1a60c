"""Privacy profiles against direct integration of the divergence they claim to be, and against each
other.
"""

from itertools import pairwise
from math import exp, inf, log, log1p, nextafter, pi, sqrt, tanh

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln, log_ndtr, ndtr
from scipy.stats import norm

from pdml.accounting import profiles
from pdml.accounting.events import ObjectiveNoised
from pdml.accounting.objective_loss import objective_profile
from pdml.errors import InvalidInput

scales = st.floats(0.02, 8)  # μ
targets = st.floats(0, 12)  # ε or e'
responses = st.floats(0.02, 12)  # ε of randomised response
deltas = st.floats(1e-10, 0.1)


def log_normal(x: float) -> float:
    return -(x * x + log(2 * pi)) / 2


def hockey_stick(log_p, log_q, epsilon: float, *, switch: float, low: float, high: float) -> float:
    """∫ max(0, p - e^ε q), the smallest δ; ``switch`` is where the integrand bends, so that
    quadrature can be exact there.
    """

    def integrand(x):
        return max(0.0, exp(log_p(x)) - exp(epsilon + log_q(x)))

    edges = sorted(
        {low, high, *(min(high, max(low, switch + step)) for step in (-8.0, -2.0, 0.0, 2.0, 8.0))}
    )
    return sum(
        quad(integrand, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for a, b in pairwise(edges)
    )


def gaussian_by_quadrature(mu: float, epsilon: float) -> float:
    """N(μ, 1) against N(0, 1)."""
    return hockey_stick(
        lambda x: log_normal(x - mu),
        log_normal,
        epsilon,
        switch=mu / 2 + epsilon / mu,
        low=-12.0,
        high=max(mu, mu / 2 + epsilon / mu) + 12,
    )


def joint_by_quadrature(epsilon: float, mu: float, target: float) -> float:
    """p·N(0, 1) + (1-p)·N(μ, 1) against the same with p and 1-p swapped: randomised response, then
    a Gaussian.
    """
    keep, flip = -log1p(exp(-epsilon)), -log1p(exp(epsilon))

    def mixture(first, second):
        return lambda x: np.logaddexp(first + log_normal(x), second + log_normal(x - mu))

    one, other = mixture(keep, flip), mixture(flip, keep)
    low, high = -12.0, mu + 12
    for _ in range(200):  # one - other falls with x: bisect for the only bend
        middle = (low + high) / 2
        low, high = (middle, high) if one(middle) - other(middle) > target else (low, middle)
    return hockey_stick(one, other, target, switch=low, low=-12.0, high=mu + 12)


# The Gaussian


@given(scales, targets)
@settings(max_examples=200)
@example(1.0, 0.0)
@example(0.02, 12.0)
@example(8.0, 12.0)
def test_gaussian_profile_is_the_hockey_stick_divergence(mu, epsilon):
    delta = profiles.gaussian_profile(mu)(epsilon)
    assert delta == pytest.approx(gaussian_by_quadrature(mu, epsilon), rel=0, abs=1e-10)


@given(st.floats(0.2, 4), st.floats(0, 3))
@settings(max_examples=30)
def test_gaussian_claim_breaks_when_the_noise_is_halved(mu, epsilon):
    claim = profiles.gaussian_profile(mu)(epsilon)
    assert gaussian_by_quadrature(2 * mu, epsilon) > claim * 1.01 > 0
    assert gaussian_by_quadrature(mu / 2, epsilon) < claim / 1.01


@given(scales, targets, targets)
def test_gaussian_profile_falls_with_epsilon_and_grows_with_mu(mu, one, other):
    small, large = sorted((one, other))
    profile = profiles.gaussian_profile(mu)
    assert 0 <= profile(large) <= profile(small) + 1e-15 <= 1 + 1e-15
    assert profile(small) <= profiles.gaussian_profile(1.01 * mu)(small) + 1e-15


@given(targets)
def test_gaussian_limits(epsilon):
    assert profiles.gaussian_profile(0.0)(epsilon) == 0.0
    assert profiles.gaussian_profile(1e-12)(epsilon) < 1e-12
    assert profiles.gaussian_profile(inf)(epsilon) == 1.0
    assert profiles.gaussian_profile(1e6)(epsilon) == 1.0
    assert profiles.gaussian_profile(1.0)(inf) == profiles.gaussian_profile(inf)(inf) == 0.0
    assert 0 < profiles.gaussian_profile(1.0)(1e308) <= 1e-300


@given(scales)
def test_gaussian_total_variation(mu):
    assert profiles.gaussian_profile(mu)(0.0) == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=1e-12)


def test_gaussian_profile_against_dp_accounting():
    """ε at δ = 1e-6, from dp_accounting 0.6.0 (privacy loss distribution, grid 1e-4)."""
    for mu, known in ((0.1, 0.39685743), (1.0, 4.88655412), (3.0, 18.16344576)):
        assert profiles.epsilon_at(profiles.gaussian_profile(mu), 1e-6) == pytest.approx(
            known, abs=2e-7
        )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_gaussian_mu_meets_the_analytic_formula_exactly(epsilon):
    """Balle and Wang (2018): Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) = δ."""

    def delta(mu):
        return norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)

    mu = profiles.gaussian_mu(epsilon, 1e-6)
    assert delta(mu) == pytest.approx(1e-6, rel=1e-6)
    assert delta(2 * mu) > 1e-5


@pytest.mark.parametrize("mu", [-1.0, float("nan"), "1"])
def test_bad_mu_is_refused(mu):
    with pytest.raises(InvalidInput, match="mu must be"):
        profiles.gaussian_profile(mu)


# Pure mechanisms and nothing


@given(responses, targets)
def test_pure_profile_is_that_of_randomised_response(epsilon_p, epsilon):
    """Two outcomes: δ = Σ max(0, P - e^ε Q)."""
    keep, flip = 1 / (1 + exp(-epsilon_p)), 1 / (1 + exp(epsilon_p))
    direct = max(0.0, keep - exp(epsilon) * flip) + max(0.0, flip - exp(epsilon) * keep)
    assert profiles.pure_profile(epsilon_p)(epsilon) == pytest.approx(direct, rel=1e-9, abs=1e-12)


@given(responses)
def test_pure_profile_ends_at_its_epsilon(epsilon):
    profile = profiles.pure_profile(epsilon)
    assert profile(epsilon) == profile(inf) == 0.0
    assert profile(epsilon * (1 - 1e-6)) > 0
    assert profiles.pure_profile(inf)(epsilon) == profiles.nothing_profile(epsilon) == 1.0
    assert profiles.nothing_profile(inf) == 0.0


def test_pure_profile_far_beyond_its_epsilon():
    assert profiles.pure_profile(1.0)(800.0) == 0.0


# Randomised response, then something noisy


@given(responses, scales, st.floats(0, 1.2))
@settings(max_examples=200)
@example(1.0, 1.0, 0.3)
@example(12.0, 8.0, 0.999)
@example(0.02, 0.02, 0.0)
def test_joint_profile_is_the_mixtures_divergence(epsilon, mu, part):
    """Exact, from brute-force integration; e' runs from 0 to beyond ε."""
    joint = profiles.joint_profile(epsilon, profiles.gaussian_profile(mu))(part * epsilon)
    assert joint == pytest.approx(joint_by_quadrature(epsilon, mu, part * epsilon), rel=0, abs=1e-9)


@given(st.floats(0.3, 4), st.floats(0.3, 3), st.floats(0, 0.8))
@settings(max_examples=30)
def test_joint_claim_breaks_when_either_noise_is_halved(epsilon, mu, part):
    """Half the Gaussian, or half the flips: the true divergence exceeds the claim."""
    target = part * epsilon
    claim = profiles.joint_profile(epsilon, profiles.gaussian_profile(mu))(target)
    fewer_flips = log(2 * exp(epsilon) + 1)  # p/2 = 1/(1 + e^that)
    assert joint_by_quadrature(epsilon, 2 * mu, target) > claim
    assert joint_by_quadrature(fewer_flips, mu, target) > claim


@given(responses, responses, st.floats(0, 1.5))
def test_two_pure_mechanisms_join_to_a_pure_one(epsilon, epsilon_p, part):
    """tanh(ε_J/2) = tanh(ε/2)·tanh(ε_p/2), and the whole profile is that of randomised response
    with ε_J.
    """
    total = profiles.joint_epsilon(epsilon, epsilon_p)
    target = part * total
    joint = profiles.joint_profile(epsilon, profiles.pure_profile(epsilon_p))(target)
    assert joint == pytest.approx(profiles.pure_profile(total)(target), rel=0, abs=1e-12)
    assert tanh(total / 2) == pytest.approx(tanh(epsilon / 2) * tanh(epsilon_p / 2), rel=1e-12)


@given(st.floats(0, 60), st.floats(0, 60))
def test_joint_epsilon_is_symmetric_and_below_both(one, other):
    joint = profiles.joint_epsilon(one, other)
    assert joint == pytest.approx(profiles.joint_epsilon(other, one), rel=1e-12, abs=1e-14)
    assert -1e-14 <= joint <= min(one, other) * (1 + 1e-12) + 1e-14
    direct = np.logaddexp(one + other, 0) - np.logaddexp(
        one, other
    )  # the same, by likelihood ratios
    assert joint == pytest.approx(direct, rel=1e-9, abs=1e-13)


@given(st.floats(0, 60))
def test_joint_epsilon_limits(epsilon):
    assert profiles.joint_epsilon(epsilon, inf) == profiles.joint_epsilon(inf, epsilon) == epsilon
    assert profiles.joint_epsilon(epsilon, 0.0) == 0.0
    assert profiles.joint_epsilon(inf, inf) == inf


@given(responses, scales, targets)
def test_joint_is_never_larger_than_either_alone(epsilon, mu, target):
    gaussian = profiles.gaussian_profile(mu)
    joint = profiles.joint_profile(epsilon, gaussian)(target)
    assert 0 <= joint <= gaussian(target) + 1e-15
    assert joint <= profiles.pure_profile(epsilon)(target) + 1e-15


@given(responses, st.floats(1, 3), scales, targets)
def test_joint_grows_with_the_epsilon_of_the_response(epsilon, factor, mu, target):
    """Why the ledger may take the largest ε of a server: less flipping is worse."""
    gaussian = profiles.gaussian_profile(mu)
    assert (
        profiles.joint_profile(epsilon, gaussian)(target)
        <= profiles.joint_profile(factor * epsilon, gaussian)(target) + 1e-15
    )


@given(responses, targets, scales)
def test_joint_limits(epsilon, target, mu):
    gaussian = profiles.gaussian_profile(mu)
    assert profiles.joint_profile(inf, gaussian) is gaussian
    assert profiles.joint_profile(60.0, gaussian)(target) == pytest.approx(
        gaussian(target), rel=1e-9, abs=1e-15
    )
    assert profiles.joint_profile(epsilon, profiles.gaussian_profile(0.0))(target) == 0.0
    assert profiles.joint_profile(epsilon, profiles.gaussian_profile(1e-9))(target) < 1e-9
    pure = profiles.pure_profile(epsilon)(target)
    for blunt in (
        profiles.gaussian_profile(inf),
        profiles.gaussian_profile(1e5),
        profiles.nothing_profile,
    ):
        assert profiles.joint_profile(epsilon, blunt)(target) == pytest.approx(
            pure, rel=1e-9, abs=1e-12
        )
    assert profiles.joint_profile(epsilon, profiles.nothing_profile)(nextafter(epsilon, 0)) < 1e-12


@given(scales, scales, responses, targets)
def test_better_of_is_the_smaller(mu, other, epsilon, target):
    parts = [
        profiles.gaussian_profile(mu),
        profiles.gaussian_profile(other),
        profiles.pure_profile(epsilon),
    ]
    assert profiles.better_of(*parts)(target) == min(part(target) for part in parts)


# From δ back to ε


@st.composite
def falling_profiles(draw):
    gaussian = profiles.gaussian_profile(draw(scales))
    kind = draw(st.sampled_from(["gaussian", "pure", "joint"]))
    if kind == "gaussian":
        return gaussian
    pure = draw(responses)
    return profiles.pure_profile(pure) if kind == "pure" else profiles.joint_profile(pure, gaussian)


@given(falling_profiles(), deltas)
def test_epsilon_at_inverts_the_profile(profile, delta):
    """It holds the δ, and nothing noticeably smaller does."""
    epsilon = profiles.epsilon_at(profile, delta)
    assert profile(epsilon) <= delta
    smaller = epsilon - 2e-9 * max(1.0, epsilon)
    assert smaller < 0 or profile(smaller) > delta


@given(falling_profiles(), deltas, st.floats(1, 100))
def test_epsilon_at_falls_with_delta(profile, delta, factor):
    assert profiles.epsilon_at(profile, delta) >= profiles.epsilon_at(
        profile, min(1.0, delta * factor)
    )


def test_epsilon_at_the_ends():
    assert profiles.epsilon_at(profiles.nothing_profile, 1e-6) == inf
    assert profiles.epsilon_at(profiles.gaussian_profile(0.0), 0.0) == 0.0
    assert profiles.epsilon_at(profiles.gaussian_profile(1.0), 1.0) == 0.0
    assert profiles.epsilon_at(profiles.gaussian_profile(50.0), 1e-6) == pytest.approx(
        1486.716, abs=1e-2
    )
    assert (
        profiles.epsilon_at(profiles.gaussian_profile(1e4), 1e-6) == inf
    )  # above what it looks for
    assert profiles.epsilon_at(profiles.gaussian_profile(50.0), 1e-6, most=2000.0) == pytest.approx(
        1480, abs=20
    )
    assert profiles.epsilon_at(profiles.pure_profile(1.0), 0.0) == pytest.approx(1.0, abs=2e-9)


@pytest.mark.parametrize("delta", [-1e-9, 1.1, float("nan")])
def test_bad_delta_is_refused(delta):
    with pytest.raises(InvalidInput, match="delta must be"):
        profiles.epsilon_at(profiles.gaussian_profile(1.0), delta)


@pytest.mark.parametrize("mu", [1.0, 0.01])
def test_a_gaussian_is_never_pure(mu):
    assert profiles.epsilon_at(profiles.gaussian_profile(mu), 0.0) == inf


# Truncation


def truncated_shift(shift: float, reach: float, epsilon: float) -> float:
    """N(0, 1) cut to [-b, b] against N(s, 1) cut to [s-b, s+b]: the exact δ, from the boxes' edges
    and the Gaussian's one bend.
    """
    if shift >= 2 * reach:
        return 1.0
    edge = shift - reach  # left of it only the first density lives
    bend = min(reach, shift / 2 - epsilon / shift)
    mass = ndtr(edge) - ndtr(-reach)
    if bend > edge:
        second = exp(epsilon + log_ndtr(bend - shift)) - exp(epsilon + log_ndtr(-reach))
        mass += ndtr(bend) - ndtr(edge) - second
    return float(mass / (1 - 2 * ndtr(-reach)))


@given(st.floats(0.05, 3), st.floats(2, 7), st.floats(0, 5))
def test_exact_truncated_shift_is_its_quadrature(shift, reach, epsilon):
    """The oracle of the tests below is right itself: the same by integration over the first box."""
    kept = log1p(-2 * ndtr(-reach))

    def second(x):
        return log_normal(x - shift) - kept if x >= shift - reach else -inf

    bends = sorted(
        {
            -reach,
            min(reach, max(-reach, shift - reach)),
            min(reach, max(-reach, shift / 2 - epsilon / shift)),
            reach,
        }
    )
    parts = (
        quad(
            lambda x: max(0.0, exp(log_normal(x) - kept) - exp(epsilon + second(x))),
            a,
            b,
            epsabs=1e-14,
        )[0]
        for a, b in pairwise(bends)
    )
    assert truncated_shift(shift, reach, epsilon) == pytest.approx(sum(parts), rel=0, abs=1e-10)


def truncated(mu, outside):
    """The bound that needs no more than the mass cut off."""
    return profiles.truncated_gaussian_profile(mu, outside=outside, edge=inf)


@given(st.floats(0.01, 3), st.floats(2, 8), st.floats(0, 8))
@example(0.1, 6.0, 0.4)
def test_truncated_covers_the_exact_profile_and_is_tight(shift, reach, epsilon):
    """An upper bound, above the truth by at most (1 + e^ε)·o/(1 - o): nothing at 6σ while e^ε·2e-9
    is small against δ.
    """
    outside = float(2 * ndtr(-reach))
    exact = truncated_shift(shift, reach, epsilon)
    bound = truncated(shift, outside)(epsilon)
    assert exact <= bound + 1e-15
    assert bound <= exact + (1 + exp(epsilon)) * outside / (1 - outside) + 1e-15


def test_truncated_claim_breaks_when_the_noise_is_halved():
    """At the ε that the bound gives for δ = 1e-6, half the noise in the same box, or in half the
    box, has a δ 1000 times as large.
    """
    bound = truncated(0.1, float(2 * ndtr(-6)))
    epsilon = 0.4
    assert bound(epsilon) < 1e-6
    assert truncated_shift(0.2, 12.0, epsilon) > 1e-4
    assert truncated_shift(0.2, 6.0, epsilon) > 1e-4


@given(scales, targets, st.floats(0, 0.5))
def test_truncated_ends(mu, epsilon, outside):
    gaussian = profiles.gaussian_profile(mu)
    assert truncated(mu, 0.0)(epsilon) == gaussian(epsilon)
    assert gaussian(epsilon) <= truncated(mu, outside)(epsilon) <= 1
    assert truncated(mu, outside)(inf) == 0.0
    for nothing_left in (1.0, float("nan")):
        assert truncated(mu, nothing_left)(epsilon) == 1.0


@pytest.mark.parametrize("shift", [0.01, 0.1, 0.5])
def test_truncated_at_six_sigma_costs_almost_nothing(shift):
    """Exactly 0.03367, 0.39687 and 2.2550 at δ = 1e-6; the untruncated Gaussian has 0.03367,
    0.39686 and 2.2541.
    """
    exact = profiles.epsilon_at(np.vectorize(lambda eps: truncated_shift(shift, 6.0, eps)), 1e-6)
    bound = profiles.epsilon_at(truncated(shift, float(2 * ndtr(-6))), 1e-6)
    assert exact <= bound <= exact * 1.02


def test_truncated_profile_never_grows():
    profile = truncated(0.1, float(2 * ndtr(-6)))
    assert profile(20.0) <= profile(1.0)


# The objective noise as the ledger reads it


def noised(
    kind: str, *, shift: float, size: int, bound: float = 1.0, stddev: float = 1.0
) -> ObjectiveNoised:
    """η of n = 4 servers, for a total shift of ``shift``."""
    return ObjectiveNoised(
        kind=kind, bound=bound, stddev=stddev, size=size, n_servers=4, label_shift=shift / 4
    )


def box_outside(shifts: np.ndarray, bound: float) -> float:
    """The share of a box outside itself shifted: 1 - Π(1 - |s_k|/2R)₊, exactly."""
    left = np.clip(1 - np.abs(shifts) / (2 * bound), 0, None)
    return 1.0 if (left == 0).any() else float(-np.expm1(np.log(left).sum()))


def ball_outside(shift: float, bound: float, size: int) -> float:
    """The share of a ball outside itself shifted by s, by quadrature over slices: 1 - 2∫_{s/2}^R
    V_{d-1}(√(R²-x²))dx / V_d(R).
    """
    if shift >= 2 * bound:
        return 1.0
    ratio = exp(gammaln(size / 2 + 1) - gammaln((size + 1) / 2)) / sqrt(pi)
    inside, _ = quad(
        lambda x: (1 - x * x) ** ((size - 1) / 2), shift / (2 * bound), 1, epsabs=1e-14, limit=200
    )
    return 1 - 2 * ratio * inside


@given(st.floats(1e-3, 4), st.floats(0.5, 4), st.integers(1, 150), st.floats(0, 3))
def test_truncated_gaussian_objective_covers_a_shift_along_an_axis(shift, stddev, size, epsilon):
    """Along one axis all other coordinates cancel, so the exact δ is the one-dimensional one: the
    claim lies above it.
    """
    reach = 6.0
    claim = objective_profile(
        noised("truncated_gaussian", shift=shift, size=size, bound=reach * stddev, stddev=stddev)
    )(epsilon)
    exact = truncated_shift(shift / stddev, reach, epsilon)
    assert exact <= claim + 1e-15
    assert claim <= exact + (1 + exp(epsilon)) * size * 2.1e-9
    if 0.1 <= shift / stddev <= 3 and size <= 10 and epsilon <= shift / stddev:
        assert truncated_shift(2 * shift / stddev, 2 * reach, epsilon) > claim  # half the noise


@given(st.floats(3, 6), st.integers(1, 150), st.floats(0.01, 1))
def test_truncated_gaussian_objective_counts_every_strip(reach, size, shift):
    """At a large ε only the strips that one box has alone are left: in every coordinate, and more
    than nothing along the axis.
    """
    claim = objective_profile(
        noised("truncated_gaussian", shift=shift, size=size, bound=2 * reach, stddev=2.0)
    )(60.0)
    step = shift / 2 / sqrt(size)
    evenly = -np.expm1(
        size * np.log1p(-(ndtr(step - reach) - ndtr(-reach)) / (1 - 2 * ndtr(-reach)))
    )
    along = (ndtr(shift / 2 - reach) - ndtr(-reach)) / (1 - 2 * ndtr(-reach))
    assert claim >= max(evenly, along) * (1 - 1e-9)
    assert (
        objective_profile(
            noised("truncated_gaussian", shift=0.0, size=size, bound=2 * reach, stddev=2.0)
        )(0.0)
        < 1e-15
    )


@given(st.integers(1, 100), st.floats(1e-3, 1), st.floats(0.1, 10), targets)
def test_uniform_box_is_the_exact_product_in_its_worst_direction(size, part, bound, epsilon):
    """(0, δ): the same δ for every finite ε. Half the bound breaks the claim."""
    shift = part * bound
    event = noised("uniform_box", shift=shift, size=size, bound=bound)
    worst = np.full(size, shift / sqrt(size))
    claim = objective_profile(event)(epsilon)
    assert claim == pytest.approx(box_outside(worst, bound), rel=1e-6)
    assert box_outside(worst, bound / 2) > claim * 1.01 or claim > 0.99
    assert objective_profile(event)(inf) == 0.0


@given(st.integers(1, 12), st.floats(1e-3, 1), st.data())
def test_no_direction_exceeds_the_uniform_box_claim(size, part, data):
    direction = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=size, max_size=size)))
    assume(np.linalg.norm(direction) > 1e-3)
    shifts = part * direction / np.linalg.norm(direction)
    claim = objective_profile(noised("uniform_box", shift=part, size=size))(1.0)
    assert box_outside(shifts, 1.0) <= claim * (1 + 1e-6)


@given(st.integers(1, 12), st.floats(1.001, 5))
def test_a_shift_beyond_the_box_claims_nothing(size, part):
    """There the even direction is no longer the worst: two coordinates of (2R, 0) are disjoint."""
    assert objective_profile(noised("uniform_box", shift=part, size=size))(1.0) == 1.0


@pytest.mark.parametrize("part", [1e-3, 5.6e-4])
def test_uniform_box_claim_is_exact_to_the_last_digits(part):
    claim = objective_profile(noised("uniform_box", shift=part, size=3))(1.0)
    assert claim == pytest.approx(box_outside(np.full(3, part / sqrt(3)), 1.0), rel=1e-12)


@given(st.integers(1, 120), st.floats(1e-3, 2.5), st.floats(0.1, 10), targets)
def test_uniform_ball_is_the_exact_overlap(size, part, bound, epsilon):
    """Against a one-dimensional quadrature over slices; half the radius breaks the claim."""
    event = noised("uniform_ball", shift=part * bound, size=size, bound=bound)
    claim = objective_profile(event)(epsilon)
    assert claim == pytest.approx(ball_outside(part * bound, bound, size), rel=0, abs=1e-9)
    assert ball_outside(part * bound, bound / 2, size) > claim * 1.01 or claim > 0.99
    assert objective_profile(event)(inf) == 0.0


def test_one_dimensional_ball_and_box_agree():
    for shift in (0.01, 0.5, 1.0):
        ball, box = (
            objective_profile(noised(kind, shift=shift, size=1))(1.0)
            for kind in ("uniform_ball", "uniform_box")
        )
        assert ball == pytest.approx(box, rel=1e-6) == shift / 2


@given(st.sampled_from(["truncated_gaussian", "uniform_box", "uniform_ball", "none"]), targets)
def test_no_objective_noise_protects_nothing(kind, epsilon):
    assert objective_profile(noised("none", shift=0.1, size=3))(epsilon) == 1.0
    assert objective_profile(noised(kind, shift=0.1, size=3, bound=0.0, stddev=0.0))(epsilon) == 1.0


def test_unknown_objective_noise_is_refused():
    with pytest.raises(InvalidInput):
        objective_profile(noised("laplace", shift=0.1, size=3))
