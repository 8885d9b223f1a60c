"""Google's privacy loss distributions as the oracle of our closed forms.

The oracle rounds every privacy loss up to a grid, so it lies above the truth by a little that the
tests allow for.
"""

from dataclasses import replace
from functools import reduce
from math import exp, inf, log, sqrt, tanh

import numpy as np
import pytest
from scipy.special import ndtr

from pdml.accounting import Ledger, profiles
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.objective_loss import objective_profile
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

common = pytest.importorskip("dp_accounting.privacy_accountant")
pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

DELTA = 1e-6


def releases(
    rounds: int, *, decay: float, moved: float = 0.05, stddev: float = 1.0
) -> tuple[IterateReleased, ...]:
    return tuple(
        IterateReleased(
            t=t,
            stddev=stddev * sqrt(decay ** (t - 1)),
            label_sensitivity=moved,
            record_sensitivity=moved,
        )
        for t in range(1, rounds + 1)
    )


def composed(events: tuple[IterateReleased, ...], *, noise: float = 1.0, interval: float = 1e-3):
    """The oracle's composition, release by release."""
    return reduce(
        lambda total, one: total.compose(one),
        (
            pld.from_gaussian_mechanism(
                noise * e.stddev,
                sensitivity=e.record_sensitivity,
                value_discretization_interval=interval,
            )
            for e in events
        ),
    )


def response(epsilon: float, interval: float = 1e-4):
    """Randomised response of a bit. The oracle's parameter is the chance of a fresh fair coin, 2/(1
    + e^ε).
    """
    replace_one = common.NeighboringRelation.REPLACE_ONE
    return pld.from_randomized_response(
        2 / (1 + exp(epsilon)),
        2,
        value_discretization_interval=interval,
        neighboring_relation=replace_one,
    )


def on_a_grid(
    shift: int, reach: int, per_sigma: int, *, noise: float = 1.0, interval: float = 1e-4
):
    """Truncated grid noise, bounded at ``reach`` steps, against itself ``shift`` steps further
    on.
    """
    steps = np.arange(-reach, reach + 1)
    weights = np.exp(-((steps / (noise * per_sigma)) ** 2) / 2)
    masses = np.log(weights / weights.sum())
    here = dict(zip(steps.tolist(), masses.tolist(), strict=True))
    there = dict(zip((steps + shift).tolist(), masses.tolist(), strict=True))
    return pld.from_two_probability_mass_functions(
        here, there, value_discretization_interval=interval
    )


def test_the_oracle_has_our_neighbouring_relation():
    """Its own randomised response is ε-DP with exactly our pure profile; add-or-remove would not be
    the same question.
    """
    for epsilon in (0.4, 1.0, 3.0):
        for part in (0.0, 0.3, 0.9):
            assert response(epsilon).get_delta_for_epsilon(part * epsilon) == pytest.approx(
                profiles.pure_profile(epsilon)(part * epsilon), rel=1e-3
            )
        assert response(epsilon).get_delta_for_epsilon(epsilon + 2e-4) < 1e-9


@pytest.mark.parametrize("rounds", [1, 2, 10, 25, 50])
@pytest.mark.parametrize("decay", [0.8, 0.95, 0.99])
def test_fading_gaussians_compose_as_the_closed_form_says(rounds, decay):
    """Within 1%, and the claim fails when the noise is halved or when the variance is taken for the
    standard deviation.
    """
    moved = 0.3 / sqrt(sum(decay ** (1 - t) for t in range(1, rounds + 1)))
    events = releases(rounds, decay=decay, moved=moved)
    ours = (
        Ledger(((LabelFlipped(epsilon=1.0), *events),), delta=DELTA)
        .row("features", "other servers")
        .epsilon
    )
    known = composed(events).get_epsilon_for_delta(DELTA)
    assert ours == pytest.approx(known, rel=0.01)
    assert ours <= known * (1 + 1e-9)  # the oracle rounds up
    assert composed(events, noise=0.5).get_epsilon_for_delta(DELTA) > 1.5 * ours
    if rounds >= 10 and decay**rounds > 0.05:
        squared = tuple(replace(e, stddev=e.stddev**2) for e in events)
        assert composed(squared).get_epsilon_for_delta(DELTA) > 1.01 * ours


@pytest.mark.parametrize("servers", [0, 1])
def test_a_real_plan_agrees_with_the_oracle(servers):
    plan = TrainingPlan(rounds=30, noise_scale=(0.3, 0.15), objective_noise="none")
    spec = ServerSpec(server=servers, n_servers=2, degree=1, records=900, epsilons=(1.0,), width=5)
    events = plan.events(spec)
    ours = Ledger((events,), delta=DELTA).row("features", "other servers").epsilon
    assert ours == pytest.approx(composed(events[1:]).get_epsilon_for_delta(DELTA), rel=0.01)


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0])
def test_the_joint_degree_against_the_oracle(epsilon, mu):
    """Randomised response, then a Gaussian, as two mixtures on a fine grid: one mechanism to the
    oracle.
    """
    width = 0.01
    centres = np.arange(-9, 9 + mu, width)

    def bins(centre, noise):
        return ndtr((centres + width / 2 - centre) / noise) - ndtr(
            (centres - width / 2 - centre) / noise
        )

    def oracle(noise):
        keep = 1 / (1 + exp(-epsilon))
        first, second = bins(0.0, noise), bins(mu, noise)
        one, other = keep * first + (1 - keep) * second, (1 - keep) * first + keep * second
        ok = (one > 0) & (other > 0)
        return pld.from_two_probability_mass_functions(
            dict(enumerate(np.log(one[ok]).tolist())),
            dict(enumerate(np.log(other[ok]).tolist())),
            value_discretization_interval=1e-4,
        )

    ours = profiles.epsilon_at(
        profiles.joint_profile(epsilon, profiles.gaussian_profile(mu)), DELTA
    )
    assert ours == pytest.approx(oracle(1.0).get_epsilon_for_delta(DELTA), rel=0.01)
    if ours < 0.9 * epsilon:
        assert oracle(0.5).get_epsilon_for_delta(DELTA) > 1.1 * ours


def test_two_responses_in_a_row_against_the_oracle():
    epsilon, second = 1.2, 0.7
    keep, again = 1 / (1 + exp(-epsilon)), 1 / (1 + exp(-second))
    yes = keep * again + (1 - keep) * (1 - again)
    one, other = {0: log(yes), 1: log(1 - yes)}, {0: log(1 - yes), 1: log(yes)}
    known = pld.from_two_probability_mass_functions(one, other).get_epsilon_for_delta(0)
    assert profiles.joint_epsilon(epsilon, second) == pytest.approx(known, abs=2e-4)
    assert tanh(known / 2) == pytest.approx(tanh(epsilon / 2) * tanh(second / 2), abs=1e-4)


def noised(shift: float, *, size: int = 1, reach: float = 6.0) -> ObjectiveNoised:
    return ObjectiveNoised(
        kind="truncated_gaussian",
        bound=reach,
        stddev=1.0,
        size=size,
        n_servers=4,
        label_shift=shift / 4,
    )


@pytest.mark.parametrize("shift", [0.05, 0.1, 0.5, 1.0])
def test_truncated_noise_is_bounded_by_our_profile_and_lost_little(shift):
    """One coordinate at 6σ: our ε is never below the oracle's optimistic one and at most 2% above
    its pessimistic one.
    """
    exact = on_a_grid(round(shift * 200), 1200, 200)
    ours = profiles.epsilon_at(objective_profile(noised(shift)), DELTA)
    known = exact.get_epsilon_for_delta(DELTA)
    assert known * (1 - 1e-3) <= ours <= known * 1.02
    assert (
        on_a_grid(round(shift * 200), 1200, 200, noise=0.5).get_epsilon_for_delta(DELTA)
        > 1.2 * ours
    )


@pytest.mark.parametrize("size", [1, 16, 64, 1024])
def test_truncated_noise_in_many_coordinates(size):
    """The shift spread evenly over all of them, composed by the oracle: the direction in which
    truncation costs most.
    """
    shift, per_sigma = 0.5, 256
    exact = on_a_grid(round(shift / sqrt(size) * per_sigma), 6 * per_sigma, per_sigma)
    known = (
        exact.self_compose(size).get_epsilon_for_delta(DELTA)
        if size > 1
        else exact.get_epsilon_for_delta(DELTA)
    )
    ours = profiles.epsilon_at(objective_profile(noised(shift, size=size)), DELTA)
    assert (
        known - size * 1e-4 <= ours <= known * 1.05
    )  # the oracle rounds every coordinate's loss up to its grid
    outside = -np.expm1(size * np.log1p(-2 * ndtr(-6)))
    cruder = profiles.epsilon_at(
        profiles.truncated_gaussian_profile(shift, outside=outside, edge=inf), DELTA
    )
    assert ours <= cruder
    if size == 1024:
        assert cruder == inf  # the mass outside, 2e-6, would already eat the whole δ


def test_truncation_too_close_protects_nothing():
    """At 4σ the strip that only one of the two boxes has is heavier than δ: the oracle and we both
    say so.
    """
    exact = on_a_grid(100, 800, 200)
    assert exact.get_epsilon_for_delta(DELTA) == inf
    assert profiles.epsilon_at(objective_profile(noised(0.5, reach=4.0)), DELTA) == inf
