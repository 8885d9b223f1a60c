"""A study reads the columns of a table by its own classes, menu and ranges."""

from math import nan

import pytest
from example_study import TEXT

from pdml.errors import DataError, InvalidInput
from pdml.study import Study
from pdml.tables import Table

STUDY = Study.from_text(TEXT)


def test_labels_are_the_study_s_classes_and_never_told() -> None:
    table = Table(columns={"ill": ["yes", "no"]})
    assert STUDY.read_labels(table, "ill").tolist() == [1, 0]
    with pytest.raises(
        DataError, match=r"the study's classes 'no', 'yes', got .* row 1"
    ) as refused:
        STUDY.read_labels(Table(columns={"ill": ["positive"]}), "ill")
    assert "positive" not in str(refused.value)


@pytest.mark.parametrize("wrong", [3.0, 0.4000011, 0.0, -1.0])
def test_epsilons_are_on_the_menu(wrong: float) -> None:
    table = Table(columns={"e": [0.4, 2.0]})
    assert STUDY.read_epsilons(table, "e").tolist() == [0.4, 2.0]
    assert STUDY.repeat_epsilon(table, 1).tolist() == [1.0, 1.0]
    with pytest.raises(DataError, match=r"menu \(0.4, 1, 2\), got .* in row 2"):
        STUDY.read_epsilons(Table(columns={"e": [0.4, wrong]}), "e")
    with pytest.raises(InvalidInput, match=r"epsilon must be on the study's menu \(0.4, 1, 2\)"):
        STUDY.repeat_epsilon(table, wrong)
    with pytest.raises(InvalidInput):
        STUDY.repeat_epsilon(table, nan)


def test_numbers_outside_the_range_are_counted() -> None:
    STUDY.check_ranges(Table(columns={"age": [18, 100]}))
    old = Table(columns={"age": [18, 130, 131]})
    with pytest.raises(DataError, match=r"got 130 in row 2 .*: 2 of 3 rows do not"):
        STUDY.check_ranges(old)
