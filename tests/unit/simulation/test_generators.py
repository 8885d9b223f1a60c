"""Breiman's problems: laws of sums and squares, each tested with a false-alarm rate of 1e-6 over
seeds and shown to reject wrong numbers.

Residuals of Gaussian problems are exactly N(0, 1), so that their scaled sums are N(0, 1) and their
sums of squares chi-square.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.research.datasets import raetsch, ringnorm, twonorm, waveform

FALSE_ALARM = 1e-6
M = 20_000
SHIFT = 2 / np.sqrt(20)

Generator = Callable[[int, np.random.Generator], tuple[Array, Array]]
ALL: list[tuple[Generator, int]] = [(twonorm, 20), (ringnorm, 20), (waveform, 21)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def plausible_normal(z: float) -> bool:
    return bool(2 * stats.norm.sf(abs(z)) > FALSE_ALARM)


def plausible_chi2(value: float, freedom: int) -> bool:
    return bool(
        2 * min(stats.chi2.cdf(value, freedom), stats.chi2.sf(value, freedom)) > FALSE_ALARM
    )


def is_standard_normal(residual: Array) -> bool:
    """Location, scale, and independence along rows and along columns, each exact."""
    rows, columns = residual.shape
    return (
        plausible_normal(residual.sum() / np.sqrt(residual.size))
        and plausible_chi2((residual**2).sum(), residual.size)
        and plausible_chi2((residual.sum(axis=1) ** 2).sum() / columns, rows)
        and plausible_chi2((residual.sum(axis=0) ** 2).sum() / rows, columns)
    )


@pytest.mark.parametrize(("generate", "d"), ALL)
def test_shapes_labels_and_seeds(generate: Generator, d: int) -> None:
    X, y = generate(50, rng())
    assert X.shape == (50, d) and y.shape == (50,) and X.dtype == y.dtype == np.float64
    assert set(y) == {-1.0, 1.0}
    again, labels = generate(50, rng())
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, labels)
    assert not np.array_equal(X, generate(50, rng(1))[0])


@pytest.mark.parametrize(
    ("generate", "share"), [(twonorm, 1 / 2), (ringnorm, 1 / 2), (waveform, 1 / 3)]
)
def test_share_of_positive_labels(generate: Generator, share: float) -> None:
    positives = int((generate(M, rng(2))[1] == 1).sum())
    assert stats.binomtest(positives, M, share).pvalue > FALSE_ALARM
    assert all(
        stats.binomtest(positives, M, wrong).pvalue < FALSE_ALARM
        for wrong in (0.9 * share, 1.1 * share)
    )


def test_twonorm_has_its_means_and_unit_variance() -> None:
    X, y = twonorm(M, rng(3))
    aligned = y[:, None] * X  # N(a 1, I)
    assert is_standard_normal(aligned - SHIFT)
    assert not any(is_standard_normal((aligned - SHIFT) / scale) for scale in (0.98, 1.02))
    assert not any(
        is_standard_normal(aligned - shift)
        for shift in (0.95 * SHIFT, 1.05 * SHIFT, SHIFT / 2, -SHIFT)
    )


def test_twonorm_is_linear_with_the_known_error() -> None:
    X, y = twonorm(M, rng(4))
    wrong = int((np.sign(X.sum(axis=1)) != y).sum())
    assert stats.binomtest(wrong, M, stats.norm.cdf(-2)).pvalue > FALSE_ALARM


def test_ringnorm_has_a_wide_class_around_a_narrow_one() -> None:
    X, y = ringnorm(2 * M, rng(5))
    wide, narrow = X[y == 1] / 2, X[y == -1] - SHIFT
    assert is_standard_normal(wide) and is_standard_normal(narrow)
    assert not any(
        is_standard_normal(part / scale) for part in (wide, narrow) for scale in (0.98, 1.02)
    )
    assert not any(
        is_standard_normal(narrow + SHIFT - shift)
        for shift in (0.95 * SHIFT, 1.05 * SHIFT, SHIFT / 2, -SHIFT)
    )


def wave(centre: int) -> Array:
    return np.maximum(6.0 - np.abs(np.arange(1, 22) - centre), 0)


WAVES = {7: wave(7), 11: wave(11), 15: wave(15)}


def test_waveform_noise_is_standard_normal_off_the_waves() -> None:
    """What lies outside the span of the three waves is noise alone, exactly N(0, I₁₈)."""
    X, _ = waveform(M, rng(6))
    outside = np.linalg.svd(np.stack(list(WAVES.values())))[2][3:]
    assert is_standard_normal(X @ outside.T)
    assert not any(is_standard_normal(X @ outside.T / scale) for scale in (0.98, 1.02))


@pytest.mark.parametrize(("label", "pairs"), [(1, [(7, 11)]), (-1, [(7, 15), (15, 11)])])
def test_waveform_moments(label: int, pairs: list[tuple[int, int]]) -> None:
    """Mean ½(h+h') and covariance I + (h-h')(h-h')ᵀ/12 of each pair, mixed evenly; central limit,
    1e-6 for the mean and each direction.
    """
    X, y = waveform(5 * M, rng(7))
    rows = X[y == label]
    centres = np.stack([(WAVES[b] + WAVES[c]) / 2 for b, c in pairs])
    spreads = np.stack([WAVES[b] - WAVES[c] for b, c in pairs])
    mean = centres.mean(axis=0)
    covariance = (
        np.eye(21)
        + spreads.T @ spreads / 12 / len(pairs)
        + (centres - mean).T @ (centres - mean) / len(pairs)
    )

    def mean_fits(expected: Array) -> bool:
        gap = rows.mean(axis=0) - expected
        return plausible_chi2(len(rows) * gap @ np.linalg.solve(covariance, gap), 21)

    def spread_fits(direction: Array, scale: float) -> bool:
        squares = ((rows - mean) @ direction) ** 2
        return plausible_normal(
            (squares.mean() - scale * direction @ covariance @ direction)
            / (squares.std() / np.sqrt(len(rows)))
        )

    assert mean_fits(mean)
    assert not any(
        mean_fits(wrong) for wrong in (0.98 * mean, 1.02 * mean, (WAVES[7] + WAVES[15]) / 2)
    )
    for b, c in [(7, 15), (7, 11), (15, 11)]:
        assert spread_fits(WAVES[b] - WAVES[c], 1)
        assert not any(spread_fits(WAVES[b] - WAVES[c], wrong) for wrong in (0.94, 1.06))


@pytest.mark.parametrize(
    ("name", "generate"), [("twonorm", twonorm), ("ringnorm", ringnorm), ("waveform", waveform)]
)
def test_generators_draw_from_the_law_of_the_published_samples(
    data_dir: Path, name: str, generate: Generator
) -> None:
    """After z-scoring both, class means and class variances agree per column: normal approximation,
    1e-6 over all columns together.
    """
    X, y = raetsch.load(name)
    Z, labels = generate(200_000, rng(8))
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)

    def worst(sign: int, other: int) -> float:
        real, drawn = X[y == sign], Z[labels == other]
        scores = []
        for power in (1, 2):
            error = np.sqrt((drawn**power).var(axis=0) * (1 / len(real) + 1 / len(drawn)))
            scores.append(np.abs((real**power).mean(axis=0) - (drawn**power).mean(axis=0)) / error)
        return float(np.max(scores))

    limit = stats.norm.isf(FALSE_ALARM / 2 / (4 * X.shape[1]))
    assert worst(1, 1) < limit and worst(-1, -1) < limit
    assert worst(1, -1) > limit  # labels swapped


@pytest.mark.parametrize(("generate", "_"), ALL)
def test_refuses_bad_sizes_and_sources(generate: Generator, _: int) -> None:
    for m in (0, -1, 2.5, True):
        with pytest.raises(InvalidInput, match="m must be a whole number >= 1"):
            generate(m, rng())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"rng must be a numpy\.random\.Generator"):
        generate(5, 0)  # type: ignore[arg-type]
