"""Feature maps: what a linear model cannot see in the columns themselves, by declaration alone.

A map adds columns made of a row's own standardised entries (`encoding.scaling`): squares, products,
splines, bins, waves. It acts before the row is scaled and clipped, so that every guarantee stays
what it is; what it costs is width, and the planner counts that. No map looks at more than one row
or at anything that is not public.

As in `encoding.scaling`, only IEEE operations in a fixed order, so that any language finds the
same. What becomes of a whole row is `encoding.row_steps.Expansion`.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.encoding import scaling
from pdml.errors import InvalidInput

TURN = 6.283185307179586  # 2π
_GRID = 65536.0  # directions are multiples of 1/65536 of a turn
_MEAN, _DEVIATION = 524280.0, 75674.0  # of the sum of sixteen words of 16 bits
_TERMS = 11  # of the cosine's series
KNOTS = (-2.0, -1.0, 0.0, 1.0, 2.0)  # of splines, in spreads
# Means of the hats about them and their variances, of standard normal entries: to 1/1024, the means
# so that they add up to 1.
HAT_MEANS = np.array([77, 246, 378, 246, 77]) / 1024
_HAT_MASSES = (48, 105, 120, 105, 48)
_REACH = 2.0  # where equal bins begin and end: the outermost are open


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a map is given: the entries of a row, before its scale."""

    names: tuple[str, ...]  # One for each entry
    # Those that are standardised numbers: what a map takes that names no columns
    numbers: tuple[str, ...]
    masses: tuple[float, ...]  # The expected square of each entry (`encoding.scaling`)

    def positions(self, columns: Iterable[str]) -> tuple[int, ...]:
        """The positions of named entries; of all numbers if none is named."""
        where = {name: k for k, name in enumerate(self.names)}
        wanted = tuple(columns) or self.numbers
        for name in wanted:
            if name not in where:
                raise InvalidInput(
                    f"columns of a map must be entries of the row, got {name!r}: they are "
                    f"{', '.join(map(repr, self.names[:20]))}"
                    f"{', ...' if len(self.names) > 20 else ''}",
                    setting="maps",
                )
        return tuple(where[name] for name in wanted)


@dataclass(frozen=True, kw_only=True)
class Squares:
    """(e² - 1)/√2 of each number, at most 3: for what is unusual in both directions.

    Parameters
    ----------
    columns : tuple of str
        The entries; all numbers if empty.
    keep : bool
        Whether the entries themselves stay in the row, too.
    """

    kind: ClassVar[str] = "squares"
    columns: tuple[str, ...] = ()
    keep: bool = True

    def __post_init__(self) -> None:
        _check_columns(self)

    def uses(self, inputs: Inputs) -> tuple[int, ...]:
        """The positions of the entries it is made of."""
        return inputs.positions(self.columns)

    def names(self, inputs: Inputs) -> tuple[str, ...]:
        """Of the columns it adds."""
        return tuple(f"{inputs.names[k]}^2" for k in self.uses(inputs))

    def masses(self, inputs: Inputs) -> tuple[float, ...]:
        """The expected square of each column it adds, but for what the limit takes away."""
        return (1.0,) * len(self.uses(inputs))

    def apply(self, entries: Array, inputs: Inputs) -> Array:
        """The columns it adds to entries (m, d)."""
        e = entries[:, self.uses(inputs)]
        return _limited((e * e - 1.0) * sqrt(0.5))


@dataclass(frozen=True, kw_only=True)
class Products:
    """e_a · e_b of named pairs, within ±3: for what counts only together.

    Parameters
    ----------
    pairs : tuple of (str, str)
        Pairs of entries: a level of a category is one, such as "sex=female".
    keep : bool
        Whether the entries themselves stay in the row, too.
    """

    kind: ClassVar[str] = "products"
    pairs: tuple[tuple[str, str], ...]
    keep: bool = True

    def __post_init__(self) -> None:
        items = _sequence(self.pairs)
        if not items or any(len(_sequence(pair)) != 2 for pair in items):
            raise _refused("pairs of a map must be one or more pairs of names", self.pairs)
        named = [_names("pairs of a map", pair) for pair in items]
        pairs = tuple((first, second) for first, second in named)
        if len({frozenset(pair) for pair in pairs}) < len(pairs):
            raise _refused("pairs of a map must differ from one another", self.pairs)
        object.__setattr__(self, "pairs", pairs)
        _check_keep(self.keep)

    def uses(self, inputs: Inputs) -> tuple[int, ...]:
        return inputs.positions(name for pair in self.pairs for name in pair)

    def names(self, inputs: Inputs) -> tuple[str, ...]:
        return tuple(f"{first}*{second}" for first, second in self.pairs)

    def masses(self, inputs: Inputs) -> tuple[float, ...]:
        """The expected square of each column it adds, if its entries are independent, but for what
        the limit takes away."""
        used = [inputs.masses[k] for k in self.uses(inputs)]
        return tuple(a * b for a, b in zip(used[::2], used[1::2], strict=True))

    def apply(self, entries: Array, inputs: Inputs) -> Array:
        used = self.uses(inputs)
        return _limited(entries[:, used[::2]] * entries[:, used[1::2]])


@dataclass(frozen=True, kw_only=True)
class Splines:
    """How near each number is to -2, -1, 0, 1 and 2 spreads: for bends. A linear model of them is a
    line with a bend at each, level beyond the outermost: an additive model.

    Parameters
    ----------
    columns : tuple of str
        The entries; all numbers if empty.
    keep : bool
        Whether the entries themselves stay in the row, too.
    """

    kind: ClassVar[str] = "splines"
    columns: tuple[str, ...] = ()
    keep: bool = True

    def __post_init__(self) -> None:
        _check_columns(self)

    def uses(self, inputs: Inputs) -> tuple[int, ...]:
        return inputs.positions(self.columns)

    def names(self, inputs: Inputs) -> tuple[str, ...]:
        return tuple(
            f"{inputs.names[k]} near {knot:g}" for k in self.uses(inputs) for knot in KNOTS
        )

    def masses(self, inputs: Inputs) -> tuple[float, ...]:
        return tuple(mass / 1024 for mass in _HAT_MASSES) * len(self.uses(inputs))

    def apply(self, entries: Array, inputs: Inputs) -> Array:
        e = np.minimum(np.maximum(entries[:, self.uses(inputs), None], KNOTS[0]), KNOTS[-1])
        hats = np.maximum(1.0 - np.abs(e - np.array(KNOTS)), 0.0) - HAT_MEANS
        return np.asarray(hats + 0.0).reshape(len(entries), -1)


@dataclass(frozen=True, kw_only=True)
class Bins:
    """Which of several intervals each number lies in, as a centred category: for steps and humps.

    Parameters
    ----------
    columns : tuple of str
        The entries; all numbers if empty.
    count : int
        How many intervals, where no edges are given: their edges divide ±2 spreads about the
        average into equal parts, and the outermost intervals are open.
    edges : tuple of float
        Where one interval ends and the next begins, in spreads from the average, rising.
    keep : bool
        Whether the entries themselves stay in the row, too.
    """

    kind: ClassVar[str] = "bins"
    columns: tuple[str, ...] = ()
    count: int = 5
    edges: tuple[float, ...] = ()
    keep: bool = True

    def __post_init__(self) -> None:
        _check_columns(self)
        values = _sequence(self.edges)
        edges = tuple(
            _validate.real("edges", edge, low=-scaling.LIMIT, high=scaling.LIMIT) for edge in values
        )
        if any(a >= b for a, b in pairwise(edges)):
            raise _refused("edges of a map must rise", self.edges)
        object.__setattr__(self, "edges", edges)
        count = len(edges) + 1 if edges else _validate.integer("count", self.count, low=2, high=64)
        object.__setattr__(self, "count", count)

    @property
    def inner(self) -> tuple[float, ...]:
        """The edges, declared or equal."""
        equal = (_REACH * (2 * k / self.count - 1) for k in range(1, self.count))
        return self.edges or tuple(equal)

    def uses(self, inputs: Inputs) -> tuple[int, ...]:
        return inputs.positions(self.columns)

    def names(self, inputs: Inputs) -> tuple[str, ...]:
        return tuple(
            f"{inputs.names[k]} bin {number + 1}"
            for k in self.uses(inputs)
            for number in range(self.count)
        )

    def masses(self, inputs: Inputs) -> tuple[float, ...]:
        return (scaling.level_mass(self.count),) * (self.count * len(self.uses(inputs)))

    def apply(self, entries: Array, inputs: Inputs) -> Array:
        edges = np.array(self.inner)
        columns = [
            scaling.centred(np.searchsorted(edges, entries[:, k], side="right"), self.count)
            for k in self.uses(inputs)
        ]
        return np.hstack([np.zeros((len(entries), 0)), *columns])


@dataclass(frozen=True, kw_only=True)
class Fourier:
    """√2·cos(2π t) and √2·sin(2π t) along random directions, t = Σ_j e_j·w_j: for any smooth shape.

    A linear model on them is one on a Gaussian kernel of width ``scale``, the better the more waves
    there are (random Fourier features).

    Parameters
    ----------
    columns : tuple of str
        The entries; all numbers if empty.
    count : int
        How many waves: cosine and sine by turns, two for each direction.
    scale : float
        The kernel's width in spreads: what lies closer than this looks alike.
    seed : int
        Public: the same seed has the same directions, everywhere.
    keep : bool
        Whether the entries themselves stay in the row, too.
    """

    kind: ClassVar[str] = "fourier"
    columns: tuple[str, ...] = ()
    count: int = 20
    scale: float = 0.7
    seed: int = 0
    keep: bool = True

    def __post_init__(self) -> None:
        _check_columns(self)
        _validate.integer("count", self.count, low=1, high=2000)
        object.__setattr__(self, "scale", _validate.real("scale", self.scale, low=0.01, high=1000))
        _validate.integer("seed", self.seed, low=0, high=2**53)

    def uses(self, inputs: Inputs) -> tuple[int, ...]:
        return inputs.positions(self.columns)

    def names(self, inputs: Inputs) -> tuple[str, ...]:
        return tuple(f"fourier {k + 1}" for k in range(self.count))

    def masses(self, inputs: Inputs) -> tuple[float, ...]:
        return (1.0,) * self.count

    def apply(self, entries: Array, inputs: Inputs) -> Array:
        used = self.uses(inputs)
        w = directions(self.seed, (self.count + 1) // 2, len(used), self.scale)
        t = np.zeros((len(entries), len(w)))
        for j, k in enumerate(used):  # from left to right, as everywhere
            t += entries[:, k, None] * w[:, j]
        waves = np.empty((len(entries), 2 * len(w)))
        waves[:, 0::2] = wave(t)
        waves[:, 1::2] = wave(t - 0.25)
        return waves[:, : self.count] * sqrt(2.0)

    def waves(self, width: int) -> tuple[Array, Array]:
        """Each wave as √2·cos(2π(e·w + phase)): all w (waves, width), all phases."""
        w = directions(self.seed, (self.count + 1) // 2, width, self.scale)
        phases = np.tile([0.0, -0.25], len(w))  # cosine and sine by turns
        return np.repeat(w, 2, axis=0)[: self.count], phases[: self.count]


# The cosine of a platform may differ in its last bit from machine to machine, as its generator of
# random numbers may: waves are polynomials, and their directions come from a public seed by
# integers and SHA-256, the same to the bit in every language.


def directions(seed: int, count: int, width: int, scale: float) -> Array:
    """w (count, width) in turns: entries like N(0, 1/(2π·scale)²).

    Entry (k, j) is the sum of the sixteen words of 16 bits in the SHA-256 of
    "pdml-fourier SEED K J" about its mean, over its deviation, rounded to 1/65536 of a turn. It is
    normal but for a kurtosis of 2.93.
    """
    sums = np.array(
        [[_words(f"pdml-fourier {seed} {k} {j}") for j in range(width)] for k in range(count)],
        dtype=np.float64,
    ).reshape(count, width)
    unit = _DEVIATION * TURN * scale
    return np.asarray(np.floor((sums - _MEAN) / unit * _GRID + 0.5) / _GRID)


def wave(t: Array) -> Array:
    """cos(2π t), to 1e-11, by the same operations in every language.

    With u = t - ⌊t⌋ - 1/2 it is -Σ_k (-(2π u)²)^k/(2k)!, summed from the last term.
    """
    u = t - np.floor(t) - 0.5
    v = u * u
    total = np.zeros_like(v)
    for k in range(_TERMS, 0, -1):
        total = (1.0 + total) * v * (-(TURN * TURN) / ((2 * k - 1) * (2 * k)))
    return np.asarray(-1.0 - total)


def _words(text: str) -> int:
    """The sum of the sixteen words of 16 bits of a text's SHA-256."""
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return sum(int.from_bytes(digest[k : k + 2], "big") for k in range(0, 32, 2))


FeatureMap = Squares | Products | Splines | Bins | Fourier
_KINDS: dict[str, type[FeatureMap]] = {
    map_type.kind: map_type for map_type in (Squares, Products, Splines, Bins, Fourier)
}


def to_dict(feature_map: FeatureMap) -> dict[str, Any]:
    """Plain values, spelt as in a study: {"map": "fourier", "count": 20, ...}."""
    data: dict[str, Any] = {"map": feature_map.kind}
    for field in fields(feature_map):
        value = getattr(feature_map, field.name)
        if field.name == "pairs":
            data["pairs"] = [list(pair) for pair in value]
        elif field.name == "count" and isinstance(feature_map, Bins) and feature_map.edges:
            continue  # the edges say it
        elif value != () or field.name == "pairs":
            data[field.name] = list(value) if isinstance(value, tuple) else value
    return data


def from_dict(data: Any) -> FeatureMap:
    """The inverse of `to_dict`; settings that are left out have their defaults."""
    if not isinstance(data, Mapping) or "map" not in data:
        raise _refused('a map must be a table with its name, {"map": "squares"}', data)
    kind = _KINDS[_validate.choice("map", data["map"], tuple(_KINDS))]
    names = [field.name for field in fields(kind)]
    settings = {name: value for name, value in data.items() if name != "map"}
    for name in settings:
        if name not in names:
            raise _refused(f"settings of the map {kind.kind!r} must be {', '.join(names)}", name)
    if kind is Products and "pairs" not in settings:
        raise _refused("the map 'products' must name its pairs", data)
    return kind(**settings)


def maps_of(maps: Any) -> tuple[FeatureMap, ...]:
    """One map, several, or none, each as an object or as `to_dict` spells it."""
    if maps is None:
        return ()
    several = maps if isinstance(maps, (list, tuple)) else (maps,)
    return tuple(item if isinstance(item, FeatureMap) else from_dict(item) for item in several)


def _limited(columns: Array) -> Array:
    """Within ±3, like every entry."""
    return np.asarray(np.minimum(np.maximum(columns, -scaling.LIMIT), scaling.LIMIT) + 0.0)


def _check_columns(feature_map: Squares | Splines | Bins | Fourier) -> None:
    columns = _names("columns of a map", feature_map.columns)
    if len(set(columns)) < len(columns):
        raise _refused("columns of a map must differ from one another", feature_map.columns)
    object.__setattr__(feature_map, "columns", columns)
    _check_keep(feature_map.keep)


def _check_keep(keep: object) -> None:
    if not isinstance(keep, bool):
        raise _refused("keep of a map must be True or False", keep)


def _sequence(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else ()


def _names(what: str, value: Any) -> tuple[str, ...]:
    names = _sequence(value)
    if len(names) != len(value if isinstance(value, (list, tuple)) else "x") or not all(
        isinstance(name, str) and name for name in names
    ):
        raise _refused(f"{what} must be names", value)
    return names


def _refused(must: str, got: object) -> InvalidInput:
    return InvalidInput(f"{must}, got {got!r}", setting="maps")
