"""What people see of a study's texts: something, and nothing twice."""

from itertools import combinations

import pytest
from example_study import TEXT, TOLD

from pdml.errors import StudyError
from pdml.study import Study
from pdml.study.schema import validation
from pdml.study.schema.validation import Lookalikes, ValidationErrors, is_visible

INVISIBLE = [
    "\u200b",  # zero width space
    "\u200c\u200d",  # joiners, which are allowed between letters
    "\u3164",  # Hangul filler: a letter without ink
    "\u2800",  # an empty Braille cell
    "\ufeff",
    "\u00ad",  # soft hyphen
    "\ufe0f\u034f",  # a variation selector, a grapheme joiner
    "\u00a0\u2003",
    "\U000e0041",  # a tag
]
HIDING = ["\u200b", "\u200e", "\u200f", "\u061c", "\u2066", "\u00ad", "\ufeff", "\U000e0041"]
PROSE = ["organiser.name", "notice.purpose", "notice.legal_basis", "notice.who_sees"]
PROSE += ["notice.text", "consent.text", "study.title", "study.description", "label.question"]


def mistakes(path: str, text: str) -> list[str]:
    """What is said of a study whose text at ``path`` is replaced."""
    document = Study.from_text(TEXT + TOLD).to_dict()
    table, key = path.split(".")
    document[table][key] = text
    try:
        Study.from_document(document)
    except StudyError as error:
        return [sentence for _, sentence in error.mistakes]
    return []


@pytest.mark.parametrize("path", PROSE)
@pytest.mark.parametrize("text", INVISIBLE)
def test_nobody_agrees_to_what_cannot_be_seen(path: str, text: str) -> None:
    assert not is_visible(text)
    (output,) = mistakes(path, text)
    assert output.startswith(f"{path} must ")


@pytest.mark.parametrize("path", PROSE)
@pytest.mark.parametrize("letter", HIDING)
def test_no_letter_hides_among_others(path: str, letter: str) -> None:
    (output,) = mistakes(path, f"I agree{letter} not")
    assert output.startswith(f"{path} must be free of control characters")


@pytest.mark.parametrize(
    "text", ["نمی\u200cدانم", "👩\u200d⚕\ufe0f doctors", "क्\u200dष", "ß", "+", "᳡́"]
)
def test_what_scripts_need_is_allowed(text: str) -> None:
    assert is_visible(text) and mistakes("consent.text", text) == []


@pytest.mark.parametrize("text", ["", " ", *INVISIBLE])
def test_a_translation_cannot_leave_the_consent_empty(text: str) -> None:
    document = Study.from_text(TEXT + TOLD).to_dict()
    document["study"]["language"] = "en"
    notice = {key: "Text" for key in ("purpose", "legal_basis", "who_sees")}
    document["languages"] = [
        {
            "code": "de",
            "title": "Titel",
            "description": "Mehr",
            "question": "Frage?",
            "classes": ["nein", "ja"],
            "attributes": [
                {"name": "age", "label": "Alter"},
                {"name": "sex", "label": "Geschlecht", "levels": ["w", "m", "d"]},
            ],
            "notice": notice,
            "consent": {"text": "Ja."},
        }
    ]
    Study.from_document(document)
    document["languages"][0]["consent"]["text"] = text
    with pytest.raises(StudyError, match=r"languages\[1\]\.consent\.text must"):
        Study.from_document(document)


ALIKE = [
    ("yes", "уes"),  # Cyrillic у
    ("no", "nо"),  # Cyrillic о
    ("No", "Νo"),  # Greek capital nu
    ("yes", "Yes"),
    ("yes", "YES"),
    ("yes", "ｙｅｓ"),  # full width
    ("yes", "ye\u200ds"),
    ("yes", "yes\ufe0f"),
    ("a b", "a\u00a0b"),
    ("a b", "a  b"),
    ("a b", "a\u3164b"),
    ("1-2", "1–2"),
    ("don't", "don’t"),
    ("Straße", "STRASSE"),
    ("é", "e\u0301"),
    ("НЕТ", "нет"),  # one alphabet, two cases
    ("ous", "օսѕ"),  # Armenian and Cyrillic
    ("ﬁne", "fine"),
]
APART = [
    ("yes", "no"),
    ("e", "é"),
    ("<=50K", ">50K"),
    ("ус", "үс"),  # two Mongolian words
    ("+", "-"),
    ("1", "2"),
    ("да", "нет"),
    ("Ναι", "Όχι"),
]
UNCAUGHT = [("l", "I"), ("0", "O"), ("rn", "m")]  # as the module says


@pytest.mark.parametrize("pair", ALIKE)
def test_classes_and_levels_that_people_cannot_tell_apart_are_refused(
    pair: tuple[str, str],
) -> None:
    for first, second in (pair, pair[::-1]):
        f = ValidationErrors()
        f.texts(("label", "classes"), ["other", first, second], least=2, most=9)
        ((path, output),) = f.mistakes
        assert path == ("label", "classes", 2)
        assert "label.classes[3] must look different from the others, got" in output
        assert output.endswith("; change one of the two")


@pytest.mark.parametrize("pair", APART + UNCAUGHT)
def test_texts_that_differ_may_stand_side_by_side(pair: tuple[str, str]) -> None:
    f = ValidationErrors()
    assert f.texts(("label", "classes"), pair, least=2, most=9) == pair and not f.mistakes


@pytest.mark.parametrize(
    ("old", "new", "output"),
    [
        ('["no", "yes"]', '["yes", "уes"]', "label.classes[2] must look different"),
        (
            '["female", "male", "other"]',
            '["female", "Female"]',
            "attributes[2].levels[2] must look",
        ),
        ('name = "sex"', 'name = "аge"', "attributes[2].name must look different"),
    ],
)
def test_a_study_says_so_with_its_line(old: str, new: str, output: str) -> None:
    assert old in TEXT
    with pytest.raises(StudyError) as refused:
        Study.from_text(TEXT.replace(old, new))
    assert any(output in sentence for _, sentence in refused.value.mistakes)


def test_words_of_one_alphabet_are_never_mixed_up() -> None:
    """No two letters of one alphabet and case have the same twin."""
    for letters, twins in list(validation._TWINS.items())[:-2]:
        assert len(letters) == len(twins) == len(set(twins))
        for first, second in combinations(letters, 2):
            seen = Lookalikes()
            assert not seen.add(first) and not seen.add(second)
    assert len(validation._LATIN) == sum(map(len, validation._TWINS))


def test_a_third_text_is_compared_with_all() -> None:
    seen = Lookalikes()
    assert [seen.add(text) for text in ("yes", "no", "YES", "nо")] == ["", "", "yes", "no"]
