"""What noise does to weights, told by the totals: columns that are noise alone are seldom called
more, and often where the noise is understated.
"""

from dataclasses import replace

import numpy as np
import pytest

from pdml.mechanisms.label_flip import flip_labels
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import Noise, fit_moments, fit_sums, moments_of, normalise_totals
from pdml.numerics.sums.noise_split import deviations
from pdml.numerics.sums.posterior import Moments, gain, posterior

EPSILON, RECORDS, SIGNAL, WIDTH = 1.0, 1200, 3, 9


def result(totals, noise, loss=LOGISTIC):
    """`deviations` of the model that totals give."""
    given = normalise_totals(totals, noise, loss=loss)
    return deviations(given, fit_moments(given, loss), loss)


def population(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm <= 1 with a constant, and the chance of the second class: three columns that
    depend on each other say it, five tell nothing, of which two are 0 or 1.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(RECORDS, WIDTH))
    x[:, :SIGNAL] @= np.eye(SIGNAL) + 0.5 * rng.normal(size=(SIGNAL, SIGNAL))
    x[:, 5:7], x[:, -1] = x[:, 5:7] > 0, 1.0
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    return x, 1 / (1 + np.exp(-x[:, :SIGNAL] @ (4 * rng.normal(size=SIGNAL))))


def exchanged(x, chance, noise, rng) -> statistics.Sums:
    """Fresh labels, flips and noise."""
    truth = (rng.random(len(x)) < chance).astype(np.int64)
    said = flip_labels(truth, np.full(len(x), EPSILON), 2, rng)
    exact = statistics.exact(x, labels.codes(said, EPSILON, 2), LOGISTIC)
    square = rng.normal(size=exact.square_sum.shape)
    return replace(
        exact,
        label_sum=exact.label_sum + noise.label * rng.normal(size=exact.label_sum.shape),
        square_sum=exact.square_sum + noise.square * (square + square.T) / 2,
    )


@pytest.mark.parametrize("noise", [Noise(label=3.0, square=5.0), Noise(label=12.0, square=20.0)])
def test_columns_of_noise_alone_are_seldom_called_more_and_often_at_half_the_noise(noise):
    """25 exchanges with five columns of noise each: if 5% of 125 intervals miss zero, more than 15
    do with a chance below 1e-3 (binomial); the fixed seeds do not.
    """
    sizes, signal = [], []
    for seed in range(25):
        totals = exchanged(*population(seed), noise, np.random.default_rng(100 + seed))
        ratio = np.abs(fit_sums(totals, noise, loss=LOGISTIC).weights[0])
        ratio /= result(totals, noise)[0]
        sizes.append(ratio[SIGNAL:-1])
        signal.append(ratio[:SIGNAL])
    alone = np.concatenate(sizes)
    assert len(alone) == 125 and (alone > 1.96).sum() <= 15
    assert (alone > 1.96 / 2).sum() > 15, "half the noise is seen"
    assert np.mean(np.array(signal) > 1.96) > 0.1, "what is more than noise is found"


def test_without_noise_in_the_squares_intervals_hold_what_noise_was_added_to():
    """The same map on Q without its noise, in 25 exchanges of 9 weights: 95% ± four deviations of
    225 intervals that are a little dependent; those of half the noise hold about two thirds.
    """
    noise, apart = Noise(label=6.0, square=0.0), []
    for seed in range(25):
        x, chance = population(seed)
        totals = exchanged(x, chance, noise, np.random.default_rng(seed))
        given = normalise_totals(totals, noise, loss=LOGISTIC)
        model = fit_moments(given, LOGISTIC)
        maps = gain(moments_of(given, model.moments, LOGISTIC))[0]
        maps += model.share * np.diag([1.0] * (WIDTH - 1) + [0.0])
        quiet = LOGISTIC.label_weight * (2 * chance - 1) @ x / RECORDS
        meant = model.scale * maps @ quiet
        reach = result(totals, noise)[0]
        apart.append((model.weights[0] - meant) / reach)
    found = np.abs(apart)
    assert 0.9 <= np.mean(found <= 1.96) <= 0.995
    assert np.mean(found <= 0.98) < 0.8


def test_the_gain_is_the_posterior_as_a_map():
    rng = np.random.default_rng(0)
    for width, codes in ((5, 1), (12, 3)):
        half = rng.normal(size=(width, 2 * width))
        values, vectors = np.linalg.eigh(half @ half.T / (2 * width**2))
        q = 0.02 * rng.normal(size=(codes, width))
        for label in (1e-3, 0.1):
            known = Moments(
                q=q, values=values, vectors=vectors, label=label, report=1e-3, deviation=0.5
            )
            np.testing.assert_allclose(
                np.einsum("cij,cj->ci", gain(known), q), posterior(known), rtol=1e-6
            )


def test_the_same_totals_give_the_same():
    noise = Noise(label=5.0, square=5.0)
    totals = exchanged(*population(1), noise, np.random.default_rng(0))
    first = result(totals, noise)
    np.testing.assert_array_equal(first, result(totals, noise))
    assert first.shape == (1, WIDTH) and (first > 0).all()


def test_blocks_of_ones_and_several_classes_have_intervals():
    """Columns that add up to the constant leave S without an inverse."""
    rng = np.random.default_rng(2)
    block = np.eye(3)[rng.integers(0, 3, 500)] / np.sqrt(2)
    x = np.hstack([block, np.full((500, 1), 1 / np.sqrt(2))])
    totals = statistics.exact(x, labels.codes(rng.integers(0, 3, 500), 2.0, 3), SOFTMAX)
    found = result(totals, Noise(label=0.0, square=0.0), SOFTMAX)
    assert found.shape == (3, 4) and np.isfinite(found).all()
