"""Everything that theory promises of one setting: every statement in every variant, and what must
hold for it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np

from pdml._types import Matrix
from pdml.research.bounds import corrected, printed, rademacher, sharper
from pdml.research.bounds.bound_terms import Bound
from pdml.research.bounds.convergence import Constants, Curvature, condition
from pdml.research.bounds.setting import Setting, longest_best


@dataclass(frozen=True, kw_only=True)
class Precondition:
    """What a statement needs; ``holds`` is None where nobody can check it."""

    name: str
    holds: bool | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Complexity:
    """Rademacher complexity of public records together; a server with m_i records like them has
    sqrt(records/m_i) times as much.
    """

    records: int
    closed_form: float
    sampled: rademacher.Sampled

    @classmethod
    def of(cls, x: Matrix, radius: float, seed: int = 0) -> "Complexity":
        """Of the records ``x``, for classifiers up to ``radius``; ``seed`` draws the signs."""
        sample = rademacher.sampled(x, radius, np.random.default_rng([seed, 9]))
        return cls(
            records=int(x.shape[0]), closed_form=rademacher.closed_form(x, radius), sampled=sample
        )

    def per_server(self, records: Sequence[int]) -> list[float]:
        """The closed form for so many records like these."""
        return [self.closed_form * sqrt(self.records / m) for m in records]


@dataclass(frozen=True, kw_only=True)
class Promises:
    """``silent`` is why Theorem 1 as printed says nothing here; empty if it speaks."""

    setting: Setting
    bounds: tuple[Bound, ...]
    preconditions: tuple[Precondition, ...]
    silent: str
    complexity: Complexity | None

    def speaks(self, bound: Bound) -> bool:
        """Whether a bound says anything: the loss at w = 0 is a bound that costs nothing."""
        return bound.per_classifier < self.setting.zero_loss

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        complexity = self.complexity
        measured = {} if complexity is None else {"rademacher": _plain_complexity(complexity)}
        return {
            "risk_of_zero": self.setting.zero_loss,
            "radius": self.setting.radius,
            "bounds": [self._plain(bound) for bound in self.bounds],
            "conditions": [
                {
                    "condition": precondition.name,
                    "holds": precondition.holds,
                    "reason": precondition.reason,
                }
                for precondition in self.preconditions
            ],
            **measured,
        }

    def _plain(self, bound: Bound) -> dict[str, Any]:
        return {
            "statement": bound.statement,
            "variant": bound.variant,
            "classifiers": bound.classifiers,
            **bound.terms,
            "total": bound.total,
            "per_classifier": bound.per_classifier,
            "largest": bound.dominant,
            "says_something": self.speaks(bound),
        }


def _plain_complexity(complexity: Complexity) -> dict[str, float]:
    return {
        "records": complexity.records,
        "closed_form": complexity.closed_form,
        **asdict(complexity.sampled),
    }


def promises(setting: Setting, complexity: Complexity | None = None) -> Promises:
    """Theorems 1 and 2 and Corollaries 1 and 2, as printed, corrected and sharper.

    Parameters
    ----------
    setting : Setting
        The training, by its public sizes.
    complexity : Complexity, optional
        Of public records like those that will be trained on: the bounds as printed use it instead
        of the longest that records may be.

    Returns
    -------
    Promises

    Examples
    --------
    >>> from pdml.numerics.admm.graph import Graph
    >>> ring = Setting(graph=Graph.ring(5), records=(20_000,), width=20, epsilon=1.0, radius=10.0)
    >>> [bound.statement for bound in promises(ring).bounds if bound.variant == "sharper"]
    ['Corollary 2', 'Corollary 1', 'Theorem 2', 'Theorem 1']
    """
    lengths = None if complexity is None else complexity.per_server(setting.records)
    first = printed.theorem1(setting, lengths)
    bounds = [
        printed.corollary2(setting, lengths),
        printed.corollary1(setting, lengths),
        printed.theorem2(setting, lengths),
        *(() if isinstance(first, str) else first[:1]),
    ]
    for room in (corrected, sharper):
        bounds += [
            room.corollary2(setting),
            room.corollary1(setting),
            room.theorem2(setting),
            room.theorem1(setting),
        ]
    return Promises(
        setting=setting,
        bounds=tuple(bounds),
        preconditions=(*_preconditions(setting), *_decay(setting, first)),
        silent=first if isinstance(first, str) else "",
        complexity=complexity,
    )


def _preconditions(setting: Setting) -> tuple[Precondition, ...]:
    kept = longest_best(setting.n, setting.regularization, setting.norm_bound)
    return (
        _lemma5("as printed", setting, Curvature.printed(setting)),
        _lemma5("corrected", setting, Curvature.stacked(setting)),
        Precondition(
            name="|w*| <= W",
            holds=setting.radius >= kept,
            reason=f"the best classifier is no longer than {kept:.4g}, "
            f"and W = {setting.radius:.4g}",
        ),
        Precondition(
            name="one population",
            holds=None,
            reason="cannot be checked here: all servers' records are independent draws from the "
            "same P",
        ),
    )


def _lemma5(how: str, setting: Setting, constants: Curvature) -> Precondition:
    met = condition(setting.graph, constants)
    return Precondition(name=f"Lemma 5, constants {how}", holds=met.holds, reason=met.reason)


def _decay(setting: Setting, first: tuple[Bound, Constants] | str) -> tuple[Precondition, ...]:
    """Theorem 1's condition on ρ; where Lemma 5's fails, nobody asks for it."""
    if isinstance(first, str):
        applies = condition(setting.graph, Curvature.printed(setting)).holds
        return (Precondition(name="noise decay < C", holds=False, reason=first),) if applies else ()
    chosen = first[1]
    why = (
        f"a choice of b and lambda_1 has C = {chosen.contraction:.4g}, for beta = "
        f"{chosen.penalty:.4g} and no other"
    )
    return (Precondition(name="noise decay < C", holds=True, reason=why),)
