"""From totals to a model: what must hold exactly, and what on average over noise."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from pdml.errors import InvalidInput
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.numerics.sums import fit, statistics
from pdml.numerics.sums.fit import Noise, fit_sums

STILL = Noise(label=0.0, square=0.0)


def population(records, width=6, *, seed=0, margin=2.0, offset=0.5):
    """Correlated Gaussian features, a constant of 0.3, labels by a logistic model."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(width) + 0.4 * rng.normal(size=(width, width)) / np.sqrt(width)
    x = rng.normal(size=(records, width)) @ mixing
    truth = rng.normal(size=width)
    z = x @ truth
    z *= margin / z.std()
    y = (rng.random(records) < 1 / (1 + np.exp(-z - offset))).astype(np.int64)
    x = np.hstack([0.25 * x / np.sqrt(width), np.full((records, 1), 0.3)])
    return x, y


def exact(x, y, classes=2):
    loss = LOGISTIC if classes == 2 else SOFTMAX
    return statistics.exact(x, labels.codes(y, inf, classes), loss)


def with_noise(totals, noise, rng):
    square = rng.normal(size=totals.square_sum.shape) * noise.square
    return statistics.Sums(
        label_sum=totals.label_sum + noise.label * rng.normal(size=totals.label_sum.shape),
        square_sum=totals.square_sum + (square + square.T) / 2,
        size=totals.size,
    )


noisy = st.builds(
    lambda seed, level, width: (
        with_noise(
            exact(*population(300, width, seed=seed)),
            Noise(label=level, square=2 * level),
            np.random.default_rng(seed),
        ),
        Noise(label=level, square=2 * level),
    ),
    st.integers(0, 10**6),
    st.sampled_from([0.5, 5.0, 50.0, 500.0]),
    st.integers(1, 7),
)


@settings(deadline=None, max_examples=30)
@given(noisy, st.randoms(use_true_random=False))
def test_the_order_of_columns_does_not_matter(case, random):
    totals, noise = case
    order = list(range(totals.width - 1))
    random.shuffle(order)
    order.append(totals.width - 1)
    turned = statistics.Sums(
        label_sum=totals.label_sum[:, order],
        square_sum=totals.square_sum[np.ix_(order, order)],
        size=totals.size,
    )
    found = fit_sums(totals, noise, loss=LOGISTIC).weights[:, order]
    again = fit_sums(turned, noise, loss=LOGISTIC).weights
    np.testing.assert_allclose(again, found, rtol=1e-4, atol=1e-5 * np.abs(found).max())


@settings(deadline=None, max_examples=30)
@given(noisy)
def test_opposite_labels_give_the_opposite_model(case):
    totals, noise = case
    opposite = statistics.Sums(
        label_sum=-totals.label_sum, square_sum=totals.square_sum, size=totals.size
    )
    found = fit_sums(totals, noise, loss=LOGISTIC).weights
    again = fit_sums(opposite, noise, loss=LOGISTIC).weights
    np.testing.assert_allclose(again, -found, rtol=1e-3, atol=1e-4 * np.abs(found).max())


@settings(deadline=None, max_examples=30)
@given(noisy, st.sampled_from([0.5, 4.0]))
def test_the_unit_of_length_does_not_matter(case, bound):
    totals, noise = case
    longer = statistics.Sums(
        label_sum=bound * totals.label_sum,
        square_sum=bound**2 * totals.square_sum,
        size=totals.size,
    )
    louder = Noise(label=bound * noise.label, square=bound**2 * noise.square)
    found = fit_sums(totals, noise, loss=LOGISTIC).weights
    again = fit_sums(longer, louder, loss=LOGISTIC, norm_bound=bound).weights
    np.testing.assert_allclose(again * bound, found, rtol=1e-6, atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(noisy)
def test_moments_without_noise_are_themselves_and_always_positive(case):
    totals, noise = case
    clean = exact(*population(300, totals.width - 1, seed=1)).square_sum / 300
    np.testing.assert_allclose(
        fit.estimate_moments(clean, 0.0), clean, atol=1e-6 * np.abs(clean).max()
    )
    found = fit.estimate_moments(totals.square_sum / totals.size, noise.square / totals.size)
    np.testing.assert_allclose(found, found.T, atol=1e-15)
    assert np.linalg.eigvalsh(found)[0] > 0


def test_without_noise_it_is_logistic_regression():
    """Gaussian features, 100,000 records: margins as those of the pooled fit, to 3% of their
    size, and probabilities with them.
    """
    x, y = population(100_000, margin=1.5)
    found = fit_sums(exact(x, y), Noise(label=0.0, square=0.0), loss=LOGISTIC).weights[0]
    pooled = LogisticRegression(C=1e6, fit_intercept=False, tol=1e-8, max_iter=1000).fit(x, y)
    ours, theirs = x @ found, x @ pooled.coef_[0]
    assert np.sqrt(np.mean((ours - theirs) ** 2)) < 0.03 * theirs.std()


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 10**6),
    st.integers(10, 200),
    st.sampled_from([2, 3]),
    st.floats(-3, 3),
    st.floats(0.05, 20),
)
def test_exact_sums_know_no_declared_centre_and_no_size_of_the_constant(
    seed, records, classes, far, size
):
    """Columns declared elsewhere and another constant are one linear map of all rows: the margins
    of the same people stay what they are."""
    rng = np.random.default_rng(seed)
    x, y = population(records, 5, seed=seed)
    y, loss = (y, LOGISTIC) if classes == 2 else (rng.integers(0, 3, records), SOFTMAX)
    moved = x.copy()
    moved[:, :-1] += far * rng.normal(size=5) * x[:, :-1].std()
    moved[:, -1] *= size
    margins = []
    for rows in (x, moved):
        totals = statistics.exact(rows, labels.codes(y, 1.0, classes), loss)
        margins.append(rows @ fit_sums(totals, STILL, loss=loss).weights.T)
    np.testing.assert_allclose(*margins, atol=1e-6 * np.abs(margins[0]).max())


def test_three_classes_without_noise():
    """Three Gaussian classes: as many right as softmax regression finds, to one point."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 30_000)
    x = rng.normal(size=(len(y), 5)) + 1.5 * rng.normal(size=(3, 5))[y]
    x = np.hstack([x / 8, np.full((len(y), 1), 0.3)])
    model = fit_sums(exact(x, y, 3), Noise(label=0.0, square=0.0), loss=SOFTMAX)
    assert model.weights.shape == (3, 6)
    right = np.mean(np.argmax(x @ model.weights.T, axis=1) == y)
    pooled = LogisticRegression(C=1e6, fit_intercept=False, max_iter=1000).fit(x, y)
    assert right > pooled.score(x, y) - 0.01
    z = x @ model.weights.T
    chance = np.exp(z - z.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    assert np.mean(chance.max(axis=1)) == pytest.approx(right, abs=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_more_noise_is_not_better_on_average(seed):
    """Levels a factor 5 apart, 40 draws each. The differences are 5 to 10 points with a standard
    error below 1: a false alarm has a chance below 1e-6.
    """
    x, y = population(2000, 12, seed=seed)
    totals, right = exact(x, y), []
    for level in (1.0, 5.0, 25.0):
        noise, rng = Noise(label=level, square=2 * level), np.random.default_rng(seed)
        drawn = [
            fit_sums(with_noise(totals, noise, rng), noise, loss=LOGISTIC).weights[0]
            for _ in range(40)
        ]
        right.append(np.mean([np.mean((x @ w > 0) == (y == 1)) for w in drawn]))
    assert right[0] > right[1] > right[2]


@pytest.mark.parametrize("stddev", [0.003, 0.01, 0.03, 0.1])
def test_moments_are_nearer_without_the_noise(stddev):
    """Mean squared error in 20 draws; it is at most 0.6 of the noisy matrix's own."""
    x, _ = population(5000, 15, seed=2)
    truth, rng = x.T @ x / 5000, np.random.default_rng(0)
    before = after = 0.0
    for _ in range(20):
        square = rng.normal(size=truth.shape) * stddev
        given_ = truth + (square + square.T) / 2
        before += np.sum((given_ - truth) ** 2)
        after += np.sum((fit.estimate_moments(given_, stddev) - truth) ** 2)
    assert after < 0.6 * before


def test_what_does_not_fit_is_refused():
    good = exact(*population(50))
    still = Noise(label=1.0, square=1.0)
    bad = statistics.Sums(label_sum=good.label_sum[:, 1:], square_sum=good.square_sum, size=50.0)
    with pytest.raises(InvalidInput, match=r"totals must be Q \(C, d\) and S \(d, d\)"):
        fit_sums(bad, still, loss=LOGISTIC)
    bad = statistics.Sums(label_sum=good.label_sum * np.nan, square_sum=good.square_sum, size=50.0)
    with pytest.raises(InvalidInput, match="totals must be finite"):
        fit_sums(bad, still, loss=LOGISTIC)
    with pytest.raises(InvalidInput, match="label must be a number in"):
        Noise(label=-1.0, square=1.0)
