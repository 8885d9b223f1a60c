"""`Table`: cells stay as they were written until a column is read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.errors import DataError, MissingValueError
from pdml.tables import Table


def test_columns_are_equally_long_and_there_is_one() -> None:
    with pytest.raises(DataError, match="must have at least one column"):
        Table(columns={})
    with pytest.raises(DataError, match=r"equally long, got lengths \[1, 2\]"):
        Table(columns={"a": [1], "b": [1, 2]})


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_numbers_written_as_texts_are_the_same_numbers(values: list[float]) -> None:
    table = Table(columns={"plain": values, "texts": [f" {value!r} " for value in values]})
    assert table.n_rows == len(values) and table.names == ("plain", "texts")
    assert table.is_numeric("texts")
    np.testing.assert_array_equal(table.numeric("texts"), table.numeric("plain"))


@given(st.lists(st.sampled_from(["a", " a", "b ", "c"]), min_size=1, max_size=20))
def test_spaces_at_the_ends_never_count(cells: list[str]) -> None:
    table = Table(columns={"x": cells})
    different, place = table.distinct("x")
    assert different[place].tolist() == table.text("x").tolist() == [c.strip() for c in cells]
    assert len(set(different.tolist())) == len(different)


def test_a_cell_without_a_value_is_refused_unless_it_is_declared() -> None:
    table = Table(columns={"age": ["18", "", "n/a"]}, source="people.csv")
    with pytest.raises(MissingValueError, match=r"row 2 of people\.csv"):
        table.numeric("age")
    gaps = table.absent("age", ["n/a"])
    assert gaps.tolist() == [False, True, True]
    np.testing.assert_array_equal(table.numeric("age", absent=gaps), [18, np.nan, np.nan])


def test_private_cells_are_not_quoted() -> None:
    table = Table(columns={"age": ["18", "a secret"]})
    with pytest.raises(DataError) as open_cell:
        table.numeric("age")
    with pytest.raises(DataError) as private_cell:
        table.numeric("age", private=True)
    assert "a secret" in str(open_cell.value) and "a secret" not in str(private_cell.value)


def test_a_row_is_named_by_its_line_where_there_is_a_file() -> None:
    table = Table(columns={"a": [1, 2]}, source="people.csv", lines=np.array([2, 7]))
    assert table.where(1) == "row 2 (line 7 of people.csv)"


def test_an_unknown_column_is_named_with_those_that_are_there() -> None:
    with pytest.raises(DataError, match=r"has no column 'b': its columns are 'a'"):
        Table(columns={"a": [1]}).text("b")
