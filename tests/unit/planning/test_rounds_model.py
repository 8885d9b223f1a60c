"""The linear model of rounds: exact for a quadratic loss, and the decay rule is what it says."""

from dataclasses import replace
from itertools import islice
from math import sqrt

import numpy as np
import pytest
from scipy.optimize import minimize
from servers import make_server

from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC, SQUARE
from pdml.planning.forecast import rounds_model
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine
from pdml.training.server import Server


@pytest.mark.parametrize("contraction", [0.3, 0.8, 0.97])
@pytest.mark.parametrize("rounds", [2, 7, 20])
def test_the_decay_rule_is_what_an_optimiser_finds(contraction: float, rounds: int) -> None:
    """min Σ C^(T-t) σ_t² under Σ 1/σ_t² = 1: σ_t² falls by √C each round, and equals the
    Cauchy-Schwarz bound.
    """
    loudness = contraction ** np.arange(rounds - 1, -1, -1.0)

    def value(logs: np.ndarray) -> float:
        variances = np.exp(logs - logs.mean())
        return float(
            np.log(np.sum(loudness * variances) * np.sum(1 / variances))
        )  # scaled to the constraint

    found = minimize(value, np.zeros(rounds), method="BFGS", options={"gtol": 1e-10})
    ratios = np.exp(np.diff(found.x))
    np.testing.assert_allclose(ratios, sqrt(contraction), rtol=1e-3)
    assert value(np.arange(rounds) * np.log(sqrt(contraction))) == pytest.approx(
        2 * np.log(np.sqrt(loudness).sum())
    )


def quadratic_servers(spectrum: np.ndarray, graph: Graph, answer: np.ndarray) -> list[Server]:
    """Servers whose S is exactly diag(spectrum): rows √(d·s_k)·e_k, whose square loss has H = 2S
    and optimum ``answer``.
    """
    d = len(spectrum)
    matrix = np.diag(np.sqrt(d * spectrum))
    codes = (np.sqrt(d * spectrum) * answer)[
        :, None
    ]  # (c/m) Xᵀ codes = 2·s·w*: q = λw*, since c = 2
    return [make_server(graph, i, matrix, codes, epsilons=(np.inf,)) for i in range(graph.n)]


def test_predicted_means_and_variances_are_those_of_the_real_engine_on_a_quadratic_model() -> None:
    """The square loss is quadratic, so the model is exact: the mean to 1e-6 without sampling, the
    variance of the average release over 1,500 draws within 15%: the relative sd of each of 5
    estimates is √(2/1500) = 3.7%, false alarm below 3e-4 in all."""
    spectrum, answer = np.array([0.4, 0.2, 0.1, 0.05, 0.02]), np.array([1.0, -2.0, 0.5, 3.0, -1.0])
    graph = Graph.random(5, 6, np.random.default_rng(3))
    plan = TrainingPlan(
        rounds=12,
        penalty=0.05,
        regularization=0.1,
        objective_bound=0.0,
        noise_scale=0.3,
        noise_decay=0.9,
        loss="square",
        tolerance=1e-8,
    )
    servers = quadratic_servers(spectrum, graph, answer)
    found = rounds_model.forecast_rounds(
        [replace(plan, penalty=1.0), plan],
        np.ones((2, 5)),
        graph,
        2 * spectrum,
        np.full(5, 5.0),
        [plan.rounds],
        np.full(5, 0.2),
    )
    quiet = local_engine.train(
        graph, local_engine.Run(replace(plan, noise_scale=0.0), servers, Simulated(0))
    )
    wanted = found.gain[1, 0] * 2 * spectrum * answer
    np.testing.assert_allclose(quiet.released.mean(axis=0)[0], wanted, rtol=1e-5, atol=1e-6)
    runs = [local_engine.Run(plan, servers, Simulated(seed)) for seed in range(1500)]
    released = np.array([out.released.mean(axis=0)[0] for out in local_engine.sweep(graph, runs)])
    total = np.sum(plan.noise_decay ** -np.arange(plan.rounds, dtype=float))
    decay = found.decays[1, 0].tolist().index(plan.noise_decay)
    ratio = released.var(axis=0) / (0.3**2 / total * found.iterates[1, 0, decay])
    assert (np.abs(ratio - 1) < 0.15).all(), ratio
    for wrong in (0.5, 2.0, plan.noise_decay ** (plan.rounds - 1)):
        assert (np.abs(ratio / wrong - 1) > 0.15).all()  # halved, doubled, faded from the wrong end


def test_the_responses_are_those_of_the_iteration_matrix() -> None:
    """Against powers of the 2n x 2n matrix; its spectral radius, save the conserved sum of duals,
    is their final decay.
    """
    graph, penalty, ridge, curvature = Graph.ring(5), 0.2, 0.05, 0.03
    degree, adjacency = np.diag(graph.degrees.astype(float)), graph.adjacency.toarray()
    shrink = np.diag(1 / (curvature + ridge / 5 + 2 * penalty * graph.degrees))
    step = np.block(
        [[2 * penalty * shrink @ adjacency, -shrink], [penalty * (degree - adjacency), np.eye(5)]]
    )
    each = rounds_model.responses(graph, [penalty], [ridge], np.array([curvature]))[1]
    p = np.array([one[:, 0] for one in islice(each, 200)])
    row = np.concatenate([np.full(5, 0.2), np.zeros(5)])
    for j in range(200):
        np.testing.assert_allclose(p[j, :, 0], row[:5], atol=1e-12)
        row = row @ step
    # A regular graph keeps the average apart from the rest: it contracts by exactly 2βN/(λ + a/n +
    # 2βN).
    assert p[101, 0, 0] / p[100, 0, 0] == pytest.approx(
        2 * penalty * 2 / (curvature + ridge / 5 + 2 * penalty * 2)
    )


def test_the_line_through_the_slope_is_the_best_one() -> None:
    """h minimises E(g'(z) - h·z)² over Gaussian margins; a quadratic loss is its own line."""
    z = rounds_model.MARGIN * np.random.default_rng(0).normal(size=200_000)
    slope = LOGISTIC.slope(z[:, None])[:, 0]
    best = float(slope @ z / (z @ z))
    assert rounds_model.mean_curvature(LOGISTIC, 2) == pytest.approx(best, rel=0.01)
    assert rounds_model.mean_curvature(SQUARE, 2) == pytest.approx(2.0)
