"""The probabilities behind the bounds, on records as extreme as allowed. Every test states its
false-alarm rate.
"""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from scipy.optimize import minimize

from pdml.mechanisms.objective_noise import ObjectiveNoise
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.labels import kappa
from pdml.research.bounds import Setting, corrected, sharper

AT = Setting(
    graph=Graph.ring(4),
    records=(50,),
    width=6,
    epsilon=0.7,
    radius=3.0,
    delta=0.2,
    regularization=1.0,
)


def label_means(rng: np.random.Generator, m: int, trials: int) -> np.ndarray:
    """|q̂ - q| with x on the unit sphere, y = +1 always, q = ½E[x] = 0: the largest variance there
    is.
    """
    x = rng.normal(size=(trials, m, 6))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    flipped = np.where(rng.random((trials, m)) < 1 / (1 + np.exp(AT.epsilon)), -1, 1)
    return np.linalg.norm(
        np.einsum("tm,tmd->td", flipped * float(kappa(AT.epsilon)) / 2, x) / m, axis=1
    )


def test_the_label_mean_stays_within_its_deviation_and_is_no_small_fraction_of_it() -> None:
    """5000 trials at a chance of at most 0.2: more than 1200 misses happen with probability below
    10^-12 (Hoeffding: e^-16 at 0.24).
    """
    lengths = label_means(np.random.default_rng(0), 50, 5000)
    assert np.mean(lengths > sharper.label_deviation(AT, 50, 0.2)) <= 0.24
    assert (
        np.mean(lengths > sharper.label_deviation(AT, 50, 0.2) / 2.5) > 0.24
    )  # a deviation 2.5 times smaller would be wrong


def test_wrong_kappa_would_be_caught() -> None:
    quiet = replace(AT, epsilon=50.0)  # as if labels had not been randomised
    lengths = label_means(np.random.default_rng(1), 50, 2000)
    assert np.mean(lengths > sharper.label_deviation(quiet, 50, 0.2)) > 0.24


def supremum(rng: np.random.Generator, m: int, radius: float, *, labels: bool) -> float:
    """sup over |w| <= radius of D(0) - D(w), by ascent from several starts, where x is uniform on
    ±the axes of R⁶ and y = sign: E known.
    """
    axis, sign = rng.integers(6, size=m), rng.choice([-1.0, 1.0], size=m)
    x = np.zeros((m, 6))
    x[np.arange(m), axis] = sign
    noisy = (
        np.where(rng.random(m) < 1 / (1 + np.exp(AT.epsilon)), -1, 1) * float(kappa(AT.epsilon))
        if labels
        else np.zeros(m)
    )
    mean = (noisy[:, None] * x).mean(axis=0) / 2

    def value(w: np.ndarray) -> float:
        """(G - Ĝ)(w) + (q̂ - q)·w up to a constant, with y independent of x and fair, so that q =
        0.
        """
        g = np.log(2 * np.cosh(x @ w / 2)).mean()
        truth = np.log(2 * np.cosh(w / 2)).mean()
        return float(truth - g + mean @ w)

    def inside(v: np.ndarray) -> np.ndarray:
        return v * min(1.0, radius / max(np.linalg.norm(v), 1e-12))

    starts = [rng.normal(size=6) * radius for _ in range(3)]
    return max(
        -minimize(lambda v: -value(inside(v)), s, method="Powell", options={"maxiter": 20}).fun
        for s in starts
    )


@pytest.mark.parametrize("labels", [False, True])
def test_the_supremum_over_classifiers_stays_within_its_bound(labels: bool) -> None:
    """30 trials at a chance of at most 0.2/4: 12 or more misses have probability below 10^-7. A
    thirtieth of the bound would not do.
    """
    rng = np.random.default_rng(2)
    limit = corrected.label_terms(AT)[0] if labels else 3.0 * sharper.plain_deviation(AT, 50, 0.05)
    found = np.array([supremum(rng, 50, 3.0, labels=labels) for _ in range(30)])
    assert np.sum(found > limit) < 12
    assert np.sum(found > limit / 30) >= 12


@pytest.mark.parametrize("kind", ["truncated_gaussian", "uniform_box", "uniform_ball"])
def test_lengths_of_objective_noise(kind: str) -> None:
    """3000 trials at a chance of at most 0.1: more than 450 misses have probability below e^-15;
    never beyond the sure length.
    """
    at = replace(AT, objective_noise=kind, objective_bound=2.0)
    rng = np.random.default_rng(3)
    drawn = np.array(
        [[ObjectiveNoise(kind, 2.0).draw((1, 6), rng)[0] for _ in range(4)] for _ in range(3000)]
    )
    lengths, means = (
        np.linalg.norm(drawn, axis=2).max(axis=1),
        np.linalg.norm(drawn.mean(axis=1), axis=1),
    )
    assert lengths.max() <= at.objective_reach
    assert np.mean(lengths > at.likely_objective_reach(0.1)) <= 0.15
    assert np.mean(means > at.likely_mean_objective_reach(0.1)) <= 0.15
    assert (
        np.mean(means > at.likely_mean_objective_reach(0.1) / sqrt(4)) > 0.0
    )  # the mean is not forgotten to be a mean twice


def test_shells_cover_every_distance() -> None:
    """The label-free term of the sharper theorem is at least what any single distance gives,
    chances of shells included.
    """
    ridge, miss = 0.05, 0.01
    found = sharper._peeled(AT, 50, ridge, miss)
    distances = np.geomspace(1e-3, 1e3, 200)
    single = distances * sharper.plain_deviation(AT, 50, miss / 2) - ridge / 2 * distances**2
    assert found >= single.max()
    assert found <= 6 * single.max()
