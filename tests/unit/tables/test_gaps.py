"""Cells without a value: what stands for one is declared, never guessed."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from pdml.errors import MissingValueError
from pdml.tables import Table, read_table, write_predictions

CSV = "age,job\n34,farm\n,?\n NA ,\n-9,office\n"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    (tmp_path / "people.csv").write_text(CSV)
    return read_table(tmp_path / "people.csv")


def test_an_empty_cell_always_holds_none_and_others_are_declared(table: Table) -> None:
    assert table.absent("age").tolist() == [False, True, False, False]
    assert table.absent("age", ["NA"]).tolist() == [False, True, True, False]
    assert table.absent("age", ["NA", "-9"]).tolist() == [False, True, True, True]
    assert table.absent("job", ["?"]).tolist() == [False, True, True, False]


def test_what_is_declared_is_left_out_and_what_is_not_is_refused(table: Table) -> None:
    gaps = table.absent("age", ["NA"])
    np.testing.assert_array_equal(table.numeric("age", absent=gaps), [34, np.nan, np.nan, -9])
    assert table.text("job", absent=table.absent("job", ["?"])).tolist() == [
        "farm",
        "",
        "",
        "office",
    ]
    with pytest.raises(
        MissingValueError, match=r"row 3 \(line 4 of .*\) \(it says NA\)"
    ) as refused:
        table.numeric("age", absent=table.absent("age"))
    assert (refused.value.column, refused.value.cell) == ("age", "NA")
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.column, again.cell) == (str(refused.value), "age", "NA")
    with pytest.raises(MissingValueError, match="it says") as refused:
        table.text("job", absent=table.absent("job"))
    assert refused.value.cell == "?"


def test_a_code_of_numbers_stands_for_all_that_equal_it() -> None:
    table = Table(columns={"age": np.array([34.0, -9.0, np.nan]), "n": np.array([1, -9, 3])})
    assert table.absent("age", ["-9"]).tolist() == [False, True, True]
    assert table.absent("age", ["NaN", "nan"]).tolist() == [False, False, True]
    assert table.absent("n", ["-9.0", "?"]).tolist() == [False, True, False]
    assert table.numeric("n", absent=table.absent("n", ["-9"])).tolist()[::2] == [1, 3]


def test_other_mistakes_are_found_beside_gaps() -> None:
    cells = np.array(["34", "", "old", "1_0"], dtype=object)
    table = Table(columns={"age": cells})
    with pytest.raises(Exception, match="got 'old' in row 3"):
        table.numeric("age", absent=table.absent("age"))


def test_spellings_do_not_make_a_column_text() -> None:
    table = Table(columns={"age": np.array(["34", "unknown"], dtype=object)})
    assert not table.is_numeric("age") and table.is_numeric("age", ["unknown"])


def test_nulls_of_parquet_are_empty_cells(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    columns = {"age": [34.0, None], "n": [1, None], "job": ["farm", None]}
    write_predictions(tmp_path / "p.parquet", columns)
    table = read_table(tmp_path / "p.parquet")
    for name in columns:
        assert table.absent(name).tolist() == [False, True]
