"""Which η a bound R leaves room for: the paper asks for |η| <= R and an arbitrary distribution.

Its text bounds |η|_∞, its proof uses |η|_2. `box` and `gaussian` keep the first, `ball` and
`calibrated` both.
"""

from functools import cache
from math import sqrt

from pdml import _validate
from pdml._math import bisect
from pdml.accounting import profiles
from pdml.mechanisms.objective_noise import SIGMAS
from pdml.numerics.admm import labels
from pdml.planning.search.planner import Sizes
from pdml.planning.training_plan import TrainingPlan
from pdml.research.paper.experiment import DELTA

NOISES = ("box", "ball", "gaussian", "calibrated")
# of the label's ε that `calibrated` leaves to other servers, where R allows that much noise
SHARE = 2 / 3

_KINDS = {
    "box": "uniform_box",
    "ball": "uniform_ball",
    "gaussian": "truncated_gaussian",
    "calibrated": "truncated_gaussian",
}


def objective(noise: str, bound: float, sizes: Sizes) -> tuple[str, float]:
    """The plan's ``objective_noise`` and ``objective_bound`` for one of `NOISES` within R.

    ``gaussian``: σ = R/6, cut at R in each coordinate. ``calibrated``: σ as small as `SHARE`
    allows, but at most R/(6√d), cut at 6σ in each coordinate, so that |η|_2 <= R.
    """
    _validate.choice("noise", noise, NOISES)
    reach = (
        min(bound / sqrt(sizes.width), SIGMAS * least_deviation(sizes))
        if noise == "calibrated"
        else bound
    )
    return _KINDS[noise], reach


def least_deviation(sizes: Sizes) -> float:
    """The least σ that leaves others `SHARE` of the labels' ε: one report moves n·q_i by
    n·2cκB/m_i, which is to be μσ.
    """
    shift = labels.label_shift(sizes.epsilon, sizes.norm_bound, TrainingPlan().loss_for(2), 2)
    return len(sizes.records) * shift / min(sizes.records) / _loudest(sizes.epsilon)


@cache
def _loudest(epsilon: float) -> float:
    """The largest μ at which randomised response ε and a μ-Gaussian together are (`SHARE`·ε,
    DELTA)-private.
    """

    def enough(mu: float) -> bool:
        both = profiles.joint_profile(epsilon, profiles.gaussian_profile(mu))
        return bool(both(SHARE * epsilon) <= DELTA)

    return bisect(enough, 0.0, 100.0, absolute=1e-9)
