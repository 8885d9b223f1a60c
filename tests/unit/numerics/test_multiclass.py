"""What totals of more than two classes tell about their own model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from test_fit import exact, with_noise

from pdml.numerics.admm.losses import SOFTMAX
from pdml.numerics.interval import Range
from pdml.numerics.sums.expected_accuracy import expect, gain
from pdml.numerics.sums.fit import Noise, fit_moments, normalise_totals

STILL = Noise(label=1e-6, square=1e-6)


def clusters(records, classes, *, apart, seed=0, width=8, shares=None):
    """Gaussian classes with a common covariance, a constant of 0.3."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(width) + 0.4 * rng.normal(size=(width, width)) / np.sqrt(width)
    means = rng.normal(size=(classes, width)) * apart / np.sqrt(width)
    y = rng.choice(classes, size=records, p=shares)
    x = rng.normal(size=(records, width)) @ mixing + means[y]
    return np.hstack([0.25 * x / np.sqrt(width), np.full((records, 1), 0.3)]), y


def result(x, y, noise, rng, classes):
    """(What is expected, the gain; accuracy, gain and confidence in truth) of a model from noisy
    totals.
    """
    totals = with_noise(exact(x, y, classes), noise, rng)
    told_by = normalise_totals(totals, noise, loss=SOFTMAX)
    model = fit_moments(told_by, SOFTMAX)
    z = x @ model.weights.T
    right, sure = np.mean(z.argmax(axis=1) == y), np.mean(softmax(z, axis=1).max(axis=1))
    ahead = right - max(np.mean(y == k) for k in range(classes))
    return expect(told_by, model, SOFTMAX), gain(told_by, model, SOFTMAX), right, ahead, sure


@pytest.mark.parametrize("classes", [3, 7])
@pytest.mark.parametrize("apart", [0.5, 1.5, 4.0])
def test_without_noise_it_is_right(classes, apart):
    """Accuracy and gain to 3 points: the classes are what is assumed of them."""
    x, y = clusters(30_000, classes, apart=apart, seed=classes)
    found, more, right, ahead, sure = result(x, y, STILL, np.random.default_rng(0), classes)
    assert found.accuracy.middle == pytest.approx(right, abs=0.03)
    assert found.accuracy.low < right < found.accuracy.high
    assert more.low < ahead < more.high and more.middle == pytest.approx(ahead, abs=0.04)
    assert found.auc is None and found.confidence == pytest.approx(sure, abs=0.05)


@pytest.mark.parametrize("apart", [0.0, 1.0, 3.0])
def test_unequal_classes_are_seen(apart):
    """One class has 70%, and where there is nothing to be learnt nothing is gained: accuracy and
    gain to 3 points.
    """
    x, y = clusters(30_000, 3, apart=apart, shares=[0.7, 0.2, 0.1])
    found, more, right, ahead, _ = result(x, y, STILL, np.random.default_rng(0), 3)
    assert found.accuracy.middle == pytest.approx(right, abs=0.03)
    assert more.middle == pytest.approx(ahead, abs=0.03)
    assert (more.none >= 1 / 3) == (apart == 0.0) and (ahead < 0.01) == (apart == 0.0)


def test_intervals_hold_and_noise_widens_them():
    """60 trainings: with a chance of 0.8 each, fewer than 37 hits would have a chance below 1e-3.
    Intervals of a twentieth of the width hit less than half as often as is asked.
    """
    hits, narrow, widths = np.zeros(2), np.zeros(2), {2.0: 0.0, 60.0: 0.0}
    for seed in range(15):
        classes = 3 + seed % 4
        shares = np.random.default_rng(seed).dirichlet(np.full(classes, 5.0))
        x, y = clusters(4000, classes, apart=0.5 + seed / 4, seed=seed, shares=shares)
        for level in widths:
            rng, noise = np.random.default_rng(seed), Noise(label=level, square=2 * level)
            for _ in range(2):
                found, more, *truth, _ = result(x, y, noise, rng, classes)
                both = (found.accuracy, more)
                hits += [one.low <= at <= one.high for one, at in zip(both, truth, strict=True)]
                narrow += [
                    abs(at - one.middle) <= (one.high - one.low) / 40
                    for one, at in zip(both, truth, strict=True)
                ]
                widths[level] += found.accuracy.high - found.accuracy.low
    assert (hits >= 37).all() and (narrow <= 18).all()
    assert widths[60.0] > 1.3 * widths[2.0]


def test_a_clear_model_is_ahead_and_one_of_noise_is_not():
    x, y = clusters(4000, 4, apart=4.0)
    assert result(x, y, Noise(label=1.0, square=1.0), np.random.default_rng(0), 4)[1].low > 0.3
    for seed in range(5):
        loud = Noise(label=1e4, square=1e4)
        drowned = result(x, y, loud, np.random.default_rng(seed), 4)[1]
        assert drowned.low <= 0 and drowned.none >= 1 / 3


def test_what_a_model_took_from_noise_does_not_count():
    """Nothing can be learnt: of eight models each is doubted, and 25% is told to 5 points on
    average. Judged by the totals they were made from, three would not be, and 33% were told.
    """
    noise, told_right = Noise(label=10.0, square=20.0), []
    for seed in range(8):
        x, y = clusters(1500, 4, apart=0.0, seed=seed, width=20)
        found, more, *_ = result(x, y, noise, np.random.default_rng(seed), 4)
        assert more.none >= 1 / 3
        told_right.append(found.accuracy.middle)
    assert np.mean(told_right) == pytest.approx(0.25, abs=0.05)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(3, 6),
    records=st.integers(10, 400),
    level=st.sampled_from([0.0, 1e-6, 0.5, 5.0, 50.0, 1e4]),
    constant=st.sampled_from([0.0, 0.13]),
    believes=st.booleans(),
)
def test_whatever_totals_say_it_is_a_range(seed, classes, records, level, constant, believes):
    """Of any number of records, under any noise, and where a model believes in no class."""
    x, y = clusters(records, classes, apart=1.0, seed=seed, width=3)
    noise = Noise(label=level, square=2 * level)
    totals = with_noise(exact(x, y, classes), noise, np.random.default_rng(seed))
    told_by = normalise_totals(totals, noise, loss=SOFTMAX, constant=constant)
    model = fit_moments(told_by, SOFTMAX)
    model = model if believes else replace(model, linear=0 * model.linear)
    found, more = expect(told_by, model, SOFTMAX), gain(told_by, model, SOFTMAX)
    assert 0 <= found.accuracy.low <= found.accuracy.middle <= found.accuracy.high <= 1
    assert -1 <= more.low <= more.middle <= more.high <= 1 and 0 <= more.none <= 1
    assert 1 / classes - 1e-9 <= found.confidence <= 1


def test_no_class_comes_first():
    """Classes in another order: the same up to the few points that stand for a Gaussian."""
    x, y = clusters(4000, 4, apart=1.5)
    totals = exact(x, y, 4)
    order = [2, 0, 3, 1]
    turned = replace(totals, label_sum=totals.label_sum[order])
    noise, found = Noise(label=2.0, square=4.0), []
    for each in (totals, turned):
        told_by = normalise_totals(each, noise, loss=SOFTMAX)
        found.append(expect(told_by, fit_moments(told_by, SOFTMAX), SOFTMAX))
    assert found[0].accuracy.middle == pytest.approx(found[1].accuracy.middle, abs=0.03)
    assert found[0].confidence == pytest.approx(found[1].confidence, abs=0.03)


def test_where_no_label_said_anything_anything_is_possible():
    x, y = clusters(300, 3, apart=1.0)
    totals = exact(x, y, 3)
    totals = replace(totals, label_sum=np.zeros_like(totals.label_sum))
    told_by = normalise_totals(totals, Noise(label=1.0, square=2.0), loss=SOFTMAX)
    model = fit_moments(told_by, SOFTMAX)
    found = expect(told_by, model, SOFTMAX)
    assert found.accuracy == Range(low=0.0, middle=0.5, high=1.0) and found.auc is None
    assert found.confidence == pytest.approx(1 / 3)
    assert gain(told_by, model, SOFTMAX) == Range(low=-1.0, middle=0.0, high=1.0)
