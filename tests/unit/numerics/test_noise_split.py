"""Noise that is split: two halves of which neither knows the other's."""

import numpy as np
import pytest
from scipy.stats import chi2
from test_fit import exact, population

from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.numerics.sums import noise_split
from pdml.numerics.sums.fit import Noise, fit_moments, normalise_totals

MANY = 400
NOISE = Noise(label=5.0, square=8.0)


def given_of(classes):
    loss = LOGISTIC if classes == 2 else SOFTMAX
    x, y = population(500, 3)
    y = y if classes == 2 else (y + np.arange(len(y))) % classes
    given = normalise_totals(exact(x, y, classes), NOISE, loss=loss)
    return given, fit_moments(given, loss), loss


@pytest.mark.parametrize("classes", [2, 3])
def test_the_other_half_has_the_noise_that_it_is_said_to_have(classes, monkeypatch):
    """What the first half's model is made of and what the second says: the same totals with
    independent noise, a and 1/a of what the totals have. Correlations of 400 draws lie within
    4.5/sqrt(400), and variances within chi-square's 1e-6, but for a chance of 1e-4; half the noise
    would not.
    """
    given, model, loss = given_of(classes)
    seen = []

    def keeping(first, loss):
        seen.append(first)
        return fit_moments(first, loss)

    monkeypatch.setattr(noise_split, "fit_moments", keeping)
    halves = list(noise_split.halves(given, model, loss, MANY))
    a = noise_split.PART
    cov = noise_split.noise_of_q(given, model.moments)
    for first, half in zip(seen, halves, strict=True):
        np.testing.assert_allclose(first.q + a**2 * half.q, (1 + a**2) * given.q, atol=1e-12)
        np.testing.assert_allclose(first.s + a**2 * half.s, (1 + a**2) * given.s, atol=1e-12)
        assert first.label == pytest.approx(given.label * np.sqrt(1 + a**2))
    added = np.array([half.q - given.q for half in halves])[:, 0]  # (MANY, d): -e/a
    low, high = chi2.ppf([1e-6, 1 - 1e-6], MANY) / MANY
    of_s = np.array([half.s - given.s for half in halves])
    beside = np.full(of_s.shape[1:], given.square**2 / 2) + np.diag([given.square**2 / 2] * 4)
    for ratio in (
        a**2 * np.mean(added**2, axis=0) / np.diag(cov),
        a**2 * np.mean(of_s**2, axis=0) / beside,  # half as much variance beside the diagonal
    ):
        assert (low < ratio).all() and (ratio < high).all()
        assert not (low < ratio / 4).any()
    # the totals' own noise is as large as what is added times a: then both halves are independent
    rng = np.random.default_rng(1)
    own = rng.normal(size=added.shape) @ np.linalg.cholesky(cov).T
    fresh = -a * added
    both = np.corrcoef((own + a * fresh)[:, 0], (own - fresh / a)[:, 0])[0, 1]
    assert abs(both) < 4.5 / np.sqrt(MANY)
    half_as_loud = np.corrcoef((own + a * fresh / 2)[:, 0], (own - fresh / 2 / a)[:, 0])[0, 1]
    assert abs(half_as_loud) > 4.5 / np.sqrt(MANY)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_split_is_as_long_as_it_is_on_average(classes):
    """Else, of few columns, the one pair whose noise is always the same would leave its bias."""
    given, model, loss = given_of(classes)
    root = np.linalg.cholesky(noise_split.noise_of_q(given, model.moments))
    for half in noise_split.halves(given, model, loss, 3):
        draws = np.linalg.solve(root, noise_split.PART * (half.q - given.q).T)
        assert np.sum(draws**2) == pytest.approx(draws.size)
        squares = noise_split.PART * (half.s - given.s) / given.square
        assert np.sum(squares**2) == pytest.approx(10)  # of 4 columns: 4 + 12/2


def test_fewer_records_are_less_sure():
    assert noise_split.deviation_factor(0.01) > noise_split.deviation_factor(0.0) > 1
