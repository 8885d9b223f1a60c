"""Sums: exact, in any storage, in any order, over any division of the records."""

import tracemalloc
from math import inf

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pdml.errors import DataError, InvalidInput
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.numerics.sums import statistics

LEVELS = [0.5, 1.0, 2.0]


def problem(seed, classes=2, records=50, width=4, dtype=np.float64, levels=LEVELS):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, width)).astype(dtype)
    x[rng.random(x.shape) < 0.5] = 0
    epsilon = rng.choice(levels, size=records)
    said = rng.integers(0, classes, records)
    return x, labels.codes(said, epsilon, classes), 1 / labels.keep_weight(epsilon, classes) ** 2


@given(
    st.integers(0, 10**6),
    st.sampled_from([2, 3]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([LEVELS, [1.0]]),
)
def test_sums_are_the_sums(seed, classes, dtype, levels):
    x, codes, v = problem(seed, classes, dtype=dtype, levels=levels)
    loss, wide = LOGISTIC if classes == 2 else SOFTMAX, x.astype(float)
    centred = codes if classes == 2 else codes - 1 / classes
    for matrix in (x, sp.csr_array(x)):
        found = statistics.exact(rows.as_rows(matrix), codes, loss)
        expected = loss.label_weight * (centred * v[:, None]).T @ wide
        np.testing.assert_allclose(found.label_sum, expected, rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(found.square_sum, (wide.T * v) @ wide, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found.square_sum, found.square_sum.T)
        assert found.size == pytest.approx(v.sum())


@given(st.integers(0, 10**6), st.integers(1, 49))
def test_sums_add_up_over_servers(seed, cut):
    x, codes, _ = problem(seed)
    parts = [
        statistics.exact(rows.as_rows(x[part]), codes[part], LOGISTIC)
        for part in (slice(cut), slice(cut, None))
    ]
    found, whole = statistics.total(parts), statistics.exact(rows.as_rows(x), codes, LOGISTIC)
    np.testing.assert_allclose(found.label_sum, whole.label_sum, atol=1e-12)
    np.testing.assert_allclose(found.square_sum, whole.square_sum, atol=1e-12)
    assert found.size == pytest.approx(whole.size)


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=5), st.sampled_from([2, 4]))
def test_weights_make_every_report_equally_noisy_per_weight(chosen, classes):
    """v κ² = 1 for all, and the more private a report, the quieter."""
    epsilon = np.sort(np.array(chosen))
    codes = labels.codes(np.zeros(len(chosen), dtype=int), epsilon, classes)
    v, loud = statistics.report_weights(codes), labels.keep_weight(epsilon, classes)
    np.testing.assert_allclose(v * loud**2, 1)
    assert (np.diff(v * loud) >= -1e-12).all()


def test_weights_in_both_sums_fit_when_people_choose_by_their_features():
    """Labels with E[y|x] = w·x, ε by the sign of x₁: over labels and coins, the expected Q is
    c·S·w with the same weights in S, and not without them.
    """
    rng = np.random.default_rng(0)
    x = np.hstack([rng.uniform(-0.5, 0.5, size=(400, 3)), np.ones((400, 1)) / 2])
    truth = np.array([0.9, -0.5, 0.3, 0.2])
    epsilon = np.where(x[:, 0] > 0, 2.0, 0.5)
    mean_report = (x @ truth) / labels.kappa(epsilon)  # of y' = ±1
    expected, square = np.zeros(4), np.zeros((4, 4))
    for i in range(400):
        one = statistics.exact(x[[i]], labels.codes(np.array([1]), epsilon[i], 2), LOGISTIC)
        expected += mean_report[i] * one.label_sum[0]
        square += one.square_sum
    found = np.linalg.solve(square, expected) / LOGISTIC.label_weight
    np.testing.assert_allclose(found, truth)
    mixed = np.linalg.solve(x.T @ x * (np.trace(square) / np.trace(x.T @ x)), expected)
    assert np.abs(mixed / LOGISTIC.label_weight - truth).max() > 0.1


def neighbours(seed, classes, epsilon):
    """Two data sets that differ in one record, as far apart as can be or at random."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    said = rng.integers(0, classes, 6)
    other, result = x.copy(), said.copy()
    other[0] = -x[0] if seed % 2 else rng.normal(size=3)
    other[0] /= max(1, np.linalg.norm(other[0]))
    result[0] = said[0] if seed % 3 else (said[0] + 1) % classes
    return (x, said), (other, result)


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]), st.sampled_from([0.3, 1.0, inf]))
def test_no_person_moves_the_sums_further_than_claimed(seed, classes, epsilon):
    loss = LOGISTIC if classes == 2 else SOFTMAX
    one, other = (
        statistics.exact(x, labels.codes(said, epsilon, classes), loss)
        for x, said in neighbours(seed, classes, epsilon)
    )
    most = statistics.shifts(epsilon, 1.0, loss, classes)
    assert np.linalg.norm(one.label_sum - other.label_sum) <= most.record * (1 + 1e-12)
    assert np.linalg.norm(one.square_sum - other.square_sum) <= most.square * (1 + 1e-12)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, inf])
def test_the_claimed_shifts_are_reached(classes, epsilon):
    loss = LOGISTIC if classes == 2 else SOFTMAX
    most = statistics.shifts(epsilon, 2.0, loss, classes)

    def sums_of(x, said):
        return statistics.exact(
            np.array([x]), labels.codes(np.array([said]), epsilon, classes), loss
        )

    one, flipped = sums_of([2.0, 0.0], 0), sums_of([2.0, 0.0], 1)
    turned, across = sums_of([-2.0, 0.0], 0), sums_of([0.0, 2.0], 0)
    assert np.linalg.norm(one.label_sum - flipped.label_sum) == pytest.approx(most.label)
    assert np.linalg.norm(one.label_sum - turned.label_sum) == pytest.approx(most.record)
    assert np.linalg.norm(one.square_sum - across.square_sum) == pytest.approx(most.square)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_copies_do_not_grow_with_the_records(storage):
    def peak(records):
        x = np.zeros((records, 20), dtype=np.float32)
        x[:, ::7] = 0.5
        matrix = rows.as_rows(sp.csr_array(x) if storage == "csr" else x)
        codes = np.ones((records, 1))
        tracemalloc.start()
        statistics.exact(matrix, codes, LOGISTIC)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    few, many = peak(70_000), peak(210_000)
    assert many < few + 100_000


def test_rounding_stays_within_its_bound():
    """Against exact sums of fractions, on records that differ in size by orders of magnitude."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5_000, 3)) * 10.0 ** rng.integers(-6, 1, size=(5_000, 1))
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    codes = labels.codes(rng.integers(0, 2, 5_000), rng.choice(LEVELS, 5_000), 2)
    found = statistics.exact(x, codes, LOGISTIC)
    long = np.longdouble
    v = 1 / codes.astype(long) ** 2
    exact = (long(0.5) * v * codes.astype(long)).T @ x.astype(long)
    off = np.linalg.norm((found.label_sum.astype(long) - exact).astype(float))
    assert off <= statistics.rounding(5_000) / 2 * statistics.shifts(2.0, 1.0, LOGISTIC).record


def test_what_does_not_fit_is_refused():
    x, codes, _ = problem(0)
    with pytest.raises(DataError, match=r"one per record \(50 of them\), got 49"):
        statistics.exact(x, codes[1:], LOGISTIC)
    with pytest.raises(InvalidInput, match="at least one server's sums"):
        statistics.total([])
