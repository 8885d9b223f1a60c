"""Declared scales: rows of norm at most 1, each by itself, and back again."""

import numpy as np
import pytest
from finishing import scale_and_clip
from hypothesis import given
from hypothesis import strategies as st

from pdml.encoding import scaling
from pdml.encoding.scaling import CONSTANT, LIMIT, MARGIN, SIZE
from pdml.errors import InvalidInput
from pdml.numerics import coded_rows

finite = st.floats(-1e300, 1e300)
spreads = st.floats(1e-300, 1e300)
masses = st.just(0.0) | st.floats(1e-3, 1e4)


@st.composite
def entries(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 20)), draw(st.integers(1, 12))
    return np.clip(rng.normal(size=shape) * draw(st.sampled_from([0.1, 1, 10])), -LIMIT, LIMIT)


@given(st.lists(finite, min_size=1, max_size=8), finite, spreads)
def test_entries_are_limited_and_know_no_negative_zero(values, average, spread):
    made = scaling.standardised(np.array(values), average, spread)
    assert (np.abs(made) <= LIMIT).all() and not np.signbit(made[made == 0]).any()


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-2.99, 2.99), st.floats(-1e3, 1e3))
def test_units_do_not_matter_and_what_was_not_clipped_comes_back(average, spread, z, shift):
    """A column in other units (of a power of two, which is exact), with its declaration."""
    value = np.array([average + z * spread])
    made = scaling.standardised(value, average, spread)
    np.testing.assert_array_equal(made, scaling.standardised(8 * value, 8 * average, 8 * spread))
    back = scaling.original(made, average, spread)
    np.testing.assert_allclose(back, value, rtol=1e-9, atol=1e-12 * (abs(average) + spread))


@given(st.integers(1, 40), st.integers(0, 10**6))
def test_levels_are_centred(levels, code):
    row = scaling.centred(np.array([code % levels]), levels)[0]
    assert row.argmax() == code % levels and abs(row.sum()) < 1e-12
    every = scaling.centred(np.arange(levels), levels)  # each level as often as any other
    np.testing.assert_allclose(
        (every**2).mean(axis=0), scaling.level_mass(levels), rtol=1e-9, atol=1e-15
    )


@given(entries(), masses, st.booleans(), st.sampled_from([1.0, 0.25, 7.0]))
def test_no_row_is_longer_than_the_bound_even_in_float32(made, mass, constant, bound):
    rows, lengths = scale_and_clip(made, mass, constant=constant, bound=bound)
    shrunk = np.count_nonzero(lengths > scaling.MARGIN)
    single = rows.astype(np.float32).astype(np.float64)
    assert (np.linalg.norm(rows, axis=1) <= bound).all()
    assert (np.linalg.norm(single, axis=1) <= bound).all()
    scaled = made * scaling.row_factor(mass)
    length = np.sqrt((scaled**2).sum(axis=1) + CONSTANT**2 * constant)
    assert abs(shrunk - (length > MARGIN).sum()) <= (np.abs(length - MARGIN) < 1e-9).sum()
    short = length < MARGIN - 1e-9  # whose entries and constant stay as they are
    np.testing.assert_allclose(rows[short, : made.shape[1]], bound * scaled[short], rtol=1e-14)


@given(entries(), masses)
def test_rows_are_made_one_by_one_and_can_be_read_back(made, mass):
    rows, _ = scale_and_clip(made, mass)
    for j, row in enumerate(rows):
        alone, _ = scale_and_clip(made[j : j + 1], mass)
        np.testing.assert_array_equal(alone[0], row)
        np.testing.assert_allclose(scaling.unscale(row, mass), made[j], rtol=1e-9, atol=1e-12)


def test_a_typical_row_has_the_same_length_whatever_its_width():
    rng = np.random.default_rng(0)
    for width in (3, 30, 300):
        made = rng.normal(size=(4000, width))
        root = np.sqrt(np.mean(scale_and_clip(made, float(width), constant=False)[1] ** 2))
        assert abs(root - SIZE) < 0.05  # 4000 rows of 3: four standard errors are 0.04


@given(st.integers(0, 6), st.lists(st.integers(2, 6), max_size=3))
def test_the_constant_of_a_row_with_entries_as_large_as_expected(numbers, levels):
    """Also beside codes of randomised answers, which leave the rest less room."""
    mass = numbers + sum(1 - 1 / many for many in levels)
    asked = [(f"q{k}", 1 - 1 / many, (500_000,), many) for k, many in enumerate(levels)]
    blocks = coded_rows.layout_blocks(numbers, mass, asked)
    row = np.zeros((1, numbers + sum(levels)))
    row[:, :numbers] = 1.0
    made, _ = scale_and_clip(row, mass, blocks=blocks)
    found = scaling.typical_constant(mass, float(numbers), blocks)
    assert found == pytest.approx(made[0, -1], rel=1e-12)
    if not levels and numbers:
        assert found == scaling.typical_constant(mass) == pytest.approx(0.1322, abs=1e-4)


def test_a_range_alone_ends_three_spreads_from_its_middle():
    average, spread = scaling.of_range(18.0, 102.0)
    assert (average, spread) == (60.0, 14.0)
    ends = scaling.standardised(np.array([18.0, 60.0, 102.0]), average, spread)
    assert ends.tolist() == [-LIMIT, 0.0, LIMIT]


@pytest.mark.parametrize("wrong", [(np.nan, 1), (0, 0), (0, -1), (0, np.inf), ("a", 1)])
def test_no_scale(wrong):
    with pytest.raises(InvalidInput, match="of 'age' must be a number"):
        scaling.checked("age", *wrong)
    with pytest.raises(InvalidInput, match="positive constant"):
        scaling.unscale(np.array([0.5, 0.0]), 1.0)
