"""Tables of people's records: one reader of files, and one of the columns that mean something.

| file | what is in it |
|---|---|
| `table.py` | `Table`: named columns in which every complaint names the row and the column |
| `cells.py` | which cells say nothing, which are numbers, how one may be quoted |
| `files.py`, `csv_text.py`, `parquet.py` | from a file to a table, and predictions to a file |
| `dataframe.py` | from whatever people have to a table |
| `columns.py` | labels, epsilons, owners and levels |
"""

from pdml.tables.cells import MISSING, number, quote, quote_names
from pdml.tables.dataframe import Frame, Readable, as_table, open_table
from pdml.tables.table import Table
from pdml.tables.table_files import read_table, write_csv, write_predictions

__all__ = [
    "MISSING",
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
