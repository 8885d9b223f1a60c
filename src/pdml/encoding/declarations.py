"""Declarations for a table's columns: what is declared, what would have to be taken from the data,
and how often rows will be clipped.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pdml.encoding import scaling
from pdml.encoding.encoder import Attribute, Category, Encoder, Number
from pdml.encoding.maps import FeatureMap
from pdml.errors import DataError, InvalidInput, UndeclaredColumns, because
from pdml.files import read_file
from pdml.formats import decode
from pdml.tables import DATES, ColumnKind, Table, quote_names

TRUTHS = ("False", "True")  # of a column whose type says so: no record is looked at
MOST_LEVELS = 256  # of a column of text: more are likely names or identifiers
_PEOPLE = 4_000  # simulated: shares are shown to a whole percent


def by_name(attributes: Iterable[Attribute]) -> dict[str, Attribute]:
    """Every declared attribute by its column; one that is declared twice is refused."""
    declared: dict[str, Attribute] = {}
    for attribute in attributes:
        if attribute.name in declared:
            raise InvalidInput(
                f"column {attribute.name!r} must be declared once, got two declarations"
            )
        declared[attribute.name] = attribute
    return declared


def encoder_for(
    table: Table,
    declared: Mapping[str, Attribute],
    *,
    features: Collection[str],
    from_data: bool = False,
    missing: Collection[str] = (),
    missing_values: Sequence[str] = (),
    maps: Sequence[FeatureMap] = (),
) -> tuple[Encoder, tuple[str, ...]]:
    """One attribute for each feature column, in the table's order."""
    for name in declared:
        if name not in table.names:
            raise DataError(
                f"{table.source} has no column {name!r}, for which a range or levels are declared"
            )
        if name not in features:
            raise InvalidInput(
                f"column {name!r} must not have a declared range or levels: it is no feature here"
            )
    for name in missing:
        if name not in features:
            raise InvalidInput(
                f"missing must name columns to predict from, got {name!r}: they are "
                f"{quote_names(list(features))}",
                setting="missing",
            )
    undeclared = tuple(name for name in features if name not in declared)
    if dates := [name for name in undeclared if table.kinds.get(name) == ColumnKind.DATE]:
        raise DataError(f"no feature can be a date, got {quote_names(dates)}: {DATES}")
    truths = [name for name in undeclared if table.kinds.get(name) == ColumnKind.TRUTH]
    declared = {**declared, **{name: Category(name=name, levels=TRUTHS) for name in truths}}
    undeclared = tuple(name for name in undeclared if name not in truths)
    if undeclared and not from_data:
        numbers = [name for name in undeclared if table.is_numeric(name, missing_values)]
        entries = [
            f"Number(name={name!r}, low=LOW, high=HIGH)"
            if name in numbers
            else f"Category(name={name!r}, levels=[...])"
            for name in undeclared
        ]
        advice = (
            f" by attributes=[{', '.join(entries)}], ignore what is no feature, or let from_data "
            "take them from the data, which no noise protects"
        )
        raise UndeclaredColumns(undeclared, numbers, advice)
    attributes = {
        name: with_gaps(attribute) if name in missing else attribute
        for name, attribute in declared.items()
    }
    attributes |= by_name(attributes_in(table, undeclared, missing, missing_values))
    encoder = Encoder(
        attributes=tuple(attributes[name] for name in features),
        missing_values=tuple(missing_values),
        maps=tuple(maps),
    )
    return encoder, undeclared


def attributes_in(
    table: Table,
    names: Sequence[str],
    missing: Collection[str] = (),
    missing_values: Sequence[str] = (),
) -> list[Attribute]:
    """Declarations of columns guessed from the data, for experiments on data that are public or
    need no protection.

    The leak: the minimum and the maximum of each column, its mean and standard deviation, and the
    set of its levels, are functions of people's records. Numbers are rounded to two digits of their
    width or deviation (`pdml.encoding.scaling`); levels stand as they are. All this is stored in
    the model and no noise protects it: how old the oldest is, and that somebody has a rare
    diagnosis, can be seen. Declare it beforehand wherever privacy is promised.

    ``missing`` names the columns in which cells may hold no value, by ``missing_values``.
    """
    if names and table.n_rows == 0:
        raise DataError(
            f"{table.source} must hold at least one record, got none: there is nothing to take "
            "ranges from"
        )
    guessed: list[Attribute] = []
    for name in names:
        spellings = missing_values if name in missing else None
        numeric = table.is_numeric(name, spellings or ())
        guessed.append((_number_in if numeric else _category_in)(table, name, spellings))
    return guessed


def _category_in(table: Table, name: str, spellings: Sequence[str] | None) -> Category:
    """``spellings``: what stands for no value, None where every cell must have one."""
    absent = None if spellings is None else table.absent(name, spellings)
    different, position = table.distinct(name, absent=absent)
    # some may stand for no value only
    present = np.bincount(position, minlength=len(different)) > 0
    levels = sorted({*different[present].tolist()} - {""})
    if len(levels) > MOST_LEVELS:
        raise DataError(
            f"column {name!r} must have at most {MOST_LEVELS} levels, got {len(levels)}: "
            "leave it out if it holds names, identifiers or dates"
        )
    missing = "" if spellings is None else "level"
    return Category(name=name, levels=tuple(levels), missing=missing)


def _number_in(table: Table, name: str, spellings: Sequence[str] | None) -> Number:
    """As `_category_in`."""
    absent = None if spellings is None else table.absent(name, spellings)
    cells = table.numeric(name, absent=absent)
    values = cells[~np.isnan(cells)]
    ends = float(values.min()), float(values.max())
    low, high = scaling.round_range(*ends)
    options: dict[str, Any] = {} if spellings is None else {"missing": "average"}
    if ends[0] < ends[1]:  # a constant column has the middle of its range
        mean, deviation = float(np.mean(values)), float(np.std(values))
        average, spread = scaling.round_scale(mean, deviation, *ends)
        options |= {"average": average, "spread": spread}
    return Number(name=name, low=low, high=high, **options)


def with_gaps(attribute: Attribute) -> Attribute:
    """The attribute as one that people may leave out."""
    return replace(attribute, missing="average" if isinstance(attribute, Number) else "level")


def leak(columns: Sequence[str]) -> str:
    """What taking declarations from the data gives away."""
    return (
        f"the ranges and averages (to two digits of their spread) and the levels of "
        f"{quote_names(columns)} were taken from the data and are stored in the model, also a "
        "level "
        "that one person alone has: a release no noise protects"
    )


def read_encoder(path: Path) -> Encoder:
    """Declarations from a JSON file: a model's encoder, or what people write in the same form."""
    try:
        content = decode(read_file(path))
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {because(error)}") from None
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"{path} must be a JSON file with the attributes, got one that is not JSON: {error}"
        ) from None
    try:
        return Encoder.from_dict(content)
    except InvalidInput as error:
        raise InvalidInput(f"in {path}, {error}") from None


@dataclass(frozen=True, kw_only=True)
class ClippingForecast:
    """What is to be expected of rows, if people are as declared."""

    share: float  # Of rows that are clipped
    factor: float  # To which part of its length half of those are clipped, or more; 1 where none is

    def to_dict(self) -> dict[str, float]:
        """Plain values for JSON."""
        return asdict(self)


def forecast_clipping(encoder: Encoder) -> ClippingForecast:
    """How often rows will be clipped, if people are as declared."""
    source = np.random.default_rng(0)
    columns: list[np.ndarray] = []
    for attribute in encoder.attributes:
        if isinstance(attribute, Number):
            drawn = source.normal(*attribute.scale, _PEOPLE)
            values = np.clip(drawn, attribute.low, attribute.high)
            columns.append(np.round(values) if attribute.whole else values)
        else:
            columns.append(source.integers(len(attribute.levels), size=_PEOPLE))
    _, lengths = encoder.rows(encoder.numbers(columns))
    long = lengths > encoder.room
    factor = float(np.median(encoder.room / lengths[long])) if long.any() else 1.0
    return ClippingForecast(share=float(np.mean(long)), factor=factor)
