"""From X as people have it to rows of norm at most B: the one place where the two meet.

Every step looks at one record and at public settings only, so preparing leaks nothing; what was
taken from the records themselves (``"from_data"``) is a leak, and is named as one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from pdml import _validate
from pdml._types import Array, Matrix
from pdml.encoding import decimal_grid, maps, scaling
from pdml.encoding.encoder import Encoder
from pdml.encoding.expansion import Expansion
from pdml.encoding.maps import FeatureMap
from pdml.errors import InvalidInput
from pdml.numerics.admm import rows

SCALES_LEAK = (
    "scales='from_data' took each column's median and deviation, rounded to two digits of "
    "the deviation, from the records: a release no noise protects"
)
RANGES_LEAK = (
    "ranges='from_data' took each column's minimum and maximum, rounded outwards to two "
    "digits of their distance, from the records: a release no noise protects"
)
_LONG = ((2.0, 0.5), (10.0, 0.1))  # times the norm bound; the share of rows beyond to warn of
_CHUNK = 512  # rows at a time: what is made on the way stays in cache


@dataclass(frozen=True, kw_only=True, eq=False)
class NumericColumns:
    """Columns of numbers, their declared scales, and maps of them."""

    names: tuple[str, ...]  # Of the columns
    scales: Array  # (typical, spread) of each
    ranges: Array | None = None  # (low, high) of each: what lies outside is moved to the nearer end
    maps: tuple[FeatureMap, ...] = ()  # `pdml.encoding.maps`

    def __post_init__(self) -> None:
        many = len(self.names)
        _pairs("scales", "(typical, spread)", self.scales, many)
        for name, (typical, spread) in zip(self.names, self.scales.tolist(), strict=True):
            scaling.checked(name, typical, spread)
        if self.ranges is not None:
            _intervals(self.ranges, many)
        _ = self.expansion

    @cached_property
    def expansion(self) -> Expansion:
        """What becomes of the columns' entries."""
        return Expansion(inputs=maps.Inputs.of_numbers(self.names), maps=self.maps)

    @property
    def constant(self) -> float:
        """That of a typical row, in units of the norm bound."""
        return scaling.typical_constant(self.expansion.mass)

    def rows(self, x: Matrix, *, norm_bound: float, constant: bool) -> tuple[Matrix, int]:
        """Rows as they are trained on, and how many were clipped."""
        if sp.issparse(x):
            return self._sparse(x, norm_bound, constant)
        width = self.expansion.width + constant
        matrix, shrunk = np.empty((len(x), width), dtype=x.dtype), 0
        typical, spread = self.scales.T
        for start in range(0, len(x), _CHUNK):
            part = slice(start, start + _CHUNK)
            values = x[part] if self.ranges is None else np.clip(x[part], *self.ranges.T)
            entries = self.expansion.apply(scaling.standardised(values, typical, spread))
            matrix[part], more = scaling.scale_and_clip(
                entries, self.expansion.mass, constant=constant, bound=norm_bound
            )
            shrunk += more
        return matrix, shrunk

    def _sparse(self, x: Matrix, norm_bound: float, constant: bool) -> tuple[Matrix, int]:
        if self.maps:
            raise InvalidInput(
                "maps must be left out for a sparse X, got one: its columns would fill in "
                "every zero",
                setting="maps",
            )
        if self.scales[:, 0].any():
            raise InvalidInput(
                "scales of a sparse X must have typical values of 0: others would fill in "
                "every zero",
                setting="scales",
            )
        matrix, values = x.copy(), x.data
        if self.ranges is not None:
            low, high = self.ranges.T
            if (low > 0).any() or (high < 0).any():
                raise InvalidInput(
                    "ranges of a sparse X must hold 0: others would fill in every zero",
                    setting="ranges",
                )
            values = np.clip(values, low[x.indices], high[x.indices])
        entries = scaling.standardised(values, 0.0, self.scales[:, 1][x.indices])
        matrix.data = (entries * (scaling.row_factor(self.expansion.mass) * norm_bound)).astype(
            x.dtype
        )
        if constant:
            matrix = rows.append_bias(matrix, scaling.CONSTANT * norm_bound)
        return rows.clip(matrix, norm_bound)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "columns": list(self.names),
            "scales": self.scales.tolist(),
            "ranges": None if self.ranges is None else self.ranges.tolist(),
            "maps": [maps.to_dict(feature_map) for feature_map in self.maps],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The inverse of `to_dict`."""
        keys = ("columns", "scales", "ranges", "maps")
        if not isinstance(data, Mapping) or set(data) != set(keys):
            raise InvalidInput(f"inputs must have exactly the keys {', '.join(keys)}, got {data!r}")
        names = tuple(map(str, data["columns"]))
        scales, ranges = data["scales"], data["ranges"]
        return cls(
            names=names,
            scales=_pairs("scales", "(typical, spread)", scales, len(names)),
            ranges=None if ranges is None else _intervals(ranges, len(names)),
            maps=maps.maps_of(data["maps"]),
        )


def resolve_columns(
    x: Matrix, names: Sequence[str], *, scales: Any, ranges: Any, feature_map: Any
) -> tuple[NumericColumns | None, list[str]]:
    """What is declared about columns of numbers, and what of it is a leak."""
    wanted = maps.maps_of(feature_map)
    if scales is None and ranges is None:
        if wanted:
            raise InvalidInput(
                "maps must come with scales: a map acts on columns whose typical "
                "value and spread are declared",
                setting="maps",
            )
        return None, []
    leaks = [
        leak
        for declaration, leak in ((scales, SCALES_LEAK), (ranges, RANGES_LEAK))
        if isinstance(declaration, str)
    ]
    limits = None if ranges is None else _ranges(ranges, x, len(names))
    if isinstance(scales, str):
        _validate.choice("scales", scales, ("from_data",))
        pairs = _measure_scales(x)
    elif isinstance(scales, Mapping):
        pairs = _named(scales, names)
    elif scales is not None:
        pairs = _pairs("scales", "(typical, spread)", scales, len(names))
    else:
        assert limits is not None
        pairs = _of_ranges(limits, sparse=sp.issparse(x))
    return NumericColumns(names=tuple(names), scales=pairs, ranges=limits, maps=wanted), leaks


def _named(scales: Mapping[Any, Any], names: Sequence[str]) -> Array:
    if unknown := [name for name in scales if name not in names]:
        raise InvalidInput(f"scales must be of columns of X, got {unknown[0]!r}", setting="scales")
    if missing := [name for name in names if name not in scales]:
        raise InvalidInput(
            f"scales must name every column of numbers, got none for {missing[0]!r}",
            setting="scales",
        )
    pairs = [scales[name] for name in names]
    return _pairs("scales", "(typical, spread)", pairs, len(names))


def _pairs(setting: str, what: str, values: Any, many: int) -> Array:
    try:
        pairs = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        pairs = np.zeros(0)
    if pairs.shape != (many, 2):
        raise InvalidInput(
            f"{setting} must have a {what} pair for each of the {many} features, got "
            f"{f'shape {pairs.shape}' if pairs.size else 'something else'}",
            setting=setting,
        )
    return pairs


def _intervals(values: Any, many: int) -> Array:
    intervals = _pairs("ranges", "(low, high)", values, many)
    if not (np.isfinite(intervals).all() and (intervals[:, 0] < intervals[:, 1]).all()):
        raise InvalidInput(
            "ranges must be finite with low < high for every feature",
            setting="ranges",
        )
    return intervals


def _ranges(ranges: Any, x: Matrix, many: int) -> Array:
    """(low, high) of every column as they were declared, or "from_data"."""
    if not isinstance(ranges, str):
        return _intervals(ranges, many)
    _validate.choice("ranges", ranges, ("from_data",))
    low, high = _ends(x)
    if sp.issparse(x):  # 0 is the least of a column of zeros as well: another would fill them in
        high = np.where(high > low, high, 1.0)
    intervals = [decimal_grid.round_range(*ends) for ends in zip(low, high, strict=True)]
    return np.array(intervals, dtype=float).reshape(-1, 2)


def _of_ranges(ranges: Array, *, sparse: bool) -> Array:
    """(typical, spread) where ranges alone are declared."""
    low, high = ranges.T
    if not sparse:
        return np.column_stack(scaling.of_range(low, high))
    if (low != 0).any():
        raise InvalidInput(
            "ranges of a sparse X must start at 0: another low would fill in every zero",
            setting="ranges",
        )
    return np.column_stack([low, high / 2])  # 0 is typical where most entries are


def _ends(x: Matrix) -> tuple[Array, Array]:
    """Minimum and maximum of what each column holds, gaps aside; with 0 of a sparse X."""
    if not sp.issparse(x):
        return np.nanmin(x, axis=0).astype(float), np.nanmax(x, axis=0).astype(float)
    low, high = (side.toarray().ravel().astype(float) for side in (x.min(axis=0), x.max(axis=0)))
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


def _measure_scales(x: Matrix) -> Array:
    """Median and deviation of what each column holds, rounded; about 0 of a sparse X."""
    if sp.issparse(x):
        squares = np.asarray((x.multiply(x)).mean(axis=0)).ravel()
        scales = [(0.0, decimal_grid.round_up(size) if size else 1.0) for size in np.sqrt(squares)]
    else:
        middle, deviation = np.nanmedian(x, axis=0), np.nanstd(x, axis=0, dtype=np.float64)
        columns = zip(middle, deviation, *_ends(x), strict=True)
        scales = [decimal_grid.round_scale(*column) for column in columns]
    return np.array(scales, dtype=float).reshape(-1, 2)


def clipping(lengths: Array, norm_bound: float) -> str:
    """Whether shrinking undeclared rows may have thrown away what they tell, in a sentence."""
    for factor, share in _LONG:
        long = int(np.count_nonzero(lengths > factor))
        if long > share * len(lengths):
            return (
                f"{long:,} of {len(lengths):,} rows are more than {factor:g} times as long as "
                f"norm_bound={norm_bound:g} and were clipped to it, by which columns in units of "
                "their own, or far from 0, can lose most of what they tell: declare "
                "scales=[(typical, spread), ...], which is (0, 1) for a column that is "
                "standardised already, or ranges; or take them from the records by "
                "scales='from_data', which is a release that no noise protects"
            )
    return ""


def unnamed(many: int) -> tuple[str, ...]:
    """x0, x1, ... as scikit-learn calls columns without names."""
    return tuple(f"x{k}" for k in range(many))


def prepare_rows(
    x: Matrix,
    *,
    norm_bound: float,
    fit_intercept: bool,
    ranges: Array | None = None,
    columns: NumericColumns | None = None,
    encoder: Encoder | None = None,
) -> tuple[Matrix, int]:
    """Rows by what is declared, with their constant, none longer than the norm bound; also say how
    many were shrunk.

    Every step looks at one record and public settings only, so preparing leaks nothing.
    """
    prepared = rows.as_rows(x)
    if columns is not None:
        return columns.rows(prepared, norm_bound=norm_bound, constant=fit_intercept)
    if encoder is not None:
        return scaling.scale_and_clip(
            prepared,
            encoder.mass,
            constant=fit_intercept,
            bound=norm_bound,
            blocks=encoder.blocks,
        )
    if ranges is not None:
        prepared = _to_unit(prepared, ranges)
    if fit_intercept:
        prepared = rows.append_bias(prepared)
    return rows.clip(prepared, norm_bound, in_place=fit_intercept)  # which has made a copy


def _to_unit(x: Matrix, ranges: Array) -> Matrix:
    """Map [low, high] to [0, 1], values outside to its ends."""
    if ranges.shape != (x.shape[1], 2):
        raise InvalidInput(
            f"ranges must have a (low, high) pair for each of the {x.shape[1]} "
            f"features, got shape {ranges.shape}"
        )
    low, high = ranges.T
    if not (np.isfinite(ranges).all() and (low < high).all()):
        raise InvalidInput("ranges must be finite with low < high for every feature")
    if sp.issparse(x):
        if (low != 0).any():
            raise InvalidInput(
                "ranges of a sparse X must start at 0: another low would fill in every zero"
            )
        scaled = x.copy()
        scaled.data = np.clip(x.data / high[x.indices], 0, 1).astype(x.dtype)
        return scaled
    return np.clip((x - low) / (high - low), 0, 1).astype(x.dtype)
