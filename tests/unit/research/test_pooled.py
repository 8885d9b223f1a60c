"""Rivals: each private one adds the noise its proof needs, measured on what it sends and against
formulas of other origin.

Every test of a noise accepts the right scale and rejects half of it. Statistical tests say how
often they would fail by chance.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import exp, inf, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.errors import DataError, InvalidInput
from pdml.numerics.admm import rows
from pdml.planning.training_plan import TrainingPlan
from pdml.research.baselines import (
    pdml_plans,
    pooled,
    task,
    zhang_zhu,
)
from pdml.research.baselines.pdml_plans import PlanRequest
from pdml.research.baselines.pooled import Descent, calibrate, radial_noise
from pdml.research.baselines.task import Task, per_round
from pdml.research.baselines.zhang_zhu import Dynamic
from pdml.research.paper import experiment
from pdml.training import sums_fit

DELTA = experiment.DELTA


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices this small are slower on several threads."""
    with threadpool_limits(1):
        yield


def small(seed: int = 0, records: int = 200, width: int = 5) -> Task:
    """People on the unit sphere whose label is mostly the sign of their first coordinate."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((records + 50, width))
    x /= 1.0001 * np.linalg.norm(x, axis=1, keepdims=True)
    y = (x[:, 0] + 0.1 * rng.standard_normal(len(x)) > 0).astype(np.int64)
    return Task(
        rows.as_rows(x[:records]), y[:records], rows.as_rows(x[records:]), y[records:], seed
    )


def gamma_fits(lengths: Array, size: int, rate: float) -> bool:
    """Kolmogorov-Smirnov against Gamma(size, 1/rate) at p > 10⁻⁶: right noise fails once in a
    million.
    """
    return bool(stats.kstest(lengths, "gamma", args=(size, 0, 1 / rate)).pvalue > 1e-6)


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def slopes(x: Array, y: Array, w: Array) -> Array:
    """Σ_j of the gradients of log(1 + e^(-y w·x)), from the definition; y = ±1."""
    return -(y * sigmoid(-y * (x @ w))) @ x


# Objective perturbation


def log_density(x: Array, y: Array, counts: Array, w: Array, *, ridge: float, rate: float) -> float:
    """log of the density of the published w, up to a constant: ν(b(w))·|det ∇b(w)|, records
    weighted by ``counts``.
    """
    m = counts.sum()
    margins = x @ w
    b = -(-(counts * y * sigmoid(-y * margins)) @ x + m * ridge * w)
    curved = (
        x * (counts * sigmoid(margins) * sigmoid(-margins))[:, None]
    ).T @ x + m * ridge * np.eye(len(w))
    return float(-rate * np.linalg.norm(b) + np.linalg.slogdet(curved)[1])


@given(
    seed=st.integers(0, 10_000),
    epsilon=st.floats(0.05, 3.0),
    ridge=st.floats(1e-4, 0.1),
    reach=st.floats(0.0, 30.0),
)
def test_replacing_a_record_never_changes_the_density_by_more_than_e_to_epsilon(
    seed: int, epsilon: float, ridge: float, reach: float
) -> None:
    """Exact: the density of what is published is known in closed form, at every w."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((12, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y, w = rng.choice([-1.0, 1.0], 12), reach * rng.standard_normal(3)
    noise = calibrate(epsilon, records=11, ridge=ridge, shift=2.0)
    counts = np.ones(12)
    both = [
        log_density(x, y, counts - np.eye(12)[k], w, ridge=ridge + noise.extra, rate=noise.rate)
        for k in (0, 1)
    ]
    assert abs(both[0] - both[1]) <= epsilon * (1 + 1e-9)


def worst_neighbours(factor: float) -> float:
    """|log ratio| for two records whose gradients point apart, amid a crowd that turns b the same
    way; noise times ``factor``.
    """
    ridge, crowd, tilt = 1e-4, 100_000.0, 0.05
    directions = np.array(
        [[1.0, 0.0], [cos_sin(tilt)[0], -cos_sin(tilt)[1]], [-cos_sin(tilt)[0], -cos_sin(tilt)[1]]]
    )
    y, w = np.ones(3), np.array([0.0, 200.0])
    noise = calibrate(1.0, records=100_001, ridge=ridge, shift=2.0)
    one = log_density(
        directions,
        y,
        np.array([crowd, 1.0, 0.0]),
        w,
        ridge=ridge + noise.extra,
        rate=noise.rate / factor,
    )
    other = log_density(
        directions,
        y,
        np.array([crowd, 0.0, 1.0]),
        w,
        ridge=ridge + noise.extra,
        rate=noise.rate / factor,
    )
    return abs(one - other)


def cos_sin(angle: float) -> tuple[float, float]:
    return float(np.cos(angle)), float(np.sin(angle))


def test_the_worst_record_spends_nearly_all_of_epsilon_and_half_the_noise_overspends() -> None:
    assert 0.9 < worst_neighbours(1.0) <= 1.0
    assert worst_neighbours(0.5) > 1.8


def test_a_ridge_too_weak_for_the_determinant_is_raised() -> None:
    """Chaudhuri et al.'s second case: Δ makes 2 log(1 + c/(m(Λ+Δ))) = ε/2, and ε/2 is left for
    b.
    """
    noise = calibrate(0.5, records=10, ridge=1e-3, shift=2.0)
    assert 2 * log(1 + 0.25 / (10 * (1e-3 + noise.extra))) == pytest.approx(0.25)
    assert noise.rate == pytest.approx(0.25 / 2)
    assert calibrate(0.5, records=10_000, ridge=0.1, shift=2.0).extra == 0.0


def test_the_curators_weights_carry_the_noise_that_was_calibrated() -> None:
    """b is read back from the published weights by their optimality: b = -(Σ ∇ℓ + m(Λ+Δ)w)."""
    ridge, lengths = 1e-2, []
    noise = calibrate(1.0, records=200, ridge=ridge, shift=2.0)
    for seed in range(150):
        it = small(seed)
        w = pooled.chaudhuri(it, ridge, 1.0)
        lengths.append(
            float(np.linalg.norm(slopes(it.x, 2.0 * it.y - 1, w) + 200 * (ridge + noise.extra) * w))
        )
    assert gamma_fits(np.array(lengths), 5, noise.rate)
    assert not gamma_fits(np.array(lengths) / 2, 5, noise.rate)


def test_radial_noise_has_no_preferred_direction() -> None:
    """Each coordinate's sign is a fair coin: 4000 of them, five standard deviations, once in a
    million.
    """
    rng = np.random.default_rng(0)
    drawn = np.array([radial_noise(rng, 4, 2.0) for _ in range(1000)])
    assert abs((drawn > 0).sum() - 2000) < 5 * sqrt(1000)
    assert gamma_fits(np.linalg.norm(drawn, axis=1), 4, 2.0)


# Gradient descent


@pytest.mark.parametrize("protects", ["records", "labels"])
def test_gradient_noise_is_what_the_accountant_asks_for(protects: str) -> None:
    """T Gaussian releases in dp-accounting's own Rényi-free ledger (PLD), replace-one. Half of σ is
    rejected.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    how = Descent(10, protects)
    sigma, moved = (
        pooled.noise_scale(how, 500, 1.0),
        (2.0 if protects == "records" else 1.0) / 500,
    )

    def spent(stddev: float) -> float:
        one = pld.from_gaussian_mechanism(stddev / moved, value_discretization_interval=1e-4)
        return float(one.self_compose(how.steps).get_epsilon_for_delta(DELTA))

    assert spent(sigma) == pytest.approx(1.0, abs=5e-3)
    assert spent(sigma / 2) > 1.5


def test_a_step_carries_that_noise() -> None:
    """One step from 0: w = -s(∇J(0) + noise). 150 runs x 5 coordinates against N(0, σ²), p >
    10⁻⁶.
    """
    how, found = Descent(1, "records"), []
    for seed in range(150):
        it = small(seed)
        gradient = slopes(it.x, 2.0 * it.y - 1, np.zeros(5)) / 200
        found.append(-pooled.descend(it, how, 1.0) / pooled.STEP - gradient)
    sigma = pooled.noise_scale(how, 200, 1.0)
    assert stats.kstest(np.ravel(found), "norm", args=(0, sigma)).pvalue > 1e-6
    assert stats.kstest(np.ravel(found) / 2, "norm", args=(0, sigma)).pvalue < 1e-6


@given(seed=st.integers(0, 10_000), reach=st.floats(0.0, 100.0))
def test_no_record_moves_a_gradient_by_more_than_its_sensitivity(seed: int, reach: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = reach * rng.standard_normal(3)
    one, other = (slopes(x[k : k + 1], np.array([1.0]), w) for k in (0, 1))
    flipped = slopes(x[:1], np.array([-1.0]), w)
    assert (
        np.linalg.norm(one - other) <= 500 * pooled.sensitivity(Descent(1, "records"), 500) + 1e-12
    )
    assert np.linalg.norm(one - flipped) == pytest.approx(
        500 * pooled.sensitivity(Descent(1, "labels"), 500)
    )


# Zhang and Zhu


def primal_gradient(x: Array, codes: Array, ridge: float, w: Array) -> Array:
    """(1/m) Σ g'(w·x)x - (1/2m) Σ ŷx + ridge·w: of a server's first round, in which everything
    heard is 0.
    """
    return np.asarray((np.tanh(x @ w / 2) - codes) @ x / (2 * len(x)) + ridge * w)


@pytest.mark.parametrize("epsilon", [inf, 1.0])
@pytest.mark.parametrize("kind", ["dual", "primal"])
def test_what_a_server_sends_carries_its_rounds_noise(kind: str, epsilon: float) -> None:
    """One round. dual: b is read back by optimality; primal: the exact minimiser is subtracted. All
    servers, 30 seeds, scaled by ζ.
    """
    how = Dynamic(kind, 1, 0.1, epsilon)
    alpha, degrees = per_round(1.0, 1), experiment.graph().degrees.tolist()
    lengths = []
    for seed in range(30):
        it = small(seed)
        sent, codes = zhang_zhu.released(it, how, 1.0), it.codes(epsilon)[:, 0]
        for i, (a, b) in enumerate(it.cuts):
            ridge = zhang_zhu.WEIGHT + 0.2 * degrees[i]
            noise = zhang_zhu.noise_for(how, degree=degrees[i], records=b - a, alpha=alpha)
            if kind == "dual":
                drawn = (b - a) * primal_gradient(
                    it.x[a:b], codes[a:b], ridge + noise.extra, sent[i]
                )
            else:
                exact = np.zeros(5)
                for _ in range(
                    100
                ):  # steps of 1/(sup g'' + ridge) shrink the error by ridge/(1/4 + ridge) at least
                    exact = exact - primal_gradient(it.x[a:b], codes[a:b], ridge, exact) / (
                        0.25 + ridge
                    )
                drawn = sent[i] - exact
            lengths.append(float(np.linalg.norm(drawn)) * noise.rate)
    assert gamma_fits(np.array(lengths), 5, 1.0)
    assert not gamma_fits(np.array(lengths) / 2, 5, 1.0)


@pytest.mark.parametrize("epsilon", [inf, 1.0])
def test_no_record_moves_a_primal_step_by_more_than_the_noise_allows_for(epsilon: float) -> None:
    """D = α/ζ bounds |w - w'|; some record uses more than half of it, so that half the noise would
    not do.

    A crowd along the second axis pulls w that way; two records on its far side, pointing apart,
    have slopes near the largest.
    """
    how, m = Dynamic("primal", 1, 0.001, epsilon), 50_000
    ridge = zhang_zhu.WEIGHT + 2 * how.penalty
    allowed = 1.0 / zhang_zhu.noise_for(how, degree=1, records=m, alpha=1.0).rate
    kappa = 1.0 if epsilon == inf else 1 / np.tanh(epsilon / 2)
    crowd = np.zeros((m, 2))
    crowd[:, 1] = 1.0
    found = []
    for first in ([0.8, -0.6], [-0.8, -0.6]):
        people = crowd.copy()
        people[0] = first
        codes = np.full(m, 1.0)
        codes[0] = kappa
        found.append(task.regression(people, codes @ people / (2 * m), ridge))
    assert 0.5 * allowed < float(np.linalg.norm(found[0] - found[1])) <= allowed


def test_flips_on_the_device_lower_the_labels_epsilon_against_everybody() -> None:
    trusting, wary = (
        zhang_zhu.guarantee(small(), Dynamic("primal", 4, 0.1, e), 1.0) for e in (inf, 1.0)
    )
    assert trusting.label_collector == inf and wary.label_collector == 1.0
    assert wary.label_others < trusting.label_others <= 1.0
    assert wary.features_others == trusting.features_others == 1.0


# Pooled, alone, planned


def test_without_noise_the_pooled_regression_is_the_minimum() -> None:
    it = small()
    w = pooled.plain(it, None, 1.0)
    np.testing.assert_allclose(
        slopes(it.x, 2.0 * it.y - 1, w) / 200 + pooled.RIDGE * w, 0, atol=1e-8
    )


def test_flips_reach_the_curator_already_flipped() -> None:
    """At ε = 1 a share of 1/(1 + e) = 0.269 of the labels is wrong: 20,000 of them, five standard
    deviations.
    """
    it = replace(small(), y=np.zeros(20_000, dtype=np.int64))
    assert abs(it.reported(1.0).mean() - 1 / (1 + exp(1))) < 5 * sqrt(0.197 / 20_000)
    assert (it.reported(inf) == it.y).all()


def test_servers_alone_see_their_own_reports_only() -> None:
    it = small()
    first = it.cuts[0][1]
    changed = replace(it, y=np.concatenate([it.y[:first], 1 - it.y[first:]]))
    one, other = pooled.alone(it, None, 1.0), pooled.alone(changed, None, 1.0)
    np.testing.assert_array_equal(one[0], other[0])
    assert not np.allclose(one[1], other[1])


def test_servers_alone_make_the_most_of_their_own_reports_only() -> None:
    it = small()
    first = it.cuts[0][1]
    changed = replace(it, y=np.concatenate([it.y[:first], 1 - it.y[first:]]))
    one, other = (pooled.alone_from_sums(each, None, 1.0) for each in (it, changed))
    np.testing.assert_array_equal(one[0], other[0])
    assert not np.allclose(one[1], other[1])


@pytest.mark.parametrize("colluding", [None, 5, 1])
def test_the_planned_rival_proves_the_budget_and_half_its_noise_does_not(
    colluding: int | None,
) -> None:
    """Against as many servers as it was planned for, and with one more it would not; of both noises
    each is needed.
    """
    it, asked = small(records=2000, width=3), PlanRequest(1.0, colluding)
    plan = pdml_plans.answer(it, asked, 1.0).plan
    assert plan.method == "sums"
    assert pdml_plans.planned_guarantee(it, asked, 1.0).features_others == pytest.approx(
        1.0, abs=2e-2
    )

    def proved(given: TrainingPlan, against: int | None = colluding) -> float:
        return pdml_plans.guarantee(it, given, 1.0, against).features_others

    assert proved(replace(plan, label_noise=plan.label_noise / 2)) > 1.2
    assert proved(replace(plan, square_noise=plan.square_noise / 2)) > 1.2
    if colluding is not None:
        assert proved(plan, colluding + 1) > 1.02


def test_planned_rounds_prove_the_budget_and_half_their_noise_does_not() -> None:
    it, asked = small(records=2000, width=3), PlanRequest(1.0, None, "rounds")
    plan = pdml_plans.answer(it, asked, 1.0).plan
    assert plan.method == "rounds" and isinstance(plan.noise_scale, tuple)
    assert pdml_plans.planned_guarantee(it, asked, 1.0).features_others == pytest.approx(
        1.0, abs=2e-2
    )
    halved = replace(plan, noise_scale=tuple(v / 2 for v in plan.noise_scale))
    assert pdml_plans.guarantee(it, halved, 1.0).features_others > 1.5
    assert pdml_plans.trained(it, plan, 1.0).shape == (3,)


def test_what_is_planned_is_what_the_estimator_releases() -> None:
    """The same total in the same function; a house of its own for every server."""
    it, asked = small(records=2000, width=3), PlanRequest(1.0, 1)
    plan = pdml_plans.answer(it, asked, 1.0).plan
    total, place = pdml_plans.exchange_sums(it, plan, 1.0)
    np.testing.assert_array_equal(
        pdml_plans.planned(it, asked, 1.0), sums_fit.weights(total, plan, place)[0]
    )
    kept = pdml_plans.local_models(it, asked, 1.0)
    assert (
        kept.shape == (experiment.SERVERS, 3) and len(np.unique(kept[:, 0])) == experiment.SERVERS
    )


# The data


def test_an_unknown_set_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="dataset must be one of"):
        task.load("iris", 0)


def test_without_data_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PDML_DATA_DIR", str(tmp_path / "nowhere"))
    task._bounded.cache_clear()
    with pytest.raises(DataError):
        task.load("german", 0)
