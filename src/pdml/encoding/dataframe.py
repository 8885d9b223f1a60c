"""A DataFrame, or numbers with gaps, by the declarations of a study: categories by their levels,
missing values by what is declared of them (`pdml.encoding.encoder`, version 2).

What a column may hold is never looked up in its cells: a category has the levels that its type
declares, a number its declared scale.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, Matrix
from pdml.encoding import maps, numeric_columns, scaling
from pdml.encoding.encoder import LATEST, Attribute, Category, Encoder, Number
from pdml.errors import DataError, InvalidInput
from pdml.tables import Table

WAYS = {"number": "typical", "category": "level"}  # what a missing value may be declared to mean
OPTIONS = (
    "missing='typical' takes numbers for typical and says so in a column of its own, "
    "missing='level' makes it one more level of a category"
)


@dataclass(frozen=True, kw_only=True)
class InputDeclarations:
    """What a person says about the columns of X; each is a setting of `PDMLClassifier`."""

    feature_scales: Any = None
    feature_ranges: Any = None
    feature_levels: Any = None
    feature_map: Any = None
    missing: Any = "refuse"

    def __post_init__(self) -> None:
        if not isinstance(self.missing, Mapping):
            for way in self._options:
                _validate.choice("missing", way, ("refuse", *WAYS.values()))

    @property
    def _options(self) -> tuple[Any, ...]:
        return tuple(self.missing) if isinstance(self.missing, (tuple, list)) else (self.missing,)

    def needs_encoder(self, x: Any) -> bool:
        """Whether there is more to X than numbers without gaps."""
        wished = bool(self.missing) if isinstance(self.missing, Mapping) else self.allows_gaps
        return wished or bool(self.feature_levels) or (is_frame(x) and bool(_no_numbers(x)))

    @property
    def allows_gaps(self) -> bool:
        """Whether any value may be missing."""
        if isinstance(self.missing, Mapping):
            return any(way != "refuse" for way in self.missing.values())
        return any(way != "refuse" for way in self._options)

    def encoder(self, x: Any, names: Sequence[str]) -> tuple[Encoder, list[str]]:
        """The declarations as an encoder, and what of them is a leak."""
        categories = self._levels(x, names)
        numbers = [name for name in names if name not in categories]
        columns, leaks = numeric_columns.resolve_columns(
            _numbers(x, names, numbers),
            numbers,
            scales=_without(self.feature_scales, names, categories),
            ranges=_without(self.feature_ranges, names, categories),
            feature_map=None,
        )
        if columns is None and numbers:
            raise InvalidInput(
                f"feature_scales must say (typical, spread) of every number beside categories and "
                f"gaps, got none for {numbers[0]!r}",
                setting="feature_scales",
            )
        ways = self._ways(names, categories)
        attributes: dict[str, Attribute] = {
            name: Category(name=name, levels=levels, missing=ways[name])
            for name, levels in categories.items()
        }
        for k, name in enumerate(numbers):
            assert columns is not None
            attributes[name] = _number(columns, k, ways[name])
        encoder = Encoder(
            attributes=tuple(attributes[name] for name in names),
            version=LATEST,
            maps=maps.maps_of(self.feature_map),
        )
        return encoder, leaks

    def _levels(self, x: Any, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The declared levels of each category."""
        feature_levels = {} if self.feature_levels is None else self.feature_levels
        if not isinstance(feature_levels, Mapping) or any(
            name not in names for name in feature_levels
        ):
            raise InvalidInput(
                "feature_levels must be levels by the names of columns of X, got "
                f"{feature_levels!r}",
                setting="feature_levels",
            )
        categories = {name: tuple(map(str, levels)) for name, levels in feature_levels.items()}
        if is_frame(x):
            for name, kind in _no_numbers(x).items():
                if name in categories:
                    continue
                if not hasattr(kind, "categories"):
                    raise InvalidInput(
                        f"column {name!r} of X must have declared levels, got {kind} without: "
                        f"feature_levels={{{name!r}: [...]}} declares them, or the type "
                        "pandas.CategoricalDtype([...])",
                        setting="feature_levels",
                    )
                categories[name] = tuple(map(str, kind.categories))
        return {name: categories[name] for name in names if name in categories}

    def _ways(self, names: Sequence[str], categories: Collection[str]) -> dict[str, str]:
        """What a missing value means in each column, as attributes spell it."""
        kinds = {name: "category" if name in categories else "number" for name in names}
        if not isinstance(self.missing, Mapping):
            wished = self._options
            return {name: WAYS[kind] * (WAYS[kind] in wished) for name, kind in kinds.items()}
        for name, way in self.missing.items():
            if name not in kinds:
                raise InvalidInput(
                    f"missing must be by the names of columns of X, got {name!r}", setting="missing"
                )
            why = f"it is a {kinds[name]}"
            _validate.choice(f"missing of {name!r}", way, ("refuse", WAYS[kinds[name]]), why=why)
        return {name: self.missing.get(name, "refuse").replace("refuse", "") for name in names}


def is_frame(x: Any) -> bool:
    """Whether it is a DataFrame."""
    return hasattr(x, "iloc") and hasattr(x, "dtypes") and getattr(x, "ndim", 0) == 2


def table_of(
    x: Any, names: Sequence[str], encoder: Encoder | None, wanted: Iterable[str] = ()
) -> Table:
    """The columns that an encoder asks for, or ``wanted`` numbers."""
    place = {name: k for k, name in enumerate(names)}
    text_columns = (
        {attribute.name: isinstance(attribute, Category) for attribute in encoder.attributes}
        if encoder
        else {}
    )
    columns: dict[str, NDArray[Any]] = {}
    for name, text in (text_columns or dict.fromkeys(wanted, False)).items():
        cells = x.iloc[:, place[name]] if is_frame(x) else x[:, place[name]]
        columns[name] = _text(cells) if text else _floats(cells)
    return Table(columns=columns, source="X")


def refuse_gaps(x: Matrix) -> None:
    """Say what could be declared where a value is missing."""
    values = x.data if hasattr(x, "toarray") else x
    if values.size and np.isnan(np.min(values)):
        raise DataError(f"X must have a value in every cell, got NaN: {OPTIONS}", setting="missing")


def _no_numbers(frame: Any) -> dict[str, Any]:
    """The types of a DataFrame's columns that do not hold numbers, by name."""
    pairs = zip(map(str, frame.columns), frame.dtypes, strict=True)
    return {name: kind for name, kind in pairs if getattr(kind, "kind", "O") not in "fiub"}


def _without(declarations: Any, names: Sequence[str], gone: Collection[str]) -> Any:
    """Declarations of numbers: of a list those at the places of categories are passed over."""
    if declarations is None or isinstance(declarations, str):
        return declarations
    if isinstance(declarations, Mapping):
        return declarations
    items = list(declarations)
    if len(items) != len(names):
        return items  # refused by whoever counts the numbers
    return [item for name, item in zip(names, items, strict=True) if name not in gone]


def _numbers(x: Any, names: Sequence[str], wanted: Sequence[str]) -> Array:
    """Columns of numbers, for scales that are taken from the data."""
    place = {name: k for k, name in enumerate(names)}
    picked = [place[name] for name in wanted]
    if not is_frame(x):
        return np.asarray(x[:, picked])
    columns = [_floats(x.iloc[:, k]) for k in picked]
    return np.column_stack(columns) if columns else np.zeros((len(x), 0))


def _number(columns: numeric_columns.NumericColumns, k: int, missing: str) -> Number:
    typical, spread = columns.scales[k].tolist()
    if columns.ranges is None:
        far = scaling.LIMIT * spread
        low, high = typical - far, typical + far
    else:
        low, high = columns.ranges[k].tolist()
    return Number(
        name=columns.names[k], low=low, high=high, typical=typical, spread=spread, missing=missing
    )


def _floats(cells: Any) -> Array:
    """A column as numbers, with NaN in its gaps."""
    if isinstance(cells, np.ndarray):
        return cells
    return np.asarray(cells.to_numpy(dtype=np.float64, na_value=np.nan))


def _text(cells: Any) -> NDArray[Any]:
    """A column as levels, with "" in its gaps; 1.0 of an array is the level "1.0"."""
    if isinstance(cells, np.ndarray):
        texts = [str(cell) for cell in cells.tolist()]
    else:
        gaps = cells.isna().tolist()
        texts = ["" if gap else str(cell) for cell, gap in zip(cells.tolist(), gaps, strict=True)]
    return np.fromiter(texts, dtype=object, count=len(texts))
