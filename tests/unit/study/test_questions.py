"""The encoder in a study: what is declared, what is refused and on which line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_study import STUDY, TEXT

from pdml.encoding.declarations import attributes_in, forecast_clipping
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.maps import Bins, Fourier, Products, Squares
from pdml.encoding.scaling import CONSTANT, SIZE
from pdml.errors import DataError, InvalidInput, MissingValueError, StudyError
from pdml.model.model import Model
from pdml.study import Study, study_summary
from pdml.study.schema import template
from pdml.study.schema.template import new_study
from pdml.study.study_summary import describe_study
from pdml.tables import Table

AGE = Number(name="age", low=18, high=100, average=45, spread=15, missing="average")
JOB = Category(name="job", levels=("farm", "office"), missing="level")
BOTH = Encoder(attributes=(AGE, JOB), missing_values=("?",))
SCALED = TEXT.replace(
    "range = [18, 100]", 'range = [18, 100]\naverage = 45\nspread = 15\nmissing = "average"'
).replace("[[servers]]", '[encoder]\nversion = 1\n\n[[maps]]\nmap = "squares"\n\n[[servers]]', 1)


def people(*rows: tuple[Any, str]) -> Table:
    ages, jobs = zip(*rows, strict=True)
    return Table(columns={"age": np.array(ages, dtype=float), "job": np.array(jobs, dtype=object)})


def test_entries_by_hand() -> None:
    assert BOTH.feature_names == (
        "age",
        "age=prefer not to say",
        "job=farm",
        "job=office",
        "job=prefer not to say",
    )
    answers = BOTH.read(people((45, "farm"), (60, "office"), (np.nan, "?"), (95, "")))
    rows = BOTH.scale.apply(answers)
    third = 1 / 3
    np.testing.assert_allclose(
        rows,
        [
            [0, 0, 2 * third, -third, -third],
            [1, 0, -third, 2 * third, -third],
            [0, 1, -third, -third, 2 * third],
            [3, 0, -third, -third, 2 * third],
        ],
    )
    mass = 1 + 0.1 + 3 * 2 / 9
    sent = replace(STUDY, encoder=BOTH, wording={}).encode({"age": 60, "job": "office"})
    row = np.array([1, 0, -third, 2 * third, -third]) * (SIZE / np.sqrt(mass))
    length = max(1, np.sqrt(row @ row + CONSTANT**2))
    np.testing.assert_allclose(sent, [*(row / length), CONSTANT / length], rtol=1e-5)


def test_an_untold_scale_is_the_middle_and_a_sixth_of_the_range() -> None:
    plain = Number(name="age", low=18, high=102)
    assert plain.scale == (60, 14) and plain.visible_range == (18, 102)
    assert AGE.visible_range == (18, 90)
    result = replace(plain, average=60, spread=14)
    tables = people((20, ""), (99, ""))
    encoders = [Encoder(attributes=(one,)) for one in (plain, result)]
    np.testing.assert_array_equal(*(each.scale.apply(each.read(tables)) for each in encoders))


@pytest.mark.parametrize(
    "change, result",
    [
        ({"average": 45, "spread": None}, "must be declared together, got average alone"),
        ({"average": 17, "spread": 5}, r"average of 'age' must lie in its range \[18, 100\], got"),
        ({"average": 45, "spread": 0}, "spread of 'age' must"),
        ({"average": 45, "spread": 83}, r"at most the width of its range \(82\), got 83"),
        ({"missing": "level"}, "missing of 'age' must be 'average', .*: it is a number"),
    ],
)
def test_numbers_that_say_nothing(change: dict[str, Any], result: str) -> None:
    with pytest.raises(InvalidInput, match=result):
        replace(AGE, **change)


def test_a_level_cannot_be_called_as_no_answer_is() -> None:
    with pytest.raises(InvalidInput, match="that is what missing = 'level' adds"):
        replace(JOB, levels=("farm", "prefer not to say"))
    assert replace(JOB, levels=("farm", "prefer not to say"), missing="")
    with pytest.raises(InvalidInput, match=r"'level', .* got 'average': it is a category"):
        replace(JOB, missing="average")


def test_a_cell_without_a_value_is_refused_with_what_could_be_declared() -> None:
    strict = Encoder(attributes=(replace(AGE, missing=""), replace(JOB, missing="")))
    with pytest.raises(
        MissingValueError, match=r"row 1 of the table: missing = 'average' says what that"
    ):
        strict.read(people((np.nan, "farm")))
    said = "missing = 'level' says what that means and missing_values says that '[?]' stands for it"
    with pytest.raises(MissingValueError, match=said):
        strict.read(people((34, "?")))
    with pytest.raises(
        MissingValueError, match=r"says NA\): missing_values says that 'NA' stands for it"
    ):
        BOTH.read(people((34, "NA")))
    with pytest.raises(DataError, match="one of the declared levels 'farm', 'office', got 'sea'"):
        BOTH.read(people((34, "sea")))
    study = replace(STUDY, encoder=BOTH, wording={})
    study.check_ranges(people((34, "farm"), (np.nan, "?")))
    with pytest.raises(DataError, match="got 17 in row 2"):
        study.check_ranges(people((np.nan, "farm"), (17, "farm")))


def test_whole_numbers_have_gaps_too() -> None:
    whole = Encoder(attributes=(replace(AGE, whole=True),))
    answers = whole.read(people((np.nan, ""), (30, "")))
    assert whole.scale.apply(answers).tolist() == [[0, 1], [-1, 0]]
    with pytest.raises(DataError, match=r"whole numbers, got 30\.5 in row 2"):
        whole.read(people((np.nan, ""), (30.5, "")))


def test_from_data_takes_averages_and_gaps_too() -> None:
    table = people((20, "farm"), (30, "?"), (70, "office"), (np.nan, "farm"))
    gaps = {"missing": ("age", "job"), "missing_values": ("?",)}
    age, job = attributes_in(table, table.names, **gaps)
    assert np.std([20, 30, 70]) > 21  # rounded upwards
    assert age == Number(name="age", low=20, high=70, average=40, spread=22, missing="average")
    assert job == JOB
    with pytest.raises(MissingValueError):
        attributes_in(table, table.names)


# In a study


def test_a_study_with_maps_comes_back_from_every_form() -> None:
    study = Study.from_text(SCALED)
    assert study.encoder.maps == (Squares(),)
    assert study.attributes[0] == AGE and study.width == 1 + 2 + 3 + 1
    assert Study.from_canonical(study.canonical()) == study
    for text in (template.plain(study), template.render(study)):
        assert Study.from_text(text).hash == study.hash
    document = json.loads(study.canonical())
    assert "encoder" not in document
    assert document["maps"] == [{"map": "squares", "keep": True}]


def test_the_version_leaves_no_trace_and_another_is_refused() -> None:
    before = Study.from_text(TEXT)
    assert Study.from_text(TEXT + "\n[encoder]\nversion = 1\n").hash == before.hash
    assert "encoder" not in json.loads(before.canonical())
    assert 0 < describe_study(before)["clipped"]["share"] < 1
    with pytest.raises(InvalidInput, match=r"version of the encoder must .* got 2"):
        Encoder.from_dict({"version": 2, **BOTH.to_dict()})


@pytest.mark.parametrize(
    "old, new, line, result",
    [
        ("average = 45", "average = 17", "average", r"lie in the range \[18, 100\], got 17"),
        ("spread = 15", "spread = 83", "spread", r"the width of the range \(82\), got 83"),
        ("spread = 15\n", "", "average", r"attributes\[1\].average must stand beside spread"),
        ('"average"', '"level"', "missing", "be 'average', got 'level': that is how a number"),
        ("version = 1", "version = 2", "version", "from 1 to 1, got 2"),
        (
            "version = 1",
            'version = 1\nmissing_values = ["?", "?"]',
            "missing_values",
            "it stands there twice",
        ),
        ("version = 1", "version = 1\nmissing_values = 3", "missing_values", "be a list of at"),
        ('"squares"', '"cubes"', "[[maps]]", r"maps\[1\]: map must be"),
        ('"squares"', '"squares"\nkeep = false', "keep", "people read their answers back"),
        ('"squares"', '"squares"\ncolumns = ["agge"]', "[[maps]]", "got 'agge'"),
        ('"squares"', '"fourier"\ncount = 2000\nscale = 0', "[[maps]]", "scale must"),
        ('"squares"', '"squares"\ncolour = 1', "colour", "is unknown"),
    ],
)
def test_mistakes_are_told_with_their_line(old: str, new: str, line: str, result: str) -> None:
    assert old in SCALED
    text = SCALED.replace(old, new, 1)
    with pytest.raises(StudyError, match=result) as refused:
        Study.from_text(text)
    number = next(n for n, sentence in refused.value.mistakes if line in text.split("\n")[n - 1])
    assert number > 1


def test_waves_that_no_device_could_draw_are_refused() -> None:
    many = "\n".join(
        f'[[attributes]]\nname = "x{i}"\nkind = "number"\nrange = [0, 1]' for i in range(60)
    )
    text = SCALED.replace('map = "squares"', 'map = "fourier"\ncount = 2000') + many
    with pytest.raises(StudyError, match="at most 40,000 waves times columns, got 122,000"):
        Study.from_text(text)


def test_a_new_study_has_its_encoder() -> None:
    made = (Squares(), Bins(columns=("age",), edges=(-1, 1)))
    study = new_study(
        title="T",
        question="Q?",
        classes=("no", "yes"),
        attributes=(AGE, JOB),
        missing_values=("NA",),
        maps=made,
    )
    assert study.encoder == Encoder(attributes=(AGE, JOB), missing_values=("NA",), maps=made)


def test_how_often_rows_are_clipped_is_known_before_anybody_answers(tmp_path: Path) -> None:
    numbers = tuple(Number(name=f"x{i}", low=-100, high=100, average=0, spread=1) for i in range(8))
    found = forecast_clipping(Encoder(attributes=numbers))
    people = np.random.default_rng(1).normal(size=(20_000, 8))
    squares = (np.clip(people, -3, 3) ** 2).sum(axis=1)
    lengths = np.sqrt(CONSTANT**2 + SIZE**2 * squares / 8)
    assert found.share == pytest.approx(np.mean(lengths > 1), abs=0.04)  # 5 deviations and more
    assert found.factor == pytest.approx(np.median(1 / lengths[lengths > 1]), abs=0.02)
    assert forecast_clipping(Encoder(attributes=numbers)) == found
    levels = Category(name="c", levels=("a", "b"))
    share = forecast_clipping(Encoder(attributes=(levels,)))
    assert (share.share, share.factor) == (
        1.0,
        pytest.approx(1 / np.hypot(SIZE, CONSTANT), rel=1e-5),
    )


def test_maps_and_answers_in_words() -> None:
    assert study_summary.answer_text(None) == "prefer not to say"
    assert [study_summary.answer_text(value) for value in (1234567.0, 0.5, "18 or less")] == [
        "1234567",
        "0.5",
        "18 or less",
    ]
    assert [
        study_summary.describe_map(one)
        for one in (
            Squares(columns=("age", "bmi")),
            Products(pairs=(("age", "bmi"), ("age", "sex=f"))),
            Bins(count=4),
            Fourier(count=7),
        )
    ] == [
        "the square of age, bmi",
        "the product of age and bmi, of age and sex=f",
        "in which of 4 intervals lies every number that is sent as it is",
        "7 waves of every number that is sent as it is, in directions that all know",
    ]


def test_a_model_prepares_rows_as_devices_do() -> None:
    """To the rounding of float32: what was trained on is what is predicted from."""
    maps = (Squares(), Fourier(count=4), Products(pairs=(("age", "job=farm"),)))
    study = replace(STUDY, encoder=Encoder(attributes=(AGE, JOB), maps=maps), wording={})
    table = people((45, "farm"), (np.nan, ""), (99, "office"), (18, "farm"))
    sent = study.encode_table(table)
    model = Model(
        classes=study.classes,
        coefficients=np.zeros((1, study.width - 1)),
        intercepts=np.zeros(1),
        norm_bound=1.0,
        fit_intercept=True,
        encoder=study.encoder.to_dict(),
    )
    found = [
        replace(model, coefficients=unit[None, :-1], intercepts=unit[-1:]).decision_function(
            model.features(table)
        )
        for unit in np.eye(study.width)
    ]
    np.testing.assert_allclose(np.column_stack(found), sent, atol=1e-7)


def test_a_place_knows_the_constant_of_a_typical_row() -> None:
    second = replace(STUDY, encoder=BOTH, wording={})
    asked = {"records": second.min_records, "epsilons": second.menu}
    found = second.terms.server_spec(0, **asked).constant
    assert found == pytest.approx(CONSTANT / np.hypot(SIZE, CONSTANT))
