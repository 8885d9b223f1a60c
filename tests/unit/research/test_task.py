"""How a rival's rounds add up, against formulas of other origin; half the noise is rejected."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.research.baselines.task import per_round, repeated_profile
from pdml.research.paper.experiment import DELTA


def dp_epsilon_of_repeated_responses(alpha: float, rounds: int) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    p = 2 / (1 + exp(alpha))  # the library's p: a uniform answer, of two
    one = pld.from_randomized_response(p, 2, value_discretization_interval=1e-5)
    return float(one.self_compose(rounds).get_epsilon_for_delta(DELTA))


@pytest.mark.parametrize("rounds", [1, 4, 16])
def test_rounds_of_a_pure_guarantee_compose_as_the_oracle_says(rounds: int) -> None:
    """Kairouz, Oh, Viswanath: T randomised responses are the worst T pure rounds. Half the noise
    (twice α) breaks it.
    """
    alpha = per_round(1.0, rounds)
    assert dp_epsilon_of_repeated_responses(alpha, rounds) == pytest.approx(1.0, abs=2e-3)
    assert dp_epsilon_of_repeated_responses(2 * alpha, rounds) > 1.5


@given(alpha=st.floats(1e-3, 2.0), rounds=st.integers(1, 40), epsilon=st.floats(0.0, 3.0))
def test_composition_is_between_one_round_and_plain_addition(
    alpha: float, rounds: int, epsilon: float
) -> None:
    profile = repeated_profile(alpha, rounds)
    assert profile(rounds * alpha) == 0.0
    assert profile(epsilon) >= repeated_profile(alpha, 1)(epsilon) - 1e-12
    assert profile(epsilon) <= 1.0


def test_more_rounds_leave_less_for_each() -> None:
    assert per_round(1.0, 1) == pytest.approx(1.0)
    alphas = [per_round(1.0, rounds) for rounds in (1, 4, 16, 64)]
    assert alphas == sorted(alphas, reverse=True)
    assert all(alpha >= 1 / rounds for alpha, rounds in zip(alphas, (1, 4, 16, 64), strict=True))
