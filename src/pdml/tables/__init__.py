"""Tables of people's records: one reader of files, and one of the columns that mean something."""

from pdml.tables.cells import MISSING, number, quote, quote_names
from pdml.tables.frame import DATES, ColumnKind, Frame
from pdml.tables.table import Table
from pdml.tables.table_files import (
    Readable,
    as_table,
    open_table,
    read_table,
    write_csv,
    write_predictions,
)

__all__ = [
    "DATES",
    "MISSING",
    "ColumnKind",
    "Frame",
    "Readable",
    "Table",
    "as_table",
    "number",
    "open_table",
    "quote",
    "quote_names",
    "read_table",
    "write_csv",
    "write_predictions",
]
