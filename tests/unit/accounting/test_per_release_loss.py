"""Exchanges in which a record was encoded in different ways: each has an angle of its own."""

from dataclasses import replace
from math import exp, hypot, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from pdml.accounting import Ledger, profiles
from pdml.accounting.events import (
    IterateReleased,
    LabelFlipped,
    ObjectiveNoised,
    SumsReleased,
    group_events,
)
from pdml.accounting.per_release_loss import release_loss
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums.statistics import shifts

FLIP, DELTA = LabelFlipped(epsilon=2.0), 1e-6


def exchange(label: float, square: float, encoding: str = "") -> SumsReleased:
    """One exchange with these deviations, of people with ε = 2."""
    moved = shifts(2.0, 1.0, LOGISTIC)
    return SumsReleased(
        label_stddev=label,
        square_stddev=square,
        label_shift=moved.label,
        record_shift=moved.record,
        square_shift=moved.square,
        fixed_shift=0.0,
        epsilon=2.0,
        encoding=encoding,
    )


def claimed(*events, flip=FLIP) -> float:
    return Ledger(((flip, *events),), delta=DELTA).row("features", "other servers").epsilon


def true_epsilon(label: float, rest: float, *, keep: float = 1 / (1 + exp(-2.0))) -> float:
    """ε of opposite records in Q whose S are ``rest`` apart: over the plane, by the trapezoid rule,
    which is exact to rounding for such sums of Gaussians."""
    x = np.linspace(-9, 9, 1201)[:, None]
    z = np.linspace(-9, 9 + rest, 1201)[None, :]
    ahead, behind = norm.pdf(x - label / 2), norm.pdf(x + label / 2)
    p = (keep * ahead + (1 - keep) * behind) * norm.pdf(z)
    q = ((1 - keep) * ahead + keep * behind) * norm.pdf(z - rest)
    cell = (x[1, 0] - x[0, 0]) * (z[0, 1] - z[0, 0])

    def result(epsilon):
        return np.maximum(0.0, p - exp(epsilon) * q).sum() * cell

    low, high = 0.0, 8.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if result(middle) > DELTA else (low, middle)
    return high


@pytest.mark.parametrize("flips", [(FLIP,), ()], ids=["randomised", "as they are"])
def test_an_exchange_without_intercept_and_one_with_it(flips):
    """x against -x: the first exchange tells them apart by Q; with a constant as long as x the rows
    are at right angles, and the second tells them apart by S. Both at once."""
    first, second = exchange(4.5, 1e6), exchange(1e6, 8.84)
    label, square = first.record_shift / 4.5, second.square_shift / 8.84
    known = true_epsilon(label, square) if flips else _gaussian(hypot(label, square))
    book = Ledger(((*flips, first, second),), delta=DELTA)
    line = book.row("features", "other servers").epsilon
    assert known <= line <= 1.02 * known
    if flips:
        assert known == pytest.approx(0.6458, abs=2e-4)
        assert true_epsilon(2 * label, 2 * square) > line  # half the noise is seen
        one = (exchange(4.5, 1e6, "same"), exchange(1e6, 8.84, "same"))
        assert claimed(*one) == pytest.approx(0.5597, abs=2e-3)
        assert claimed(exchange(4.5, 1e6, "one"), exchange(1e6, 8.84, "other")) == line


def _gaussian(mu: float) -> float:
    return profiles.epsilon_at(profiles.gaussian_profile(mu), DELTA)


def test_objective_noise_of_another_encoding_has_another_angle_too():
    """A training by rounds is a third exchange, of which only the linear term went through η."""
    eta = ObjectiveNoised(
        kind="truncated_gaussian",
        bound=60.0,
        stddev=1.0,
        size=1,
        n_servers=1,
        label_shift=0.17,
        fixed_shift=0.0,
    )
    seen = IterateReleased(  # all of a record's part goes through the linear term, and θ is tiny
        t=1, stddev=1e-6, label_sensitivity=1.0, record_sensitivity=1.0, solver_slack=0.0
    )
    sums = exchange(1e6, 8.84)
    square = sums.square_shift / 8.84
    apart = claimed(eta, seen, sums)
    same = claimed(replace(eta, encoding="a"), seen, replace(sums, encoding="a"))
    known = true_epsilon(0.17, square)
    assert same < 0.95 * known and known <= apart <= 1.02 * known
    assert true_epsilon(2 * 0.17, 2 * square) > apart


EXCHANGES = st.lists(
    st.tuples(
        st.floats(0.05, 1e3), st.floats(0.05, 1e3), st.floats(-1, 1), st.sampled_from(["", "a"])
    ),
    min_size=1,
    max_size=5,
)


@given(EXCHANGES)
@settings(max_examples=200, derandomize=True)
def test_what_follows_one_angle_and_the_rest_cover_every_angle(several):
    """Σ τ_i² (1 - c_i²) <= τ_p² (1 - c²) + rest, at all cosines, those of one encoding alike."""
    common = several[0][2]
    cosines = np.array([common if name else c for _, _, c, name in several])
    events = [exchange(label, square, name) for label, square, _, name in several]
    response = release_loss(group_events((FLIP, *events))).response
    mu2 = np.array([(e.record_shift / e.label_stddev) ** 2 for e in events])
    tau2 = np.array([(e.square_shift / e.square_stddev) ** 2 for e in events])
    together = float((mu2 * cosines).sum() / mu2.sum())
    covered = response.square[0] ** 2 * (1 - together**2) + response.rest[0] ** 2
    moved = float((tau2 * (1 - cosines**2)).sum())
    assert moved <= covered * (1 + 1e-9) + 1e-15
    assert response.square[0] ** 2 + response.rest[0] ** 2 == pytest.approx(tau2.sum(), rel=1e-9)
    assert response.label[0] ** 2 == pytest.approx(mu2.sum(), rel=1e-9)


def test_equal_plans_cost_the_same_whatever_their_encodings():
    """S moves beside Q in one proportion: nothing is left that does not follow the angle."""
    several = [exchange(5.0, 9.0, name) for name in ("one", "other", "")]
    alike = [exchange(5.0, 9.0, "same")] * 3
    assert claimed(*several) == pytest.approx(claimed(*alike), rel=1e-6)
    assert claimed(*alike) == pytest.approx(claimed(exchange(5 / sqrt(3), 9 / sqrt(3))), rel=1e-6)


def test_the_factor_of_s_without_randomised_response():
    """The largest of (μ sin φ)² + (τ sin 2φ)², by a scan."""
    event = exchange(4.5, 4.0)
    label, square = event.record_shift / 4.5, event.square_shift / 4.0
    turned = np.linspace(0, np.pi / 2, 100_001)
    mu = sqrt(float(((label * np.sin(turned)) ** 2 + (square * np.sin(2 * turned)) ** 2).max()))
    line = Ledger(((event,),), delta=DELTA).row("features", "other servers").epsilon
    known = _gaussian(mu)
    assert known * (1 - 1e-6) <= line <= 1.002 * known
    assert log(_gaussian(hypot(label, square)) / line) > 0.05
