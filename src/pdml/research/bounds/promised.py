"""Everything that theory promises of one setting: every statement in every variant, what must hold
for it, and the Rademacher complexity of the classifiers {|w| <= W} on given records,

    Rad(W) = (1/m) E_ν sup_{|w| <= W} Σ_j ν_j w·x_j = (W/m) E_ν |Σ_j ν_j x_j| <= (W/m) sqrt(Σ_j
    |x_j|²),

the supremum by Cauchy-Schwarz, the inequality by Jensen and E ν_j ν_k = 0 (j ≠ k).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import erfc, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from pdml import _validate
from pdml._types import Matrix
from pdml.errors import InvalidInput
from pdml.numerics.admm import rows
from pdml.research.bounds import corrected, printed, sharper
from pdml.research.bounds.printed import Constants, Curvature, condition
from pdml.research.bounds.setting import Bound, Setting, longest_best
from pdml.research.paper.drawing import BLUE, INK, MUTED, ORANGE, PAPER, drawing

_BLOCK = 1 << 22  # signs drawn at a time


def closed_form(x: Matrix, radius: float) -> float:
    """(W/m) sqrt(Σ |x_j|²), at least the complexity; W·B/sqrt(m) if every record is as long as B
    allows.
    """
    lengths = rows.norms(_records(x))
    return _radius(radius) * float(np.linalg.norm(lengths)) / len(lengths)


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """A mean over drawn signs, and an interval that misses the true complexity with probability at
    most ``miss``.
    """

    value: float
    low: float
    high: float
    draws: int
    miss: float


def sampled(
    x: Matrix, radius: float, rng: np.random.Generator, *, draws: int = 200, miss: float = 0.01
) -> Sampled:
    """(W/m) times the mean of |Σ_j ν_j x_j| over ``draws`` vectors of random signs, with a
    central-limit interval.

    One draw of |Σ ν_j x_j| is sub-Gaussian (it is 2·sigma_max(X)-Lipschitz and convex in ν), so
    that the interval is honest from a few dozen draws on; it is not exact.
    """
    records = _records(x)
    draws = _validate.integer(
        "draws", draws, low=10, high=10**7, why="an interval needs several draws"
    )
    miss = _validate.real("miss", miss, low=0, high=1, open_low=True, open_high=True)
    m = records.shape[0]
    scale = _radius(radius) / m
    lengths = []
    for start in range(0, draws, step := max(1, _BLOCK // m)):
        signs = rng.choice(np.array([-1.0, 1.0]), size=(min(step, draws - start), m))
        lengths.append(np.linalg.norm(np.asarray(records.T @ signs.T), axis=0))
    norms = np.concatenate(lengths) * scale
    reach = (
        brentq(lambda z: erfc(z / sqrt(2)) - miss, 0, 40) * float(norms.std(ddof=1)) / sqrt(draws)
    )
    value = float(norms.mean())
    return Sampled(
        value=value, low=max(0.0, value - reach), high=value + reach, draws=draws, miss=miss
    )


def _radius(radius: float) -> float:
    return _validate.real(
        "radius",
        radius,
        low=0,
        high=1e12,
        open_low=True,
        why="the classifiers are the w with |w| <= radius",
    )


def _records(x: Matrix) -> Matrix:
    records = rows.as_rows(x)
    if records.shape[0] == 0:
        raise InvalidInput("x must hold at least one record, got none")
    return records


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
    sampled: Sampled

    @classmethod
    def of(cls, x: Matrix, radius: float, seed: int = 0) -> "Complexity":
        """Of the records ``x``, for classifiers up to ``radius``; ``seed`` draws the signs."""
        sample = sampled(x, radius, np.random.default_rng([seed, 9]))
        return cls(records=int(x.shape[0]), closed_form=closed_form(x, radius), sampled=sample)

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


AGAINST = {"records": "records per server (m)", "bound": "bound of the objective's noise (R)"}
_POINTS = 41


def draw(setting: Setting, against: str, path: Path, kind: str) -> None:
    """Corollary 1 in all variants and the sharper one's terms, from a hundredth to a hundred times
    the setting, as ``kind`` png or svg.
    """
    from matplotlib.figure import Figure

    factors = np.geomspace(0.01, 100, _POINTS)
    if against == "records":
        settings = [
            replace(setting, records=tuple(max(1, round(m * f)) for m in setting.records))
            for f in factors
        ]
        places = [float(np.mean(s.records)) for s in settings]
    else:
        middle = setting.objective_bound or 1.0
        settings = [replace(setting, objective_bound=middle * f) for f in factors]
        places = [s.objective_bound for s in settings]
    with drawing("bound"):
        figure = Figure(figsize=(8, 4.5), layout="constrained", facecolor=PAPER)
        axes = figure.subplots()
        for room, colour in ((printed, MUTED), (corrected, ORANGE), (sharper, BLUE)):
            bounds = [room.corollary1(s) for s in settings]
            axes.plot(places, [b.total for b in bounds], color=colour, label=room.VARIANT)
        for term, style in (("labels", "--"), ("objective", ":")):
            values = [getattr(b, term) for b in bounds]
            if max(values) > 0:
                axes.plot(places, values, style, color=BLUE, label=f"sharper: {term}")
        caption = f"loss at w = 0: {setting.zero_loss:.2f}"
        axes.axhline(setting.zero_loss, color=INK, linewidth=0.8, label=caption)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel=AGAINST[against],
            ylabel="bound on the excess risk (Corollary 1)",
        )
        # beside the axes: no curve can run through it
        figure.legend(frameon=False, loc="outside right upper")
        figure.savefig(
            path, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None
        )
