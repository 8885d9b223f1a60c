"""A study's texts in other languages: whole or refused with the line; and whatever is computed stays
what it was.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from example_study import STUDY, TEXT, TOLD

from pdml.errors import InvalidInput, StudyError
from pdml.study import Study
from pdml.study.schema import template
from pdml.study.translations import Question

GERMAN = """
[[languages]]
code = "de"
title = "Wer ist gefährdet?"
description = "Eine Umfrage."
question = "Wurden Sie diagnostiziert?"
classes = ["nein", "ja"]

[[languages.attributes]]
name = "sex"
label = "Ihr Geschlecht"
levels = ["weiblich", "männlich", "anders"]

[[languages.attributes]]
name = "age"
label = "Ihr Alter"
"""
ENGLISH = TEXT.replace("[study]\n", '[study]\nlanguage = "en"\n', 1)
BOTH = ENGLISH + GERMAN


def output(text: str) -> list[tuple[int, str]]:
    with pytest.raises(StudyError) as error:
        Study.from_text(text)
    return list(error.value.mistakes)


def line(text: str, start: str, after: str = "[[languages]]") -> int:
    lines = text.splitlines()
    return next(
        i + 1 for i, one in enumerate(lines) if i >= lines.index(after) and one.startswith(start)
    )


def test_without_languages_nothing_changes() -> None:
    assert "language" not in STUDY.canonical().decode()
    assert STUDY.languages == () and STUDY.language == "" and STUDY.texts().title == STUDY.title


def test_translations_are_part_of_the_contract_and_of_nothing_that_is_computed() -> None:
    study = Study.from_text(BOTH)
    assert study.hash != STUDY.hash
    assert Study.from_canonical(study.canonical()) == study
    assert study.encoder == STUDY.encoder and study.classes == STUDY.classes
    answers = {"age": 40, "sex": "male"}
    assert study.encode(answers).tobytes() == STUDY.encode(answers).tobytes()
    for written in (template.render(study), template.plain(study)):
        assert Study.from_text(written) == study
    german = study.texts("de")
    # In the study's order, whatever order the file has.
    assert german.attributes == (
        Question("age", "Ihr Alter"),
        Question("sex", "Ihr Geschlecht", levels=("weiblich", "männlich", "anders")),
    )
    assert study.texts("en") == study.texts() and study.texts().attributes[0].label == "age"
    with pytest.raises(InvalidInput, match=r"one of the study's \(en, de\), got 'fr'"):
        study.texts("fr")
    with pytest.raises(InvalidInput, match=r"\(not declared\)"):
        STUDY.texts("de")


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ('title = "Wer ist gefährdet?"\n', "languages[1].title is missing"),
        ('description = "Eine Umfrage."\n', "languages[1].description is missing: the study has"),
        ('question = "Wurden Sie diagnostiziert?"\n', "languages[1].question is missing"),
        ('classes = ["nein", "ja"]\n', "languages[1].classes is missing"),
        ('code = "de"\n', "languages[1].code is missing"),
    ],
)
def test_what_is_not_translated_is_told_with_the_line_of_the_language(gone: str, said: str) -> None:
    text = BOTH.replace(gone, "")
    ((where, sentence),) = output(text)
    assert sentence.startswith(said) and where == line(text, "[[languages]]")


def test_attributes_lack_nothing_either() -> None:
    text = BOTH.replace('label = "Ihr Alter"\n', "")
    assert output(text) == [
        (line(text, 'name = "age"') - 1, "languages[1].attributes[2].label is missing")
    ]
    text = BOTH.replace('levels = ["weiblich", "männlich", "anders"]\n', "")
    ((where, sentence),) = output(text)
    assert where == line(text, 'name = "sex"') - 1
    assert sentence == "languages[1].attributes[1].levels is missing: it translates 3 levels"
    text = BOTH.partition('[[languages.attributes]]\nname = "age"')[0]
    ((where, sentence),) = output(text)
    assert sentence == "languages[1].attributes lacks a translation of 'age'"
    assert where == line(text, "[[languages.attributes]]")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"männlich", ', "", "levels must have 3 texts, in the order of the study's"),
        ('["nein", "ja"]', '["nein"]', "classes must have 2 texts, in the order of the study's"),
        ('["nein", "ja"]', '["ja", "ja"]', "must differ from the others"),
        ('["nein", "ja"]', '"nein"', "must be a list of 1 to 100 texts"),
        ('code = "de"', 'code = "tlh"', "must be one of 'en', 'de', 'fr'"),
        ('code = "de"', 'code = "en"', "must be another language, got 'en'"),
        ('name = "age"\nlabel = "Ihr', 'name = "height"\nlabel = "Ihr', "name an attribute"),
        ('label = "Ihr Alter"', 'label = "Ihr Alter"\nhelp = "?"', "must be left out"),
        ('label = "Ihr Alter"', 'label = "Ihr Alter"\nlevels = ["a"]', "a number has none"),
        ('label = "Ihr Alter"', 'lable = "Ihr Alter"', "did you mean 'label'?"),
        ('language = "en"\n', "", "study.language is missing"),
        ('language = "en"\n', 'language = "English"\n', "must be one of 'en', 'de', 'fr'"),
    ],
)
def test_mistakes_are_told(old: str, new: str, said: str) -> None:
    assert old in BOTH
    assert any(said in sentence for _, sentence in output(BOTH.replace(old, new, 1)))


AGREED = """
[languages.notice]
purpose = "Um zu lernen, wer gefährdet ist."
legal_basis = "Ihre Einwilligung."
who_sees = "Die Klinik sieht jede Antwort außer der letzten."

[languages.consent]
text = "Ich stimme zu."
"""


def test_what_people_are_told_and_agree_to_is_translated_too() -> None:
    text = ENGLISH + TOLD
    study = Study.from_text(text + GERMAN + AGREED)
    assert study.texts("de").consent == {"text": "Ich stimme zu."}
    assert study.texts("de").notice["legal_basis"] == "Ihre Einwilligung."
    assert study.texts().notice["link"] == "https://hospital.example/notice"
    assert Study.from_text(template.render(study)) == study
    assert Study.from_canonical(study.canonical()) == study
    said = [sentence for _, sentence in output(text + GERMAN)]
    assert [one.partition(":")[0] for one in said] == [
        "languages[1].notice is missing",
        "languages[1].consent is missing",
    ]
    half = AGREED.replace('legal_basis = "Ihre Einwilligung."\n', "")
    ((where, sentence),) = output(text + GERMAN + half)
    assert sentence.startswith("languages[1].notice.legal_basis is missing: the study has one")
    assert where == line(text + GERMAN + half, "[languages.notice]")
    more = AGREED.replace("[languages.consent]", 'text = "Mehr."\n[languages.consent]')
    assert any("notice.text must be left out" in one for _, one in output(text + GERMAN + more))
    assert any("notice must be left out" in one for _, one in output(BOTH + AGREED))


def test_a_language_stands_there_once() -> None:
    assert any("must be another language" in said for _, said in output(BOTH + GERMAN))
    german = Study.from_text(BOTH).languages[0]
    with pytest.raises(InvalidInput, match="must be another language"):
        replace(Study.from_text(BOTH), languages=(german, german))


def test_a_mistake_among_the_attributes_is_not_told_again_for_each_language() -> None:
    wrong = BOTH.replace("range = [18, 100]", "range = [100, 18]", 1)
    assert all("languages" not in sentence for _, sentence in output(wrong))


def test_the_documentation_s_example_translates_that_of_a_study() -> None:
    docs = Path(__file__).parents[3] / "docs"
    study, words = (
        re.search(r"```toml\n(.*?)```", (docs / name).read_text(encoding="utf-8"), flags=re.S)
        for name in ("guide/study.md", "guide/languages.md")
    )
    assert study and words
    text = study[1].replace("[study]", '[study]\nlanguage = "en"', 1)
    both = Study.from_text(text + "[[languages]]" + words[1].partition("[[languages]]")[2])
    assert both.texts("de").classes == ("nein", "ja") and both.texts("de").consent
