"""Codes of randomised answers: unbiased, bounded, and never farther from one another than what they
replace.
"""

import numpy as np
import pytest
from finishing import scale_and_clip
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from pdml.encoding import scaling
from pdml.numerics import coded_rows
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.coded_rows import Block
from pdml.numerics.sums import statistics

MICROS = st.integers(10_000, 20_000_000)
LEVELS = st.integers(2, 12)


@given(MICROS, LEVELS)
def test_the_weight_is_that_of_randomised_response_rounded_down(micro, levels):
    mp.prec = 300
    exact = 1 + levels / (mp.exp(mp.mpf(micro) / 1_000_000) - 1)
    found = coded_rows.weight(micro, levels)
    assert 0 <= exact - mp.mpf(found) < mp.mpf(2) ** -40 + 1e-12 * exact
    assert found >= 1


@given(MICROS, LEVELS)
def test_a_code_has_the_expectation_of_the_answer(micro, levels):
    """Over the coin's own probabilities, exactly."""
    epsilon = micro / 1e6
    kept = 1 / (1 + (levels - 1) * np.exp(-epsilon))
    chance = np.full((levels, levels), (1 - kept) / (levels - 1))
    np.fill_diagonal(chance, kept)
    codes = coded_rows.weight(micro, levels) * scaling.centred(np.arange(levels), levels)
    scale = coded_rows.weight(micro, levels)
    np.testing.assert_allclose(
        chance @ codes, scaling.centred(np.arange(levels), levels), atol=1e-9 * scale
    )


def blocks_of(levels, menu=(500_000, 2_000_000), mass=3.0, start=3):
    asked = [(f"q{k}", 1 - 1 / many, menu, many) for k, many in enumerate(levels)]
    return coded_rows.layout_blocks(start, mass, asked)


def test_a_block_answers_for_the_largest_epsilon_of_its_menu():
    """Which the ledger states: a smaller one would promise everybody what few people have."""
    assert [block.epsilon for block in blocks_of([2, 3])] == [2.0, 2.0]


def own_part(x, block):
    """What one record of weight 1 puts in its own block of S."""
    whole = np.zeros((len(x), len(x)))
    return coded_rows.unbiased(whole, x, 1.0, [block])[block.columns, block.columns]


@given(LEVELS, st.data())
def test_an_own_block_moves_no_farther_than_the_square_that_it_replaces(levels, data):
    """So that the bound on S of one record stays what it is: for any two levels and ε's."""
    (block,) = blocks_of([levels])
    rows = []
    for _ in range(2):
        level = data.draw(st.integers(0, levels - 1))
        loud = coded_rows.weight(data.draw(st.integers(500_000, 20_000_000)), levels)
        row = np.zeros(block.start + levels)
        code = scaling.centred(np.array([level]), levels)[0]
        row[block.columns] = block.scale * loud * code
        rows.append(row)
    parts = [row[block.columns] for row in rows]
    square = np.linalg.norm(np.outer(parts[0], parts[0]) - np.outer(parts[1], parts[1]))
    moved = np.linalg.norm(own_part(rows[0], block) - own_part(rows[1], block))
    assert moved <= square * (1 + 1e-9) + 1e-15


def test_a_weight_below_one_would_move_it_farther():
    """What the proof needs, and the test above can see."""
    block = Block(name="q", start=0, levels=4, scale=1.0, length=1.0, epsilon=1.0)
    codes = 0.5 * scaling.centred(np.array([0, 1]), 4)
    square = np.linalg.norm(np.outer(codes[0], codes[0]) - np.outer(codes[1], codes[1]))
    assert np.linalg.norm(own_part(codes[0], block) - own_part(codes[1], block)) > square


@pytest.mark.parametrize("mistake", ["", "not replaced", "other levels"])
def test_sums_of_reports_are_those_of_true_answers_on_average(mistake):
    """Over 4,000 draws of all coins, each entry of Q and S within 6 standard errors of its truth:
    a false alarm in fewer than one of 10⁶ runs, while codes that are not de-biased, or a wrong
    number of levels, are seen.
    """
    rng = np.random.default_rng(5)
    m, draws, levels, micro = 6, 4_000, (3, 4), 1_000_000
    blocks = blocks_of(levels, menu=(micro,), start=2)
    width = 2 + sum(levels) + 1
    truth = np.column_stack([rng.integers(0, many, m) for many in levels])
    clear = 0.2 * rng.normal(size=(m, 2))
    y = rng.integers(0, 2, m)
    label_epsilon = 1.5

    def rows(drawn, loud):
        parts = [clear]
        for k, block in enumerate(blocks):
            parts.append(block.scale * loud[k] * scaling.centred(drawn[:, k], block.levels))
        return np.hstack([*parts, np.full((m, 1), 0.2)])

    used = {"other levels": 2}.get(mistake)
    loud = [coded_rows.weight(micro, used or many) for many in levels]
    exact = statistics.exact(rows(truth, (1, 1)), labels.codes(y, np.inf, 2), LOGISTIC)
    v = float(statistics.report_weights(labels.codes(y[:1], label_epsilon, 2))[0])
    found = []
    for _ in range(draws):
        drawn = np.empty_like(truth)
        for k, many in enumerate(levels):
            kept = 1 / (1 + (many - 1) * np.exp(-micro / 1e6))
            other = (truth[:, k] + rng.integers(1, many, m)) % many
            drawn[:, k] = np.where(rng.random(m) < kept, truth[:, k], other)
        said = np.where(rng.random(m) < 1 / (1 + np.exp(-label_epsilon)), y, 1 - y)
        codes = labels.codes(said, label_epsilon, 2)
        replaced = () if mistake == "not replaced" else blocks
        one = statistics.exact(rows(drawn, loud), codes, LOGISTIC, replaced)
        found.append(np.concatenate([one.label_sum.ravel(), one.square_sum.ravel()]) / v)
    found = np.array(found)
    error = np.maximum(found.std(axis=0) / np.sqrt(draws), 1e-12)
    target = np.concatenate([exact.label_sum.ravel(), exact.square_sum.ravel()])
    far = np.abs(found.mean(axis=0) - target) > 6 * error + 1e-9
    assert target.size == width + width**2
    assert far.any() == bool(mistake)


@given(st.lists(LEVELS, min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 2**31))
def test_rows_are_never_longer_than_one(levels, numbers, seed):
    """Whatever is answered and chosen, also after rounding to float32."""
    rng = np.random.default_rng(seed)
    mass = numbers + sum(1 - 1 / many for many in levels)
    blocks = blocks_of(levels, menu=(300_000, 4_000_000), mass=mass, start=numbers)
    parts = [rng.choice([-3.0, 0.0, 3.0], size=(5, numbers))]
    for block in blocks:
        loud = [
            coded_rows.weight(int(e), block.levels) for e in rng.choice([300_000, 4_000_000], 5)
        ]
        drawn = scaling.centred(rng.integers(0, block.levels, 5), block.levels)
        parts.append(drawn * np.array(loud)[:, None])
    x, _ = scale_and_clip(np.hstack(parts), mass, blocks=blocks)
    assert np.linalg.norm(x.astype(np.float32).astype(float), axis=1).max() <= 1


@given(MICROS, LEVELS)
def test_what_coins_leave_in_squares_is_what_the_longest_code_has_beyond_a_true_answer(micro, many):
    """Exactly: E|c|² - |E c|² of a code, over its columns; nothing where the coin never lies."""
    (block,) = blocks_of([many], menu=(micro,))
    loud = coded_rows.weight(micro, many)
    left = block.scale**2 * (loud**2 - 1) * (1 - 1 / many) / many
    assert coded_rows.variance([block], 40) == pytest.approx(4 * left / 40, rel=1e-6, abs=1e-12)
    (silent,) = blocks_of([many], menu=(60_000_000,))
    assert coded_rows.variance([silent], 40) == pytest.approx(0, abs=1e-12)
    assert coded_rows.variance([], 40) == 0
