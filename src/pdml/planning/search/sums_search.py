"""How much noise one exchange of sums needs under a budget, and how to divide it between Q and S.

The budget leaves one choice: the share of it that S may use up. For each of a few shares the least
noise of Q is read from a table of usual budgets, or found by asking the `Ledger`. It depends
neither on m nor on who colludes: sums are not divided by m, and a total hides a server.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import inf, isinf, sqrt

import numpy as np

from pdml._types import Array
from pdml.accounting import Budget
from pdml.accounting.events import SumsReleased
from pdml.accounting.kinds import Method
from pdml.accounting.profiles import gaussian_mu
from pdml.mechanisms.integer_gaussian import LARGEST
from pdml.numerics.admm import labels
from pdml.planning.forecast import utility
from pdml.planning.forecast.synthetic import Population
from pdml.planning.search.calibration import excess, hidden, least
from pdml.planning.server_spec import ServerSpec
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan

DELTA = 1e-6
FIXED = 1e-4  # the most that rounding may add to what a record moves, as a share of it
SHARES = (0.2, 0.35, 0.55)  # of the features' budget, in μ², that S may use up
_LOUDER = 1.01  # noise, until it does for whoever lies between the ends
FEATURES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
LABELS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)

# label ε -> for each of SHARES, for each of FEATURES
_NOISE: dict[float, tuple[tuple[float, ...], ...]] = {
    0.5: (
        (9.04, 4.271, 2.61, 1.64, 1.02, 0.6194, 0.3734, 0.2282, 0.1429),
        (9.513, 4.517, 2.753, 1.732, 1.087, 0.6677, 0.4069, 0.2504, 0.1573),
        (10.77, 5.031, 3.036, 1.903, 1.205, 0.7551, 0.4695, 0.2935, 0.1867),
    ),
    1.0: (
        (16.81, 7.046, 3.665, 2.009, 1.147, 0.66, 0.3851, 0.2315, 0.1437),
        (17.26, 7.352, 3.905, 2.16, 1.239, 0.7181, 0.4218, 0.2544, 0.1584),
        (19.49, 8.321, 4.447, 2.461, 1.415, 0.8299, 0.4936, 0.3004, 0.1885),
    ),
    1.5: (
        (23.13, 9.753, 4.984, 2.507, 1.301, 0.7055, 0.3982, 0.2353, 0.1448),
        (23.68, 10.02, 5.204, 2.701, 1.424, 0.7763, 0.4392, 0.2594, 0.16),
        (26.74, 11.35, 5.922, 3.121, 1.668, 0.9166, 0.5214, 0.3086, 0.1909),
    ),
    2.0: (
        (27.73, 11.74, 6.059, 3.043, 1.483, 0.7551, 0.4121, 0.2391, 0.146),
        (28.39, 12.02, 6.249, 3.218, 1.63, 0.8394, 0.4572, 0.2648, 0.1615),
        (32.02, 13.58, 7.089, 3.699, 1.926, 1.01, 0.5506, 0.3173, 0.1936),
    ),
    3.0: (
        (32.94, 13.98, 7.286, 3.763, 1.858, 0.8699, 0.4409, 0.2469, 0.1481),
        (33.71, 14.29, 7.465, 3.882, 1.984, 0.9754, 0.4959, 0.2752, 0.1645),
        (38.0, 16.12, 8.428, 4.402, 2.298, 1.183, 0.61, 0.3349, 0.1989),
    ),
    4.0: (
        (35.09, 14.89, 7.779, 4.057, 2.088, 0.9922, 0.4727, 0.2545, 0.1502),
        (35.9, 15.23, 7.965, 4.161, 2.167, 1.093, 0.5357, 0.2859, 0.1674),
        (40.47, 17.17, 8.981, 4.706, 2.472, 1.294, 0.6634, 0.3522, 0.2038),
    ),
    6.0: (
        (36.25, 15.37, 8.044, 4.213, 2.218, 1.155, 0.5419, 0.2713, 0.1545),
        (36.99, 15.7, 8.207, 4.302, 2.272, 1.201, 0.6085, 0.3077, 0.1733),
        (41.54, 17.64, 9.223, 4.836, 2.554, 1.367, 0.7308, 0.3838, 0.2136),
    ),
    8.0: (
        (36.35, 15.43, 8.07, 4.231, 2.234, 1.192, 0.605, 0.2898, 0.159),
        (36.99, 15.7, 8.207, 4.302, 2.273, 1.216, 0.6513, 0.3296, 0.1797),
        (41.54, 17.64, 9.223, 4.836, 2.554, 1.367, 0.7472, 0.4079, 0.2229),
    ),
}


def lookup_noise(budget: Budget, spec: ServerSpec, share: float) -> float | None:
    """σ_Q in units of how far a record of somebody with the smallest ε of ``spec``, which counts in
    full, moves Q; None where it has to be looked for.

    Guarantees
    ----------
    - Whoever has a larger ε moves Q less and S as much: the noise that they need alone is the next
      entry's at most, in units of how far they move Q themselves.
    """
    usual = budget.features_delta == DELTA and budget.labels_epsilon == inf and spec.classes == 2
    listed = share in SHARES and budget.features_epsilon in FEATURES and spec.epsilon in _NOISE
    if not (usual and spec.in_clear and listed) or spec.label_epsilon > LABELS[-1]:
        return None
    at = SHARES.index(share), FEATURES.index(budget.features_epsilon)
    kappas, needed = labels.kappa(np.array(spec.epsilons)), {}
    for epsilon, kappa in zip(spec.epsilons, kappas / kappas[0], strict=True):
        entry = LABELS[int(np.searchsorted(LABELS, epsilon))]
        needed[epsilon] = float(kappa) * _NOISE[entry][at[0]][at[1]]
    worst = max(needed, key=needed.__getitem__)
    return needed[worst] if worst in _NOISE else None


WIDEST = 300  # columns: S has d(d+1)/2 numbers, and a model from it costs d³


def preferred(sizes: Sizes) -> str | None:
    """The method where none was asked for: None leaves it to the forecasts."""
    if sizes.choices and sizes.width <= WIDEST:
        return Method.SUMS  # there everybody's report counts by what it tells
    return None


def calibrate(
    budget: Budget,
    spec: ServerSpec,
    share: float,
    *,
    loss: str = "logistic",
    cap: float | None = None,
) -> TrainingPlan | None:
    """The quietest exchange of sums that keeps to a budget and counts reports up to ``cap``.

    Guarantees
    ----------
    - The ledger of the plan's own event keeps to the budget at this spec.
    - σ_Q is about 0.5% above the least that does, if σ_S is given and few ε are in use.
    """
    rounded = replace(
        spec,
        records=1 << (spec.records - 1).bit_length(),
        server=0,
        degree=0.0,
        epsilons=_counted_in_full(spec, cap),
    )
    if budget.labels_epsilon >= spec.label_epsilon:  # the device alone keeps to it
        budget = replace(budget, labels_epsilon=inf)
    return _calibrated(budget, rounded, share, loss, cap)


def _counted_in_full(spec: ServerSpec, cap: float | None) -> tuple[float, ...]:
    """The largest ε that counts by what it tells, and all above: whoever has less moves Q and S
    less, and the response hides more of it."""
    counted = spec.label_epsilon if cap is None else min(cap, spec.label_epsilon)
    return (counted, *(epsilon for epsilon in spec.epsilons if epsilon > counted))


@lru_cache(maxsize=256)
def _calibrated(
    budget: Budget, spec: ServerSpec, share: float, loss: str, cap: float | None
) -> TrainingPlan | None:
    """With as many records as the next power of two, so that few questions are asked twice."""
    silent = TrainingPlan(
        method=Method.SUMS,
        label_noise=0.0,
        square_noise=0.0,
        colluding=budget.colluding,
        loss=loss,
        epsilon_cap=cap,
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

    table_noise = lookup_noise(budget, spec, share)
    if table_noise is not None and event.fixed_shift <= FIXED * event.record_shift:
        return plan(table_noise * event.record_shift)

    def over(noise: float, people: ServerSpec) -> float:
        return excess((people.flip(), *plan(noise).events(people)), budget, people.classes)

    few = replace(spec, epsilons=spec.epsilons[:: max(1, len(spec.epsilons) - 1)])
    noise = least(partial(over, people=few), guess, LARGEST)
    while noise is not None and len(spec.epsilons) > 2 and over(noise, spec) > 0:
        noise = noise * _LOUDER if noise * _LOUDER <= LARGEST else None
    return None if noise is None else plan(noise)


def score(plan: TrainingPlan, sizes: Sizes, populations: Sequence[Population], times: int) -> Array:
    """Scores of utility forecasts, (populations, times, yardsticks)."""
    noise = plan.noise_of_total(sizes.server_spec(0))
    loss = plan.loss_for(sizes.classes)
    scores = [
        utility.score_sums(population, sizes, noise, loss, times, cap=plan.epsilon_cap)
        for population in populations
    ]
    return np.array(scores)


def score_local(
    plan: TrainingPlan, sizes: Sizes, population: Population, times: int
) -> list[tuple[float, ...]]:
    """Scores of a local model, (times, yardsticks)."""
    others = plan.noise_of_total(sizes.server_spec(0), parts=len(sizes.records) - 1)
    loss, cap = plan.loss_for(sizes.classes), plan.epsilon_cap
    return utility.score_local(population, sizes, others, loss, times, cap=cap)
