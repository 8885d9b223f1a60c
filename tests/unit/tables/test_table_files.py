import gzip
import os
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.errors import DataError, InvalidInput, MissingExtra
from pdml.tables import MISSING, Table, read_table, write_predictions
from pdml.tables.table_files import harmless

PEOPLE = "age,sex\n34,female\n 51 ,male\n"


def write(folder: Path, content: str | bytes, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "people.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    "content",
    [
        PEOPLE,
        PEOPLE.replace("\n", "\r\n"),
        PEOPLE.replace("\n", "\r"),
        "\ufeff" + PEOPLE,
        PEOPLE + "\n\r\n",
        PEOPLE.removesuffix("\n"),
        PEOPLE.replace(",", ";"),
        PEOPLE.replace(",", "\t"),
        'age, sex\n34, "female"\n"51","male"\n',
    ],
    ids=[
        "plain",
        "windows",
        "old mac",
        "bom",
        "empty end",
        "no end",
        "semicolon",
        "tab",
        "quotes and spaces",
    ],
)
def test_the_spellings_of_csv(tmp_path: Path, content: str) -> None:
    table = read_table(write(tmp_path, content))
    assert table.names == ("age", "sex")
    assert table.n_rows == 2
    assert table.numeric("age").tolist() == [34.0, 51.0]
    assert table.text("sex").tolist() == ["female", "male"]
    assert table.is_numeric("age")
    assert not table.is_numeric("sex")


def test_gzip_and_capital_extension(tmp_path: Path) -> None:
    assert read_table(write(tmp_path, gzip.compress(PEOPLE.encode()), "p.csv.gz")).n_rows == 2
    assert read_table(write(tmp_path, PEOPLE, "P.CSV")).n_rows == 2


def test_quoted_cells_keep_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, 'note,age\n"a, ""b""\nc",3\nd,x\n'))
    assert table.text("note").tolist() == ['a, "b"\nc', "d"]
    with pytest.raises(DataError, match=r"got 'x' in row 2 \(line 4 of "):
        table.numeric("age")


def test_header_decides_the_delimiter_and_the_records_where_it_cannot(tmp_path: Path) -> None:
    assert read_table(write(tmp_path, "a,b\n1;2,3\n")).text("a").tolist() == ["1;2"]
    assert read_table(write(tmp_path, "a;b\n1,5;2\n")).text("a").tolist() == ["1,5"]
    assert read_table(write(tmp_path, "weight, kg;age\n70;30\n")).names == ("weight, kg", "age")
    assert read_table(write(tmp_path, "only\n1\n")).numeric("only").tolist() == [1.0]
    with pytest.raises(DataError, match="split equally well"):
        read_table(write(tmp_path, "a,b;c\n1,2;3\n"))


def test_only_the_columns_asked_for(tmp_path: Path) -> None:
    assert read_table(write(tmp_path, PEOPLE), columns=["sex"]).names == ("sex",)
    with pytest.raises(DataError, match="has no column 'size': its columns are 'age', 'sex'"):
        read_table(write(tmp_path, PEOPLE), columns=["size"])
    path = parquet(tmp_path, {"day": [date(2026, 1, 1)], "age": [3]})
    assert read_table(path, columns=["age"]).numeric("age").tolist() == [3.0]
    with pytest.raises(DataError, match="has no column 'size'"):
        read_table(path, columns=["size"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "got an empty file"),
        ("\ufeff\n\n", "got an empty file"),
        ("age,sex\n", "at least one record"),
        ("\nage,sex\n1,2\n", "column names, got none"),
        ("age,sex\n1,a\n2\n", r"line 3 of .* as the header \(2\), got 1"),
        ("age,sex\n1,a\n2,b,c\n", r"line 3 of .* got 3"),
        ("age,sex\n1,a\n\n2,b\n", "line 3 of .* got an empty line"),
        ('age,sex\n1,"a\nb"\n2\n', "line 4 of "),
        ("age,age\n1,2\n", "must differ, got 'age' for columns 1 and 2"),
        ("age, age \n1,2\n", "must differ"),
        ("age,,sex\n1,2,3\n", "column 2 of .* must have a name"),
        ('age,sex\n1,"a\n', "well-formed CSV"),
        ('age,sex\n1,"a"b\n', "well-formed CSV, got a mistake on or before line 2"),
        (b"age,sex\n1,a\n2,\xe9\n", "UTF-8 text, got other bytes on line 3"),
        (b"age,sex\n1,a\x00\n", "NUL byte on line 2"),
        (PEOPLE.encode("utf-16"), "UTF-8 text"),
    ],
)
def test_csv_files_that_are_refused(tmp_path: Path, content: str | bytes, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        read_table(write(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_paths_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*: no such file"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(DataError, match=r"cannot read .*: no such file"):
        read_table(tmp_path / "no.parquet")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="it is a folder"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(InvalidInput, match=r"must end in \.csv, \.csv\.gz or \.parquet"):
        read_table(tmp_path / "people.xlsx")
    with pytest.raises(DataError, match="whole gzip file"):
        read_table(write(tmp_path, gzip.compress(PEOPLE.encode() * 99)[:-9], "a.csv.gz"))
    with pytest.raises(DataError, match="whole gzip file"):
        read_table(write(tmp_path, PEOPLE, "a.csv.gz"))


@pytest.mark.parametrize("marker", sorted(MISSING))
@pytest.mark.parametrize("good", ["7", "seven"])
def test_a_missing_cell_is_refused_when_its_column_is_used(
    tmp_path: Path, marker: str, good: str
) -> None:
    table = read_table(write(tmp_path, f"id,x\n1,{good}\n2, {marker} \n"))
    assert table.numeric("id").tolist() == [1.0, 2.0]
    assert table.is_numeric("x") == (good == "7")
    with pytest.raises(
        DataError,
        match=r"column 'x' must have a value in every row, got none in row 2 \(line 3 of "
        r".*people\.csv\)",
    ):
        table.text("x")
    if good == "7":
        with pytest.raises(DataError, match=r"column 'x' must have a value .* row 2 \(line 3"):
            table.numeric("x")


@pytest.mark.parametrize(
    "cell", ["abc", "1_000", "inf", "-Infinity", "1e999", "0x10", "1 2", "true"]
)
def test_a_cell_that_is_no_finite_number_is_named(tmp_path: Path, cell: str) -> None:
    table = read_table(write(tmp_path, f"x\n1\n2\n{cell}\n"))
    with pytest.raises(
        DataError, match=rf"column 'x' must hold finite numbers, got '{cell}' in row 3 \(line 4 of "
    ):
        table.numeric("x")


def test_decimal_comma_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"got '1,5' .*: write decimals with a point"):
        read_table(write(tmp_path, "a;b\n1,5;2\n")).numeric("a")


def test_private_cells_stay_out_of_messages(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "diagnosis\n1\npositive\n"))
    with pytest.raises(DataError) as caught:
        table.numeric("diagnosis", private=True)
    assert "positive" not in str(caught.value)
    assert "row 2 (line 3 of" in str(caught.value)


def test_endless_cells_are_cut(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_table(write(tmp_path, "x\n" + "y" * 5000 + "\n")).numeric("x")
    assert len(str(caught.value)) < 400
    with pytest.raises(DataError, match="well-formed CSV"):
        read_table(write(tmp_path, "x\n" + "y" * 200_000 + "\n"))


def test_unknown_column() -> None:
    table = Table(columns={f"x{i}": np.zeros(1) for i in range(30)})
    for ask in (table.numeric, table.text, table.is_numeric):
        with pytest.raises(
            DataError, match=r"the table has no column 'y': its columns are 'x0', .* and 20 more"
        ):
            ask("y")


def test_tables_made_by_hand() -> None:
    table = Table(
        columns={
            "float": np.array([1, 2], dtype=np.float32),
            "int": np.array([1, 2**60 + 1]),
            "bool": np.array([True, False]),
            "text": np.array([" a", "b "]),
            "objects": np.array([1, 2.5], dtype=object),
        }
    )
    assert table.numeric("float").dtype == np.float64
    assert table.text("float").tolist() == ["1.0", "2.0"]
    assert table.text("int").tolist() == ["1", str(2**60 + 1)]
    assert table.text("bool").tolist() == ["True", "False"]
    assert table.text("text").tolist() == ["a", "b"]
    assert table.numeric("objects").tolist() == [1.0, 2.5]
    with pytest.raises(ValueError, match="read-only"):
        table.numeric("float")[0] = 3


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "at least one column"),
        ({"a": np.zeros(2), "b": np.zeros(3)}, "equally long"),
        ({"a": np.zeros((2, 2))}, "2 dimension"),
        ({"a": np.array(["2026-01-01"], dtype="datetime64[D]")}, "datetime64"),
        ({"a": np.array([1, "x"], dtype=object)}, "only numbers or only text"),
        ({3: np.zeros(2)}, "names .* must be text"),
    ],
)
def test_tables_made_by_hand_that_are_refused(columns: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        Table(columns=columns)


@pytest.mark.parametrize(
    "cells", [[1.0, float("nan")], [1.0, None], ["a", None], ["a", float("nan")], [True, None]]
)
def test_missing_cells_of_tables_made_by_hand(cells: list[Any]) -> None:
    table = Table(columns={"x": np.array(cells, dtype=object)})
    with pytest.raises(DataError, match=r"got none in row 2 of the table$"):
        table.text("x")


def test_parquet_types(tmp_path: Path) -> None:
    table = read_table(
        parquet(
            tmp_path,
            {
                "int8": pa.array([1, 2], pa.int8()),
                "uint64": pa.array([1, 2**64 - 1], pa.uint64()),
                "half": pa.array(np.array([1, 2], dtype=np.float16)),
                "float": pa.array([1.5, 2.5], pa.float32()),
                "decimal": pa.array([Decimal("1.50"), Decimal("2.25")]),
                "bool": pa.array([True, False]),
                "text": pa.array(["a", " b "]),
                "large": pa.array(["a", "b"], pa.large_string()),
                "category": pa.array(["a", "b"]).dictionary_encode(),
                "codes": pa.array([7, 8]).dictionary_encode(),
                "with.dot": pa.array([1, 2]),
                " padded ": pa.array([1, 2]),
            },
        )
    )
    assert [table.is_numeric(name) for name in table.names] == [True] * 5 + [False] * 4 + [True] * 3
    assert table.text("uint64").tolist() == ["1", str(2**64 - 1)]
    assert table.numeric("decimal").tolist() == [1.5, 2.25]
    assert table.text("bool").tolist() == ["True", "False"]
    assert (
        table.text("text").tolist()
        == table.text("large").tolist()
        == table.text("category").tolist()
        == ["a", "b"]
    )
    assert table.text("codes").tolist() == ["7", "8"]
    assert table.numeric("with.dot").tolist() == table.numeric("padded").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("cells", [[1, None], [1.5, None], ["a", None], [True, None], [None, None]])
def test_parquet_nulls_are_refused_when_used(tmp_path: Path, cells: list[Any]) -> None:
    plain = pa.array(cells)
    for column in (plain, plain if pa.types.is_null(plain.type) else plain.dictionary_encode()):
        table = read_table(parquet(tmp_path, {"id": [1, 2], "x": column}))
        assert table.numeric("id").tolist() == [1.0, 2.0]
        with pytest.raises(
            DataError,
            match=r"column 'x' must have a value in every row, got none in row [12] of .*parquet",
        ):
            table.text("x")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([date(2026, 1, 1)]),
        pa.array([[1, 2]]),
        pa.array([{"a": 1}]),
        pa.array([b"x"]),
        pa.array([1], pa.timestamp("us")),
    ],
)
def test_parquet_types_that_are_refused(tmp_path: Path, column: Any) -> None:
    with pytest.raises(
        DataError, match=r"column 'x' of .* must hold numbers, text or truth values, got "
    ):
        read_table(parquet(tmp_path, {"x": column}))


def test_parquet_files_that_are_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, {"x": list(range(1000))})
    whole = path.read_bytes()
    for content in (b"", b"no parquet", whole[:-50], whole[:4] + b"\xff" * 200 + whole[204:]):
        path.write_bytes(content)
        with pytest.raises(
            DataError, match="must be a Parquet file, got one that cannot be read: "
        ) as caught:
            read_table(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="at least one record"):
        read_table(parquet(tmp_path, {"x": pa.array([], pa.int64())}))
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), path)
    with pytest.raises(DataError, match="must differ, got 'x'"):
        read_table(path)


def test_without_pyarrow_the_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path, {"x": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pdml\[parquet\]'"):
        read_table(path)
    assert read_table(write(tmp_path, PEOPLE)).n_rows == 2


def test_pandas_index_is_no_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1, 2]}, index=[7, 9])
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").names == ("x",)


words = (
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1)
    .map(str.strip)
    .filter(lambda word: word not in MISSING)
)
records = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        words,
        st.booleans(),
    ),
    min_size=1,
)


@given(records)
def test_csv_and_parquet_agree(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, float, str, bool]]
) -> None:
    """What is written is read back: no format changes a number, and only CSV a text that would be a
    formula.
    """
    folder = tmp_path_factory.mktemp("tables")
    columns = dict(
        zip(("int", "float", "text", "bool"), map(list, zip(*rows, strict=True)), strict=True)
    )
    tables = []
    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        write_predictions(folder / name, columns)
        tables.append(read_table(folder / name))
    for table, kept in zip(tables, (harmless, harmless, str), strict=True):
        for name, values in columns.items():
            assert table.text(name).tolist() == [str(kept(value)) for value in values]
        assert table.numeric("float").tolist() == columns["float"]
        assert table.numeric("int").tolist() == [float(value) for value in columns["int"]]


@pytest.mark.parametrize(
    "content", ["\n".join(["x,y", *(f"{i},a" for i in range(1300))]), "x,y\n" + '1,"a\nb"\n' * 1300]
)
def test_a_mistake_far_down_is_found_by_its_line(tmp_path: Path, content: str) -> None:
    """Records are read in chunks, and the count must not start anew with each."""
    content = content.rstrip("\n") + "\nbad,a"
    with pytest.raises(
        DataError, match=rf"got 'bad' in row 1301 \(line {content.count(chr(10)) + 1} of "
    ):
        read_table(write(tmp_path, content)).numeric("x")
    with pytest.raises(DataError, match=rf"line {content.count(chr(10)) + 2} of "):
        read_table(write(tmp_path, content + "\n1,2,3\n"))


def test_predictions_of_arrays_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_predictions(
        path, {"class": np.array(["yes", "no, never"]), "p": np.array([0.1, 1.0]), "n": [1, 2]}
    )
    assert path.read_text() == 'class,p,n\nyes,0.1,1\n"no, never",1.0,2\n'


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_interrupted_predictions_leave_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_predictions(tmp_path / name, {"a": [1]})
    before = (tmp_path / name).read_bytes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_predictions(tmp_path / name, {"a": [2]})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == before


def test_predictions_that_are_refused(tmp_path: Path) -> None:
    for columns in ({}, {"a": [1], "b": [1, 2]}):
        with pytest.raises(InvalidInput, match="equal length"):
            write_predictions(tmp_path / "a.csv", columns)
    with pytest.raises(InvalidInput, match="must end in"):
        write_predictions(tmp_path / "a.txt", {"a": [1]})
    with pytest.raises(InvalidInput, match="one kind each"):
        write_predictions(tmp_path / "a.parquet", {"a": [1, "x"]})
    assert not list(tmp_path.iterdir())
