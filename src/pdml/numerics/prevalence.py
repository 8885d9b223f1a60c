"""How many people have what they were asked about, from randomised responses (Warner 1965).

Of people with ε_s, n_s of n in all, an answer is reported with probability g_s by those who have it
and q_s by the others, so that a share λ_s of reports tells of a share (λ_s - q_s)/(g_s - q_s) of
people. The strata's shares are averaged by their people: whoever has more to hide may choose a
smaller ε, and an average by how much reports tell would miss them.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from pdml._types import Array
from pdml.numerics.interval import QUANTILE

WIDEST = 0.5  # of an interval that still says something


@dataclass(frozen=True, kw_only=True)
class Prevalence:
    """A share of people and its 95% interval, over the choice of people and the randomisation."""

    people: int
    unbiased: float  # which noise may carry below 0 or above 1
    low: float
    high: float

    @property
    def share(self) -> float:
        """The estimate, within 0 and 1."""
        return min(max(self.unbiased, 0.0), 1.0)

    @property
    def enough(self) -> bool:
        """Whether there are enough people to say something."""
        return self.high - self.low <= WIDEST


def share_of_people(reported: Array, kept: Array | float, other: Array | float) -> Array:
    """The share of people whose answer it is, by the share of reports that name it: unbiased."""
    return np.asarray((reported - other) / (kept - other))


def estimate_prevalence(reports: Array, people: Array, kept: Array, other: Array) -> Prevalence:
    """From strata of people with the same ε: how many ``reports`` of how many ``people`` name the
    answer, which those who have it report with probability ``kept`` and others with ``other``.

    Guarantees
    ----------
    - ``unbiased`` is: whichever ε people choose for whatever reason.
    - With one ε the interval is Wilson's of the reports, moved to people; with several, its
      variance is that of strata with one share.
    """
    n, apart = float(people.sum()), kept - other
    weights = people / n
    unbiased = float(np.sum(weights * share_of_people(reports / people, kept, other)))
    # the variance if the share is x: a + b x - c x², of λ(1 - λ) in each stratum
    precision = weights**2 / people
    a = float(np.sum(precision * other * (1 - other) / apart**2))
    b = float(np.sum(precision * (1 - 2 * other) / apart))
    c = float(np.sum(precision))
    # the ends of |x - unbiased| <= z √variance
    z = QUANTILE**2
    middle, lead = unbiased + z * b / 2, 1 + z * c
    reach = sqrt(max(middle**2 - lead * (unbiased**2 - z * a), 0.0))
    low, high = ((middle + side * reach) / lead for side in (-1, 1))
    return Prevalence(
        people=int(people.sum()),
        unbiased=unbiased,
        low=min(max(low, 0.0), 1.0),
        high=min(max(high, 0.0), 1.0),
    )
