"""Parquet, by pyarrow, which is large and optional: loaded only when such a file is touched."""

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml import extras
from pdml.errors import DataError, InvalidInput
from pdml.files import open_file
from pdml.tables.table import Table, kept_columns

LEAST_UNPACKED = 1 << 26  # bytes that any file may unpack to
MOST_UNPACKED = 100  # times its size; people's records unpack to ten or twenty
_CELL = 8  # bytes of a cell in memory, at least


def _pyarrow() -> Any:
    with extras.needed():
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def read_parquet(path: Path, wanted: Sequence[str] | None) -> Table:
    with open_file(path) as opened:  # a missing or forbidden file is no matter of Parquet
        packed = os.fstat(opened.fileno()).st_size
    pa = _pyarrow()
    try:
        schema = pa.parquet.read_schema(path)
        kinds = pa.string(), pa.large_string()
        texts = [field.name for field in schema if field.type in kinds]  # each text is kept once
        with pa.parquet.ParquetFile(path, read_dictionary=texts) as file:
            # but for pandas' unnamed index, which numbers people and describes nobody
            names = file.schema_arrow.names
            stored = [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]
            kept = kept_columns(path, [name.strip() for name in stored], wanted)
            selection = [stored[position] for position in kept.values()]
            for name in selection:
                _check_kind(pa, path, name, file.schema_arrow.field(name).type)
            _check_size(path, file.metadata, selection, packed)
            content = file.read(columns=selection)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} must be a Parquet file, got one that cannot be read: {_first_line(error)}"
        ) from error
    columns = {
        name: _from_arrow(pa, content.column(stored[position])) for name, position in kept.items()
    }
    return Table(columns=columns, source=str(path))


def _check_kind(pa: Any, path: Path, name: str, kind: Any) -> None:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    names = "integer floating boolean null decimal string large_string string_view"
    if not any(getattr(types, f"is_{name}")(kind) for name in names.split()):
        raise DataError(
            f"column {name!r} of {path} must hold numbers, text or truth values, got "
            f"{kind}: convert it, or leave it out"
        )


def _check_size(path: Path, metadata: Any, columns: Sequence[str], packed: int) -> None:
    """Refuse, before anything is unpacked, what a few bytes blow up to."""
    unpacked = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for position in range(group.num_columns):
            column = group.column(position)
            if column.path_in_schema in columns:
                unpacked += max(column.total_uncompressed_size, _CELL * group.num_rows)
    if unpacked > max(LEAST_UNPACKED, MOST_UNPACKED * packed):
        raise DataError(
            f"{path} unpacks to {unpacked:,} bytes, more than {MOST_UNPACKED} times its size, as "
            "files do that are made to fill a machine's memory: if you trust it, save it as .csv"
        )


def arrow_cells(frame: Any) -> dict[str, NDArray[Any]]:
    """The columns of whatever gives an Arrow stream."""
    import pyarrow as pa

    table = pa.table(frame)
    return {name: _from_arrow(pa, table.column(name)) for name in table.column_names}


def _from_arrow(pa: Any, column: Any) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        if pa.types.is_string(column.type.value_type):
            return np.concatenate([np.empty(0, object), *map(_spread, column.chunks)])
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64(), safe=False)
    values: NDArray[Any] = column.to_numpy()  # null becomes NaN or None
    return values


def _spread(chunk: Any) -> NDArray[Any]:
    """Row by row, equal texts being one object; null becomes None."""
    different = np.array([*chunk.dictionary.to_pylist(), None], dtype=object)
    return np.asarray(different[chunk.indices.fill_null(len(different) - 1).to_numpy()])


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
