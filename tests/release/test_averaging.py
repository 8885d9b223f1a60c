"""Averaging over rounds: public weights, never a larger predicted error, and a gain where the
schedule leaves one.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.accounting import Budget
from pdml.core import labels, rows
from pdml.core.graph import Graph
from pdml.datasets import twonorm
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.release import averaging
from pdml.train.engines import local
from pdml.train.node import Server
from pdml.train.plan import TrainingPlan
from pdml.train.planner import Sizes, propose

GRAPH = Graph.random(10, 13, np.random.default_rng(1))
SIZES = Sizes(records=(350,) * 10, width=21, epsilon=1.0)
plans = st.builds(
    TrainingPlan,
    rounds=st.integers(1, 15),
    penalty=st.floats(0.01, 1),
    regularization=st.floats(0.001, 1),
    noise_scale=st.floats(0.0, 3),
    noise_decay=st.floats(0.5, 0.999),
    objective_bound=st.floats(0.0, 3),
    objective_noise=st.sampled_from(["truncated_gaussian", "uniform_box", "uniform_ball", "none"]),
)


@settings(max_examples=25)
@given(plan=plans)
def test_weights_sum_to_one_and_never_predict_worse_than_the_last_iterate(
    plan: TrainingPlan,
) -> None:
    found = averaging.moments(plan, SIZES, GRAPH)
    weights = averaging.best_weights(found)
    assert (
        weights.shape == (plan.rounds,)
        and (weights >= 0).all()
        and weights.sum() == pytest.approx(1)
    )
    assert (
        found.forecast(weights).error
        <= found.forecast(averaging.last_iterate(plan.rounds)).error + 1e-12
    )


def test_the_weights_are_a_minimum() -> None:
    """No other weighting of the rounds does better: 200 random ones, uniform, and every single
    round.
    """
    found = averaging.moments(
        TrainingPlan(rounds=20, noise_scale=1.0, noise_decay=0.999, objective_bound=0.0),
        SIZES,
        GRAPH,
    )
    best = found.forecast(averaging.best_weights(found)).error
    rng = np.random.default_rng(0)
    others = [*rng.dirichlet(np.full(20, 0.3), size=200), np.full(20, 0.05), *np.eye(20)]
    assert all(best <= found.forecast(weights).error + 1e-9 for weights in others)


def test_constant_noise_is_averaged_and_fast_fading_noise_is_not() -> None:
    """What theory says: with ρ near 1 late rounds are equally loud and averaging them helps; with ρ
    = 0.5 the last is best.
    """
    base = TrainingPlan(
        rounds=30,
        penalty=0.05,
        regularization=0.01,
        objective_bound=0.0,
        noise_scale=1.0,
        noise_decay=0.999,
    )
    flat, fading = (
        averaging.moments(replace(base, noise_decay=decay), SIZES, GRAPH) for decay in (0.999, 0.5)
    )
    last = averaging.last_iterate(30)
    assert flat.forecast(averaging.best_weights(flat)).iterates < 0.9 * flat.forecast(last).iterates
    assert averaging.best_weights(fading)[-1] > 0.9


def test_weights_depend_on_public_things_alone() -> None:
    """Same plan, sizes and graph: the same bits. There is no argument through which a record could
    come in.
    """
    plan = TrainingPlan(rounds=10)
    first, second = (averaging.round_weights(plan, SIZES, GRAPH)[0] for _ in range(2))
    assert (first == second).all()


def test_a_running_average_is_the_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    weights, sent = rng.dirichlet(np.ones(4)), rng.normal(size=(4, 2, 3, 1, 5))
    average = averaging.RunningAverage(weights)
    for t, released in enumerate(sent, start=1):
        average(t, released, released)
    assert average.released is not None
    np.testing.assert_allclose(average.released, np.einsum("t,trncd->rncd", weights, sent))
    with pytest.raises(InvalidInput, match=r"round must lie in \[1, 4\]"):
        average(5, sent[0])
    with pytest.raises(InvalidInput, match="sum to 1"):
        averaging.RunningAverage(np.array([0.5, 0.6]))
    with pytest.raises(InvalidInput, match="one number per server"):
        averaging.moments(TrainingPlan(rounds=2), replace(SIZES, records=(3,)), GRAPH)


def accuracies(plan: TrainingPlan, seeds: int) -> np.ndarray:
    """(seeds, 2): the last iterate's and the average's accuracy on fresh twonorm records, same
    noise for both.
    """
    x, y = twonorm(7500, np.random.default_rng(0))
    wide, _ = rows.clip(rows.append_bias(x), 1.0)
    train, test, index = wide[:3500], wide[3500:], (y > 0).astype(np.int64)
    weights, _ = averaging.round_weights(plan, SIZES, GRAPH)
    average = averaging.RunningAverage(weights)
    runs = []
    parts = [rows.take(train, 350 * i, 350 * (i + 1)) for i in range(10)]
    for seed in range(seeds):
        codes = labels.codes(
            flip_labels(index[:3500], np.ones(3500), 2, Simulated(seed).stream(LABELS)), 1.0, 2
        )
        members = [
            Server(
                i,
                10,
                int(GRAPH.degrees[i]),
                parts[i],
                codes[350 * i : 350 * (i + 1)],
                1.0,
                1.0,
                2,
                train,
            )
            for i in range(10)
        ]
        runs.append(local.Run(plan, members, Simulated(seed)))
    last = local.sweep(GRAPH, runs, observe=average)
    assert average.released is not None
    pairs = zip(last, average.released, strict=True)
    both = [(out.released.mean(axis=0)[0], mean.mean(axis=0)[0]) for out, mean in pairs]
    return np.array(
        [[np.mean((test @ w > 0) == (index[3500:] == 1)) for w in pair] for pair in both]
    )


def test_averaging_helps_an_unfading_schedule_on_twonorm_at_a_strict_budget() -> None:
    """Features ε = 1: noise that hardly fades. Paired over 8 seeds (fixed, so no false alarm):
    better on average.
    """
    planned = propose(Budget(features_epsilon=1.0, labels_epsilon=1.0), SIZES, GRAPH).plan
    flat = replace(planned, rounds=50, penalty=0.03, noise_decay=0.999)
    found = accuracies(replace(flat, noise_scale=_loud_enough(flat)), 8)
    assert found[:, 1].mean() > found[:, 0].mean()


def test_averaging_costs_nothing_at_the_planner_s_own_plan() -> None:
    """There √C has already balanced the rounds: the average is as accurate as the last iterate
    within half a point.
    """
    planned = propose(Budget(features_epsilon=1.0, labels_epsilon=1.0), SIZES, GRAPH).plan
    found = accuracies(planned, 6)
    assert found[:, 1].mean() > found[:, 0].mean() - 0.005 and found[:, 0].mean() > 0.93


def _loud_enough(plan: TrainingPlan) -> float:
    """One V for all servers at which this shape meets features ε = 1, by the ledger."""
    from pdml.train.planner import spent

    budget, low, high = Budget(features_epsilon=1.0), 1e-3, 1e3
    while high / low > 1.001:
        middle = float(np.sqrt(low * high))
        fits = spent(replace(plan, noise_scale=middle), budget, SIZES, GRAPH)[0].spent <= 1.0
        low, high = (low, middle) if fits else (middle, high)
    return high
