"""How much noise one exchange of sums needs under a budget, and how to divide it between Q and S.

The budget leaves one choice: the share of it that S may use up. For each of a few shares the least
noise of Q beside it is found by asking the `Ledger` about the plan's own event, and the populations
say which pair loses the least (`compared`). Sums are not divided by the number of records, and a
total hides a server among others by what they add up to: so the noise depends neither on m nor on
who colludes.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, isinf, sqrt

import numpy as np

from pdml._types import Array
from pdml.accounting import Budget
from pdml.accounting.events import SumsReleased
from pdml.accounting.profiles import gaussian_mu
from pdml.mechanisms.integer_gaussian import LARGEST
from pdml.planning.forecast import utility
from pdml.planning.forecast.synthetic import Population
from pdml.planning.search import noise_table
from pdml.planning.search.calibration import excess, hidden, least
from pdml.planning.server_spec import ServerSpec
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan

SHARES = noise_table.SHARES
WIDEST = 300  # columns: S has d(d+1)/2 numbers, and a model from it costs d³


def preferred(sizes: Sizes) -> str | None:
    """The method to plan for where none was asked for: None leaves it to the rehearsals."""
    if sizes.smallest_epsilon and sizes.width <= WIDEST:
        return "sums"  # there everybody's report counts by what it tells
    return None


def calibrate(
    budget: Budget, spec: ServerSpec, share: float, *, loss: str = "logistic"
) -> TrainingPlan | None:
    """The quietest exchange of sums that keeps to a budget.

    Guarantees
    ----------
    - The ledger of the plan's own event keeps to the budget at this spec.
    - σ_Q is about 0.5% above the least that does, if σ_S is given.
    """
    rounded = replace(
        spec,
        records=1 << (spec.records - 1).bit_length(),
        server=0,
        degree=0.0,
        epsilons=(spec.label_epsilon,),
    )
    if budget.labels_epsilon >= spec.label_epsilon:  # the device alone keeps to it
        budget = replace(budget, labels_epsilon=inf)
    return _calibrated(budget, rounded, share, loss)


@lru_cache(maxsize=256)
def _calibrated(budget: Budget, spec: ServerSpec, share: float, loss: str) -> TrainingPlan | None:
    """With as many records as the next power of two, so that few questions are asked twice."""
    silent = TrainingPlan(
        method="sums", label_noise=0.0, square_noise=0.0, colluding=budget.colluding, loss=loss
    )
    event = silent.events(spec)[0]
    assert isinstance(event, SumsReleased)
    square, guess = 0.0, 1.0
    if not isinf(budget.features_epsilon):
        mu = gaussian_mu(budget.features_epsilon, budget.features_delta)
        if mu <= 0 or event.square_shift > sqrt(share) * mu * LARGEST:
            return None
        square = event.square_shift / (sqrt(share) * mu)
        guess = event.record_shift / (hidden(budget, spec) * (1 - share) ** 0.35 * mu)

    def plan(noise: float) -> TrainingPlan:
        return replace(silent, label_noise=noise, square_noise=square)

    table_noise = noise_table.lookup_noise(budget, spec, share)
    if table_noise is not None and event.fixed_shift <= noise_table.FIXED * event.record_shift:
        return plan(table_noise * event.record_shift)

    def over(noise: float) -> float:
        return excess((spec.flip(), *plan(noise).events(spec)), budget, spec.classes)

    noise = least(over, guess, LARGEST)
    return None if noise is None else plan(noise)


def score(plan: TrainingPlan, sizes: Sizes, populations: Sequence[Population], times: int) -> Array:
    """(Agreement, accuracy) of rehearsals, (populations, times, 2)."""
    noise = plan.noise_of_total(sizes.server_spec(0))
    loss = plan.loss_for(sizes.classes)
    scores = [
        utility.score_sums(population, sizes, noise, loss, times) for population in populations
    ]
    return np.array(scores).reshape(-1, times, 2)
