"""A record through the device's coin, against direct integration over the plane and space in which
two records lie, importance sampling, and Google's privacy loss distributions.

Nothing of the proof is used by the oracles: they know two vectors, four centres, and noise.
"""

from functools import cache
from itertools import product
from math import cos, exp, hypot, inf, log, nan, pi, sin, sqrt, tanh

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from pdml.accounting import bounds
from pdml.accounting.bounds import response_profile
from pdml.accounting.profiles import epsilon_at, gaussian_profile, joint_profile
from pdml.errors import InvalidInput

flips = st.floats(0.1, 4)  # ε of the coin
mus = st.floats(0.05, 2.5)
rests = st.floats(0, 1)
lengths = st.floats(0, 1)
angles = st.floats(0, 2 * pi)
targets = st.floats(0, 2.5)

# ε of the coin, label_mu, rest_mu, square_mu: each near (1, 1e-6), two more and two less private
SETTINGS = [
    (0.4, 0.67, 0.0, 0.0),
    (1.0, 0.54, 0.0, 0.0),
    (2.0, 0.29, 0.0, 0.16),
    (1.0, 0.4, 0.16, 0.0),
    (0.2, 1.2, 0.3, 0.3),
    (3.0, 1.0, 0.5, 0.0),
    (1.0, 0.05, 0.02, 0.0),
    (0.4, 0.1, 0.0, 0.05),
]


def centres(v, w, label_mu: float, rounded=0.0):
    """Where a record's release is centred, for either side of the coin, and its neighbour's."""
    v, w = label_mu / 2 * np.asarray(v), label_mu / 2 * np.asarray(w)
    return np.array([v, -v, w, -w]) + rounded


def at_angle(phi: float):
    """Two records of full length, 2φ apart."""
    return (cos(phi), sin(phi)), (cos(phi), -sin(phi))


def log_masses(epsilon: float, four, points):
    """Log densities of both mixtures at ``points`` (..., dimensions)."""
    keep, flip = -np.log1p(exp(-epsilon)), -np.log1p(exp(epsilon))
    one, two, three, four = (
        -((points - centre) ** 2).sum(axis=-1) / 2 - points.shape[-1] / 2 * log(2 * pi)
        for centre in four
    )
    return np.logaddexp(keep + one, flip + two), np.logaddexp(keep + three, flip + four)


def divergence(epsilon: float, four, rest: float, target: float, *, side: int = 320) -> float:
    """∫ max(0, p - e^ε' q) on a grid of the plane; the Gaussian ``rest`` in closed form."""
    four = np.asarray(four, dtype=float)
    axes = [np.linspace(four[:, k].min() - 8, four[:, k].max() + 8, side) for k in range(2)]
    p, q = log_masses(epsilon, four, np.stack(np.meshgrid(*axes), axis=-1))
    level = target + q - p
    gaussian = gaussian_profile(rest)(np.abs(level))
    under = np.minimum(level, 0.0)
    both = np.where(level >= 0, gaussian, np.exp(under) * gaussian - np.expm1(under))
    return float((np.exp(p) * both).sum() * np.prod([axis[1] - axis[0] for axis in axes]))


def scanned(epsilon, label_mu, rest_mu, square_mu, target, *, parts: int = 40) -> float:
    """The largest divergence of some pairs at full length."""
    return max(
        divergence(
            epsilon,
            centres(*at_angle(phi), label_mu),
            hypot(rest_mu, square_mu * sin(2 * phi)),
            target,
        )
        for phi in np.linspace(0.05, pi / 2, parts)
    )


@cache
def worst_angle(epsilon, label_mu, rest_mu, square_mu, target) -> float:
    return max(
        np.linspace(0.05, pi / 2, 25),
        key=lambda phi: divergence(
            epsilon,
            centres(*at_angle(phi), label_mu),
            hypot(rest_mu, square_mu * sin(2 * phi)),
            target,
            side=160,
        ),
    )


# Never below any pair of records


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("target", [-0.01, -0.3, -2.0, -600.0])
def test_below_zero_it_is_above_every_pair_as_well(setting, target):
    """δ(-e) is at least 1 - e^-e; the value at 0 would be far below."""
    epsilon, label_mu, rest_mu, square_mu = setting
    phi = worst_angle(*setting, 1.0)
    exact = divergence(
        epsilon,
        centres(*at_angle(phi), label_mu),
        hypot(rest_mu, square_mu * sin(2 * phi)),
        target,
    )
    claimed = response_profile(epsilon, label_mu, rest_mu, square_mu=square_mu)(target)
    assert -np.expm1(target) - 1e-9 <= exact <= claimed + 1e-9 <= 1 + 2e-9


@given(flips, mus, rests, st.floats(0, 0.5), lengths, lengths, angles, targets)
@example(1.0, 0.54, 0.0, 0.0, 1.0, 1.0, 0.64 * pi, 1.0)  # the worst pairs of theory's figures
@example(0.4, 0.67, 0.0, 0.0, 1.0, 1.0, 0.55 * pi, 1.0)
@example(2.0, 0.33, 0.0, 0.0, 1.0, 1.0, pi, 1.0)
@settings(max_examples=80)
def test_no_pair_of_records_exceeds_the_bound(
    epsilon, label_mu, rest_mu, square_mu, first, second, angle, target
):
    """Any lengths, any angle; S moves by |vvᵀ - wwᵀ|, at most √2, as it is released. The grid is
    exact to 0.3%."""
    v, w = np.array([first, 0.0]), second * np.array([cos(angle), sin(angle)])
    moved = np.linalg.norm(np.outer(v, v) - np.outer(w, w)) / sqrt(2)
    found = divergence(
        epsilon, centres(v, w, label_mu), hypot(rest_mu, square_mu * moved), target, side=240
    )
    bound = response_profile(epsilon, label_mu, rest_mu, square_mu=square_mu)(target)
    assert 0.997 * found <= bound


@given(flips, mus, lengths, lengths, angles, targets)
@settings(max_examples=25)
def test_full_length_is_worst(epsilon, label_mu, first, second, angle, target):
    """The lemma: of two records with the same inner product those of length 1 tell more."""
    v, w = np.array([first, 0.0]), second * np.array([cos(angle), sin(angle)])
    longest = at_angle(np.arccos(np.clip(v @ w, -1, 1)) / 2)
    shorter = divergence(epsilon, centres(v, w, label_mu), 0.1, target, side=160)
    longer = divergence(epsilon, centres(*longest, label_mu), 0.1, target, side=160)
    assert shorter <= longer * 1.02 + 1e-14


@given(flips, mus, rests, lengths, lengths, angles, targets)
@settings(max_examples=12)
def test_in_space_no_pair_exceeds_the_bound_either(
    epsilon, label_mu, rest_mu, first, second, angle, target
):
    """Three dimensions by brute force: two for the mixture, and the Gaussian as a third."""
    v, w = np.array([first, 0.0]), second * np.array([cos(angle), sin(angle)])
    plane = centres(v, w, label_mu)
    four = np.c_[plane, [0, 0, rest_mu, rest_mu]]
    axes = [np.linspace(four[:, k].min() - 6, four[:, k].max() + 6, 72) for k in range(3)]
    p, q = log_masses(epsilon, four, np.stack(np.meshgrid(*axes), axis=-1))
    positive = np.exp(p) * -np.expm1(np.minimum(0.0, target + q - p))
    found = positive.sum() * np.prod([axis[1] - axis[0] for axis in axes])
    bound = response_profile(epsilon, label_mu, rest_mu)(target)
    assert found <= bound * 1.02 + 1e-9
    assert found == pytest.approx(divergence(epsilon, plane, rest_mu, target), rel=0.05, abs=1e-6)


@given(flips, mus, st.floats(0.001, 0.3), st.integers(0, 2**32 - 1), angles, targets)
@settings(max_examples=25)
def test_rounding_that_follows_the_coin_is_covered(
    epsilon, label_mu, rounding, seed, angle, target
):
    """Each of the four centres is moved by up to half of it, in a direction of its own."""
    away = np.random.default_rng(seed).standard_normal((4, 2))
    away *= rounding / 2 / np.linalg.norm(away, axis=1)[:, None]
    four = centres((1, 0), (cos(angle), sin(angle)), label_mu, away)
    bound = response_profile(epsilon, label_mu, 0.0, rounding_mu=rounding)(target)
    assert 0.997 * divergence(epsilon, four, 0.0, target, side=240) <= bound


def test_rounding_that_is_not_counted_exceeds_the_bound():
    """A fifth of the label's own shift, all of it in one direction."""
    away = np.array([[0.05, 0], [0.05, 0], [-0.05, 0], [-0.05, 0]])
    four = centres((1, 0), (-1, 0), 0.5, away)
    assert divergence(1.0, four, 0.0, 1.0) > 2 * response_profile(1.0, 0.5, 0.0)(1.0)


@given(flips, st.floats(0.2, 1.5), angles, st.floats(0, 1.5))
@settings(max_examples=25)
def test_truncated_noise_counts_both_edges(epsilon, label_mu, angle, target):
    """Noise cut off at three deviations: the mass that its box leaves on one side only counts
    twice, because a neighbour has two boxes."""
    reach, keep = 3.0, 1 / (1 + exp(-epsilon))
    four = centres((1, 0), (cos(angle), sin(angle)), label_mu)
    axis = np.linspace(-reach - label_mu / 2, reach + label_mu / 2, 400)
    points = np.stack(np.meshgrid(axis, axis), axis=-1)
    inside = 1 - 2 * ndtr(-reach)
    boxes = [
        np.where(np.abs(points - centre).max(axis=-1) < reach, 1.0, 0.0)
        * np.exp(-((points - centre) ** 2).sum(axis=-1) / 2)
        / (2 * pi * inside**2)
        for centre in four
    ]
    p, q = (keep * boxes[i] + (1 - keep) * boxes[i + 1] for i in (0, 2))
    found = np.maximum(0.0, p - exp(target) * q).sum() * (axis[1] - axis[0]) ** 2
    edge = 2 * sqrt(2) * (ndtr(label_mu - reach) - ndtr(-reach))
    outside = 1 - inside**2
    whole = response_profile(epsilon, label_mu, 0.0)(target)
    assert found <= 1.03 * (whole + min(edge, exp(target) * outside)) / (1 - outside)


# Hardly above the worst pair


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-12])
def test_the_bound_is_nearly_attained(setting, delta):
    """Certified ε' lies above that of a scan of pairs by at most 3%."""
    epsilon, label_mu, rest_mu, square_mu = setting
    certified = epsilon_at(response_profile(epsilon, label_mu, rest_mu, square_mu=square_mu), delta)
    assert certified > 0
    phi = worst_angle(*setting, certified)
    rest = hypot(rest_mu, square_mu * sin(2 * phi))
    four = centres(*at_angle(phi), label_mu)
    assert divergence(epsilon, four, rest, certified) <= delta
    assert divergence(epsilon, four, rest, certified / 1.03) > delta


def test_noise_that_the_theory_computed():
    """m·σ_q for (1, 10⁻⁶): q alone, and with a release of S that moves by 0.16 deviations. These
    were computed by other programs, which scanned."""

    for square_mu, figures in ((0.0, (7.5, 4.0, 3.9)), (0.16, (8.65, 4.89, 4.45))):
        for epsilon, figure in zip((0.4, 1.0, 2.0), figures, strict=True):
            moved = 1 / tanh(epsilon / 2) / figure / np.array([0.99, 1.02])  # κ/(m·σ_q)
            less, more = response_profile(epsilon, moved, 0.0, square_mu=square_mu)(1.0)
            assert more <= 1e-6 < less


# Other oracles


def sampled(epsilon, label_mu, rest, phi, target, *, draws=400_000, noise=1.0):
    """Mean and standard error of max(0, 1 - e^ε' q/p) under p in five dimensions, by draws from a
    normal law of three times its variance."""
    v, w = (np.r_[each, 0, 0] for each in at_angle(phi))
    four = np.c_[centres(v, w, label_mu / noise), [0, 0, rest, rest]]
    wide = multivariate_normal(np.zeros(5), 3 * np.eye(5), seed=7)
    points = wide.rvs(draws)
    p, q = log_masses(epsilon, four, points)
    worth = np.exp(p - wide.logpdf(points)) * -np.expm1(np.minimum(0.0, target + q - p))
    return worth.mean(), worth.std() / sqrt(draws)


@pytest.mark.parametrize("setting", SETTINGS[:6])
def test_importance_sampling_at_the_worst_pair(setting):
    """In five dimensions, most of which tell nothing. False alarm: 5 standard errors, below 10⁻⁶
    for each setting. Half the noise on the label is seen by at least as much."""
    epsilon, label_mu, rest_mu, square_mu = setting
    target = epsilon_at(response_profile(*setting[:3], square_mu=square_mu), 1e-4)
    phi = worst_angle(*setting, target)
    rest = hypot(rest_mu, square_mu * sin(2 * phi))
    mean, error = sampled(epsilon, label_mu, rest, phi, target)
    assert mean - 5 * error < 1e-4
    assert mean + 5 * error > 0.75e-4  # the bound is not just large
    mean, error = sampled(epsilon, label_mu, rest, phi, target, noise=0.5)
    assert mean - 5 * error > 2e-4


@cache
def oracle(epsilon: float, m: float, d: float):
    """The loss distribution of a pair, from the masses of squares of the plane: the oracle knows
    neither coins nor angles."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    keep = 1 / (1 + exp(-epsilon))
    x, y = np.linspace(-7.5 - m, 7.5 + m, 141), np.linspace(-7.5 - d, 7.5 + d, 141)

    def mass(sign: int):
        ahead, behind = (
            np.outer(np.diff(ndtr(x - s * m)), np.diff(ndtr(y - s * sign * d))) for s in (1, -1)
        )
        return dict(enumerate(np.log(keep * ahead + (1 - keep) * behind).ravel()))

    return pld.from_two_probability_mass_functions(
        mass(1), mass(-1), value_discretization_interval=1e-3, log_mass_truncation_bound=-50
    )


def worst_by_oracle(epsilon: float, label_mu: float, target: float, *more, times: int = 1):
    """The largest δ over angles after composing with ``more``."""
    found = 0.0
    for phi in np.linspace(0.3, pi / 2, 8):
        one = oracle(epsilon, label_mu / 2 * cos(phi), label_mu / 2 * sin(phi))
        total = one.self_compose(times) if times > 1 else one
        for other in more:
            total = total.compose(other)
        found = max(found, total.get_delta_for_epsilon(target))
    return found


@pytest.mark.parametrize("setting", [(0.4, 0.7, 0.2), (1.0, 0.5, 0.2), (2.0, 0.4, 0.1)])
def test_composed_with_a_gaussian_by_another_accountant(setting):
    """dp-accounting composes the pair's losses with those of the Gaussian; it rounds both up."""
    epsilon, label_mu, rest_mu = setting
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    gaussian = pld.from_gaussian_mechanism(1 / rest_mu, value_discretization_interval=1e-3)
    target = epsilon_at(response_profile(*setting), 1e-6)
    assert 0.75e-6 < worst_by_oracle(epsilon, label_mu, target, gaussian) < 1.02e-6


# The three mistakes that would understate the cost


@pytest.mark.parametrize("setting", SETTINGS)
def test_half_the_noise_or_another_coin_exceeds_the_bound(setting):
    epsilon, label_mu, rest_mu, square_mu = setting
    target = epsilon_at(response_profile(*setting[:3], square_mu=square_mu), 1e-6)
    assert scanned(epsilon, 2 * label_mu, rest_mu, square_mu, target, parts=8) > 3e-6
    others = [(epsilon, label_mu, 2 * rest_mu, 2 * square_mu)] if rest_mu + square_mu > 0 else []
    if epsilon < 2:  # beyond, the coin hides hardly anything: opposite records are worst
        others.append((epsilon + 1, label_mu, rest_mu, square_mu))
    for other in others:
        assert scanned(*other, target, parts=8) > 1.3e-6


@pytest.mark.parametrize(("epsilon", "label_mu"), [(0.4, 0.6), (1.0, 1.0)])
def test_a_second_training_is_the_same_coin(epsilon, label_mu):
    """Two trainings of half the square each are one of the whole, as one coin moves both. Two fresh
    coins would tell less, so that counting them so is wrong."""
    target = epsilon_at(response_profile(epsilon, label_mu, 0.0), 1e-5)
    phi = worst_angle(epsilon, label_mu, 0.0, 0.0, target)
    half = label_mu / sqrt(2)
    v, w = (np.r_[each, each] for each in at_angle(phi))  # the plane twice: one for each training
    both = centres(v, w, half)
    basis = np.linalg.svd(both)[2][:2]
    truth = divergence(epsilon, both @ basis.T, 0.0, target)
    one = divergence(epsilon, centres(*at_angle(phi), label_mu), 0.0, target)
    assert truth == pytest.approx(one, rel=1e-3)
    assert 0.8e-5 < truth <= 1e-5
    assert worst_by_oracle(epsilon, half, target, times=2) < truth / 2


# Ends of the ranges


@given(mus, rests, targets)
@settings(max_examples=20)
def test_without_a_coin_it_is_the_gaussian(label_mu, rest_mu, target):
    plain = gaussian_profile(hypot(label_mu, rest_mu))(target)
    assert response_profile(inf, label_mu, rest_mu)(target) == pytest.approx(plain)
    nearly = response_profile(20.0, label_mu, rest_mu)
    assert nearly(target) <= plain
    if plain > 1e-9:
        assert epsilon_at(nearly, plain) > 0.985 * target - 1e-3


@given(flips, mus, rests, st.floats(0, 1), targets)
@settings(max_examples=16)
def test_never_above_the_same_releases_without_a_coin(
    epsilon, label_mu, rest_mu, square_mu, target
):
    with_coin = response_profile(epsilon, label_mu, rest_mu, square_mu=square_mu)(target)
    turns = np.linspace(0, pi / 2, 2001)
    moved = (label_mu * np.sin(turns)) ** 2 + (square_mu * np.sin(2 * turns)) ** 2
    plain = gaussian_profile(hypot(rest_mu, sqrt(moved.max())))(target)
    assert with_coin <= plain * (1 + 1e-5) + 1e-15


@given(flips, st.floats(0.01, 2), targets)
@settings(max_examples=20)
def test_a_label_that_moves_nothing_leaves_the_gaussian(epsilon, rest_mu, target):
    found = response_profile(epsilon, 0.0, rest_mu)(target)
    assert found <= gaussian_profile(rest_mu)(target)
    # rounding up by 0.1%, and a chord
    assert found >= 0.99 * gaussian_profile(rest_mu)(target) - 1e-15
    assert response_profile(epsilon, 0.0, 0.0)(target) <= 1e-6


@given(flips, mus, targets)
@settings(max_examples=16)
def test_at_least_what_opposite_records_tell(epsilon, label_mu, target):
    """v' = -v is the label alone: the joint profile, in closed form."""
    exact = joint_profile(epsilon, gaussian_profile(label_mu))(target)
    assert response_profile(epsilon, label_mu, 0.0)(target) >= exact


@given(st.tuples(flips, mus, rests, rests), st.integers(0, 3), st.floats(1.05, 2), targets)
@settings(max_examples=16)
def test_more_of_anything_never_tells_less(setting, which, factor, target):
    """That rounding arguments up is safe. Bounds on both sides wander by far less than 5% in μ."""
    more = tuple(value * factor if place == which else value for place, value in enumerate(setting))
    less, larger = (
        response_profile(*each[:3], square_mu=each[3])(target) for each in (setting, more)
    )
    assert less <= larger * 1.02 + 1e-15


# The parts


@given(st.floats(0.01, 3), st.floats(-2, 2), st.floats(-3, 6))
def test_atoms_keep_both_masses_and_raise_every_divergence(mu, start, target):
    nodes = start + mu * np.linspace(-9, 9, 181)
    one, other = bounds._spread(start, mu, nodes)
    assert one.sum() == pytest.approx(1) and other.sum() == pytest.approx(exp(start))
    found = np.maximum(0.0, one - exp(target - start) * other).sum()
    exact = gaussian_profile(mu)(abs(target))
    if target < 0:  # the other order
        exact = exp(target) * exact - np.expm1(target)
    assert exact * (1 - 1e-9) <= found <= exact * 1.08 + 1e-12


@given(st.floats(1e-9, 1e9))
def test_rounding_up_is_up_small_and_done_once(value):
    up = bounds._rounded_up(value)
    assert value <= up <= value * 1.001
    assert bounds._rounded_up(up) == up


def test_arrays_are_answered_entry_by_entry():
    epsilons, labels = np.array([0.5, 1.0]), np.array([[0.3], [0.4], [0.0]])
    targets = np.array([0.0, 0.7])
    whole = response_profile(epsilons, labels, 0.1)(targets[:, None, None])
    assert whole.shape == (2, 3, 2)
    for i, j, k in product(range(2), range(3), range(2)):
        alone = response_profile(epsilons[k], labels[j, 0], 0.1)(targets[i])
        assert np.isscalar(alone) and whole[i, j, k] == alone
    assert (epsilon_at(response_profile(epsilons, labels, 0.1), 1e-6) > 0).all()


def test_what_cannot_be_counted_hides_nothing():
    moved = {"label_mu": 0.1, "rest_mu": 0.1, "square_mu": 0.1, "rounding_mu": 1e-9}
    for name, endless in product(moved, (inf, 1e200)):
        assert response_profile(1.0, **(moved | {name: endless}))(5.0) == 1
    assert response_profile(1.0, 0.1, 0.1)(inf) == 0
    far = response_profile(1.0, 30.0, 0.1)(1.0)
    assert far <= 1 and far == pytest.approx(gaussian_profile(hypot(30, 0.1))(1.0))


@pytest.mark.parametrize("name", ["epsilon", "label_mu", "rest_mu", "square_mu", "rounding_mu"])
@pytest.mark.parametrize("value", [-0.1, nan])
def test_bad_arguments_are_named(name, value):
    good = {"epsilon": 1.0, "label_mu": 0.5, "rest_mu": 0.1}
    with pytest.raises(InvalidInput, match=name) as refused:
        response_profile(**(good | {name: value}))
    assert refused.value.setting == name


def test_whole_numbers_are_numbers():
    assert response_profile(1, 1, 0)(1.0) == response_profile(1.0, 1.0, 0.0)(1.0)
