"""Rows: dense and CSR are the same numbers, and every row is treated by itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pdml.errors import DataError
from pdml.numerics.admm import rows


@st.composite
def matrices(draw):
    seed, m, d = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 40)), draw(st.integers(1, 8))
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, d)) * rng.exponential(2, size=(m, 1))
    x[rng.random((m, d)) < draw(st.floats(0, 0.9))] = 0
    return x.astype(draw(st.sampled_from([np.float64, np.float32])))


def dense(x):
    return x.toarray() if sp.issparse(x) else x


@given(matrices(), st.floats(0.01, 10))
def test_clip_holds_the_bound_and_keeps_directions(x, bound):
    for matrix in (x, sp.csr_array(x)):
        clipped, count = rows.clip(rows.as_rows(matrix), bound)
        before, after = rows.norms(rows.as_rows(x)), rows.norms(clipped)
        long = before > bound
        assert (after[long] <= bound).all()  # a hair inside, whatever rounding does
        assert count == long.sum()
        np.testing.assert_array_equal(dense(clipped)[~long], x[~long])
        np.testing.assert_allclose(after[long], bound, rtol=1e-5)
        cosine = (dense(clipped)[long].astype(float) * x[long]).sum(axis=1)
        np.testing.assert_allclose(cosine, after[long] * before[long], rtol=1e-5)


@given(matrices(), st.floats(0.1, 2))
def test_a_matrix_of_ones_own_is_clipped_to_the_same_numbers_in_its_place(x, bound):
    expected, many = rows.clip(x, bound)
    own = x.copy()
    found, count = rows.clip(own, bound, in_place=True)
    assert found is own and count == many
    np.testing.assert_array_equal(found, expected)


@given(matrices(), st.floats(0.1, 2))
def test_clipping_is_rowwise(x, bound):
    """A record's clipped form never depends on anybody else's."""
    whole, _ = rows.clip(rows.as_rows(x), bound)
    for j in range(len(x)):
        alone, _ = rows.clip(rows.as_rows(x[j : j + 1]), bound)
        np.testing.assert_array_equal(alone[0], whole[j])


@given(matrices())
def test_sparse_and_dense_agree(x):
    s = rows.as_rows(sp.csr_array(x))
    x = rows.as_rows(x)
    weights = np.linspace(-1, 2, len(x))
    np.testing.assert_allclose(rows.norms(s), rows.norms(x), rtol=1e-6)
    np.testing.assert_allclose(rows.gram(s), rows.gram(x), rtol=1e-12, atol=1e-12)
    wide = x.astype(float)
    for matrix in (s, x):
        for h in (weights, np.abs(weights)):
            expected = (wide.T * h) @ wide
            np.testing.assert_allclose(rows.gram(matrix, h), expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(dense(rows.append_bias(s)), rows.append_bias(x))
    np.testing.assert_array_equal(dense(rows.take(s, 1, len(x))), x[1:])
    np.testing.assert_array_equal(dense(rows.compact(x)), x)
    np.testing.assert_array_equal(dense(rows.stack([s, s])), rows.stack([x, x]))


@pytest.mark.parametrize("filled", ["some often", "all alike", "never often"])
@pytest.mark.parametrize("records", [900, 40_000])
def test_grams_of_many_sparse_rows(filled, records):
    """Columns that most rows have, and such that few have: products of each kind with each."""
    rng = np.random.default_rng(0)
    shares = {
        "some often": [0.9, 0.02, 0.3, 0.05, 0.01],
        "all alike": [0.12],
        "never often": [0.06],
    }
    chances = np.resize(shares[filled], 40)
    chances[5:] = np.minimum(chances[5:], 0.12)
    x = rng.normal(size=(records, 40)) * (rng.random((records, 40)) < chances)
    kept = rows.as_rows(sp.csr_array(x))
    assert kept.nnz < 0.15 * x.size
    for h in (None, rng.normal(size=records)):
        expected = x.T @ (x if h is None else h[:, None] * x)
        np.testing.assert_allclose(rows.gram(kept, h), expected, rtol=1e-11, atol=1e-9)


def test_blocks_cover_every_row_once():
    x = np.arange(9000.0)[:, None]
    np.testing.assert_array_equal(np.concatenate(list(rows.blocks(x))), x)


def test_mostly_zero_arrays_become_sparse():
    assert sp.issparse(rows.compact(np.eye(10)))
    assert not sp.issparse(rows.compact(np.ones((3, 3))))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_non_finite_values_are_refused(bad, kind):
    with pytest.raises(DataError, match="finite"):
        rows.as_rows(kind(np.array([[1.0, bad]])))


def test_wrong_shape_is_refused():
    with pytest.raises(DataError, match="2-dimensional"):
        rows.as_rows(np.ones(3))


def test_take_does_not_copy():
    x = np.ones((10, 2))
    assert np.shares_memory(rows.take(x, 2, 5), x)
    s = sp.csr_array(x)
    assert np.shares_memory(rows.take(s, 2, 5).data, s.data)


@given(st.integers(1, 200), st.integers(1, 20), st.integers(0, 1000))
def test_deal_gives_everyone_a_fair_share(total, groups, seed):
    order, cuts = rows.partition_records(total, groups, np.random.default_rng(seed))
    assert sorted(order) == list(range(total))
    sizes = np.diff(cuts)
    assert sizes.sum() == total and sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_whole_numbers_become_doubles(kind):
    found = rows.as_rows(kind(np.array([[1, 0], [0, 3]])))
    assert found.dtype == np.float64 and dense(found).tolist() == [[1.0, 0.0], [0.0, 3.0]]
