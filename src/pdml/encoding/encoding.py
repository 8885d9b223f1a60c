"""`Encoding`: what is declared about the columns of X before anybody looks at a record."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from pdml import _validate
from pdml.encoding import maps, numeric_columns, scaling
from pdml.encoding.dataframe import is_frame, non_numeric_columns, number_columns
from pdml.encoding.encoder import LATEST, Attribute, Category, Encoder, Number
from pdml.errors import InvalidInput

MISSING_VALUES = {"number": "typical", "category": "level"}  # what a gap may be declared to mean


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoding:
    """How the columns of X become rows, declared beforehand.

    It is a setting of estimators: each field can be searched as ``encoding__norm_bound``.

    Parameters
    ----------
    scales : sequence of (typical, spread), mapping by name, "from_data" or None
        What is known of each column of numbers: most records lie within typical ± spread. Rows are
        then made by `pdml.encoding.scaling`, in units of ``norm_bound``. "from_data" takes medians
        and deviations from the records, rounded to two digits of the deviation, which is a leak
        and is reported as one.
    ranges : array of shape (n_features, 2), "from_data" or None
        Declared ranges: what lies outside is moved to the nearer end. Without ``scales`` the middle
        of a range is typical and a sixth of its width the spread. "from_data" takes minima and
        maxima from the records, rounded outwards to two digits of their distance, which is a leak
        and is reported as one.
    levels : mapping of str to levels, or None
        The levels of columns of text in a DataFrame. A column of pandas' categories has those that
        its type declares.
    maps : map, list of maps, or None
        Further columns made of the scaled ones: `pdml.encoding.maps`, each as an object or as a
        dict, ``{"map": "squares"}``.
    missing : {"refuse", "typical", "level"}, tuple of them, or mapping by name
        What NaN and None mean: "typical", of numbers, takes the typical value and says so in a
        column of its own; "level", of categories, is one more level. What is not named is refused.
    norm_bound : float
        Records longer than this are clipped to it, one by one; every guarantee rests on it.
    intercept : bool
        Whether every row has a constant. It counts inside ``norm_bound`` and is regularised like
        any feature.

    Raises
    ------
    InvalidInput
        If a declaration is none, whatever the columns are.
    """

    scales: Any = None
    ranges: Any = None
    levels: Any = None
    maps: Any = None
    missing: Any = "refuse"
    norm_bound: float = 1.0
    intercept: bool = True

    def __post_init__(self) -> None:
        for name in ("scales", "ranges"):
            if isinstance(value := getattr(self, name), str):
                _validate.choice(name, value, ("from_data",), why="else it is declared in numbers")
        if not isinstance(self.levels, (Mapping, type(None))):
            raise InvalidInput(
                f"levels must be levels by the names of columns of X, got {self.levels!r}: no "
                "level is looked up in records",
                setting="levels",
            )
        maps.maps_of(self.maps)
        if not isinstance(self.missing, Mapping):
            for option in self._options:
                _validate.choice("missing", option, ("refuse", *MISSING_VALUES.values()))
        why = "noise is measured by the length of the longest row"
        _validate.real("norm_bound", self.norm_bound, low=0, high=1e12, open_low=True, why=why)
        if self.intercept not in (True, False):
            raise InvalidInput(
                f"intercept must be True or False, got {self.intercept!r}: rows have a constant "
                "or none",
                setting="intercept",
            )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every field by its name, as scikit-learn asks for them.

        Parameters
        ----------
        deep : bool
            For scikit-learn alone: no field has parameters of its own.

        Returns
        -------
        dict of str to value
            The very objects that were declared.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Replace fields in this object, as scikit-learn's searches do in clones of it.

        Parameters
        ----------
        **params : value
            Fields by name. `dataclasses.replace` makes another `Encoding` instead.

        Returns
        -------
        Encoding
            Itself.

        Raises
        ------
        InvalidInput
            If a name is no field or the declaration would be none: then nothing has changed.
        """
        declared = self.get_params()
        for name in params:
            _validate.choice("a parameter of Encoding", name, tuple(declared))
        type(self)(**declared | params)
        for name, value in params.items():
            object.__setattr__(self, name, value)
        return self

    @property
    def _options(self) -> tuple[Any, ...]:
        return tuple(self.missing) if isinstance(self.missing, (tuple, list)) else (self.missing,)

    @property
    def allows_gaps(self) -> bool:
        """Whether any value may be missing."""
        by_name = isinstance(self.missing, Mapping)
        return any(way != "refuse" for way in (self.missing.values() if by_name else self._options))

    def needs_encoder(self, x: Any) -> bool:
        """Whether there is more to X than numbers without gaps."""
        gaps = bool(self.missing) if isinstance(self.missing, Mapping) else self.allows_gaps
        return gaps or bool(self.levels) or (is_frame(x) and bool(non_numeric_columns(x)))

    def encoder(self, x: Any, names: Sequence[str]) -> tuple[Encoder, list[str]]:
        """The declarations as an encoder, and what of them is a leak."""
        categories = self._categories(x, names)
        numbers = [name for name in names if name not in categories]
        columns, leaks = numeric_columns.resolve_columns(
            number_columns(x, names, numbers),
            numbers,
            scales=_without(self.scales, names, categories),
            ranges=_without(self.ranges, names, categories),
            feature_map=None,
        )
        if columns is None and numbers:
            raise InvalidInput(
                f"scales must say (typical, spread) of every number beside categories and gaps, "
                f"got none for {numbers[0]!r}",
                setting="scales",
            )
        gaps = self._gaps(names, categories)
        attributes: dict[str, Attribute] = {
            name: Category(name=name, levels=levels, missing=gaps[name])
            for name, levels in categories.items()
        }
        for k, name in enumerate(numbers):
            assert columns is not None
            attributes[name] = _number(columns, k, gaps[name])
        encoder = Encoder(
            attributes=tuple(attributes[name] for name in names),
            version=LATEST,
            maps=maps.maps_of(self.maps),
        )
        return encoder, leaks

    def _categories(self, x: Any, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The declared levels of each category."""
        declared = self.levels or {}
        for name in declared:
            if name not in names:
                raise InvalidInput(
                    f"levels must be levels by the names of columns of X, got {name!r}",
                    setting="levels",
                )
        categories = {name: tuple(map(str, levels)) for name, levels in declared.items()}
        if is_frame(x):
            for name, kind in non_numeric_columns(x).items():
                if name in categories:
                    continue
                if not hasattr(kind, "categories"):
                    raise InvalidInput(
                        f"column {name!r} of X must have declared levels, got {kind} without: "
                        f"levels={{{name!r}: [...]}} declares them, or the type "
                        "pandas.CategoricalDtype([...])",
                        setting="levels",
                    )
                categories[name] = tuple(map(str, kind.categories))
        return {name: categories[name] for name in names if name in categories}

    def _gaps(self, names: Sequence[str], categories: Collection[str]) -> dict[str, str]:
        """What a missing value means in each column, as attributes spell it."""
        kinds = {name: "category" if name in categories else "number" for name in names}
        if not isinstance(self.missing, Mapping):
            return {
                name: MISSING_VALUES[kind] * (MISSING_VALUES[kind] in self._options)
                for name, kind in kinds.items()
            }
        for name, way in self.missing.items():
            if name not in kinds:
                raise InvalidInput(
                    f"missing must be by the names of columns of X, got {name!r}", setting="missing"
                )
            options = ("refuse", MISSING_VALUES[kinds[name]])
            _validate.choice(f"missing of {name!r}", way, options, why=f"it is a {kinds[name]}")
        return {name: self.missing.get(name, "refuse").replace("refuse", "") for name in names}


def _without(declarations: Any, names: Sequence[str], categories: Collection[str]) -> Any:
    """Declarations of numbers: of a list those at the places of categories are passed over."""
    if declarations is None or isinstance(declarations, (str, Mapping)):
        return declarations
    items = list(declarations)
    if len(items) != len(names):
        return items  # refused by whoever counts the numbers
    return [item for name, item in zip(names, items, strict=True) if name not in categories]


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
