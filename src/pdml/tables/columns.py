"""Columns that mean something: their roles, labels, people's own ε, owners and levels.

What is private is never quoted: an error about somebody's label names the row and nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, BoolArray, IntArray
from pdml.errors import DataError, InvalidInput
from pdml.tables.cells import quote, quote_names
from pdml.tables.table import Table

MAX_CLASSES = 50
MAX_SERVERS = 1_000


def positions(
    table: Table,
    name: str,
    values: Sequence[Any],
    *,
    what: str,
    private: bool = False,
    absent: BoolArray | None = None,
) -> IntArray:
    """Which of ``values`` each cell of a column is."""
    if isinstance(values[0], str):
        different, inverse = table.distinct(name, private=private, absent=absent)
    else:
        cells = table.numeric(name, private=private, absent=absent)
        different, inverse = np.unique(cells, return_inverse=True)
    index = {value: k for k, value in enumerate(values)}
    indices = np.array([index.get(cell, -1) for cell in different.tolist()], np.int64)[inverse]
    if (indices < 0).any():
        row = int(np.argmin(indices))
        got = "something else" if private else quote(different.tolist()[inverse[row]])
        names = quote_names([str(value) for value in values if value != ""])
        raise DataError(
            f"column {name!r} must hold one of {what} {names}, got {got} in {table.where(row)}"
        )
    return indices


def labels(
    table: Table, name: str, classes: Sequence[str] = ()
) -> tuple[tuple[Any, ...], IntArray]:
    """The classes in order, and each record's index among them."""
    if classes:
        class_values = _declared(table, name, classes)
        return class_values, positions(table, name, class_values, what="the classes", private=True)
    values, codes = _values(table, name, private=True)
    if len(values) < 2:
        raise DataError(
            f"column {name!r} of {table.source} must hold two classes or more, got the same "
            "value in every row"
        )
    if len(values) > MAX_CLASSES:
        raise DataError(
            f"column {name!r} must hold at most {MAX_CLASSES} classes to be a label, got "
            f"{len(values):,} distinct values: "
            "PDML classifies, so put a continuous quantity into a few groups first"
        )
    return tuple(values.tolist()), codes


def epsilons(
    table: Table,
    name: str,
    *,
    allowed: Callable[[float], bool] = lambda epsilon: True,
    domain: str = "positive epsilons",
) -> Array:
    """A column of people's own ε."""
    values = table.numeric(name)
    different, which = np.unique(values, return_inverse=True)
    good = np.array([value > 0 and allowed(value) for value in different.tolist()])[which]
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(
            f"column {name!r} must hold {domain}, got {values[row]:g} in {table.where(row)}"
        )
    return values


def owners(table: Table, name: str) -> tuple[tuple[str, ...], IntArray]:
    """The servers' names in order, and the number of each record's server."""
    names, numbers = _values(table, name)
    if not 2 <= len(names) <= MAX_SERVERS:
        raise DataError(
            f"column {name!r} must name 2 to {MAX_SERVERS:,} servers, got {len(names):,} "
            "distinct values"
        )
    return tuple(map(str, names.tolist())), numbers


def _declared(table: Table, name: str, classes: Sequence[str]) -> tuple[Any, ...]:
    if len(set(classes)) < max(2, len(classes)) or "" in classes:
        raise InvalidInput(
            f"classes must be two or more different names, got {','.join(classes)!r}",
            setting="classes",
        )
    if not table.is_numeric(name):
        return tuple(classes)
    try:
        return tuple(_whole(np.array([*map(float, classes)])).tolist())
    except ValueError:
        must = f"classes must be numbers, as column {name!r} is"
        raise InvalidInput(f"{must}, got {','.join(classes)!r}", setting="classes") from None


def _values(table: Table, name: str, *, private: bool = False) -> tuple[NDArray[Any], IntArray]:
    """The different values in order, and each row's: numbers if all are (1 is 1.0), else text."""
    if table.is_numeric(name):
        return np.unique(_whole(table.numeric(name, private=private)), return_inverse=True)
    different, place = table.distinct(name, private=private)
    values, rank = np.unique(different, return_inverse=True)
    return values, rank[place]


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    whole = (values == np.round(values)).all() and (np.abs(values) < 2**53).all()
    return values.astype(np.int64) if whole else values


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column plays which part; all others are features. Empty means that no column does."""

    label: str  # the column to predict
    epsilon: str = ""  # each person's own ε
    server: str = ""  # which server each record belongs to
    ignored: tuple[str, ...] = ()  # columns that are no features

    def features(self, table: Table) -> tuple[str, ...]:
        """The columns to predict from, in the table's order."""
        taken = [name for name in (self.label, self.epsilon, self.server) if name]
        if doubled := [name for name in taken if taken.count(name) > 1]:
            raise InvalidInput(
                f"column {doubled[0]!r} must play one part, got two: label, server and "
                "epsilon are different columns"
            )
        for name in (*taken, *self.ignored):
            if name not in table.names:
                raise DataError(
                    f"{table.source} has no column {name!r}: its columns are "
                    f"{quote_names(table.names)}"
                )
        if self.label in self.ignored:
            raise InvalidInput(f"column {self.label!r} must not be ignored: it is the label")
        features = tuple(name for name in table.names if name not in {*taken, *self.ignored})
        if not features:
            raise DataError(
                f"{table.source} must have a column to predict from, got none besides "
                f"{quote_names([*taken, *self.ignored])}"
            )
        return features
