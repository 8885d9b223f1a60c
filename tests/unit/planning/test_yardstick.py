"""Yardsticks: scikit-learn's AUC, shares above a line, and chance where nobody is told apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pdml.planning.forecast.yardstick import (
    SPECIFICITY,
    TOP_SHARE,
    Yardstick,
    score_classes,
    score_order,
)


@st.composite
def scored(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many ties, and who has the class: some, and not all."""
    pairs = draw(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=60))
    scores, positive = (np.array(values) for values in zip(*pairs, strict=True))
    positive[0], positive[1] = True, False
    return scores.astype(float), positive.astype(bool)


@given(scored())
def test_auc_is_scikit_learns(pair: tuple[np.ndarray, np.ndarray]) -> None:
    scores, positive = pair
    assert score_order(scores, positive)[0] == pytest.approx(roc_auc_score(positive, scores))


@given(scored())
def test_order_alone_counts(pair: tuple[np.ndarray, np.ndarray]) -> None:
    scores, positive = pair
    np.testing.assert_allclose(
        score_order(scores, positive), score_order(np.exp(scores) - 7, positive)
    )


@given(scored())
def test_ties_are_broken_by_chance(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """Equal to the mean over many ways of breaking them: 4,000 of them have a standard error below
    0.008, so that a false alarm at 0.06 is beyond 7 deviations."""
    scores, positive = pair
    rng = np.random.default_rng(0)
    many = 4000 // len(scores) + 50
    broken = [
        score_order(scores + 1e-6 * rng.random(len(scores)), positive)[0] for _ in range(many)
    ]
    assert np.mean(broken) == pytest.approx(score_order(scores, positive)[0], abs=0.06)


def test_shares_above_a_line_are_those_of_counting() -> None:
    """100 people, ten of them ill, of whom six are among the first twenty; the four others come
    after 50 who are well."""
    scores = -np.arange(100.0)
    positive = np.zeros(100, dtype=bool)
    positive[[0, 1, 2, 3, 18, 19, 60, 61, 62, 63]] = True
    _, top, sensitivity = score_order(scores, positive)
    assert top == pytest.approx(0.6)  # of the twenty with the highest score
    assert sensitivity == pytest.approx(0.4)  # nine of ninety who are well come before the 14th


@pytest.mark.parametrize("positive", [np.zeros(9, dtype=bool), np.ones(9, dtype=bool)])
def test_one_class_alone_has_no_order(positive: np.ndarray) -> None:
    assert score_order(np.arange(9.0), positive) == (0.5, TOP_SHARE, 1 - SPECIFICITY)


def test_equal_scores_are_pure_chance() -> None:
    positive = np.arange(50) % 3 == 0
    assert score_order(np.zeros(50), positive) == pytest.approx((0.5, TOP_SHARE, 1 - SPECIFICITY))


def test_a_score_has_a_column_for_each_yardstick() -> None:
    classes = score_classes(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]), np.array([1, 1, 1, 0]))
    assert classes == (0.75, 0.75)
    assert [by.column for by in Yardstick] == list(range(5))
