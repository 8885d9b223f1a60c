"""A study file is declared once: a field of a dataclass says by `key` how its value is read and
what it means in one sentence. Parser, canonical form and hash, template and reference page follow.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any

from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import ValidationErrors

Reader = Callable[[ValidationErrors, Path, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a table."""

    help: str
    read: Reader | None = None  # None: its table reads it together with other keys
    required: bool = False
    only: str = ""  # the kind of attribute that has it; of that kind it may be required
    table: str = ""  # in which it stands, where a dataclass spreads over several
    name: str = ""  # where it is not the field's
    example: str = ""  # in TOML, for a new file that leaves its table out
    always: bool = False  # written, and hashed, though it is the default
    translation: str = ""  # of a text that every translation says again: its help there


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of the file: its keys are the fields of ``record``, or given one by one."""

    help: str = ""
    record: type | None = None
    keys: Mapping[str, Key] = field(default_factory=dict)
    required: bool = False
    many: bool = False  # [[name]], once for each
    comment: str = ""  # above it in a new file


def key(help: str, read: Reader | None = None, *, default: Any = MISSING, **more: Any) -> Any:
    """A dataclass's field that a table of the file holds; without a default it is required."""
    metadata = {"key": Key(help=help, read=read, required=default is MISSING, **more)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def declared_fields(record: type, table: str = "") -> Iterator[tuple[str, Key, Field[Any]]]:
    """The fields of a dataclass that stand in a table, with the names of their keys."""
    for entry in fields(record):
        declared = entry.metadata.get("key")
        if declared is not None and declared.table == table:
            yield declared.name or entry.name, declared, entry


def declared_keys(record: type, table: str = "") -> dict[str, Key]:
    """The same as keys by name."""
    return {name: declared for name, declared, _ in declared_fields(record, table)}


def names_of(keys: Mapping[str, Key]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys that a table must have, and those that it may have."""
    required = tuple(name for name, key in keys.items() if key.required)
    return required, tuple(name for name in keys if name not in required)


def read_table(
    errors: ValidationErrors, path: Path, value: object, keys: Mapping[str, Key]
) -> dict[str, Any]:
    """The known keys of a table, each read by itself."""
    table = errors.table(path, value, *names_of(keys))
    for name, item in table.items():
        if (read := keys[name].read) is not None:
            table[name] = read(errors, (*path, name), item)
    return table


def as_fields(record: type, table: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """What was read, by the names of fields; optional ones that are not there have their
    defaults.
    """
    return {
        entry.name: table[name] if name in table else _default_of(entry)
        for name, key, entry in declared_fields(record, at)
        if name in table or not key.required
    }


def write_fields(record: Any, table: str = "") -> dict[str, Any]:
    """The inverse, as plain JSON types: without what is the default, so that a key which is left
    out leaves no trace in the hash.
    """
    return {
        name: plain(getattr(record, entry.name))
        for name, key, entry in declared_fields(type(record), table)
        if key.required or key.always or getattr(record, entry.name) != _default_of(entry)
    }


def _default_of(entry: Field[Any]) -> Any:
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def plain(value: Any) -> Any:
    """Plain JSON types; times in UTC."""
    if is_dataclass(value):
        return write_fields(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


# How values are read; the checks of `ValidationErrors` that need no limits are readers already


def limited_text(most: int, *, paragraphs: bool = False) -> Reader:
    """A text of at most so many characters."""
    return lambda errors, path, value: errors.text(path, value, most, paragraphs=paragraphs)


def distinct_texts(least: int, most: int) -> Reader:
    """A list of texts that people can tell apart."""
    return lambda errors, path, value: errors.texts(path, value, least=least, most=most)


def whole_number(low: int, high: int) -> Reader:
    """A whole number within limits."""
    return lambda errors, path, value: errors.whole_number(path, value, low, high)
