import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.encoding.declarations import attributes_in
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.scaling import LIMIT
from pdml.errors import DataError, InvalidInput
from pdml.tables import MISSING, Table, read_table

AGE = Number(name="age", low=18, high=100)
SEX = Category(name="sex", levels=("female", "male", "other"))
BOTH = Encoder(attributes=(AGE, SEX))


def people(*rows: tuple[Any, str]) -> Table:
    ages, sexes = zip(*rows, strict=True) if rows else ((), ())
    return Table(columns={"age": np.array(ages, dtype=float), "sex": np.array(sexes, dtype=object)})


def encode(encoder: Encoder, table: Table) -> Any:
    """Entries of rows; no map acts on them here."""
    return encoder.scale.apply(encoder.read(table))


names = st.text(min_size=1).map(str.strip).filter(bool)


def endless(text: str) -> bool:
    """A column of nothing else would be read as numbers, and refused for them."""
    try:
        return not np.isfinite(float(text))
    except ValueError:
        return False


levels = names.filter(lambda level: level not in MISSING and not endless(level))
moderate = st.floats(-1e9, 1e9)


@st.composite
def encoders(draw: st.DrawFn) -> Encoder:
    attributes: list[Number | Category] = []
    for i in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            low = draw(moderate)
            attributes.append(Number(name=f"n{i}", low=low, high=low + draw(st.floats(1e-3, 1e9))))
        else:
            attributes.append(
                Category(
                    name=f"c{i}",
                    levels=tuple(draw(st.lists(levels, min_size=1, max_size=12, unique=True))),
                )
            )
    return Encoder(attributes=tuple(attributes))


@st.composite
def encoders_with_tables(draw: st.DrawFn, inside: bool = False) -> tuple[Encoder, Table]:
    encoder = draw(encoders())
    n = draw(st.integers(1, 6))
    columns = {}
    for attribute in encoder.attributes:
        if isinstance(attribute, Number):
            values = (
                st.floats(attribute.low, attribute.high)
                if inside
                else st.floats(allow_nan=False, allow_infinity=False)
            )
            columns[attribute.name] = np.array(draw(st.lists(values, min_size=n, max_size=n)))
        else:
            choices = st.sampled_from(attribute.levels)
            columns[attribute.name] = np.array(
                draw(st.lists(choices, min_size=n, max_size=n)), dtype=object
            )
    return encoder, Table(columns=columns)


@given(encoders_with_tables())
def test_entries_lie_within_three_spreads_and_levels_are_centred(
    case: tuple[Encoder, Table],
) -> None:
    encoder, table = case
    rows = encode(encoder, table)
    assert rows.shape == (table.n_rows, encoder.n_features)
    assert rows.dtype == np.float64
    assert (np.abs(rows) <= LIMIT).all()
    levels = ["=" in name and name.startswith("c") for name in encoder.feature_names]
    np.testing.assert_allclose(rows[:, levels].sum(axis=1), 0, atol=1e-12)


@given(encoders_with_tables(), st.data())
def test_each_row_is_encoded_by_itself(case: tuple[Encoder, Table], data: st.DataObject) -> None:
    """What one person sends does not depend on the others: exactly, not approximately."""
    encoder, table = case
    chosen = data.draw(
        st.lists(st.integers(0, table.n_rows - 1)).map(lambda rows: np.array(rows, dtype=int))
    )
    part = Table(columns={name: column[chosen] for name, column in table.columns.items()})
    np.testing.assert_array_equal(encode(encoder, part), encode(encoder, table)[chosen])


@given(encoders_with_tables(inside=True))
def test_decoding_returns_the_answers(case: tuple[Encoder, Table]) -> None:
    encoder, table = case
    rows = encode(encoder, table)
    for i in range(table.n_rows):
        answers = encoder.decode(rows[i])
        for attribute in encoder.attributes:
            value = table.columns[attribute.name][i]
            if isinstance(attribute, Number):
                width = attribute.high - attribute.low
                close = 5.1e-6 * width + 4 * np.spacing(
                    max(abs(attribute.low), abs(attribute.high))
                )
                assert answers[attribute.name] == pytest.approx(value, rel=0, abs=close)
            else:
                assert answers[attribute.name] == value


@given(st.integers(0, 10_000), st.integers(-2000, 0), st.integers(10_000, 20_000))
def test_people_see_the_number_they_gave(hundredths: int, low: int, high: int) -> None:
    """Rounding of the encoding is not shown: 34.56 comes back as exactly 34.56."""
    encoder = Encoder(attributes=(Number(name="x", low=low / 100, high=high / 100),))
    value = hundredths / 100
    assert encoder.decode(encode(encoder, Table(columns={"x": np.array([value])}))[0]) == {
        "x": value
    }


@given(encoders())
def test_dictionaries_are_json_and_come_back(encoder: Encoder) -> None:
    assert Encoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder


def test_an_example_by_hand() -> None:
    assert BOTH.feature_names == ("age", "sex=female", "sex=male", "sex=other")
    rows = encode(
        BOTH, people((59, "male"), (18, "other"), (100, "female"), (5, "male"), (200, "male"))
    )
    no, yes = -1 / 3, 2 / 3
    np.testing.assert_allclose(
        rows,
        [
            [0, no, yes, no],
            [-3, no, no, yes],
            [3, yes, no, no],
            [-3, no, yes, no],
            [3, no, yes, no],
        ],
    )
    assert BOTH.decode(rows[0]) == {"age": 59.0, "sex": "male"}
    assert BOTH.to_dict() == {
        "attributes": [
            {"kind": "number", "name": "age", "range": [18.0, 100.0]},
            {"kind": "category", "name": "sex", "levels": ["female", "male", "other"]},
        ]
    }


def test_whole_numbers_take_no_fractions() -> None:
    whole = Encoder(attributes=(Number(name="age", low=18, high=100, whole=True),))
    (declared,) = whole.to_dict()["attributes"]
    assert declared == {"kind": "number", "name": "age", "range": [18.0, 100.0], "whole": True}
    assert encode(whole, Table(columns={"age": np.array([59.0, 5.0])})).round(12).tolist() == [
        [0],
        [-3],
    ]
    with pytest.raises(DataError, match=r"'age' must hold whole numbers, got 34\.5 in row 2"):
        encode(whole, Table(columns={"age": np.array([34.0, 34.5])}))
    for low, high, wish in ((18.5, 100, True), (18, 100.5, True), (18, 100, 1)):
        with pytest.raises(InvalidInput, match="whole"):
            Number(name="age", low=low, high=high, whole=wish)  # type: ignore[arg-type]


def test_nobody_is_shown_a_negative_zero() -> None:
    for whole in (True, False):
        number = Number(name="x", low=-3, high=4, whole=whole)
        assert str(number.decode(np.array([-3 / 7 - 1e-8]))) == "0.0"


def test_no_rows() -> None:
    assert encode(BOTH, people()).shape == (0, 4)


def test_whole_numbers_and_truth_values_may_be_levels() -> None:
    encoder = Encoder(
        attributes=(
            Category(name="code", levels=("1", "2")),
            Category(name="smokes", levels=("False", "True")),
        )
    )
    rows = encode(
        encoder, Table(columns={"code": np.array([2, 1]), "smokes": np.array([True, False])})
    )
    np.testing.assert_array_equal(rows, np.array([[-1, 1, -1, 1], [1, -1, 1, -1]]) / 2)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            "age,sex\n20,male\n,male\n",
            r"column 'age' must have a value .* row 2 \(line 3 of .*\.csv\)",
        ),
        ("age,sex\n20,male\n30,?\n", r"column 'sex' must have a value .* row 2 \(line 3 "),
        (
            "age,sex\n20,male\nold,male\n",
            r"column 'age' must hold finite numbers, got 'old' in row 2 \(line 3 ",
        ),
        (
            "age,sex\n20,male\ninf,male\n",
            r"'age' must hold finite numbers, got 'inf' in row 2 \(line 3 ",
        ),
        (
            "age,sex\n20,male\n30,Male\n",
            r"'sex' must hold one of the declared levels 'female', .* got 'Male' in row 2 "
            r"\(line 3 ",
        ),
        ("age\n20\n", "has no column 'sex': its columns are 'age'"),
    ],
)
def test_records_that_are_refused(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "people.csv").write_text(content)
    with pytest.raises(DataError, match=sentence):
        encode(BOTH, read_table(tmp_path / "people.csv"))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_refused(bad: float) -> None:
    with pytest.raises(DataError, match=r"row 2 of the table"):
        encode(BOTH, people((20, "male"), (bad, "male")))


def test_complaints_do_not_tell_the_label() -> None:
    """The label is no attribute, so a complaint about the record has no way to mention it."""
    table = Table(
        columns={
            "age": np.array([20.0]),
            "sex": np.array(["x"]),
            "diagnosis": np.array(["positive"]),
        }
    )
    with pytest.raises(DataError) as caught:
        encode(BOTH, table)
    assert "positive" not in str(caught.value)


any_number: Any = Number  # what a caller without a type checker may write
any_category: Any = Category
any_encoder: Any = Encoder


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: any_number(name="", low=0, high=1), "name must be text"),
        (lambda: any_number(name=" a", low=0, high=1), "name must be text"),
        (lambda: any_number(name=3, low=0, high=1), "name must be text"),
        (lambda: any_number(name="a", low=1, high=1), "high of 'a' must exceed its low 1, got 1"),
        (lambda: any_number(name="a", low=2, high=1), "must exceed"),
        (lambda: any_number(name="a", low=math.nan, high=1), "low of 'a' must be a number"),
        (lambda: any_number(name="a", low=0, high=math.inf), "high of 'a' must be a number"),
        (lambda: any_number(name="a", low="0", high=1), "low of 'a' must be a number"),
        (lambda: any_number(name="a", low=False, high=1), "low of 'a' must be a number"),
        (lambda: any_number(name="a", low=-1.7e308, high=1.7e308), "finite width"),
        (lambda: any_category(name="a", levels=()), "levels of 'a' must be one or more"),
        (lambda: any_category(name="a", levels="xyz"), "levels of 'a' must be one or more"),
        (lambda: any_category(name="a", levels=("x", "y", "x")), "got 'x' twice"),
        (lambda: any_category(name="a", levels=("x", "")), "levels of 'a' must be text"),
        (lambda: any_category(name="a", levels=("x", "y ")), "levels of 'a' must be text"),
        (lambda: any_category(name="a", levels=(1, 2)), "levels of 'a' must be text"),
        (lambda: any_category(name="a", levels=("x", "NA")), "must not include 'NA'"),
        (lambda: any_encoder(attributes=()), "one or more"),
        (lambda: any_encoder(attributes=("age",)), "must be Number or Category, got 'age'"),
        (
            lambda: any_encoder(attributes=(AGE, SEX, AGE)),
            "names of attributes must differ .* got 'age' twice",
        ),
        (
            lambda: any_encoder(attributes=(SEX, Number(name="sex=male", low=0, high=1))),
            "names of features must differ",
        ),
    ],
)
def test_declarations_that_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        make()


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        None,
        {"attributes": {}},
        {"attributes": []},
        {"attributes": ["age"]},
        {"attributes": [{"kind": "number", "name": "a", "range": [0, 1]}], "bias": True},
        {"attributes": [{"name": "a", "range": [0, 1]}]},
        {"attributes": [{"kind": "date", "name": "a", "range": [0, 1]}]},
        {"attributes": [{"kind": ["number"], "name": "a", "range": [0, 1]}]},
        {"attributes": [{"kind": "number", "name": "a", "range": [0, 1, 2]}]},
        {"attributes": [{"kind": "number", "name": "a", "range": "01"}]},
        {"attributes": [{"kind": "number", "name": "a", "range": [0, 1], "unit": "kg"}]},
        {"attributes": [{"kind": "number", "name": "a", "levels": ["x"]}]},
        {"attributes": [{"kind": "category", "name": "a", "levels": "x"}]},
        {"attributes": [{"kind": "category", "name": "a", "levels": [["x"]]}]},
    ],
)
def test_dictionaries_that_are_refused(data: Any) -> None:
    with pytest.raises(InvalidInput):
        Encoder.from_dict(data)


@pytest.mark.parametrize(
    "row",
    [
        [0.5, 2 / 3, -1 / 3],
        [0.5, 2 / 3, 2 / 3, -1 / 3],
        [0.5, 0, 0, 0],
        [0.5, 0.7, -1 / 3, -1 / 3],
        [3.1, 2 / 3, -1 / 3, -1 / 3],
        [math.nan, 2 / 3, -1 / 3, -1 / 3],
    ],
)
def test_rows_that_no_answers_lead_to(row: list[float]) -> None:
    with pytest.raises(InvalidInput):
        BOTH.decode(np.array(row))


def test_from_data_takes_ranges_and_levels() -> None:
    table = Table(
        columns={
            "age": np.array(["20", "60", "30"]),
            "sex": np.array(["male", "female", "male"]),
            "same": np.array([7, 7, 7]),
            "label": np.array(["no", "yes", "no"]),
        }
    )
    assert attributes_in(table, ["age", "sex", "same"]) == [
        Number(name="age", low=20, high=60, average=37, spread=17),
        Category(name="sex", levels=("female", "male")),
        Number(name="same", low=3.5, high=10.5),
    ]


def guessed(table: Table) -> Encoder:
    return Encoder(attributes=tuple(attributes_in(table, table.names)))


@pytest.mark.parametrize("value", [0.0, 1e-300, -3.0, 1e300])
def test_from_data_gives_a_constant_a_range(value: float) -> None:
    table = Table(columns={"x": np.full(3, value)})
    np.testing.assert_allclose(encode(guessed(table), table), 0, atol=0.4)


@given(encoders_with_tables(inside=True))
def test_from_data_fits_the_data(case: tuple[Encoder, Table]) -> None:
    _, table = case
    encoder = guessed(table)
    for attribute in encoder.attributes:
        if isinstance(attribute, Number):
            values = table.numeric(attribute.name)
            assert (attribute.low <= values).all() and (values <= attribute.high).all()
            assert attribute.low <= attribute.scale[0] <= attribute.high


def test_from_data_refuses_what_it_cannot_guess() -> None:
    with pytest.raises(InvalidInput, match="one or more"):
        Encoder(attributes=tuple(attributes_in(people((20, "male")), [])))
    with pytest.raises(DataError, match="at least one record"):
        guessed(people())
    with pytest.raises(
        DataError, match="'sex' must have at most 256 levels, got 257: leave it out"
    ):
        guessed(people(*((20, f"level {k}") for k in range(257))))
    with pytest.raises(DataError, match="must have a value"):
        guessed(people((20, "male"), (30, "?")))
