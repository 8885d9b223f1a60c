"""What noise does to coefficients, from releases and public settings alone: it costs no privacy."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from pdml._threads import single_thread
from pdml._types import Array
from pdml.mechanisms.integer_gaussian import Units
from pdml.model.history import noise_level
from pdml.numerics.interval import QUANTILE
from pdml.numerics.sums.noise_split import deviations
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_fit

OF_SUMS = (
    "the noise of the exchange, the flips of the labels and the labels' own chance, 1.96 standard "
    "deviations to each side: of coefficients that are noise alone one in twenty at most has an "
    "interval without zero, as measured on simulated data sets"
)
OF_CODES = (
    "the noise of the exchange, the flips of the labels and the labels' own chance, 1.96 standard "
    "deviations to each side. The randomised response of people's other answers moves coefficients "
    "as well, those of their own columns farther than this says"
)
OF_ROUNDS = (
    "the noise of the last round alone, which is known exactly: 95% of such intervals hold what "
    "the coefficient was before it. The noise of earlier rounds, that of the objective and the "
    "flips of the labels move it as well, often farther, and no release tells how far"
)


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """95% intervals of coefficients, the intercept left out."""

    coefficients: Array  # Of the released model
    deviations: Array  # What noise adds to each, as a standard deviation
    covers: str  # Which noise that is, in words
    whole: bool  # Whether it is all of it

    @property
    def low(self) -> Array:
        return self.coefficients - QUANTILE * self.deviations

    @property
    def high(self) -> Array:
        return self.coefficients + QUANTILE * self.deviations

    @cached_property
    def more_than_noise(self) -> NDArray[np.bool_]:
        """Whether an interval of all noise leaves zero out, as up to one in twenty does of
        coefficients that are noise alone.
        """
        return np.asarray(self.whole & (np.abs(self.coefficients) > QUANTILE * self.deviations))


def of_sums(
    total: Units, plan: TrainingPlan, spec: ServerSpec, weights: Array, *, intercept: bool = True
) -> Intervals:
    """After one exchange of sums, by its total."""
    with single_thread():
        fit = sums_fit.fit_total(total, plan, spec, intercept)
        stddevs = deviations(*fit, plan.loss_for(spec.classes)) / spec.norm_bound
    columns = slice(-1) if intercept else slice(None)
    return Intervals(
        coefficients=weights[:, columns],
        deviations=stddevs[:, columns],
        covers=OF_CODES if spec.blocks else OF_SUMS,
        whole=not spec.blocks,
    )


def of_rounds(plan: TrainingPlan, servers: int, coefficients: Array) -> Intervals:
    """After rounds, of the mean of the servers' last releases."""
    stddev = float(noise_level(plan, servers)[-1]) / sqrt(servers)
    return Intervals(
        coefficients=coefficients,
        deviations=np.full(coefficients.shape, stddev),
        covers=OF_ROUNDS,
        whole=False,
    )
