"""How many people a consortium needs: what an exchange of sums is worth over people, label ε and
noise, forecast once and read at any number of organisations and of colluding ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, log, log10
from typing import Any

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.accounting import Budget
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.numerics.interval import Range
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.search.candidates import UtilityRuns
from pdml.planning.search.sums_search import SHARES
from pdml.planning.sizes import Sizes

PEOPLE = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0)
MOST_SERVERS = 50
# servers and how many of the others collude, by what the total's noise is
_CONSORTIA = ((50, 1), (3, 1), (2, None), (4, None), (10, None), (MOST_SERVERS, None))


def noise_factor(servers: int, colluding: int | None = None) -> float:
    """The variance of the total's noise, in that of one server that hides its records by itself:
    each of n adds 1/(n - k) of it, or all of it where all others may collude."""
    return float(servers) if colluding is None else servers / (servers - colluding)


@dataclass(frozen=True, kw_only=True)
class PeopleForecast:
    """Scores of simulated data sets over people, for some ε and some noise.

    Attributes
    ----------
    yardstick : Yardstick
        What a model is judged by.
    sizes : Sizes
        Columns, classes and prevalence; its records and ε stand for nothing.
    features_epsilon, delta : float
        The budget of features.
    epsilons, factors, people
        The grid: label ε, `noise_factor`, people in all.
    scores : array (epsilons, factors, people, data sets)
        In the mean more people are never worse, and more noise is never better.
    without_privacy : float
        What a model of true labels and no noise is worth in the mean.
    """

    yardstick: Yardstick
    sizes: Sizes
    features_epsilon: float
    delta: float
    epsilons: tuple[float, ...]
    factors: tuple[float, ...]
    people: tuple[int, ...]
    scores: Array = field(compare=False, repr=False)
    without_privacy: float

    def curve(self, epsilon: float, servers: int, colluding: int | None = None) -> Array:
        """Scores (people, data sets) of a consortium.

        Parameters
        ----------
        epsilon : float
            One of ``epsilons``.
        servers : int
            Organisations.
        colluding : int, optional
            How many of the others may collude; by default all.

        Returns
        -------
        array
        """
        if epsilon not in self.epsilons:
            levels = ", ".join(f"{level:g}" for level in self.epsilons)
            raise InvalidInput(
                f"epsilon must be one of {levels}, got {epsilon!r}", setting="epsilon"
            )
        _validate.integer("servers", servers, low=2, high=MOST_SERVERS)
        if colluding is not None:
            _validate.integer("colluding", colluding, low=1, high=servers - 1)
        at, logs = log(noise_factor(servers, colluding)), np.log(self.factors)
        above = int(np.clip(np.searchsorted(logs, at), 1, len(logs) - 1))
        share = np.clip((at - logs[above - 1]) / (logs[above] - logs[above - 1]), 0.0, 1.0)
        scores = self.scores[self.epsilons.index(epsilon)]
        return np.asarray((1 - share) * scores[above - 1] + share * scores[above])

    def expected(
        self, people: int, epsilon: float, servers: int, colluding: int | None = None
    ) -> Range:
        """The mean over data sets, and where 80% of them lie.

        Parameters
        ----------
        people : int
            In all organisations together.
        epsilon, servers, colluding
            As in `curve`.

        Returns
        -------
        Range
        """
        logs, curve = np.log(self.people), self.curve(epsilon, servers, colluding)
        at = [float(np.interp(log(people), logs, line)) for line in curve.T]
        low, high = np.quantile(at, [0.1, 0.9])
        return Range(low=float(low), middle=float(np.mean(at)), high=float(high))

    def needed(
        self, target: float, epsilon: float, servers: int, colluding: int | None = None
    ) -> int | None:
        """The least number of people in all that reach a target in the mean, rounded up to two
        digits; None where `PEOPLE` do not.

        Parameters
        ----------
        target : float
            By the yardstick.
        epsilon, servers, colluding
            As in `curve`.

        Returns
        -------
        int or None
        """
        means = self.curve(epsilon, servers, colluding).mean(axis=1)
        above = int(np.searchsorted(means, target))  # means ascend
        if above == len(means):
            return None
        if above == 0:
            return self.people[0]
        (low, high), logs = means[above - 1 : above + 1], np.log(self.people[above - 1 : above + 1])
        exact = np.exp(logs[0] + (target - low) / (high - low) * (logs[1] - logs[0]))
        digits = 10.0 ** (int(log10(exact)) - 1)
        return int(ceil(exact / digits - 1e-9) * digits)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        low, high = np.quantile(self.scores, [0.1, 0.9], axis=-1)
        return {
            "yardstick": str(self.yardstick),
            "columns": self.sizes.width - 1,
            "prevalence": self.sizes.prevalence,
            "features_epsilon": self.features_epsilon,
            "delta": self.delta,
            "epsilons": list(self.epsilons),
            "factors": list(self.factors),
            "people": list(self.people),
            "data_sets": self.scores.shape[-1],
            "means": self.scores.mean(axis=-1).tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
            "without_privacy": self.without_privacy,
        }


def forecast_people(
    width: int,
    *,
    prevalence: tuple[float, float] | None = None,
    yardstick: str = Yardstick.AUC,
    epsilons: Sequence[float] = EPSILONS,
    features_epsilon: float = 1.0,
    delta: float = 1e-6,
    progress: Callable[[int, int], None] | None = None,
) -> PeopleForecast:
    """Forecast an exchange of sums over people, label ε and noise: `pdml plan --target-auc`.

    Parameters
    ----------
    width : int
        Columns of a row, with the constant one.
    prevalence : (low, high), optional
        Between which shares the second of two classes is guessed to lie.
    yardstick : str
        What a model is judged by: a `Yardstick`.
    epsilons : sequence of float
        Of labels.
    features_epsilon, delta : float
        The most that others may learn of features.
    progress : callable, optional
        Called as (done, of how many) after each forecast.

    Returns
    -------
    PeopleForecast

    Raises
    ------
    BudgetExceeded
        If no noise meets the budget.
    InvalidInput
        If an argument lies outside its domain.

    Guarantees
    ----------
    - No record is read: the forecast is a function of its arguments alone.

    Examples
    --------
    >>> forecast = forecast_people(5, prevalence=(0.1, 0.2), epsilons=(1.0,))
    >>> 100 <= forecast.needed(0.6, 1.0, servers=5, colluding=1) <= 1_000_000
    True
    """
    _validate.choice("yardstick", yardstick, tuple(Yardstick))
    by, levels = Yardstick(yardstick), tuple(sorted(set(epsilons)))
    _validate.real("features_epsilon", features_epsilon, low=0, open_low=True)
    sizes = Sizes(records=(PEOPLE[-1],), width=width, epsilon=levels[-1], prevalence=prevalence)
    many = len(levels) * len(_CONSORTIA) * len(PEOPLE)
    scores: list[Array] = []
    for epsilon in levels:
        for servers, colluding in _CONSORTIA:
            budget = Budget(
                features_epsilon=features_epsilon, features_delta=delta, colluding=colluding
            )
            for people in PEOPLE:
                scores.append(_score(sizes, budget, by, epsilon, servers, people))
                if progress is not None:
                    progress(len(scores), many)
    shape = len(levels), len(_CONSORTIA), len(PEOPLE), -1
    unprotected = [one.score(one.unprotected)[by.column] for one in UtilityRuns(sizes).populations]
    return PeopleForecast(
        yardstick=by,
        sizes=sizes,
        features_epsilon=features_epsilon,
        delta=delta,
        epsilons=levels,
        factors=tuple(noise_factor(*consortium) for consortium in _CONSORTIA),
        people=PEOPLE,
        scores=_monotone(np.array(scores).reshape(shape)),
        without_privacy=float(np.mean(unprotected)),
    )


def _score(
    sizes: Sizes, budget: Budget, by: Yardstick, epsilon: float, servers: int, people: int
) -> Array:
    """Of each data set."""
    records = (-(-people // servers),) * servers
    runs = UtilityRuns(
        Sizes(records=records, width=sizes.width, epsilon=epsilon, prevalence=sizes.prevalence)
    )
    scores = runs.sums(budget, "logistic", SHARES[1])
    if scores is None:
        raise BudgetExceeded(
            f"the budget of features epsilon {budget.features_epsilon:g} (delta "
            f"{budget.features_delta:g}) cannot be met: no Gaussian noise reaches it"
        )
    return np.asarray(scores[..., by.column].mean(axis=1))


def _monotone(scores: Array) -> Array:
    """Shifted so that means neither fall with people nor rise with noise: where they do it is luck.
    The middle of the two nearest bounds that do not."""
    means = scores.mean(axis=-1)
    for axis, sign in ((2, 1.0), (1, -1.0)):
        ascending = sign * means
        above = np.maximum.accumulate(ascending, axis=axis)
        below = np.flip(np.minimum.accumulate(np.flip(ascending, axis), axis=axis), axis)
        means = sign * (above + below) / 2
    return np.asarray(scores + (means - scores.mean(axis=-1))[..., None])
