"""How many people are needed: read off known forecasts, and forecast as the planner does."""

from math import log2, log10

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from people_forecasts import straight_forecast

from pdml.accounting import Budget
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.planning.forecast.people_needed import (
    PEOPLE,
    _monotone,
    forecast_people,
    noise_factor,
)
from pdml.planning.search.candidates import UtilityRuns
from pdml.planning.search.sums_search import SHARES
from pdml.planning.sizes import Sizes

FORECAST = straight_forecast()


def mean_at(people: float, epsilon: float, factor: float) -> float:
    return 0.5 + 0.1 * log10(epsilon) - 0.05 * log2(factor) + 0.1 * log10(people / 100)


@given(st.integers(100, 10_000), st.sampled_from([(3, 1), (4, 2), (5, 3), (2, None), (4, None)]))
def test_a_forecast_is_read_between_its_points(people: int, who: tuple[int, int | None]) -> None:
    expected = FORECAST.expected(people, 10.0, *who)
    exact = mean_at(people, 10.0, noise_factor(*who))
    assert expected.middle == pytest.approx(exact)
    assert expected.high - expected.low == pytest.approx(0.8 * 0.06)  # of four, 0.02 apart


@given(st.floats(0.41, 0.69), st.sampled_from([(3, 1), (4, 2), (4, None)]))
def test_what_is_needed_reaches_the_target_and_little_less_does_not(
    target: float, who: tuple[int, int | None]
) -> None:
    people, factor = FORECAST.needed(target, 1.0, *who), noise_factor(*who)
    if people is None:
        assert mean_at(10_000, 1.0, factor) < target
    else:
        assert mean_at(people, 1.0, factor) >= target - 1e-9
        assert people == 100 or mean_at(people * 10 / 11, 1.0, factor) < target
        assert people == int(float(f"{people:.2g}"))


def test_noise_is_shared_by_those_who_do_not_collude() -> None:
    assert noise_factor(5) == noise_factor(5, 4) == 5
    assert noise_factor(5, 1) == 1.25


@pytest.mark.parametrize(
    ("asked", "reason"),
    [((2.0, 5, 1), "epsilon"), ((1.0, 1, None), "servers"), ((1.0, 5, 5), "colluding")],
)
def test_what_was_not_forecast_is_refused(
    asked: tuple[float, int, int | None], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        FORECAST.curve(*asked)


@given(st.lists(st.floats(0, 1), min_size=24, max_size=24))
def test_more_people_are_never_worse_nor_more_noise_better(values: list[float]) -> None:
    scores = np.array(values).reshape(2, 3, 4, 1)
    means = _monotone(scores).mean(axis=-1)
    assert (np.diff(means, axis=2) >= -1e-12).all() and (np.diff(means, axis=1) <= 1e-12).all()
    np.testing.assert_allclose(_monotone(_monotone(scores)), _monotone(scores), atol=1e-12)


@pytest.mark.long
def test_a_forecast_is_the_planners() -> None:
    forecast = forecast_people(5, prevalence=(0.1, 0.3), epsilons=(1.0,))
    sizes = Sizes(records=(750,) * 4, width=5, epsilon=1.0, prevalence=(0.1, 0.3))
    scores = UtilityRuns(sizes).sums(Budget(features_epsilon=1.0), "logistic", SHARES[1])
    assert scores is not None
    assert forecast.expected(3_000, 1.0, 4).middle == pytest.approx(scores[..., 2].mean(), abs=0.02)
    few, many = (forecast.expected(m, 1.0, 10, None).middle for m in (PEOPLE[0], PEOPLE[-1]))
    assert 0.5 < few < many - 0.05 < forecast.without_privacy
    assert forecast.to_dict()["means"][0] == forecast.scores[0].mean(axis=-1).tolist()


def test_a_budget_that_no_noise_meets_is_refused() -> None:
    with pytest.raises(BudgetExceeded, match="no Gaussian noise reaches it"):
        forecast_people(5, delta=0.0)
