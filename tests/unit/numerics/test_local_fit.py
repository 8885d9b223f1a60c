"""A server's own exact sums beside the others' noisy ones."""

from dataclasses import replace

import numpy as np
import pytest
from test_fit import exact, population, with_noise

from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums.fit import Noise, fit_local_model, fit_sums

STILL = Noise(label=0.0, square=0.0)
QUIET = Noise(label=1e-9, square=1e-9)  # columns stay about what is declared, as others' noise asks


def parts(seed, records=2000, own=200):
    x, y = population(records, 8, seed=seed)
    return (x, y), exact(x[:own], y[:own]), exact(x[own:], y[own:])


def test_others_that_are_all_noise_do_not_count():
    _, own, others = parts(0)
    noise = Noise(label=1e9, square=1e9)
    found = fit_local_model(
        own, with_noise(others, noise, np.random.default_rng(0)), noise, loss=LOGISTIC
    )
    alone = fit_sums(own, QUIET, loss=LOGISTIC)
    np.testing.assert_allclose(found.weights, alone.weights, rtol=1e-3)


def test_own_sums_of_randomised_answers_are_not_taken_for_exact():
    """People's own coins move a server's own sums as well."""
    _, own, others = parts(0)
    coins = Noise(label=0.0, square=0.0, coded=0.3)
    loud = Noise(label=1e9, square=1e9, coded=coins.coded)
    found = fit_local_model(
        own, with_noise(others, loud, np.random.default_rng(0)), loud, loss=LOGISTIC
    )
    alone = fit_sums(own, replace(QUIET, coded=coins.coded), loss=LOGISTIC).weights
    np.testing.assert_allclose(found.weights, alone, rtol=1e-3)
    taken_for_exact = fit_sums(own, QUIET, loss=LOGISTIC).weights
    assert np.linalg.norm(taken_for_exact - alone) > 0.01 * np.linalg.norm(alone)


def test_others_without_noise_count_as_own():
    _, own, others = parts(0)
    found = fit_local_model(own, others, STILL, loss=LOGISTIC).weights
    pooled = fit_sums(own + others, STILL, loss=LOGISTIC).weights
    np.testing.assert_allclose(found, pooled, rtol=1e-6)


@pytest.mark.parametrize("level", [3.0, 30.0, 300.0])
def test_on_average_it_is_not_worse_than_alone(level):
    """20 populations; the gain is 0 to 6 points with a standard error below 0.5: false alarm below
    1% at the loudest noise, where there is nothing to gain, and below 1e-6 elsewhere.
    """
    gain = []
    for seed in range(20):
        (x, y), own, others = parts(seed)
        noise, rng = Noise(label=level, square=2 * level), np.random.default_rng(seed)
        house = fit_local_model(own, with_noise(others, noise, rng), noise, loss=LOGISTIC).weights[
            0
        ]
        alone = fit_sums(own, STILL, loss=LOGISTIC).weights[0]
        gain.append(np.mean((x @ house > 0) == (y == 1)) - np.mean((x @ alone > 0) == (y == 1)))
    assert np.mean(gain) > -2 * np.std(gain) / np.sqrt(len(gain)) - 1e-3
