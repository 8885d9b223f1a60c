"""The words of the page of predictions: none outside its catalogues, none without a translation,
none that nobody says, and none that promises more than the page keeps.
"""

import re
from importlib import resources

import pytest
from reading import flesch_kincaid, wiener_sachtextformel
from test_languages import HARDEST, PROMISES, Prose, forms, marks, placeholders

from pdml.device import languages as contributors
from pdml.pages.languages import SHARED, catalogues

CATALOGUES = catalogues()
ENGLISH = CATALOGUES["en"]
OWN = contributors.read("pdml.pages.languages")
TEMPLATE, SCRIPT = (
    resources.files("pdml.pages").joinpath("templates", name).read_text("utf-8")
    for name in ("prediction.html", "prediction.js")
)
PYTHON = resources.files("pdml.pages").joinpath("prediction_page.py").read_text("utf-8")
ENCODING = resources.files("pdml.device").joinpath("encoding.js").read_text("utf-8")


def test_it_speaks_every_language_of_the_contributor_s_page() -> None:
    assert list(CATALOGUES) == list(contributors.catalogues())


@pytest.mark.parametrize("code", CATALOGUES)
def test_every_sentence_is_translated_with_the_same_placeholders(code: str) -> None:
    catalogue = CATALOGUES[code]
    assert set(catalogue) == set(ENGLISH)
    for key, sentence in catalogue.items():
        assert sentence.strip() == sentence != "", key
        assert placeholders(sentence) == placeholders(ENGLISH[key]), key
        assert marks(sentence) == marks(ENGLISH[key]), key
        if code != "en" and len(sentence) > 40:
            assert sentence != ENGLISH[key], key  # left as it was


def test_no_sentence_is_said_nowhere_and_none_is_missing() -> None:
    named = set(re.findall(r'"([a-z_]+(?:\.[a-z_]+)+)"', TEMPLATE + SCRIPT + PYTHON))
    asked = {f"number.{what}" for what in re.findall(r'wrong\("(\w+)"\)', ENCODING)}
    wholes = {f"{key}.whole" for key in asked}
    spoken = {"share.under", "share.over", "language.direction"}  # by i18n.js
    unsaid = set(ENGLISH) - named - asked - wholes - spoken
    assert unsaid == set()
    assert set(re.findall(r'\b(?:say|words)\("([^"]+)"', TEMPLATE + SCRIPT + PYTHON)) <= set(
        ENGLISH
    )
    assert asked | wholes <= set(ENGLISH) | {"number.fraction"}  # what is whole has no fraction


def test_what_both_pages_say_is_said_once() -> None:
    theirs = contributors.catalogues()
    for code, own in OWN.items():
        assert not set(SHARED) & set(own)
        same = [key for key, text in own.items() if text in theirs[code].values()]
        assert same == [], code


def test_no_sentence_stands_outside_the_catalogues() -> None:
    """`Prose` takes out what templates fill in; the first lines are attributes of tags."""
    assert Prose(TEMPLATE[TEMPLATE.index("<!DOCTYPE") :]).found == []
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", SCRIPT, flags=re.S)
    texts = [text for pair in re.findall(r'"([^"\n]*)"|`([^`\n]*)`', code) for text in pair]
    prose = [text for text in texts if re.search(r"[A-Za-z]{2,} [a-z]{2,}", text)]
    assert prose == [".chances data"]  # a selector


@pytest.mark.parametrize("code", CATALOGUES)
def test_no_language_promises_more_than_the_page_keeps(code: str) -> None:
    for key, sentence in CATALOGUES[code].items():
        assert not re.search(rf"(?i)(?<!\w)(?:{PROMISES[code]})(?!\w)", sentence), key


@pytest.mark.parametrize(
    ("code", "level"), [("en", flesch_kincaid), ("de", wiener_sachtextformel)], ids=["en", "de"]
)
def test_the_words_are_plain_enough(code: str, level) -> None:
    """School years of all sentences together: two more than the contributor's page may need, as it
    speaks of how often a model is right."""
    texts = {key: re.sub(r"\{\w+\}|[*`]", "", " ".join(forms(t))) for key, t in OWN[code].items()}
    read = {key: text for key, text in texts.items() if text[-1] in ".?!"}
    assert level(" ".join(read.values())) <= 8
    assert {key: level(text) for key, text in read.items() if level(text) > HARDEST + 2} == {}
