"""Identities of the paper that miss something, checked on the real objects: deltaJ_wi, bound_J_hat,
and what others can compute.
"""

import numpy as np
import pytest
from servers import make_server

from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC
from pdml.planning.training_plan import TrainingPlan
from pdml.research.bounds.spectra import minus, plus
from pdml.training import local_engine
from pdml.training.server import Server

GRAPH = Graph.ring(4)
PLAN = TrainingPlan(
    rounds=6,
    regularization=0.4,
    penalty=0.1,
    objective_bound=3.0,
    noise_scale=0.5,
    noise_decay=0.9,
    tolerance=1e-12,
)
SOURCE = Simulated(5)


def federation() -> list[Server]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4, 30, 3))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    reported = [rng.integers(2, size=30) for _ in range(4)]
    return [
        make_server(Graph.ring(4), i, x[i], labels.codes(reported[i], 1.0, 2), epsilons=(1.0,))
        for i in range(4)
    ]


SERVERS = federation()
ETAS = [PLAN.objective().draw((1, 3), SOURCE.stream(1, i))[0] for i in range(4)]


def hat(i: int, w: np.ndarray) -> float:
    """Ĵ_i."""
    s = SERVERS[i]
    mean = labels.label_mean(s.matrix, s.codes, LOGISTIC)[0]
    return (
        float(LOGISTIC.value((s.matrix @ w)[:, None]).mean())
        - float(mean @ w)
        + 0.05 * float(w @ w)
    )


def tilde(i: int, w: np.ndarray) -> float:
    """J̃_i."""
    return hat(i, w) + float(ETAS[i] @ w) / 4


def gradient(i: int, w: np.ndarray) -> np.ndarray:
    """∇J̃_i."""
    s = SERVERS[i]
    return (
        s.matrix.T @ LOGISTIC.slope((s.matrix @ w)[:, None])[:, 0] / 30
        - s.linear(PLAN, LOGISTIC, SOURCE)[0]
        + 0.1 * w
    )


def test_the_noise_stream_is_the_engine_s() -> None:
    step = 1e-6 * np.eye(3)[1]
    w = np.array([0.3, -1.0, 2.0])
    for i in range(4):
        assert (tilde(i, w + step) - tilde(i, w - step)) / 2e-6 == pytest.approx(
            gradient(i, w)[1], abs=1e-7
        )


@pytest.mark.parametrize(("share", "exact"), [(1 / 4, True), (1.0, False)])
def test_delta_j_needs_one_nth_of_eta(share: float, exact: bool) -> None:
    """deltaJ_wi: what is left of J_P(w̄) - J_P(w⋆) after the named differences is η_i·(w̃_opt -
    w̄)/n; the paper drops the 1/n.
    """
    rng = np.random.default_rng(0)
    average, perturbed, plain, best = rng.normal(size=(4, 3))
    for i in range(4):
        left = hat(i, average) - hat(i, best)  # J_P cancels between the paper's terms
        right = (
            tilde(i, average)
            - tilde(i, perturbed)
            + hat(i, perturbed)
            - hat(i, plain)
            + hat(i, plain)
            - hat(i, best)
        )
        right += share * float(ETAS[i] @ (perturbed - average))
        assert (abs(left - right) < 1e-12) is exact


def test_the_first_step_of_bound_j_hat_has_the_wrong_sign() -> None:
    """ℓ ≡ 0: Ĵ(w̃) - Ĵ(ŵ) > 0, while η·(w̃ - ŵ)/n < 0; with ŵ - w̃ it holds."""
    a, eta = 0.4, np.array([1.0, 2.0, -1.0])
    perturbed, plain = -eta / a, np.zeros(3)  # all servers draw the same η
    excess = a / 2 * float(perturbed @ perturbed)
    assert excess > float(eta @ (perturbed - plain))
    assert excess <= float(eta @ (plain - perturbed))


def test_others_compute_the_gradient_at_the_iterate_less_noise_and_not_at_the_release() -> None:
    """Section IV-C calls -γ(t) - β Σ[2w̃_i(t+1) - w̃_i(t) - w̃_l(t)] the gradient at w̃_i(t+1); it
    is ∇J̃_i(w_i(t+1)) - 2βN_iθ_i(t+1).
    """
    points, sent = [], [np.zeros((4, 3))]
    local_engine.train(
        GRAPH,
        local_engine.Run(PLAN, SERVERS, SOURCE),
        observe=lambda t, s, p: (sent.append(s[0, :, 0].copy()), points.append(p[0, :, 0].copy())),
    )
    dual = np.zeros((4, 3))
    for t, point in enumerate(points, 1):
        dual = dual + 0.1 * minus(GRAPH) @ sent[t - 1]
        seen = -dual - 0.1 * (2 * 2 * sent[t] - plus(GRAPH) @ sent[t - 1])
        for i in range(4):
            theta = sent[t][i] - point[i]
            np.testing.assert_allclose(
                seen[i], gradient(i, point[i]) - 2 * 0.1 * 2 * theta, atol=1e-10
            )
            assert np.linalg.norm(seen[i] - gradient(i, sent[t][i])) > 1e-3
