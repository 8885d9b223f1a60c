"""Options about columns: read as they are typed, and written so that they are read the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.cli.column_options import Columns, format_declaration, parse_number, suggest_options
from pdml.cli.options import join_words, split_words
from pdml.encoding.encoder import Category, Number
from pdml.errors import InvalidInput, MissingValueError, UndeclaredColumns

tenths = st.integers(-999, 999).map(lambda value: value / 10)


@given(tenths, tenths, st.booleans(), st.booleans())
def test_a_declared_number_comes_back(
    first: float, second: float, whole: bool, average: bool
) -> None:
    low, high = sorted(map(round, (first, second)) if whole else (first, second))
    high += low == high
    scale = {"average": (low + high) / 2, "spread": (high - low) / 4} if average else {}
    declared = Number(name="age", low=low, high=high, whole=whole, **scale)
    option, text = format_declaration(declared)
    assert option == "--range"
    (read,) = Columns(ranges=[text]).settings()["attributes"]
    assert read == declared


def test_levels_and_gaps_come_back_as_options() -> None:
    declared = Category(name="sex", levels=("f", "m"), missing="level")
    assert format_declaration(declared) == ["--levels", "sex=f,m", "--missing", "sex"]
    (read,) = Columns(levels=["sex = f, m"]).settings()["attributes"]
    assert read.levels == ("f", "m")


@given(
    st.lists(st.text("ab,\" '=", min_size=1).map(str.strip).filter(bool), min_size=1, unique=True)
)
def test_words_with_commas_and_quotes_come_back(words: list[str]) -> None:
    assert split_words(join_words(words)) == words


def test_a_level_with_a_comma_stands_in_quotes() -> None:
    declared = Category(name="town", levels=("Bern, BE", "Basel"))
    assert format_declaration(declared) == ["--levels", 'town="Bern, BE",Basel']
    (read,) = Columns(levels=['town="Bern, BE", Basel']).settings()["attributes"]
    assert read == declared
    with pytest.raises(InvalidInput, match="both their quotes"):
        Columns(levels=['town="Bern, BE']).settings()


def test_the_command_line_again() -> None:
    typed = Columns(ranges=["age=18:100"], ignore=["id"], missing_values="n/a,-9")
    assert typed.to_arguments() == (
        ["--range", "age=18:100", "--ignore", "id", "--missing-values", "n/a,-9"]
    )
    assert typed.settings()["missing_values"] == ("n/a", "-9")


@pytest.mark.parametrize("text", ["age", "age=", "=1:2", "age=1", "age=1:2:3", "age=a:b"])
def test_another_form_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--range must look like COLUMN=LOW:HIGH"):
        Columns(ranges=[text]).settings()


def test_half_a_scale_is_no_number() -> None:
    with pytest.raises(ValueError):
        parse_number("age", "1:2:3")
    assert parse_number("age", "1:9:5:2:whole").whole


def test_what_is_missing_is_said_in_options() -> None:
    with (
        pytest.raises(InvalidInput) as undeclared,
        suggest_options(["pdml", "train", "my people.csv"]),
    ):
        raise UndeclaredColumns(["age", "sex"], ["age"])
    assert (
        "pdml train 'my people.csv' --range age=LOW:HIGH:AVERAGE:SPREAD --levels sex=A,B,..."
    ) in str(undeclared.value)
    with pytest.raises(MissingValueError) as gap, suggest_options(["pdml"]):
        raise MissingValueError("row 2: missing", column="the age", cell="n a")
    assert "--missing 'the age' --missing-values 'n a'" in str(gap.value)
