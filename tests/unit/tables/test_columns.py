"""Labels, epsilons and owners of a table: exact indices, and errors that never quote a label."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.errors import DataError, InvalidInput
from pdml.tables import Table
from pdml.tables.columns import epsilons, labels, owners, positions

names = st.lists(st.text("abcxyz", min_size=1, max_size=4), min_size=2, max_size=9, unique=True)


@given(known=names, data=st.data())
def test_positions_are_those_of_the_known_values(known: list[str], data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.sampled_from(known), min_size=1))
    found = positions(Table(columns={"y": cells}), "y", known, what="the classes")
    assert [known[k] for k in found] == cells


def test_what_is_unknown_is_quoted_unless_it_is_private() -> None:
    table = Table(columns={"y": ["no", "HIV"]})
    with pytest.raises(DataError, match="one of the levels 'no', 'yes', got 'HIV' in row 2"):
        positions(table, "y", ["no", "yes"], what="the levels")
    with pytest.raises(DataError, match="got something else in row 2") as refused:
        labels(table, "y", ["no", "yes"])
    assert "HIV" not in str(refused.value)


def test_classes_that_are_found_are_in_order_and_numbers_are_numbers() -> None:
    classes, codes = labels(Table(columns={"y": ["10", "9", "9.0"]}), "y")
    assert classes == (9, 10) and codes.tolist() == [1, 0, 0]
    assert labels(Table(columns={"y": ["b", "a"]}), "y")[0] == ("a", "b")
    assert labels(Table(columns={"y": [0.5, 1]}), "y")[0] == (0.5, 1.0)


def test_declared_classes_keep_their_order_and_the_column_s_kind() -> None:
    classes, codes = labels(Table(columns={"y": [1, 0]}), "y", ["1", "0"])
    assert classes == (1, 0) and codes.tolist() == [0, 1]
    with pytest.raises(InvalidInput, match="must be numbers, as column 'y' is") as refused:
        labels(Table(columns={"y": [1, 0]}), "y", ["no", "yes"])
    assert refused.value.setting == "classes"


@pytest.mark.parametrize("classes", [["a"], ["a", "a"], ["a", ""]])
def test_classes_must_be_two_different_names(classes: list[str]) -> None:
    with pytest.raises(InvalidInput, match="two or more different names"):
        labels(Table(columns={"y": ["a", "b"]}), "y", classes)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [(["a", "a"], "two classes or more"), (list(range(51)), "at most 50 classes.* got 51")],
)
def test_a_column_that_is_no_label(cells: list[object], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        labels(Table(columns={"y": cells}), "y")


def test_epsilons_are_positive_and_allowed() -> None:
    table = Table(columns={"e": ["0.5", "2", "0.5"]})
    assert epsilons(table, "e").tolist() == [0.5, 2, 0.5]
    asked: list[float] = []

    def allowed(epsilon: float) -> bool:
        asked.append(epsilon)
        return epsilon < 2

    with pytest.raises(DataError, match="must hold small ones, got 2 in row 2"):
        epsilons(table, "e", allowed=allowed, domain="small ones")
    assert asked == [0.5, 2.0]  # each value once, however many people chose it
    with pytest.raises(DataError, match="positive epsilons, got -1 in row 2"):
        epsilons(Table(columns={"e": [1.0, -1.0, 0.0]}), "e")


def test_owners_are_numbered_in_the_order_of_their_names() -> None:
    found, numbers = owners(Table(columns={"s": ["bob", "alice", "bob"]}), "s")
    assert found == ("alice", "bob") and numbers.tolist() == [1, 0, 1]
    assert owners(Table(columns={"s": [10, 9]}), "s")[0] == ("9", "10")
    for cells in ([1, 1], np.arange(1001)):
        with pytest.raises(DataError, match="2 to 1,000 servers"):
            owners(Table(columns={"s": cells}), "s")
