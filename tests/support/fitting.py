"""Does a sample have the distribution it should have? Exact tests, for every sample size.

Every check raises a false alarm with a chance of at most ``false_alarm``. Noise that comes from the
operating system cannot be repeated with a seed, so it is 1e-9: a thousand checks stay under 1e-6.
"""

from collections.abc import Callable
from math import log, sqrt

import numpy as np
from scipy.stats import chi2, norm

FALSE_ALARM = 1e-9
SIGMAS = 6.0  # where objective noise is cut

Sample = np.ndarray
Cdf = Callable[[np.ndarray], np.ndarray]


def fits(sample: Sample, cdf: Cdf, false_alarm: float = FALSE_ALARM) -> bool:
    """Dvoretzky-Kiefer-Wolfowitz with Massart's constant: P(sup|F_n - F| > x) <= 2·exp(-2nx²)."""
    values = np.sort(np.ravel(sample))
    n, at = len(values), cdf(values)
    above, below = np.arange(1, n + 1) / n - at, at - np.arange(n) / n
    return max(float(above.max()), float(below.max())) <= sqrt(log(2 / false_alarm) / (2 * n))


def has_variance(sample: Sample, variance: float, false_alarm: float = FALSE_ALARM) -> bool:
    """Σ x²/σ² of independent normal numbers against exact chi-square quantiles."""
    total = float((np.asarray(sample) ** 2).sum()) / variance
    tail, size = false_alarm / 2, np.size(sample)
    return bool(chi2.ppf(tail, size) <= total <= chi2.isf(tail, size))


def is_gaussian(sample: Sample, stddev: float, false_alarm: float = FALSE_ALARM) -> bool:
    """N(0, σ²): its scale, and the whole of its distribution."""
    shape = fits(sample, norm(scale=stddev).cdf, false_alarm / 2)
    return shape and has_variance(sample, stddev**2, false_alarm / 2)


def is_truncated_gaussian(sample: Sample, bound: float, false_alarm: float = FALSE_ALARM) -> bool:
    """N(0, (R/6)²) given |x| <= R. The cut lowers the variance by 7e-8 of itself, no more."""
    inside = norm(scale=bound / SIGMAS)
    cut = inside.cdf(-bound)
    shape = fits(sample, lambda x: (inside.cdf(x) - cut) / (1 - 2 * cut), false_alarm / 2)
    bounded = bool(np.abs(sample).max() <= bound)
    return bounded and shape and has_variance(sample, inside.std() ** 2, false_alarm / 2)


def is_uniform_box(sample: Sample, bound: float, false_alarm: float = FALSE_ALARM) -> bool:
    """Uniform on [-R, R]."""
    inside = fits(sample, lambda x: np.clip((x / bound + 1) / 2, 0, 1), false_alarm)
    return inside and bool(np.abs(sample).max() <= bound)


def fading(scale: float, decay: float, t: int) -> float:
    """√ρ^(t-1) V, written out: what round t must have, whatever the code under test says of it."""
    return scale * decay ** ((t - 1) / 2)


def slips(scale: float, decay: float, t: int) -> dict[str, float]:
    """Usual mistakes with the standard deviation of round t, as factors on what it should be."""
    stddev = fading(scale, decay, t)
    found = {
        "halved": 0.5,
        "doubled": 2.0,
        "variance used as standard deviation": stddev,
        "standard deviation used as variance": stddev**-0.5,
        "one round too late": sqrt(decay),
        "one round too early": 1 / sqrt(decay),
        "V forgotten": 1 / scale,
    }
    if t > 1:
        found |= {
            "no fading": scale / stddev,
            "deviation fades by ρ": decay ** (t - 1) * scale / stddev,
            "variance fades by √ρ": decay ** ((1 - t) / 4),
        }
    return found
