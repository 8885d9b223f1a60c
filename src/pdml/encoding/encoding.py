"""`Encoding`: what is declared about the columns of X before anybody looks at a record, and the
`Pipeline` that follows from it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from pdml import _validate
from pdml._types import Array, Matrix
from pdml.encoding import maps, scaling
from pdml.encoding.attributes import Attribute, Category, Number
from pdml.encoding.declarations import attributes_in
from pdml.encoding.encoder import Encoder
from pdml.encoding.pipeline import Pipeline, unnamed
from pdml.errors import DataError, InvalidInput, UndeclaredColumns
from pdml.numerics.admm import rows
from pdml.tables import DATES, ColumnKind, Frame, as_table, quote_names

MISSING_VALUES = {"number": "average", "category": "level"}  # what a gap may be declared to mean
GAPS = (
    "missing='average' takes the average for a number and says so in a column of its own, "
    "missing='level' makes it one more level of a category"
)
SCALES_LEAK = (
    "scales='from_data' took each column's mean and deviation, rounded to two digits of the "
    "deviation, from the records: a release no noise protects"
)
RANGES_LEAK = (
    "ranges='from_data' took each column's minimum and maximum, rounded outwards to two digits of "
    "their distance, from the records: a release no noise protects"
)
_TRUTH = (0.5, 0.5)  # the scale of a truth value, which its type says
_NUMBERS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": "allow-nan",  # NaN is refused with words of our own
}
AUTO_MAPS = "auto"


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoding:
    """How the columns of X become rows, declared beforehand.

    It is a setting of estimators: each field can be searched as ``encoding__norm_bound``.

    Parameters
    ----------
    scales : sequence of (average, spread), mapping by name, "from_data" or None
        What is known of each column of numbers: most records lie within average ± spread. Rows are
        then made by `pdml.encoding.scaling`, in units of ``norm_bound``. "from_data" takes means
        and deviations from the records, rounded to two digits of the deviation, which is a leak
        and is reported as one.
    ranges : array of shape (n_features, 2), "from_data" or None
        Declared ranges: what lies outside is moved to the nearer end. Without ``scales`` the middle
        of a range is the average and a sixth of its width the spread. "from_data" takes minima and
        maxima from the records, rounded outwards to two digits of their distance, which is a leak
        and is reported as one.
    levels : mapping of str to levels, or None
        The levels of columns of text in a DataFrame. A column of pandas' categories has those that
        its type declares, and one of truth values needs neither levels nor a scale.
    maps : map, list of maps, or None
        Further columns made of the scaled ones: `pdml.encoding.maps`, each as an object or as a
        dict, ``{"map": "squares"}``. "auto": splines of all numbers where so many people answer
        that noise on the further columns is small, which public sizes decide.
    missing : {"refuse", "average", "level"}, tuple of them, or mapping by name
        What NaN and None mean: "average", of numbers, takes the average and says so in a
        column of its own; "level", of categories, is one more level. What is not named is refused.
    norm_bound : float
        Records longer than this are clipped to it, one by one; every guarantee rests on it.
    intercept : bool
        Whether every row has a constant. It counts inside ``norm_bound`` and is regularised like
        any feature.
    source : str
        Where averages, spreads and levels are from, for the model's provenance ("" of one's own
        knowledge).

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
    source: str = ""

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
        maps.maps_of(self._declared_maps)
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
        if not isinstance(self.source, str):
            raise InvalidInput(
                f"source must be a text, got {self.source!r}: the model names it", setting="source"
            )

    @classmethod
    def from_public(cls, records: Any, *, source: str, **settings: Any) -> Self:
        """Averages, spreads and levels of public records, which need no protection.

        Parameters
        ----------
        records : DataFrame, Table or path of a table
            Of other people than those who are to be trained on, with the columns of X.
        source : str
            What they are, for the model's provenance: "census of 2021".
        **settings : value
            Other fields.

        Returns
        -------
        Encoding
            With the ``scales`` of numbers, to two digits of the spread, and the ``levels`` of
            texts. Truth values and dates are left to their types.

        Raises
        ------
        InvalidInput
            If no source is named, or ``records`` have no named columns.
        DataError
            If there is no record.

        Guarantees
        ----------
        - What is declared is a function of ``records`` alone, never of those that are trained on.

        Examples
        --------
        >>> import pandas as pd
        >>> census = pd.DataFrame({"age": [20.0, 40.0, 60.0], "job": ["chef", "nurse", "chef"]})
        >>> encoding = Encoding.from_public(census, source="census of 2021")
        >>> encoding.scales, encoding.levels
        ({'age': (40.0, 17.0)}, {'job': ('chef', 'nurse')})
        """
        if not source:
            raise InvalidInput(
                f"source must say what the records are, got {source!r}: the model names it",
                setting="source",
            )
        table = as_table(records, source=source)
        if table is None:
            raise InvalidInput(
                f"records must be a table with named columns, got {type(records).__name__}",
                setting="records",
            )
        names = [
            name
            for name in table.names
            if table.kinds.get(name) not in (ColumnKind.TRUTH, ColumnKind.DATE)
        ]
        columns = attributes_in(table, names, missing=names)
        return cls(
            scales={c.name: c.scale for c in columns if isinstance(c, Number)} or None,
            levels={c.name: c.levels for c in columns if isinstance(c, Category)} or None,
            source=source,
            **settings,
        )

    @staticmethod
    def suggest(frame: Any) -> str:
        """A declaration to fill in, as Python source, from a DataFrame's types alone.

        Parameters
        ----------
        frame : DataFrame
            Of pandas, polars or Arrow.

        Returns
        -------
        str
            ``Encoding(...)`` with AVERAGE and SPREAD of each number, and the levels that no type
            declares, to be filled in by what is known without looking at the records.

        Raises
        ------
        InvalidInput
            If it is no DataFrame.

        Guarantees
        ----------
        - No record is looked at: frames of the same types get the same text.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [44.0], "smoker": [True], "job": ["chef"]})
        >>> print(Encoding.suggest(frame))
        Encoding(
            scales={
                "age": (AVERAGE, SPREAD),
            },
            levels={
                "job": ["...", "..."],
            },
        )
        # AVERAGE ± SPREAD: where most people lie, by what is known without looking at the records
        # "smoker": truth values, nothing to declare
        """
        schema = Frame.schema(frame)
        if schema is None:
            raise InvalidInput(
                f"frame must be a DataFrame, got {type(frame).__name__}: its columns have no types",
                setting="frame",
            )
        return _suggestion(schema)

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
    def _declared_maps(self) -> Any:
        return None if isinstance(self.maps, str) and self.maps == AUTO_MAPS else self.maps

    @property
    def _options(self) -> tuple[Any, ...]:
        return tuple(self.missing) if isinstance(self.missing, (tuple, list)) else (self.missing,)

    @property
    def allows_gaps(self) -> bool:
        """Whether any value may be missing."""
        by_name = isinstance(self.missing, Mapping)
        return any(way != "refuse" for way in (self.missing.values() if by_name else self._options))

    def needs_encoder(self, x: Any) -> bool:
        """Whether there is more to X, or its `Frame`, than numbers without gaps."""
        gaps = bool(self.missing) if isinstance(self.missing, Mapping) else self.allows_gaps
        frame = x if isinstance(x, Frame) else Frame.of(x)
        texts = frame is not None and not all(map(frame.is_numeric, frame.names))
        return gaps or bool(self.levels) or texts

    def resolve(self, estimator: Any, X: Any, y: Any) -> tuple[Pipeline, Matrix, Any]:
        """The pipeline, X as `Pipeline.rows` takes it, and y."""
        from sklearn.utils import validation  # here: tables have no need of it

        y, frame = validation.validate_data(estimator, y=y), Frame.of(X)
        if frame is not None:
            self._refuse_dates(frame)
        encodes = self.needs_encoder(X if frame is None else frame)
        if encodes and frame is not None:
            validation.check_consistent_length(next(iter(frame.cells.values())), y)
            pipeline = self._pipeline(None, frame, _take_names(estimator, X, frame, reset=True))
            return pipeline, pipeline.read(X), y
        x = _validate_numbers(estimator, X, sparse=not encodes, reset=True)
        validation.check_consistent_length(x, y)
        names = tuple(map(str, getattr(estimator, "feature_names_in_", ())))
        if not encodes:
            refuse_gaps(x)
            if self.scales is None and self.ranges is None:
                self._refuse_maps()
                x = rows.compact(x)
                bound, intercept = self.norm_bound, bool(self.intercept)
                return Pipeline(names=names, norm_bound=bound, intercept=intercept), x, y
        names = names or unnamed(x.shape[1])
        kinds = () if frame is None else frame.kinds.values()
        truths = [
            name for name, kind in zip(names, kinds, strict=False) if kind == ColumnKind.TRUTH
        ]
        pipeline = self._pipeline(x, None, names, truths)
        return pipeline, pipeline.read(x), y

    def _refuse_dates(self, frame: Frame) -> None:
        dates = [name for name in frame.names if frame.kinds[name] == ColumnKind.DATE]
        if dates := [name for name in dates if name not in (self.levels or {})]:
            raise DataError(f"no column of X can be a date, got {quote_names(dates)}: {DATES}")

    def _refuse_maps(self) -> None:
        if self.maps == AUTO_MAPS or maps.maps_of(self.maps):
            raise InvalidInput(
                "maps must come with scales: a map acts on columns whose average and spread "
                "are declared",
                setting="maps",
            )

    def _pipeline(
        self,
        x: Matrix | None,
        frame: Frame | None,
        names: Sequence[str],
        truths: Sequence[str] = (),
    ) -> Pipeline:
        """What is declared of columns of an array, or of a DataFrame."""
        categories = self._categories(frame, names)
        numbers = [name for name in names if name not in categories]
        if frame is not None:
            truths = [name for name in numbers if frame.kinds[name] == ColumnKind.TRUTH]
        truths = [name for name in truths if not self._scaled(name, len(names), len(numbers))]
        self._refuse_undeclared(numbers, truths, categories, advise=frame is not None)
        typed = {*categories, *truths}
        numbers = [name for name in numbers if name not in truths]
        gaps = self._gaps(names, categories)
        leaks = [
            leak
            for declared, leak in ((self.scales, SCALES_LEAK), (self.ranges, RANGES_LEAK))
            if isinstance(declared, str)
        ]
        attributes: dict[str, Attribute] = {
            name: Category(name=name, levels=levels, missing=gaps[name])
            for name, levels in categories.items()
        }
        average, spread = _TRUTH
        attributes |= {
            name: Number(
                name=name, low=0, high=1, average=average, spread=spread, missing=gaps[name]
            )
            for name in truths
        }
        plain = x is not None and not categories and not any(gaps.values())
        if numbers:
            columns = _columns_of(x, frame, names, numbers)
            ranges = self._ranges(columns, names, typed)
            scales = self._scales(columns, ranges, names, typed)
            if ranges is None:
                far = np.full(len(numbers), inf) if plain else scaling.LIMIT * scales[:, 1]
                ranges = scales[:, :1] + np.column_stack([-far, far])
            for k, name in enumerate(numbers):
                low, high = ranges[k].tolist()
                average, spread = scaling.checked(name, *scales[k].tolist())
                attributes[name] = Number(
                    name=name,
                    low=low,
                    high=high,
                    average=average,
                    spread=spread,
                    missing=gaps[name],
                )
        return Pipeline(
            encoder=Encoder(
                attributes=tuple(attributes[name] for name in names),
                maps=maps.maps_of(self._declared_maps),
            ),
            auto_maps=isinstance(self.maps, str),
            names=tuple(names),
            norm_bound=self.norm_bound,
            intercept=bool(self.intercept),
            leaks=tuple(leaks),
            source=self.source,
        )

    def _categories(self, frame: Frame | None, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The declared levels of each category."""
        declared = self.levels or {}
        for name in declared:
            if name not in names:
                raise InvalidInput(
                    f"levels must be levels by the names of columns of X, got {name!r}",
                    setting="levels",
                )
        categories = {name: tuple(map(str, levels)) for name, levels in declared.items()}
        for name in frame.names if frame is not None else ():
            if name in categories or frame is None or frame.is_numeric(name):
                continue
            categories[name] = frame.levels.get(name, ())
        return {name: categories[name] for name in names if name in categories}

    def _scaled(self, name: str, many: int, numbers: int) -> bool:
        """Whether a column of truth values has a declaration of its own all the same."""
        return any(
            name in declared
            if isinstance(declared, Mapping)
            else not isinstance(declared, str) and len(declared) in (many, numbers)
            for declared in (self.scales, self.ranges)
            if declared is not None
        )

    def _refuse_undeclared(
        self,
        numbers: Sequence[str],
        truths: Sequence[str],
        categories: Mapping[str, tuple[str, ...]],
        *,
        advise: bool,
    ) -> None:
        """Name every column without a scale or levels, and say what to add."""
        scales = self.scales
        if isinstance(scales, Mapping):
            if unknown := [name for name in scales if name not in numbers]:
                raise InvalidInput(
                    f"scales must be of columns of numbers in X, got {quote_names(unknown)}",
                    setting="scales",
                )
            numbers = [name for name in numbers if name not in scales]
        elif scales is not None or self.ranges is not None:
            numbers = []
        numbers = [name for name in numbers if name not in truths]
        texts = [name for name, levels in categories.items() if not levels]
        if numbers or texts:
            fields = {
                "scales": {name: _SCALE for name in numbers},
                "levels": dict.fromkeys(texts, _LEVELS),
            }
            add = ", ".join(
                f"{field}={{{', '.join(f'{_quote(name)}: {v}' for name, v in values.items())}}}"
                for field, values in fields.items()
                if values
            )
            meaning = ", where most people lie within AVERAGE ± SPREAD" if numbers else ""
            raise UndeclaredColumns(
                numbers + texts,
                numbers,
                f" by encoding=Encoding({add}){meaning}, or leave out what is no feature"
                f"{'; Encoding.suggest(X) writes all of it' if advise else ''}",
            )

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

    def _ranges(self, x: Matrix, names: Sequence[str], categories: Collection[str]) -> Array | None:
        """(low, high) of every number, declared or taken from the records."""
        if self.ranges is None:
            return None
        if not isinstance(self.ranges, str):
            values = _without(self.ranges, names, categories)
            intervals = _pairs("ranges", "(low, high)", values, len(names) - len(categories))
            if not (np.isfinite(intervals).all() and (intervals[:, 0] < intervals[:, 1]).all()):
                raise InvalidInput(
                    "ranges must be finite with low < high for every feature", setting="ranges"
                )
            return intervals
        low, high = _ends(x)
        if sp.issparse(x):  # 0 is the least of a column of zeros, too: another would fill them in
            high = np.where(high > low, high, 1.0)
        found = [scaling.round_range(*ends) for ends in zip(low, high, strict=True)]
        return np.array(found, dtype=float).reshape(-1, 2)

    def _scales(
        self, x: Matrix, ranges: Array | None, names: Sequence[str], categories: Collection[str]
    ) -> Array:
        """(average, spread) of every number: declared, by its range, or taken from the records."""
        numbers = [name for name in names if name not in categories]
        declared = _without(self.scales, names, categories)
        if isinstance(declared, str):
            return _measure_scales(x)
        if declared is None:
            assert ranges is not None
            return _scales_of_ranges(ranges, sparse=sp.issparse(x))
        if isinstance(declared, Mapping):
            declared = [declared[name] for name in numbers]
        return _pairs("scales", "(average, spread)", declared, len(numbers))


_SCALE, _LEVELS = "(AVERAGE, SPREAD)", '["...", "..."]'


def _quote(text: str) -> str:
    """A text as Python and people write it."""
    return json.dumps(text, ensure_ascii=False)


def _suggestion(schema: Frame) -> str:
    """`Encoding.suggest` of types."""
    fields: dict[str, dict[str, str]] = {"scales": {}, "levels": {}}
    notes = []
    for name, kind in schema.kinds.items():
        match kind:
            case ColumnKind.NUMBER:
                fields["scales"][name] = _SCALE
            case ColumnKind.TEXT:
                levels = schema.levels.get(name)
                known = f"[{', '.join(map(_quote, levels))}]" if levels else _LEVELS
                fields["levels"][name] = known
            case ColumnKind.TRUTH:
                notes.append(f"# {_quote(name)}: truth values, nothing to declare")
            case ColumnKind.DATE:
                notes.append(f"# {_quote(name)}: {DATES}")
    lines = []
    for field, values in fields.items():
        if values:
            entries = (f"        {_quote(name)}: {value}," for name, value in values.items())
            lines += [f"    {field}={{", *entries, "    },"]
    if fields["scales"]:
        where = "where most people lie, by what is known without looking at the records"
        notes.insert(0, f"# AVERAGE ± SPREAD: {where}")
    return "\n".join(["Encoding(", *lines, ")", *notes])


def read_inputs(pipeline: Pipeline, estimator: Any, X: Any) -> Matrix:
    """X of a prediction, as `Pipeline.rows` takes it."""
    encoder, frame = pipeline.encoder, Frame.of(X)
    plain = encoder is None or encoder.is_numeric
    if frame is not None and not plain:
        _take_names(estimator, X, frame, reset=False)
        return pipeline.read(X)
    x = _validate_numbers(estimator, X, sparse=plain, reset=False)
    if plain:
        refuse_gaps(x)
    return pipeline.read(x)


def refuse_gaps(x: Matrix) -> None:
    """Say what could be declared where a value is missing."""
    values = x.data if hasattr(x, "toarray") else x
    if values.size and np.isnan(np.min(values)):
        raise DataError(f"X must have a value in every cell, got NaN: {GAPS}", setting="missing")


def _validate_numbers(estimator: Any, X: Any, *, sparse: bool, reset: bool) -> Matrix:
    """X as an array of numbers."""
    from sklearn.utils.validation import validate_data

    frame = Frame.of(X)
    if frame is not None and not frame.is_pandas:
        names = _take_names(estimator, X, frame, reset=reset)
        return np.column_stack([frame.numbers(name) for name in names])
    options = _NUMBERS if sparse else {**_NUMBERS, "accept_sparse": False}
    return validate_data(estimator, X, **options, reset=reset)


def _take_names(estimator: Any, X: Any, frame: Frame, *, reset: bool) -> tuple[str, ...]:
    """The columns' names, kept in an estimator as scikit-learn keeps them, or compared with it."""
    from sklearn.utils.validation import validate_data

    if frame.is_pandas:
        validate_data(estimator, X, skip_check_array=True, reset=reset)
    elif reset:
        estimator.feature_names_in_ = np.array(frame.names, dtype=object)
        estimator.n_features_in_ = len(frame.names)
    elif frame.names != tuple(estimator.feature_names_in_):
        raise DataError(
            "the columns of X must be those of the training in their order, got "
            f"{', '.join(frame.names)}"
        )
    names = tuple(map(str, getattr(estimator, "feature_names_in_", ())))
    return names or unnamed(len(frame.names))


def _columns_of(
    x: Matrix | None, frame: Frame | None, names: Sequence[str], wanted: Sequence[str]
) -> Matrix:
    """Columns of numbers, for scales that are taken from the data."""
    if frame is not None:
        return np.column_stack([frame.numbers(name) for name in wanted])
    assert x is not None
    if len(wanted) == len(names):
        return x
    return np.asarray(x[:, [k for k, name in enumerate(names) if name in wanted]])


def _without(declarations: Any, names: Sequence[str], categories: Collection[str]) -> Any:
    """Declarations of numbers: of a list those at the places of categories are passed over."""
    if declarations is None or isinstance(declarations, (str, Mapping)):
        return declarations
    items = list(declarations)
    if len(items) != len(names):
        return items  # refused by whoever counts the numbers
    return [item for name, item in zip(names, items, strict=True) if name not in categories]


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


def _scales_of_ranges(ranges: Array, *, sparse: bool) -> Array:
    """(average, spread) where ranges alone are declared."""
    low, high = ranges.T
    if not sparse:
        return np.column_stack(scaling.of_range(low, high))
    if (low != 0).any():
        raise InvalidInput(
            "ranges of a sparse X must start at 0: another low would fill in every zero",
            setting="ranges",
        )
    return np.column_stack([low, high / 2])  # most entries are 0


def _ends(x: Matrix) -> tuple[Array, Array]:
    """Minimum and maximum of what each column holds, gaps aside; with 0 of a sparse X."""
    if not sp.issparse(x):
        return np.nanmin(x, axis=0).astype(float), np.nanmax(x, axis=0).astype(float)
    low, high = (side.toarray().ravel().astype(float) for side in (x.min(axis=0), x.max(axis=0)))
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


def _measure_scales(x: Matrix) -> Array:
    """Mean and deviation of what each column holds, rounded; about 0 of a sparse X."""
    if sp.issparse(x):
        squares = np.asarray((x.multiply(x)).mean(axis=0)).ravel()
        scales = [(0.0, scaling.round_up(size) if size else 1.0) for size in np.sqrt(squares)]
    else:
        middle = np.asarray(np.nanmean(x, axis=0, dtype=np.float64))
        deviation = np.nanstd(x, axis=0, dtype=np.float64)
        columns = zip(middle, deviation, *_ends(x), strict=True)
        scales = [scaling.round_scale(*column) for column in columns]
    return np.array(scales, dtype=float).reshape(-1, 2)
