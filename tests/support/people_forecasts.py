"""A forecast of people whose every number is known."""

import numpy as np

from pdml.planning.forecast.people_needed import PeopleForecast
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.sizes import Sizes


def straight_forecast() -> PeopleForecast:
    """Scores that rise by 0.1 for each factor of ten of people and ε, fall by 0.05 for each factor
    of two of noise, and lie 0.02 apart on four data sets."""
    epsilons, factors, people = (1.0, 10.0), (1.0, 2.0, 4.0), (100, 1_000, 10_000)
    means = (
        0.5
        + 0.1 * np.log10(epsilons)[:, None, None]
        - 0.05 * np.log2(factors)[None, :, None]
        + 0.1 * np.log10(np.array(people) / 100)[None, None, :]
    )
    return PeopleForecast(
        yardstick=Yardstick.AUC,
        sizes=Sizes(records=(1,), width=9, epsilon=1.0, prevalence=(0.1, 0.2)),
        features_epsilon=1.0,
        delta=1e-6,
        epsilons=epsilons,
        factors=factors,
        people=people,
        scores=means[..., None] + 0.02 * (np.arange(4) - 1.5),
        without_privacy=0.9,
    )
