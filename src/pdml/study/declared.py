"""Declarations for a table's columns: what is declared, and what would have to be taken from the
data.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from pdml.errors import DataError, InvalidInput, Undeclared, because
from pdml.study.encoder import Attribute, Encoder
from pdml.tables import Table, listed


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
) -> tuple[Encoder, tuple[str, ...]]:
    """One attribute for each feature column, in the table's order.

    Parameters
    ----------
    table : Table
        The records.
    declared : mapping of str to attribute
        What is declared, by column (`by_name`).
    features : collection of str
        The columns to predict from.
    from_data : bool
        Take what is not declared from the data: a release no noise protects.

    Returns
    -------
    Encoder, tuple of str
        And the columns whose declaration came from the data.

    Raises
    ------
    Undeclared
        If a column has no declaration and ``from_data`` does not allow to look.
    DataError, InvalidInput
        If something is declared for a column that is not there, or is no feature.
    """
    for name in declared:
        if name not in table.names:
            raise DataError(
                f"{table.source} has no column {name!r}, for which a range or levels are declared"
            )
        if name not in features:
            raise InvalidInput(
                f"column {name!r} must not have a declared range or levels: it is no feature here"
            )
    missing = tuple(name for name in features if name not in declared)
    if missing and not from_data:
        raise Undeclared(missing, [name for name in missing if table.is_numeric(name)])
    found = dict(declared)
    if missing:
        exclude = [name for name in table.names if name not in missing]
        found |= by_name(Encoder.from_data(table, exclude=exclude).attributes)
    return Encoder(attributes=tuple(found[name] for name in features)), missing


def leak(columns: Sequence[str]) -> str:
    """What taking declarations from the data gives away."""
    return (
        f"the ranges and levels of {listed(columns)} were taken from the data and are "
        "stored in the model: a release no noise protects"
    )


def read_attributes(path: Path) -> tuple[Attribute, ...]:
    """Declarations from a JSON file: a model's encoder, or what people write in the same form."""
    try:
        content = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {because(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} must be a JSON file with the attributes, got one that is not JSON: {error}"
        ) from None
    try:
        return Encoder.from_dict(content).attributes
    except InvalidInput as error:
        raise InvalidInput(f"in {path}, {error}") from None
