"""A label through both noises, and a record whose label part is counted once: against the Gaussians
that a server's releases really are, and by whoever is worst off.
"""

from dataclasses import replace
from itertools import product
from math import exp, inf, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from pdml.accounting import Ledger, profiles
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.mechanisms.exact_gaussian import rounding_shift
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

DELTA = 1e-6
SPEC = ServerSpec(server=0, n_servers=5, degree=2, records=400, epsilons=(1.0,), width=3)
FAR = 1e3  # deviations: where truncation no longer costs anything


def events(label: float, curved: float, deviation: float, sent, slack: float = 0.0):
    """u = q + N(0, deviation²) in one coordinate, iterates u + N(0, σ_t²); a label moves q by
    ``label``, a record also the iterates by ``curved``, and every solve may be off by ``slack``."""
    eta = ObjectiveNoised(
        kind="truncated_gaussian",
        bound=FAR * deviation,
        stddev=deviation,
        size=1,
        n_servers=1,
        label_shift=label,
        fixed_shift=0.0,
    )
    rounds = (
        IterateReleased(
            t=t,
            stddev=sigma,
            label_sensitivity=label + slack,
            record_sensitivity=label + curved + slack,
            solver_slack=slack,
        )
        for t, sigma in enumerate(sent, start=1)
    )
    return (eta, *rounds)


def mu_of(shift, deviation: float, sent) -> float:
    """Of what is really released: iterates that share one u. A Gaussian with a full covariance."""
    covariance = deviation**2 + np.diag(np.square(sent))
    return float(np.sqrt(shift @ np.linalg.solve(covariance, shift)))


def line(happened, data: str, *, flip: float = inf, **settings_of) -> float:
    both = (LabelFlipped(epsilon=flip), *happened)
    return Ledger((both,), delta=DELTA, **settings_of).row(data, "other servers").epsilon


def gaussian(mu: float) -> float:
    return profiles.epsilon_at(profiles.gaussian_profile(mu), DELTA)


noises = st.lists(st.floats(0.2, 5), min_size=1, max_size=5)


@given(st.floats(0.01, 0.5), st.floats(0.2, 5), noises)
@settings(max_examples=60)
def test_a_label_through_both_noises_is_exactly_the_gaussian_that_is_released(label, eta, sent):
    """1/μ² = 1/μ_η² + 1/μ_θ², against the covariance of all iterates."""
    known = mu_of(np.full(len(sent), label), eta, sent)
    assert line(events(label, 0.0, eta, sent), "label") == pytest.approx(gaussian(known), rel=1e-6)
    through_eta, through_theta = label / eta, label * sqrt(sum(s**-2 for s in sent))
    assert known == pytest.approx((through_eta**-2 + through_theta**-2) ** -0.5)
    half = mu_of(np.full(len(sent), label), eta / 2, [s / 2 for s in sent])
    assert gaussian(half) > 1.5 * line(events(label, 0.0, eta, sent), "label")


@given(st.floats(0.01, 0.3), st.floats(0.0, 0.3), st.floats(0.2, 5), noises)
@settings(max_examples=60)
def test_no_record_moves_what_is_released_by_more_than_the_split_says(label, curved, eta, sent):
    """Whatever g does in each round: its part has any sign, and the label's part one of two."""
    bound = line(events(label, curved, eta, sent), "features")
    for signs in product((-1, 1), repeat=len(sent)):
        worst = gaussian(mu_of(label + curved * np.array(signs), eta, sent))
        assert worst <= bound * (1 + 1e-6)
    every_round = (label + curved) * sqrt(sum(s**-2 for s in sent))
    assert bound <= gaussian(every_round) * (1 + 1e-9)
    if curved < 0.1 * label:
        half = mu_of(np.full(len(sent), label - curved), eta / 2, [s / 2 for s in sent])
        assert gaussian(half) > bound


@given(st.floats(0.01, 0.3), st.floats(0.0, 0.3), st.floats(0.2, 5), noises, st.floats(0, 0.1))
@settings(max_examples=60)
def test_the_best_split_of_all(label, curved, eta, sent, slack):
    """The closed form is the lowest of a fine scan; slack and g are hidden by θ alone."""
    precision = sum(s**-2 for s in sent)
    shares = np.linspace(0, 1, 2001)

    def scanned(rest):
        return np.min((shares * label / eta) ** 2 + ((1 - shares) * label + rest) ** 2 * precision)

    found = line(events(label, curved, eta, sent, slack), "features")
    assert found == pytest.approx(gaussian(sqrt(scanned(curved + slack))), rel=1e-4)
    label_only = min(scanned(slack), (label / eta) ** 2)  # through η alone nothing solves
    result = line(events(label, curved, eta, sent, slack), "label")
    assert result == pytest.approx(gaussian(sqrt(label_only)), rel=1e-4)


@given(
    st.sampled_from([0.4, 3.0]),
    st.sampled_from([0.05, 0.3, 2.0]),
    st.sampled_from([0.05, 0.5, 2.0]),
    st.sampled_from([2, 3, 5]),
)
@settings(max_examples=12)
def test_never_above_what_either_noise_says_alone_and_less_with_more_noise(
    epsilon, eta, theta, classes
):
    """Noise that is cut far out; at 6σ and ε of 10 a louder η can be worth less than a quieter one,
    because more of a label is left to it than its edge can carry."""
    plan = TrainingPlan(rounds=5, objective_bound=eta, noise_scale=theta)
    spec = replace(SPEC, epsilons=(epsilon,), classes=classes)

    def spent(plan, data):
        noised, *sent = plan.events(spec)
        happened = (spec.flip(), replace(noised, bound=FAR * noised.stddev), *sent)
        return Ledger((happened,), classes=classes).row(data, "other servers").epsilon

    for data in ("label", "features"):
        near = 1e-3 if data == "features" else 1e-7  # tables of the coin have steps
        now = spent(plan, data)
        for less in ({"objective_noise": "none"}, {"noise_scale": 0.0}):
            assert now <= spent(replace(plan, **less), data) * (1 + near) + 1e-9
        for more in ({"objective_bound": 2 * eta}, {"noise_scale": 2 * theta}):
            assert spent(replace(plan, **more), data) <= now * (1 + near) + 1e-9
        for fewer in ({"objective_bound": eta / 2}, {"noise_scale": theta / 2}):
            assert spent(replace(plan, **fewer), data) >= now * (1 - near) - 1e-9


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0])
def test_the_rest_of_a_record_is_that_of_g_alone(classes, epsilon):
    """With η so loud that the label part is free, what remains is sup|g'| twice and the solver:
    events of real plans, for each number of classes."""
    spec = replace(SPEC, classes=classes, epsilons=(epsilon,))
    plan = TrainingPlan(rounds=4, objective_bound=1e9, noise_scale=0.05)
    ridge = plan.ridge(spec.degree, spec.n_servers)
    slope = 0.5 if classes == 2 else sqrt(1 - 1 / classes)  # |softmax - 1/K|
    size = spec.width * spec.codes
    rounding = spec.label_shift(LOGISTIC if classes == 2 else SOFTMAX) * spec.records * 2.0**-52
    slack = (2 * plan.tolerance_for(spec) + rounding) / ridge + rounding_shift(size)
    moved = 2 * slope / spec.records / ridge + slack
    sent = [e.stddev for e in plan.events(spec) if isinstance(e, IterateReleased)]
    known = gaussian(moved * sqrt(sum(s**-2 for s in sent)))
    happened = (spec.flip(), *plan.events(spec))
    found = Ledger((happened,), delta=DELTA, classes=classes).row("features", "other servers")
    assert found.epsilon == pytest.approx(known, rel=1e-4)
    assert found.reason == "label part counted once, the rest in every round"


@pytest.mark.parametrize("classes", [3, 5])
def test_codes_and_softmax_split_as_the_ledger_takes_them(classes):
    """(softmax - (1 - λ)·code - λ/K)·x, the gradient of one record that η does not hide: never
    longer than (1 - λ)·κc + c, nor q's own move than κc on either side."""
    rng = np.random.default_rng(3)
    c = sqrt(1 - 1 / classes)
    for epsilon, share in product((0.3, 1.0, 4.0), (0.0, 0.3, 1.0)):
        kappa = float(labels.keep_weight(epsilon, classes))
        code = labels.codes(np.zeros(1, dtype=np.int64), epsilon, classes)[0]
        assert np.linalg.norm(code - 1 / classes) == pytest.approx(kappa * c)
        chances = np.vstack([np.eye(classes), rng.dirichlet(np.ones(classes) / 9, 500)])
        left = chances - 1 / classes - (1 - share) * (code - 1 / classes)
        longest = np.linalg.norm(left, axis=1).max()
        assert longest <= ((1 - share) * kappa * c + c) * (1 + 1e-12)
        all_at_once = labels.record_shift(epsilon, 1.0, SOFTMAX, classes) / 2
        if share == 0:
            assert longest == pytest.approx(all_at_once)


def test_truncation_keeps_its_term():
    """The strip that only one of the two has counts for the share that goes through η."""
    loose = events(0.1, 0.02, 0.5, [1.0, 1.0])
    tight = (replace(loose[0], bound=6 * 0.5, size=400), *loose[1:])
    near = (replace(loose[0], bound=3 * 0.5, size=400), *loose[1:])
    for data in ("label", "features"):
        exact, cut, close = (line(each, data) for each in (loose, tight, near))
        assert exact < cut < 1.1 * exact
        only_theta = line(loose[1:], data)
        assert close == pytest.approx(only_theta, rel=1e-9)  # η is worth nothing there


def test_a_second_training_counts_both_noises_again():
    """Two trainings are one with noises √2 times quieter."""
    one = events(0.1, 0.02, 0.5, [1.0, 1.0])
    quiet = events(0.1, 0.02, 0.5 / sqrt(2), [1 / sqrt(2)] * 2)
    for data in ("label", "features"):
        assert line((*one, *one), data) == pytest.approx(line(quiet, data), rel=1e-6)


def test_uniform_noise_hides_all_of_a_label_or_nothing():
    one = events(0.1, 0.02, 0.5, [1.0, 1.0])
    box = (replace(one[0], kind="uniform_box", bound=1.0), *one[1:])
    assert line(box, "label") == line(box[1:], "label")
    assert line(box, "features") == line(box[1:], "features")


def test_events_that_do_not_tell_their_slack_count_in_every_round():
    known = events(0.1, 0.02, 0.5, [1.0, 1.0])
    blind = tuple(
        replace(e, solver_slack=None) if isinstance(e, IterateReleased) else e for e in known
    )
    assert line(blind, "features") == line(known[1:], "features") > line(known, "features")


# K classes


@given(st.floats(0.2, 3), st.floats(0.05, 2), st.integers(2, 6), st.floats(0.01, 0.99))
@settings(max_examples=60)
def test_the_joint_degree_of_k_classes_bounds_every_mixture(epsilon, mu, classes, share):
    """Gaussians about the corners of a simplex of side μ, and about points on a line: none of the
    mixtures of randomised response exceeds it, by integration over one direction."""
    target = share * epsilon
    claim = profiles.joint_profile(epsilon, profiles.gaussian_profile(mu), classes)(target)
    keep, other = exp(epsilon) / (exp(epsilon) + classes - 1), 1 / (exp(epsilon) + classes - 1)
    grid = np.linspace(-12, 12 + mu, 20_001)
    for centres in (np.r_[0, np.full(classes - 1, mu)], np.linspace(0, mu, classes)):
        each = norm.pdf(grid[None], centres[:, None])
        for one, two in ((0, classes - 1), (classes - 1, 0), (0, 1)):
            weights = [np.where(np.arange(classes) == k, keep, other) for k in (one, two)]
            first, second = (w @ each for w in weights)
            found = np.trapezoid(np.maximum(0, first - exp(target) * second), grid)
            assert found <= claim + 1e-7
    # all other classes at one point: nothing smaller holds
    corner = np.r_[0, np.full(classes - 1, mu)][:, None]
    each = norm.pdf(grid[None], corner)
    weights = [np.where(np.arange(classes) == k, keep, other) for k in (0, 1)]
    found = np.trapezoid(np.maximum(0, weights[0] @ each - exp(target) * weights[1] @ each), grid)
    assert found == pytest.approx(claim, rel=1e-5, abs=1e-7)


@given(st.floats(0.1, 5), st.floats(0.05, 3), st.floats(0, 0.999))
def test_two_classes_are_the_formula_of_section_6(epsilon, mu, share):
    target, behind = share * epsilon, profiles.gaussian_profile(mu)
    ahead = (exp(epsilon) - exp(target)) / (1 + exp(epsilon))
    inner = np.log((exp(epsilon + target) - 1) / (exp(epsilon) - exp(target)))
    known = ahead * behind(inner)
    assert profiles.joint_profile(epsilon, behind, 2)(target) == pytest.approx(known, rel=1e-9)


@given(st.floats(0.1, 3), st.floats(0.05, 2), st.integers(3, 9), st.floats(0, 1.2))
def test_more_classes_are_never_worse_than_two_nor_than_either_alone(epsilon, mu, classes, share):
    target, behind = share * epsilon, profiles.gaussian_profile(mu)
    many = profiles.joint_profile(epsilon, behind, classes)(target)
    assert many <= profiles.joint_profile(epsilon, behind, 2)(target) * (1 + 1e-12)
    assert many <= min(behind(target), profiles.pure_profile(epsilon)(target)) * (1 + 1e-12)


def test_five_classes_as_the_theory_has_them():
    """K = 5, ε = 1, μ = .25: from 1.00 to .29."""
    found = profiles.joint_profile(1.0, profiles.gaussian_profile(0.25), 5)
    assert profiles.epsilon_at(found, DELTA) == pytest.approx(0.29, abs=0.005)


def test_two_reports_of_five_classes_are_as_private_as_their_sum():
    """Two K-ary responses are not one: what holds is any mechanism that is (ε₁ + ε₂)-private."""
    behind, reports, classes = 0.5, (0.6, 0.7), 5
    each = [
        np.where(np.eye(classes, dtype=bool), exp(e), 1.0) / (exp(e) + classes - 1) for e in reports
    ]
    happened = [LabelFlipped(epsilon=e) for e in reports]
    sent = IterateReleased(t=1, stddev=1.0, label_sensitivity=behind, record_sensitivity=1.0)
    book = Ledger(((*happened, sent),), classes=classes)
    profile = book.profile("label", "other servers", 0)
    grid = np.linspace(-9, 10, 8001)
    for target in (0.0, 0.2, 0.5, 1.0):
        far = [0.0 if (a, b) == (0, 0) else behind for a, b in product(range(classes), repeat=2)]
        mixed = [
            np.outer(each[0][k], each[1][k]).ravel() @ norm.pdf(grid[None], np.array(far)[:, None])
            for k in (0, 1)
        ]
        found = np.trapezoid(np.maximum(0, mixed[0] - exp(target) * mixed[1]), grid)
        assert found <= profile(target) + 1e-7


# The worst person


@given(
    st.lists(st.sampled_from([0.3, 0.8, 1.5, 4.0]), min_size=1, max_size=3, unique=True),
    st.sampled_from([2, 3]),
    st.sampled_from(["rounds", "sums"]),
    st.sampled_from([0.5, 5.0]),
)
@settings(max_examples=20)
def test_a_servers_line_is_its_worst_persons(menu, classes, method, noise):
    """By brute force: everybody's own server, whose events know of nobody else; only the tolerance
    and the rounding are those of all."""
    spec = replace(SPEC, epsilons=tuple(menu), classes=classes)
    plan = (
        TrainingPlan(rounds=4, objective_bound=noise, noise_scale=noise)
        if method == "rounds"
        else TrainingPlan(method="sums", label_noise=noise, square_noise=2 * noise)
    )
    whole = Ledger(((spec.flip(), *plan.events(spec)),), delta=DELTA, classes=classes)
    extremes = tuple(replace(whole.events[0][0], epsilons=()) for _ in (0,)) + whole.events[0][1:]
    for data in ("label", "features"):
        each = []
        for epsilon in menu:
            own, exact = replace(spec, epsilons=(epsilon,)), plan
            if method == "rounds":
                exact = replace(plan, tolerance=plan.tolerance_for(spec))
            alone = Ledger(((own.flip(), *exact.events(own)),), delta=DELTA, classes=classes)
            each.append(alone.row(data, "other servers").epsilon)
        found = whole.row(data, "other servers").epsilon
        assume(found < 1e4)
        if classes == 2 or data == "label":
            assert found == pytest.approx(max(each), rel=2e-3, abs=1e-7)
        else:  # of a record, parts of K classes add up to a little more than all at once
            assert max(each) <= found * (1 + 1e-4) and found <= 1.2 * max(each)
        conservative = Ledger((extremes,), delta=DELTA, classes=classes)
        assert found <= conservative.row(data, "other servers").epsilon * (1 + 1e-7)


def test_the_loudest_and_the_least_private_are_two_people():
    """Menu .5/1/2: extremes of different people are several times the worst person's line."""
    spec = replace(SPEC, epsilons=(0.5, 1.0, 2.0))
    plan = TrainingPlan(rounds=20, objective_bound=3.0, noise_scale=1.0)
    happened = (spec.flip(), *plan.events(spec))
    unknown = (replace(happened[0], epsilons=()), *happened[1:])
    by_people, by_extremes = (
        Ledger((each,)).row("label", "other servers").epsilon for each in (happened, unknown)
    )
    assert by_people < 0.4 * by_extremes
