"""From a table to what `PDMLClassifier.fit` takes. A person's label is never shown: errors name its
row only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, IntArray, Matrix
from pdml.cli import declared
from pdml.encoder import Attribute, Encoder
from pdml.errors import DataError, InvalidInput
from pdml.tables import Table, listed, read_table

MAX_CLASSES = 50
MAX_SERVERS = 1_000
CLASSES_LEAK = (
    "the set of classes was taken from the label column (--classes declares "
    "it): a release no noise protects"
)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column plays which part; all others are features. Empty means that no column does."""

    label: str
    epsilon: str = ""
    server: str = ""
    ignored: tuple[str, ...] = ()

    def features(self, table: Table) -> tuple[str, ...]:
        taken = [name for name in (self.label, self.epsilon, self.server) if name]
        if doubled := [name for name in taken if taken.count(name) > 1]:
            raise InvalidInput(
                f"column {doubled[0]!r} must play one part, got two: label, server and "
                "epsilon are different columns"
            )
        for name in (*taken, *self.ignored):
            if name not in table.names:
                raise DataError(
                    f"{table.source} has no column {name!r}: its columns are {listed(table.names)}"
                )
        if self.label in self.ignored:
            raise InvalidInput(f"column {self.label!r} must not be ignored: it is the label")
        features = tuple(name for name in table.names if name not in {*taken, *self.ignored})
        if not features:
            raise DataError(
                f"{table.source} must have a column to predict from, got none besides "
                f"{listed([*taken, *self.ignored])}"
            )
        return features


@dataclass(frozen=True, kw_only=True)
class Records:
    """Encoded records with their labels as indices into ``classes``."""

    encoder: Encoder
    classes: tuple[Any, ...]
    x: Matrix
    codes: IntArray
    epsilons: Array | None = None
    owners: IntArray | None = None  # each record's server
    names: tuple[str, ...] = ()  # of the servers, if the table names them
    leaks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: IntArray) -> "Records":
        epsilons = None if self.epsilons is None else self.epsilons[rows]
        owners = None if self.owners is None else self.owners[rows]
        return replace(
            self, x=self.x[rows], codes=self.codes[rows], epsilons=epsilons, owners=owners
        )


def read(
    path: Path,
    roles: Roles,
    *,
    attributes: dict[str, Attribute],
    from_data: bool,
    classes: Sequence[str] = (),
) -> Records:
    """A whole table of records."""
    table = read_table(path)
    features = roles.features(table)
    encoder, guessed = declared.encoder(table, attributes, features=features, from_data=from_data)
    found, codes = _labels(table, roles.label, classes)
    names, owners = _servers(table, roles.server) if roles.server else ((), None)
    leaks = ([declared.leak(guessed)] if guessed else []) + ([] if classes else [CLASSES_LEAK])
    return Records(
        encoder=encoder,
        classes=found,
        x=encoder.encode(table),
        codes=codes,
        epsilons=_epsilons(table, roles.epsilon) if roles.epsilon else None,
        owners=owners,
        names=names,
        leaks=tuple(leaks),
    )


def split(
    records: Records, *, test: Path | None, label: str, fraction: float, seed: int | None
) -> tuple[Records, Records | None]:
    """Records to train on and records to measure on: from a file of their own, held back at random,
    or none.
    """
    if not 0 <= fraction < 1:
        raise InvalidInput(
            f"--test-fraction must lie in [0, 1), got {fraction:g}: something must be left "
            "to train on"
        )
    if test is not None:
        if fraction:
            raise InvalidInput(
                "--test and --test-fraction must not be given together: the records to "
                "measure on come from one place"
            )
        table = read_table(test)
        return records, replace(
            records, x=records.encoder.encode(table), codes=_codes(table, label, records.classes)
        )
    if not fraction:
        return records, None
    # Drawn apart from all other randomness of the same seed.
    order = np.random.default_rng(None if seed is None else [seed, 0x7E57]).permutation(
        len(records)
    )
    held_back = round(fraction * len(records))
    if not 0 < held_back < len(records):
        raise InvalidInput(
            f"--test-fraction {fraction:g} of {len(records)} records leaves none to measure "
            "on or none to train on"
        )
    rest = records.take(np.sort(order[held_back:]))
    if (
        rest.owners is not None
        and (empty := np.setdiff1d(np.arange(len(records.names)), rest.owners)).size
    ):
        name = records.names[int(empty[0])]
        raise DataError(
            f"--test-fraction {fraction:g} held back every record of server {name!r}: hold "
            "back fewer or change --seed"
        )
    return rest, records.take(np.sort(order[:held_back]))


def _labels(table: Table, name: str, classes: Sequence[str]) -> tuple[tuple[Any, ...], IntArray]:
    """The classes in order, and each record's index among them."""
    if classes:
        known = _declared(table, name, classes)
        return known, _codes(table, name, known)
    found, codes = np.unique(_values(table, name, private=True), return_inverse=True)
    if len(found) < 2:
        raise DataError(
            f"column {name!r} of {table.source} must hold two classes or more, got the same "
            "value in every row"
        )
    if len(found) > MAX_CLASSES:
        raise DataError(
            f"column {name!r} must hold at most {MAX_CLASSES} classes to be a label, got "
            f"{len(found):,} distinct values: "
            "PDML classifies, so put a continuous quantity into a few groups first"
        )
    return tuple(found.tolist()), codes


def _codes(table: Table, name: str, classes: Sequence[Any]) -> IntArray:
    """Each record's index among classes that are known already."""
    column = (
        table.text(name, private=True)
        if isinstance(classes[0], str)
        else table.numeric(name, private=True)
    )
    position = {value: k for k, value in enumerate(classes)}
    codes = np.fromiter(
        (position.get(value, -1) for value in column.tolist()), dtype=np.int64, count=table.n_rows
    )
    if (codes < 0).any():
        where = table.where(int(np.argmin(codes)))
        raise DataError(
            f"column {name!r} must hold one of the classes "
            f"{listed([str(c) for c in classes])}, got something else in {where}"
        )
    return codes


def _declared(table: Table, name: str, classes: Sequence[str]) -> tuple[Any, ...]:
    if len(set(classes)) < max(2, len(classes)) or "" in classes:
        raise InvalidInput(
            f"--classes must be two or more different names, got {','.join(classes)!r}"
        )
    if not table.is_numeric(name):
        return tuple(classes)
    try:
        return tuple(_whole(np.array([float(value) for value in classes])).tolist())
    except ValueError:
        raise InvalidInput(
            f"--classes must be numbers, as column {name!r} is, got {','.join(classes)!r}"
        ) from None


def _servers(table: Table, name: str) -> tuple[tuple[str, ...], IntArray]:
    """The servers' names in order, and the number of each record's server."""
    found, owners = np.unique(_values(table, name), return_inverse=True)
    if not 2 <= len(found) <= MAX_SERVERS:
        raise DataError(
            f"column {name!r} must name 2 to {MAX_SERVERS:,} servers, got {len(found):,} "
            "distinct values"
        )
    return tuple(map(str, found.tolist())), owners


def _epsilons(table: Table, name: str) -> Array:
    values = table.numeric(name)
    if (values <= 0).any():
        row = int(np.argmax(values <= 0))
        raise DataError(
            f"column {name!r} must hold positive epsilons, got {values[row]:g} in "
            f"{table.where(row)}"
        )
    return values


def _values(table: Table, name: str, *, private: bool = False) -> NDArray[Any]:
    """Numbers if the whole column is, so that 1 and 1.0 are one value and 10 comes after 9; else
    text.
    """
    return (
        _whole(table.numeric(name, private=private))
        if table.is_numeric(name)
        else table.text(name, private=private)
    )


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    whole = (values == np.round(values)).all() and (np.abs(values) < 2**53).all()
    return values.astype(np.int64) if whole else values
