"""From a person's answers to the features of a record, by declarations alone.

The ranges and the levels are public and fixed before anybody answers, so a person's device can
encode the record by itself and encoding reveals nothing about others. A range or a set of levels
taken from the data would be a release that no noise protects (see `Encoder.from_data`). The bias
and the clipping to the norm bound are the business of `core`.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pdml import _validate, extras
from pdml._types import Array, IntArray, Matrix
from pdml.errors import DataError, InvalidInput
from pdml.tables import MISSING, Table, listed, shown
from pdml.tables.columns import positions

# the share of entries that may differ from zero below which CSR is the smaller storage
_SPARSE_BELOW = 1 / 3


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number declared to lie in [low, high], encoded as (value - low) / (high - low).

    What lies outside is clamped. ``whole``: fractions are refused, not rounded, for whoever gave
    one has misread the question.
    """

    name: str
    low: float
    high: float
    whole: bool = False

    def __post_init__(self) -> None:
        _check_name("name", self.name)
        for end in ("low", "high"):
            value = _validate.real(
                f"{end} of {self.name!r}", getattr(self, end), open_low=True, open_high=True
            )
            object.__setattr__(self, end, value)
        if not self.low < self.high:
            raise InvalidInput(
                f"high of {self.name!r} must exceed its low {self.low:g}, got "
                f"{self.high:g}: one value is no range"
            )
        if not math.isfinite(self.high - self.low):
            raise InvalidInput(
                f"the range of {self.name!r} must have a finite width, got [{self.low:g}, "
                f"{self.high:g}]"
            )
        if not isinstance(self.whole, bool):
            raise InvalidInput(f"whole of {self.name!r} must be True or False, got {self.whole!r}")
        if self.whole and not (self.low.is_integer() and self.high.is_integer()):
            must = f"the range of {self.name!r} must begin and end with whole numbers"
            raise InvalidInput(f"{must}, got [{self.low:g}, {self.high:g}]: it is declared whole")

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name,)

    def place(self, table: Table) -> tuple[Array, IntArray | int]:
        """The entry of each row, and the feature it belongs to: here always the only one."""
        given = table.numeric(self.name)
        if self.whole and (broken := given != np.floor(given)).any():
            row = int(np.argmax(broken))
            got = f"{given[row]:g} in {table.where(row)}"
            raise DataError(f"column {self.name!r} must hold whole numbers, got {got}")
        values = np.clip(given, self.low, self.high)
        return (values - self.low) / (self.high - self.low), 0

    def decode(self, entries: Array, *, single: bool = False) -> float:
        """The value, freed from rounding (14 digits of the range's magnitude stay) so that people
        see 34, not 33.99999999.

        ``single``: the entries were float32 on the way, so that only the first 6 digits of the
        range's width mean something.
        """
        share = float(entries[0])
        if not 0 <= share <= 1:
            raise InvalidInput(
                f"feature {self.name!r} must lie in [0, 1], got {share!r}: that is how a "
                "declared range is encoded"
            )
        value = self.low + share * (self.high - self.low)
        if single:
            digits = 5 - math.floor(math.log10(self.high - self.low))
        else:
            digits = 13 - math.floor(math.log10(max(abs(self.low), abs(self.high))))
        digits = min(digits, 0) if self.whole else digits
        return min(max(round(value, digits), self.low), self.high) + 0.0  # nobody answered -0

    def to_dict(self) -> dict[str, Any]:
        whole = {"whole": True} if self.whole else {}
        return {"kind": "number", "name": self.name, "range": [self.low, self.high], **whole}


@dataclass(frozen=True, kw_only=True)
class Category:
    """One of several declared levels, encoded one-hot; any other value is refused, for a new level
    has no feature.
    """

    name: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_name("name", self.name)
        what = f"levels of {self.name!r}"
        if not isinstance(self.levels, (tuple, list)) or not self.levels:
            raise InvalidInput(f"{what} must be one or more texts, got {self.levels!r}")
        for position, level in enumerate(self.levels):
            _check_name(what, level)
            if level in MISSING:
                raise InvalidInput(
                    f"{what} must not include {level!r}: in a table it stands for a missing value"
                )
            if self.levels.index(level) < position:
                raise InvalidInput(f"{what} must differ from one another, got {level!r} twice")
        object.__setattr__(self, "levels", tuple(self.levels))

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={level}" for level in self.levels)

    def place(self, table: Table) -> tuple[Array, IntArray | int]:
        """A one for each row, and the feature it belongs to: the position of the level."""
        codes = positions(table, self.name, self.levels, what="the declared levels")
        return np.ones(len(codes)), codes

    def decode(self, entries: Array, *, single: bool = False) -> str:
        (chosen,) = np.nonzero(entries)
        if len(chosen) != 1 or entries[chosen[0]] != 1:
            raise InvalidInput(
                f"the features of {self.name!r} must be a single one among zeros, got "
                f"{shown(entries.tolist())}"
            )
        return self.levels[int(chosen[0])]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "category", "name": self.name, "levels": list(self.levels)}


Attribute = Number | Category


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """The declared attributes, in the order of their features.

    Guarantees
    ----------
    - Each row is encoded by itself: what one person sends does not depend on anybody else's record.
    - Every entry lies in [0, 1].
    - Both hold for what follows from declarations; with `from_data` the declarations themselves are
      a leak.
    """

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, (tuple, list)) or not self.attributes:
            raise InvalidInput(
                f"attributes must be one or more Number or Category, got {self.attributes!r}"
            )
        for attribute in self.attributes:
            if not isinstance(attribute, (Number, Category)):
                raise InvalidInput(f"attributes must be Number or Category, got {attribute!r}")
        object.__setattr__(self, "attributes", tuple(self.attributes))
        for what, names in (
            ("names of attributes", [a.name for a in self.attributes]),
            ("names of features", self.feature_names),
        ):
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    raise InvalidInput(f"{what} must differ from one another, got {name!r} twice")
                seen.add(name)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per feature, such as "age" or "sex=female"."""
        return tuple(name for attribute in self.attributes for name in attribute.feature_names)

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    def encode(self, table: Table) -> Matrix:
        """One row per record: CSR if the declarations (never the data) leave few entries to fill,
        else a dense array.
        """
        values, features = self.placed(table)
        shape = (table.n_rows, self.n_features)
        if len(self.attributes) < _SPARSE_BELOW * self.n_features:
            with extras.needed():
                import scipy.sparse as sp
            pointers = np.arange(table.n_rows + 1) * len(self.attributes)
            return sp.csr_array((values.ravel(), features.ravel(), pointers), shape=shape)
        rows = np.zeros(shape)
        np.put_along_axis(rows, features, values, axis=1)
        return rows

    def placed(self, table: Table) -> tuple[Array, IntArray]:
        """Every attribute fills one entry of each row: the entries, and their features in order;
        both (rows, attributes).
        """
        shape = (table.n_rows, len(self.attributes))
        values, features = np.empty(shape), np.empty(shape, dtype=np.int64)
        start = 0
        for i, attribute in enumerate(self.attributes):
            values[:, i], feature = attribute.place(table)
            features[:, i] = start + feature
            start += len(attribute.feature_names)
        return values, features

    def decode(self, row: Matrix, *, single: bool = False) -> dict[str, float | str]:
        """The answers behind one encoded row, before bias and clipping: what a person is shown
        before sending it.
        """
        entries = np.asarray(
            row.toarray() if hasattr(row, "toarray") else row, dtype=np.float64
        ).ravel()
        if len(entries) != self.n_features:
            raise InvalidInput(
                f"row must have one entry per feature ({self.n_features}), got {len(entries)}"
            )
        answers: dict[str, float | str] = {}
        start = 0
        for attribute in self.attributes:
            stop = start + len(attribute.feature_names)
            answers[attribute.name] = attribute.decode(entries[start:stop], single=single)
            start = stop
        return answers

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, spelt as in the study file."""
        return {"attributes": [attribute.to_dict() for attribute in self.attributes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; whatever it would not write is refused, for a misspelt key must
        not pass unnoticed.
        """
        _check_keys("the encoder", data, {"attributes"})
        if not isinstance(data["attributes"], list):
            raise InvalidInput(
                f"attributes must be a list of tables, got {shown(data['attributes'])}"
            )
        return cls(
            attributes=tuple(
                _attribute(f"attribute {i + 1}", item) for i, item in enumerate(data["attributes"])
            )
        )

    @classmethod
    def from_data(cls, table: Table, *, exclude: Collection[str], max_levels: int = 256) -> Self:
        """Declarations guessed from the data, for experiments on data that are public or need no
        protection.

        The leak: the minimum and the maximum of each column, and the set of its levels, are
        functions of people's records. They are stored in the model and no noise protects them:
        whoever is the oldest, or the only one with a rare diagnosis, can be seen in them. Declare
        ranges and levels beforehand wherever privacy is promised.

        ``exclude`` names the columns that are no features, the label above all; it has no default
        because a label taken for a feature would be published as it is. Text with more than
        ``max_levels`` different values is refused: it is likely to be names or identifiers.
        """
        if isinstance(exclude, str):
            raise InvalidInput(
                "exclude must be a collection of column names, got the single text "
                f"{exclude!r}: write [{exclude!r}]"
            )
        for name in exclude:
            if name not in table.names:
                raise InvalidInput(
                    f"exclude must name columns of {table.source}, got {name!r}: its "
                    f"columns are {listed(table.names)}"
                )
        if table.n_rows == 0:
            raise DataError(
                f"{table.source} must hold at least one record, got none: there is nothing "
                "to take ranges from"
            )
        return cls(
            attributes=tuple(
                _guess(table, name, max_levels) for name in table.names if name not in exclude
            )
        )


def _guess(table: Table, name: str, max_levels: int) -> Attribute:
    if not table.is_numeric(name):
        levels = sorted(set(table.text(name).tolist()))
        if len(levels) > max_levels:
            raise DataError(
                f"column {name!r} must have at most {max_levels} levels, got {len(levels)}: "
                "exclude it if it holds names or identifiers"
            )
        return Category(name=name, levels=tuple(levels))
    values = table.numeric(name)
    low, high = float(values.min()), float(values.max())
    if low == high:  # a constant column still needs a range; its value becomes the middle
        half = max(0.5, abs(low) / 2)
        low, high = low - half, high + half
    return Number(name=name, low=low, high=high)


def _attribute(where: str, item: Any) -> Attribute:
    if not isinstance(item, Mapping) or "kind" not in item:
        raise InvalidInput(f"{where} must be a table with a kind, got {shown(item)}")
    kind = _validate.choice(f"kind of {where}", item["kind"], ("number", "category"))
    if kind == "category":
        _check_keys(where, item, {"kind", "name", "levels"})
        return Category(name=item["name"], levels=item["levels"])
    _check_keys(where, item, {"kind", "name", "range"} | ({"whole"} & set(item)))
    if not isinstance(item["range"], (list, tuple)) or len(item["range"]) != 2:
        raise InvalidInput(f"range of {where} must be [low, high], got {shown(item['range'])}")
    low, high = item["range"]
    return Number(name=item["name"], low=low, high=high, whole=item.get("whole", False))


def _check_keys(where: str, item: Any, keys: set[str]) -> None:
    if not isinstance(item, Mapping) or set(item) != keys:
        got = ", ".join(sorted(map(repr, item))) if isinstance(item, Mapping) else shown(item)
        raise InvalidInput(
            f"{where} must have exactly the keys {', '.join(sorted(map(repr, keys)))}, got {got}"
        )


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name or name != name.strip():
        raise InvalidInput(
            f"{what} must be text that neither is empty nor begins or ends with spaces, got "
            f"{name!r}"
        )
