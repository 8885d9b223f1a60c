"""Counts of true labels in the ledger: beside whatever a label's reports tell, never behind its
coin.
"""

from math import hypot, inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pdml.accounting import Budget, Ledger, profiles
from pdml.accounting.events import CountsReleased, LabelFlipped, SumsReleased
from pdml.accounting.kinds import OPERATOR
from pdml.errors import BudgetExceeded

mus = st.floats(0.01, 2)
epsilons = st.floats(0.1, 6)  # less the slack it is not below 0
COUNTS = CountsReleased(stddev=6.0, shift=sqrt(2))
FLIP = LabelFlipped(epsilon=1.0, epsilons=(1.0,))
SUMS = SumsReleased(
    label_stddev=1.1,
    square_stddev=1.9,
    label_shift=0.46,
    record_shift=0.46,
    square_shift=0.3,
    fixed_shift=0.0,
    epsilon=1.0,
)


@given(one=mus, other=mus, epsilon=epsilons)
def test_composed_gaussians_are_one_gaussian_up_to_the_sum_s_own_slack(one, other, epsilon):
    exact = profiles.gaussian_profile(hypot(one, other))
    found = profiles.with_gaussian(profiles.gaussian_profile(one), other)(epsilon)
    assert exact(epsilon) <= found * (1 + 1e-9) + 1e-300
    assert found <= exact(epsilon - 18 / 400 * other) * (1 + 1e-9) + 1e-17


def coin_and_counts(coin: float, through: float, beside: float, epsilon: float) -> float:
    """The divergence itself: a coin before one Gaussian, another Gaussian of the true label,
    integrated over the plane.
    """
    keep = 1 / (1 + np.exp(-coin))
    x, y = (np.linspace(-9, 9 + shift, 1800)[:, None] for shift in (through, beside))
    y = y.T
    lies = norm.pdf(x), norm.pdf(x - through)
    first = (keep * lies[1] + (1 - keep) * lies[0]) * norm.pdf(y - beside)
    second = (keep * lies[0] + (1 - keep) * lies[1]) * norm.pdf(y)
    area = (x[1, 0] - x[0, 0]) * (y[0, 1] - y[0, 0])
    return float(np.maximum(0.0, first - np.exp(epsilon) * second).sum() * area)


@pytest.mark.parametrize("through", [0.4, 1.5])
@pytest.mark.parametrize("beside", [0.2, 0.8])
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.3])
def test_a_label_s_line_is_above_the_divergence_and_near_it(through, beside, epsilon):
    behind = profiles.joint_profile(1.0, profiles.gaussian_profile(through))
    bound = profiles.with_gaussian(behind, beside)
    exact = coin_and_counts(1.0, through, beside, epsilon)
    assert exact <= bound(epsilon) + 1e-6
    assert bound(epsilon) <= coin_and_counts(1.0, through, beside, epsilon - 0.045 * beside) + 1e-6
    assert coin_and_counts(1.0, through, 2 * beside, epsilon) > bound(epsilon), "half the noise"


def test_counts_alone_are_one_gaussian_and_whoever_counts_has_the_labels():
    book = Ledger(((COUNTS,),))
    spent = profiles.epsilon_at(profiles.gaussian_profile(COUNTS.shift / COUNTS.stddev), 1e-6)
    for data in ("label", "features"):
        line = book.row(data, "other servers")
        assert line.epsilon == pytest.approx(float(spent), rel=1e-6)
        assert "noise on the counts of one evaluation" in line.reason
    for adversary in ("own server", "own and others together"):
        line = book.row("label", adversary)
        assert line.epsilon == inf and "has the true label" in line.reason


def test_training_and_evaluation_of_the_same_people_add_up():
    trained, both = Ledger(((FLIP, SUMS),)), Ledger(((FLIP, SUMS, COUNTS),))
    alone = Ledger(((COUNTS,),))
    for data in ("label", "features"):
        parts = [book.row(data, "other servers").epsilon for book in (trained, alone)]
        found = both.row(data, "other servers")
        assert max(parts) < found.epsilon < sum(parts)
        assert "noise on one exchange of sums" in found.reason or data == "label"
        assert found.reason.endswith("with the true label")
        assert both.row(data, "other servers") == Ledger(((FLIP, COUNTS, SUMS),)).row(
            data, "other servers"
        )
    # what no coin hides: the squares of both Gaussians
    plain = Ledger(((SUMS, COUNTS),)).row("label", "other servers").epsilon
    mu = hypot(SUMS.label_shift / SUMS.label_stddev, COUNTS.shift / COUNTS.stddev)
    known = profiles.epsilon_at(profiles.gaussian_profile(mu), 1e-6)
    assert plain == pytest.approx(float(known), rel=1e-6)


def test_the_own_server_s_line_says_what_is_true():
    before = Ledger(((FLIP, SUMS),)).row("label", "own server")
    after = Ledger(((FLIP, SUMS, COUNTS),)).row("label", "own server")
    assert (before.epsilon, after.epsilon) == (1.0, inf)
    assert "evaluated" in after.reason
    operator = LabelFlipped(epsilon=1.0, by=OPERATOR)
    assert Ledger(((operator, SUMS),)).row("label", "own server").epsilon == inf


def test_a_budget_counts_evaluations():
    Ledger(((COUNTS,),)).check(Budget(features_epsilon=1.1))
    with pytest.raises(BudgetExceeded, match="2 evaluations would spend"):
        Ledger(((COUNTS, COUNTS),)).check(Budget(features_epsilon=1.1))
    quiet = CountsReleased(stddev=0.0, shift=sqrt(2))
    assert Ledger(((quiet,),)).row("features", "other servers").epsilon == inf


def test_curves_over_rounds_hold_counts_from_the_first_on():
    book = Ledger(((FLIP, SUMS, COUNTS),))
    assert book.epsilons("features")[0] == pytest.approx(
        book.row("features", "other servers").epsilon, rel=1e-3
    )
    assert book.up_to(0).events == ((FLIP,),)
