"""From people's answers to the features of records, by declarations alone.

Everything declared is public and fixed before anybody answers, so a person's device can encode the
record by itself and encoding reveals nothing about others. A range or a set of levels taken from
the data would be a release that no noise protects (`pdml.encoding.declarations.attributes_in`).

Features are those of `pdml.encoding.scaling` and `pdml.encoding.maps`: distances from the average
values, centred levels, declared maps of them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, Matrix
from pdml.encoding import attributes as declared
from pdml.encoding import maps as mapped
from pdml.encoding import scaling
from pdml.encoding.attributes import Attribute, Category, Menu, Number
from pdml.encoding.row_steps import (
    Column,
    ExpandMaps,
    Expansion,
    ReadColumns,
    ScaleNumbers,
    Step,
    finish,
    take,
)
from pdml.errors import InvalidInput
from pdml.numerics import coded_rows
from pdml.numerics.coded_rows import Block
from pdml.tables import Table, quote

__all__ = ["VERSION", "Attribute", "Category", "Encoder", "Menu", "Number"]

VERSION = 1  # what becomes of an answer (docs/concepts/encoding.md)


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """The declared attributes, in the order of their features.

    Guarantees
    ----------
    - Each row is encoded by itself: what one person sends does not depend on anybody else's record.
    - Every entry, codes of sensitive answers apart, lies within ±3.
    - Both hold for what follows from declarations, which may be a leak themselves.
    """

    attributes: tuple[Attribute, ...]  # The questions
    # What stands for no answer in a table, besides an empty cell and a null, which always do
    missing_values: tuple[str, ...] = ()
    # Further features, made of the attributes' (`pdml.encoding.maps`)
    maps: tuple[mapped.FeatureMap, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, (tuple, list)) or not self.attributes:
            raise InvalidInput(
                f"attributes must be one or more Number or Category, got {self.attributes!r}"
            )
        for attribute in self.attributes:
            if not isinstance(attribute, (Number, Category)):
                raise InvalidInput(f"attributes must be Number or Category, got {attribute!r}")
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "missing_values", _spellings(self.missing_values))
        object.__setattr__(self, "maps", mapped.maps_of(self.maps))
        for what, names in (
            ("names of attributes", [a.name for a in self.attributes]),
            ("names of features", [n for a in self.attributes for n in a.feature_names]),
        ):
            earlier: set[str] = set()
            for name in names:
                if name in earlier:
                    raise InvalidInput(f"{what} must differ from one another, got {name!r} twice")
                earlier.add(name)
        _ = self.expansion  # a map of what is not there is refused

    @cached_property
    def clear(self) -> tuple[Attribute, ...]:
        """The attributes whose answers are sent as they are."""
        return tuple(attribute for attribute in self.attributes if attribute.epsilon is None)

    @cached_property
    def sensitive(self) -> tuple[Attribute, ...]:
        """Those that devices randomise."""
        return tuple(attribute for attribute in self.attributes if attribute.epsilon is not None)

    @cached_property
    def expansion(self) -> Expansion:
        """The entries of answers in the clear, and the maps that act on them."""
        inputs = mapped.Inputs(
            names=tuple(name for attribute in self.clear for name in attribute.feature_names),
            numbers=tuple(
                attribute.name for attribute in self.clear if isinstance(attribute, Number)
            ),
            masses=tuple(mass for attribute in self.clear for mass in attribute.masses),
        )
        return Expansion(inputs=inputs, maps=self.maps)

    @cached_property
    def mass(self) -> float:
        """The expected square of a row before its scale, summed from left to right."""
        total = self.expansion.mass
        for attribute in self.sensitive:
            for mass in attribute.masses:
                total += mass
        return total

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Where the codes of sensitive answers stand: the last features, in the attributes'
        order."""
        specs = []
        for attribute in self.sensitive:
            assert attribute.epsilon is not None
            many = len(attribute.choices)
            specs.append((attribute.name, 1.0 - 1.0 / many, attribute.epsilon.millionths, many))
        return coded_rows.layout_blocks(self.expansion.width, self.mass, specs)

    @property
    def room(self) -> float:
        """The longest that a row may be, codes apart, in units of the bound."""
        return scaling.room(self.blocks)

    @property
    def constant(self) -> float:
        """That of a typical row."""
        return scaling.typical_constant(self.mass, self.expansion.mass, self.blocks)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """One name per feature, such as "age" or "sex=female"."""
        codes = (name for attribute in self.sensitive for name in attribute.feature_names)
        return (*self.expansion.names, *codes)

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @cached_property
    def is_numeric(self) -> bool:
        """Whether all columns are numbers without gaps: then an array of them will do."""
        return all(
            isinstance(one, Number) and not (one.whole or one.missing or one.epsilon)
            for one in self.attributes
        )

    @cached_property
    def columns(self) -> ReadColumns:
        """How cells in the clear become numbers."""
        return ReadColumns(columns=tuple(map(_column, self.clear)))

    @cached_property
    def scale(self) -> ScaleNumbers:
        """How these numbers become the entries of a row."""
        origin, unit, low, high = np.hstack([np.empty((4, 0)), *map(_scale, self.clear)])
        return ScaleNumbers(origin=origin, unit=unit, low=low, high=high)

    def steps(self, *, constant: bool = True, bound: float = 1.0) -> tuple[Step, ...]:
        """From these numbers to rows of norm at most ``bound``."""
        maps = [ExpandMaps(expansion=self.expansion)] if self.maps else []
        finishing = finish(self.mass, self.blocks, constant=constant, bound=bound)
        return (self.scale, *maps, *finishing)

    def as_cells(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """An array's columns as a table's cells: 1.0 is the level "1.0" of a category."""
        return {
            attribute.name: np.array([*map(str, columns[attribute.name].tolist())], dtype=object)
            if isinstance(attribute, Category)
            else columns[attribute.name]
            for attribute in self.attributes
        }

    def read(self, table: Table) -> Array:
        """`numbers` of a table's records."""
        return self.numbers(self.read_answers(table))

    def read_answers(self, table: Table) -> tuple[NDArray[Any], ...]:
        """Each attribute's answers in a table (`Number.read`, `Category.read`)."""
        return tuple(attribute.read(table, self.missing_values) for attribute in self.attributes)

    def numbers(
        self, columns: Sequence[NDArray[Any]], draws: NDArray[np.int64] | None = None
    ) -> Array:
        """The numbers of answers in the clear, then codes of the others, a row for each person.

        ``draws``, (people, attributes, 2): of each randomised answer the level, a position among
        `choices`, and ε in millionths. Without them sensitive answers stay as they are.
        """
        answers = {
            attribute.name: values
            for attribute, values in zip(self.attributes, columns, strict=True)
        }
        parts = [column.apply(answers[column.name]) for column in self.columns.columns]
        for k, attribute in enumerate(self.sensitive):
            many = len(attribute.choices)
            if draws is None:
                levels, loud = attribute.position(answers[attribute.name]), np.ones(1)
            else:
                levels, loud = draws[:, k, 0], coded_rows.weights(draws[:, k, 1], many)
            parts.append(scaling.centred(levels, many) * loud[:, None] + 0.0)
        return np.hstack(parts)

    def rows(
        self, numbers: Array, *, constant: bool = True, bound: float = 1.0
    ) -> tuple[Array, Array]:
        """Rows by `steps`, and their norms before those above `room` were clipped."""
        clear = numbers.shape[1] - sum(block.levels for block in self.blocks)
        steps = self.steps(constant=constant, bound=bound)
        return take(steps, numbers[:, :clear], numbers[:, clear:])

    def decode(self, row: Matrix) -> dict[str, float | str | None]:
        """The answers behind one encoded row, before constant and scale: what a person is shown
        before sending it. None where there is no answer."""
        entries = np.asarray(row, dtype=np.float64).ravel()
        if len(entries) != self.n_features:
            raise InvalidInput(
                f"row must have one entry per feature ({self.n_features}), got {len(entries)}"
            )
        if not all(feature_map.keep for feature_map in self.maps):
            raise InvalidInput(
                "maps must keep the entries that they are made of where answers are read back, "
                "got one with keep = false"
            )
        answers: dict[str, float | str | None] = {}
        start = 0
        for attribute in self.clear:
            stop = start + len(attribute.feature_names)
            part = entries[start:stop]
            answers[attribute.name] = attribute.decode(part)
            start = stop
        for attribute, block in zip(self.sensitive, self.blocks, strict=True):
            answers[attribute.name] = attribute.choices[int(np.argmax(entries[block.columns]))]
        return {question.name: answers[question.name] for question in self.attributes}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, spelt as in the study file."""
        return declared.spell(
            attributes=[attribute.to_dict() for attribute in self.attributes],
            missing_values=list(self.missing_values) or None,
            maps=[mapped.to_dict(feature_map) for feature_map in self.maps] or None,
        )

    @cached_property
    def digest(self) -> str:
        """Half a sha256 in hex: encoders with the same one make the same rows of answers."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; whatever it would not write is refused, for a misspelt key must
        not pass unnoticed."""
        declared.check_keys(
            "the encoder", data, {"attributes"}, {"version", "missing_values", "maps"}
        )
        _validate.integer("version of the encoder", data.get("version", 1), low=1, high=VERSION)
        if not isinstance(data["attributes"], list):
            raise InvalidInput(
                f"attributes must be a list of tables, got {quote(data['attributes'])}"
            )
        return cls(
            attributes=tuple(
                declared.from_dict(f"attribute {i + 1}", item)
                for i, item in enumerate(data["attributes"])
            ),
            **{key: data[key] for key in ("missing_values", "maps") if key in data},
        )


def _spellings(values: object) -> tuple[str, ...]:
    if not isinstance(values, (tuple, list)) or not all(isinstance(text, str) for text in values):
        raise InvalidInput(
            f"missing_values must be a list of texts, got {values!r}", setting="missing_values"
        )
    return tuple(dict.fromkeys(text.strip() for text in values))


def _column(attribute: Attribute) -> Column:
    gaps = bool(attribute.missing)
    if isinstance(attribute, Category):
        return Column(name=attribute.name, levels=attribute.levels, gaps=gaps)
    return Column(name=attribute.name, gaps=gaps, fill=attribute.scale[0])


def _scale(attribute: Attribute) -> Array:
    """(origin, unit, low, high) of each number of an attribute's: levels are centred."""
    if isinstance(attribute, Category):
        levels = len(attribute.choices)
        return _repeat(1 / levels, 1.0, -1.0, 1.0, many=levels)
    average, spread = attribute.scale
    ends = scaling.standardised(np.array([attribute.low, attribute.high]), average, spread)
    silent = _repeat(0.0, 1.0, 0.0, 1.0, many=int(bool(attribute.missing)))
    return np.hstack([_repeat(average, spread, *ends), silent])


def _repeat(*values: float, many: int = 1) -> Array:
    return np.tile(np.array(values, dtype=float)[:, None], many)
