"""A server's own reports choose among the joint model, its re-centred form and its own alone."""

from math import inf

import numpy as np
import pytest
import scipy.sparse as sp
from test_fit import population, with_noise

from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC, MATSUSHITA, SOFTMAX
from pdml.numerics.sums import local_model, statistics
from pdml.numerics.sums.fit import Noise, fit_local_model, fit_sums
from pdml.numerics.sums.local_model import fit_by_own_reports

NOISE = Noise(label=5.0, square=5.0)


def reports(y, seed, classes=2):
    """Codes of labels flipped at epsilon 1."""
    said = flip_labels(y, np.ones(len(y)), classes, Simulated(seed).stream(LABELS))
    return labels.codes(said, 1.0, classes)


def noisy(x, y, seed):
    """The sums of others, with noise."""
    sums = statistics.exact(x, reports(y, seed), LOGISTIC)
    return with_noise(sums, NOISE, np.random.default_rng(seed))


def accuracy(x, y, w):
    return 100 * np.mean((x @ w[0] > 0) == (y == 1))


def chosen_and_candidates(seed, kind, own=200):
    """Accuracy of the choice, of the joint model and of the server alone, on 3,000 own people."""
    x, y = population(14_000, 8, seed=seed, offset=0.0)
    others = noisy(x[:8000], y[:8000], seed)
    x, y = x[8000:], y[8000:]
    if kind == "shares":  # six in seven are of one class
        kept = (y == 1) | (np.arange(len(y)) % 6 == 0)
        x, y = x[kept], y[kept]
    elif kind == "labels":  # the other way round
        y = 1 - y
    codes = reports(y[:own], seed + 1)
    w = fit_by_own_reports(x[:own], codes, others, NOISE, loss=LOGISTIC)
    sums = statistics.exact(x[:own], codes, LOGISTIC)
    joint = fit_local_model(sums, others, NOISE, loss=LOGISTIC).weights
    alone = fit_sums(sums, Noise(label=0.0, square=0.0), loss=LOGISTIC).weights
    return [accuracy(x[own:], y[own:], model) for model in (w, joint, alone)]


@pytest.mark.parametrize(
    ("kind", "gain", "loss"), [("alike", -1, 1), ("shares", 10, 1), ("labels", 35, 3)]
)
def test_it_keeps_up_with_the_best_where_organisations_differ(kind, gain, loss):
    """30 populations. Beside the joint model the choice gains at least so many points, and loses
    at most ``loss`` to the better of joint and alone; means lie three standard errors or more from
    that: a false alarm has a chance below 1%.
    """
    found = np.array([chosen_and_candidates(seed, kind) for seed in range(30)])
    choice, joint, alone = found.mean(axis=0)
    assert choice - joint > gain
    assert choice > max(joint, alone) - loss


def test_slope_and_offset_minimise_the_loss_of_own_reports():
    """Against a plain minimisation of the same loss with its ridge."""
    from scipy.optimize import minimize

    x, y = population(400, 4, seed=3)
    codes, w = reports(y, 3), np.array([[1.0, -2.0, 0.5, 1.0, 0.3]])
    z, sign = (x @ w.T)[:, 0], np.sign(codes[:, 0])
    kappa = np.abs(codes[:, 0])

    def value(at):
        u = at[0] * z + at[1]
        corrected = np.log(2 * np.cosh(u / 2)) - kappa * sign * u / 2
        return np.sum(corrected / kappa**2) + (at[0] - 1) ** 2 / 0.5 + at[1] ** 2 / 4.5

    a, b = minimize(value, [1.0, 0.0], tol=1e-12).x
    found = local_model._recentre(w, x, codes, LOGISTIC, True)
    np.testing.assert_allclose(x @ found[0], a * z + b, atol=1e-4)


def test_three_classes_and_sparse_rows():
    """Own classes in another order than the others': the choice follows its own."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 4000)
    x = np.hstack([np.eye(3)[y] + 0.3 * rng.normal(size=(4000, 3)), np.ones((4000, 1))]) / 4
    others = statistics.exact(x[:2000], reports(y[:2000], 0, 3), SOFTMAX)
    x, y = x[2000:], (y[2000:] + 1) % 3
    codes, sums_noise = reports(y[:1000], 1, 3), Noise(label=1.0, square=1.0)
    weights = [
        fit_by_own_reports(rows[:1000], codes, others, sums_noise, loss=SOFTMAX)
        for rows in (x, sp.csr_array(x))
    ]
    np.testing.assert_allclose(*weights, atol=1e-6)
    assert np.mean((x[1000:] @ weights[0].T).argmax(axis=1) == y[1000:]) > 0.8


@pytest.mark.parametrize(("records", "loss"), [(9, LOGISTIC), (60, MATSUSHITA)])
def test_without_evidence_it_is_the_joint_model(records, loss):
    x, y = population(600, 4, seed=5)
    others = statistics.exact(x[records:], labels.codes(y[records:], inf, 2), loss)
    codes = labels.codes(y[:records], inf, 2)
    joint = fit_local_model(
        statistics.exact(x[:records], codes, loss), others, NOISE, loss=loss
    ).weights
    found = fit_by_own_reports(x[:records], codes, others, NOISE, loss=loss)
    np.testing.assert_allclose(found, joint, rtol=1e-6, atol=1e-9)
