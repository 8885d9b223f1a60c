"""From a table to what a `Simulation` takes. A person's label is never shown: errors name its
row only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml._types import Array, IntArray, Matrix
from pdml.encoding import declarations
from pdml.encoding.encoder import Attribute, Encoder
from pdml.encoding.maps import FeatureMap
from pdml.encoding.pipeline import Pipeline
from pdml.errors import DataError, InvalidInput
from pdml.tables import Table, columns, read_table
from pdml.tables.columns import Roles

CLASSES_LEAK = (
    "the set of classes was taken from the label column (--classes declares it), also a class that "
    "one person alone has: a release no noise protects"
)


@dataclass(frozen=True, kw_only=True)
class Records:
    """Encoded records with their labels as indices into ``classes``."""

    encoder: Encoder
    classes: tuple[Any, ...]
    x: Matrix  # as `Pipeline.rows` takes it
    codes: IntArray
    epsilons: Array | None = None
    owners: IntArray | None = None  # each record's server
    names: tuple[str, ...] = ()  # of the servers, if the table names them
    leaks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: IntArray) -> "Records":
        """Some of the records, in the order of ``rows``."""
        epsilons = None if self.epsilons is None else self.epsilons[rows]
        owners = None if self.owners is None else self.owners[rows]
        return replace(
            self, x=self.x[rows], codes=self.codes[rows], epsilons=epsilons, owners=owners
        )


def read_records(
    table: Table,
    roles: Roles,
    *,
    attributes: Iterable[Attribute] = (),
    from_data: bool = False,
    classes: Sequence[str] = (),
    missing: Sequence[str] = (),
    missing_values: Sequence[str] = (),
    maps: Sequence[FeatureMap] = (),
) -> Records:
    """Every record of a table, encoded by declarations."""
    features = roles.features(table)
    declared_attributes = declarations.by_name(attributes)
    encoder, guessed = declarations.encoder_for(
        table,
        declared_attributes,
        features=features,
        from_data=from_data,
        missing=missing,
        missing_values=missing_values,
        maps=maps,
    )
    class_names, codes = columns.labels(table, roles.label, classes)
    names, owners = columns.owners(table, roles.server) if roles.server else ((), None)
    leaks = ([declarations.leak(guessed)] if guessed else []) + ([] if classes else [CLASSES_LEAK])
    return Records(
        encoder=encoder,
        classes=class_names,
        x=Pipeline(encoder=encoder).read(table),
        codes=codes,
        epsilons=columns.epsilons(table, roles.epsilon) if roles.epsilon else None,
        owners=owners,
        names=names,
        leaks=tuple(leaks),
    )


def public_records(
    path: str | Path, label: str, *, norm_bound: float = 1.0
) -> tuple[Matrix, IntArray, int]:
    """Public records as they would be trained on, for plans and bounds.

    Ranges, typical values, levels and classes come from the data, which are public.
    """
    read = read_records(read_table(path), Roles(label=label), from_data=True)
    rows, _ = Pipeline(encoder=read.encoder, norm_bound=norm_bound).rows(read.x)
    return rows, read.codes, len(read.classes)


def read_labelled(records: Records, table: Table, label: str) -> Records:
    """Records of another table, by the same declarations and classes."""
    codes = columns.positions(table, label, records.classes, what="the classes", private=True)
    return replace(records, x=Pipeline(encoder=records.encoder).read(table), codes=codes)


def split_test(records: Records, fraction: float, seed: int | None) -> tuple[Records, Records]:
    """Records to train on, and a random share of them to measure on."""
    # Drawn apart from all other randomness of the same seed.
    source = np.random.default_rng(None if seed is None else [seed, 0x7E57])
    order = source.permutation(len(records))
    test_size = round(fraction * len(records))
    if not 0 < test_size < len(records):
        raise InvalidInput(
            f"test_fraction {fraction:g} of {len(records)} records leaves none to measure "
            "on or none to train on",
            setting="test_fraction",
        )
    rest = records.take(np.sort(order[test_size:]))
    servers = np.arange(len(records.names))
    if rest.owners is not None and (empty := np.setdiff1d(servers, rest.owners)).size:
        raise DataError(
            f"test_fraction {fraction:g} held back every record of server "
            f"{records.names[int(empty[0])]!r}: hold back fewer, or draw with another seed",
            setting="test_fraction",
        )
    return rest, records.take(np.sort(order[:test_size]))
