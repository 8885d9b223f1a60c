"""What --range, --levels, --encoder and --from-data say about the columns, as an `Encoder`."""

from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from pdml.encoder import Attribute, Category, Encoder, Number
from pdml.errors import DataError, InvalidInput
from pdml.tables import Table, listed


def declarations(
    ranges: Sequence[str], levels: Sequence[str], file: Path | None
) -> dict[str, Attribute]:
    """Every declared attribute by name."""
    declared: dict[str, Attribute] = {}
    given = [*(_from_file(file) if file else ()), *map(_range, ranges), *map(_levels, levels)]
    for attribute in given:
        if attribute.name in declared:
            raise InvalidInput(
                f"column {attribute.name!r} must be declared once, got two declarations"
            )
        declared[attribute.name] = attribute
    return declared


def encoder(
    table: Table, declared: dict[str, Attribute], *, features: Collection[str], from_data: bool
) -> tuple[Encoder, tuple[str, ...]]:
    """One attribute per feature column in the table's order, and the columns whose declaration had
    to be taken from the data.
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
    open_columns = tuple(name for name in features if name not in declared)
    if open_columns and not from_data:
        raise InvalidInput(_undeclared(table, open_columns))
    guessed: dict[str, Attribute] = {}
    if open_columns:
        exclude = [name for name in table.names if name not in open_columns]
        guessed = {
            attribute.name: attribute
            for attribute in Encoder.from_data(table, exclude=exclude).attributes
        }
    return Encoder(
        attributes=tuple({**declared, **guessed}[name] for name in features)
    ), open_columns


def leak(columns: Sequence[str]) -> str:
    """What taking declarations from the data gives away."""
    return (
        f"the ranges and levels of {listed(columns)} were taken from the data and are "
        "stored in the model: a release no noise protects"
    )


def _undeclared(table: Table, names: Sequence[str]) -> str:
    numbers = [name for name in names if table.is_numeric(name)]
    texts = [name for name in names if name not in numbers]
    ways = [
        f"--range {_argument(numbers[0])}=LOW:HIGH" if numbers else "",
        f"--levels {_argument(texts[0])}=A,B,..." if texts else "",
    ]
    one = len(names) == 1
    return (
        f"column{'' if one else 's'} {listed(names)} {'has' if one else 'have'} no declared "
        "range or levels: "
        f"declare {'it' if one else 'them'} ({' and '.join(filter(None, ways))}, or "
        "--ignore what is no feature), "
        "or let --from-data take them from the data, which no noise protects"
    )


def _argument(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f"'{name}'"


def _split(option: str, text: str, form: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not (name.strip() and equals and rest.strip()):
        raise InvalidInput(f"{option} must look like {form}, got {text!r}")
    return name.strip(), rest


def _range(text: str) -> Number:
    form = "COLUMN=LOW:HIGH, for example age=18:100 or age=18:100:whole"
    name, rest = _split("--range", text, form)
    try:
        return number(name, rest)
    except InvalidInput:
        raise
    except ValueError:
        raise InvalidInput(f"--range must look like {form}, got {text!r}") from None


def number(name: str, text: str) -> Number:
    """LOW:HIGH, or LOW:HIGH:whole where fractions are no answers; a ValueError if it is neither."""
    low, high, *whole = text.split(":")
    if whole not in ([], ["whole"]):
        raise ValueError(text)
    return Number(name=name, low=float(low), high=float(high), whole=bool(whole))


def _levels(text: str) -> Category:
    name, rest = _split("--levels", text, "COLUMN=A,B,C, for example sex=female,male")
    return Category(name=name, levels=tuple(level.strip() for level in rest.split(",")))


def _from_file(path: Path) -> tuple[Attribute, ...]:
    """The "attributes" of a model's encoder, or what people write in the same form."""
    try:
        content = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} must be a JSON file with the attributes, got one that is not JSON: {error}"
        ) from None
    try:
        return Encoder.from_dict(content).attributes
    except InvalidInput as error:
        raise InvalidInput(f"in {path}, {error}") from None
