"""Coefficients with what noise does to them: in the estimator and after a study."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from estimators import make_classifier
from fitting import is_gaussian

from pdml import PDMLClassifier, TrainingPlan
from pdml.research.datasets import twonorm
from pdml.training.intervals import OF_ROUNDS, OF_SUMS, of_rounds

SUMS = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0)


def fitted(plan: TrainingPlan, **settings) -> PDMLClassifier:
    x, y = twonorm(1500, np.random.default_rng(0))
    return make_classifier(plan=plan, n_servers=4, random_state=1, **settings).fit(x, y)


def test_after_sums_intervals_are_a_function_of_the_total():
    model = fitted(SUMS)
    found = model.intervals_
    assert model.coef_interval_.shape == (1, 20, 2) and found.whole and found.covers == OF_SUMS
    np.testing.assert_array_equal(model.coef_interval_[..., 0], found.low)
    assert (found.low < model.coef_).all() and (model.coef_ < found.high).all()
    assert 5 <= found.more_than_noise.sum() <= 20, "every column of twonorm tells the class"
    louder = fitted(replace(SUMS, label_noise=20.0)).intervals_
    ratio = np.abs(louder.coefficients) / louder.deviations
    assert ratio.mean() < (np.abs(found.coefficients) / found.deviations).mean()
    again = model.fit(*twonorm(900, np.random.default_rng(3)))
    assert (again.intervals_.coefficients == again.coef_).all(), "not those of the first fit"


def test_records_in_other_units_have_intervals_in_theirs():
    """Rows twice as long under a bound twice as long, with noise that is: half the weights, and
    half of how far noise moves them.
    """
    x, y = twonorm(1500, np.random.default_rng(0))
    louder = replace(SUMS, label_noise=4.0, square_noise=12.0)
    asked = {"n_servers": 4, "epsilon": None, "intercept": False, "random_state": 1}
    once = make_classifier(plan=SUMS, **asked).fit(x, y).intervals_
    twice = make_classifier(plan=louder, norm_bound=2.0, **asked).fit(2 * x, y).intervals_
    np.testing.assert_allclose(2 * twice.deviations, once.deviations, rtol=0.02)
    np.testing.assert_allclose(2 * twice.coefficients, once.coefficients, rtol=0.02, atol=0.02)


def test_without_an_intercept_no_column_is_left_out():
    assert fitted(SUMS, intercept=False).coef_interval_.shape == (1, 20, 2)


def test_after_rounds_only_the_last_round_s_noise_is_told_and_nothing_is_called_more_than_noise():
    model = fitted(TrainingPlan(rounds=5))
    found = model.intervals_
    assert found.covers == OF_ROUNDS and not found.whole and not found.more_than_noise.any()
    stddev = TrainingPlan(rounds=5).iterates(0, 4).stddev(5)
    np.testing.assert_allclose(found.deviations, stddev / 2)


def test_the_last_round_s_noise_in_the_mean_has_that_deviation():
    """A false-alarm rate of 1e-9; half and double are seen."""
    plan, servers = TrainingPlan(rounds=3, noise_scale=(0.1, 0.4, 0.2)), 3
    rng, drawn = np.random.default_rng(0), []
    for _ in range(400):
        noise = [rng.normal(size=10) * plan.iterates(i, servers).stddev(3) for i in range(servers)]
        drawn.append(np.mean(noise, axis=0))
    found = float(of_rounds(plan, servers, np.zeros((1, 10))).deviations[0, 0])
    sample = np.array(drawn).ravel()
    assert is_gaussian(sample, found)
    assert not is_gaussian(sample, found / 2) and not is_gaussian(sample, 2 * found)
    assert found == pytest.approx(
        sqrt(sum(plan.iterates(i, servers).stddev(3) ** 2 for i in range(3))) / 3
    )
