"""Parquet, by pyarrow, which is large and optional: loaded only when such a file is touched."""

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pdml import extras
from pdml.errors import DataError, InvalidInput
from pdml.tables.table import Table, kept_columns


def _pyarrow() -> Any:
    with extras.needed():
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def read_parquet(path: Path, wanted: Sequence[str] | None) -> Table:
    path.open("rb").close()  # a missing or forbidden file is no matter of Parquet
    pa = _pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            # pandas keeps an unnamed index under such a name; it numbers people and describes
            # nobody
            stored = [
                name
                for name in file.schema_arrow.names
                if not re.fullmatch(r"__index_level_\d+__", name)
            ]
            kept = kept_columns(path, [name.strip() for name in stored], wanted)
            content = file.read(columns=[stored[position] for position in kept.values()])
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} must be a Parquet file, got one that cannot be read: {_first_line(error)}"
        ) from error
    columns = {
        name: _from_arrow(pa, path, name, content.column(stored[position]))
        for name, position in kept.items()
    }
    return Table(columns=columns, source=str(path))


def _from_arrow(pa: Any, path: Path, name: str, column: Any) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind, types = column.type, pa.types
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    elif not any(
        is_kind(kind)
        for is_kind in (
            types.is_integer,
            types.is_floating,
            types.is_boolean,
            types.is_null,
            *texts,
        )
    ):
        raise DataError(
            f"column {name!r} of {path} must hold numbers, text or truth values, got "
            f"{kind}: convert it, or leave it out"
        )
    values: NDArray[Any] = column.to_numpy()  # null becomes NaN or None
    return values


def parquet_bytes(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Columns of equal length as the content of a file."""
    pa, buffer = _pyarrow(), io.BytesIO()
    try:
        pa.parquet.write_table(pa.table(dict(columns)), buffer)
    except pa.ArrowException as error:
        raise InvalidInput(
            f"columns must hold values of one kind each to become Parquet: {_first_line(error)}"
        ) from error
    return buffer.getvalue()
