"""Answers as people give them: the same texts are answers in Python and in the page, and mistakes
are told one by one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browsing import Visitor
from example_study import STUDY

from pdml.device.answers import check_answers
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.errors import DataError
from pdml.study import Study

PATH = Path(__file__).parents[1] / "vectors" / "numbers.json"
VECTORS = json.loads(PATH.read_text(encoding="utf-8"))["attributes"]


def asking(attribute: dict[str, Any]) -> Study:
    return replace(STUDY, encoder=Encoder.from_dict({"attributes": [attribute]}), wording={})


WHOLE = asking(VECTORS[0]["attribute"])


def test_the_vectors_are_those_of_their_maker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PATH.parent))
    import make_numbers

    assert make_numbers.text() == PATH.read_text(encoding="utf-8")


def python(study: Study, name: str, text: str) -> object:
    try:
        return check_answers(study, {name: text})[name]
    except DataError:
        return None


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: json.dumps(row["attribute"]))
def test_the_client_takes_what_the_vectors_take(row: dict[str, Any]) -> None:
    study, name = asking(row["attribute"]), row["attribute"]["name"]
    cases = [case for case in row["cases"] if case["text"] == case["text"].strip()]
    found = [python(study, name, case["text"]) for case in cases]
    assert found == [case["answer"] for case in cases]
    assert {case["answer"] is None for case in cases} == {True, False}


def test_the_page_takes_what_the_vectors_take(visitor: Visitor) -> None:
    found = visitor.browser.execute_script(
        """return arguments[0].map(({attribute, cases}) => cases.map(({text}) => {
          const [answer, mistake] = readNumber(text, attribute);
          return mistake ? null : answer;
        }))""",
        VECTORS,
    )
    assert found == [[case["answer"] for case in row["cases"]] for row in VECTORS]


def test_a_fraction_is_no_whole_number_wherever_it_comes_from() -> None:
    for value in (34.5, "34.5", "34,5"):
        with pytest.raises(DataError, match=r"'age' must be a whole number, .*got '?34[.,]5"):
            check_answers(WHOLE, {"age": value})
        with pytest.raises(DataError, match=r"must be a (whole|finite) number"):
            WHOLE.encode({"age": value})
    assert (
        check_answers(WHOLE, {"age": 34.0}) == check_answers(WHOLE, {"age": "34"}) == {"age": 34.0}
    )


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ({"height": 2}, r"the study's questions \('age', 'sex'\), got one to 'height'"),
        ({"age": 17.9}, r"'age' must lie in \[18, 100\], got 17.9"),
        ({"age": 100.1}, r"'age' must lie in \[18, 100\]"),
        ({"age": float("nan")}, "'age' must be a finite number"),
        ({"age": True}, "'age' must be a finite number"),
        ({"age": 10**400}, "'age' must be a finite number"),
        ({"age": None}, "'age' must be a finite number"),
        ({"sex": "none"}, "'sex' must be one of"),
        ({"sex": 3}, "'sex' must be one of"),
    ],
)
def test_what_is_no_answer_is_refused_by_itself(answers: dict[str, object], result: str) -> None:
    with pytest.raises(DataError, match=result):
        check_answers(STUDY, answers)


def test_what_is_given_may_be_a_part() -> None:
    assert check_answers(STUDY, {}) == {}
    assert check_answers(STUDY, {"sex": " male "}) == {"sex": "male"}
    assert isinstance(STUDY.attributes[1], Category)


def test_no_answer_is_one_where_the_study_allows_it() -> None:
    age = Number(name="age", low=18, high=100, missing="average")
    job = Category(name="job", levels=("farm", "office"), missing="level")
    study = replace(STUDY, encoder=Encoder(attributes=(age, job)), wording={})
    for silence in (None, "", "  "):
        assert check_answers(study, {"age": silence, "job": silence}) == {"age": None, "job": None}
    assert check_answers(study, {"age": "34", "job": " farm"}) == {"age": 34, "job": "farm"}
    for name, value in (("age", "NA"), ("job", "prefer not to say"), ("job", "?")):
        with pytest.raises(DataError):
            check_answers(study, {name: value})
    for silence in (None, ""):
        with pytest.raises(DataError):
            check_answers(STUDY, {"age": silence})
