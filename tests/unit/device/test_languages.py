"""The page's own words: no sentence outside the catalogues, none without a translation, none that
nobody says.
"""

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from importlib import resources

import pytest
from reading import flesch_kincaid, wiener_sachtextformel

from pdml.device.languages import Sentence, catalogues
from pdml.encoding.attributes import NO_ANSWER  # also a feature's name, in every language

CATALOGUES = catalogues()
ENGLISH = CATALOGUES["en"]
SOURCES = {
    name: resources.files("pdml.device").joinpath(name).read_text("utf-8")
    for name in (
        "page.html",
        "device.js",
        "encoding.js",
        "i18n.js",
        "form.js",
        "notice.js",
        "page.js",
    )
}
SCRIPTS = [text for name, text in SOURCES.items() if name.endswith(".js")]


def forms(sentence: Sentence) -> list[str]:
    return [sentence] if isinstance(sentence, str) else list(sentence.values())


def placeholders(text: str) -> list[str]:
    return sorted(set(re.findall(r"\{(\w+)\}", text)))


def marks(text: str) -> list[int]:
    """How many words are strong, and which are code."""
    return [text.count("*"), *map(hash, re.findall(r"`[^`]*`", text))]


@pytest.mark.parametrize("code", CATALOGUES)
def test_every_sentence_is_translated_with_the_same_placeholders(code: str) -> None:
    catalogue = CATALOGUES[code]
    assert set(catalogue) == set(ENGLISH)
    for key, sentence in catalogue.items():
        (english, *_) = forms(ENGLISH[key])
        for form in forms(sentence):
            assert form.strip() == form != "", key
            assert placeholders(form) == placeholders(english), key
            assert marks(form) == marks(english), key
        if not isinstance(sentence, str):
            assert "{count}" in english and "other" in sentence, key


def said() -> Iterator[str]:
    """Keys that page and scripts name; `why.*` for those whose end is only known at run time."""
    yield from re.findall(r'data-(?:words|label)="([^"]+)"', SOURCES["page.html"])
    yield from re.findall(r"catalogue(?:\[|\.)[\"']([^\"']+)", SOURCES["page.html"])
    for script in SCRIPTS:
        yield from re.findall(r'"([a-z_]+(?:\.[a-z_]+)*)"', script)
        yield from (f"{start}.*" for start in re.findall(r"`([a-z]+)\.\$\{", script))


def test_no_sentence_is_unused_and_none_is_missing() -> None:
    named = set(said())
    prefixes = {name.removesuffix("*") for name in named if name.endswith(".*")}
    unused = [key for key in ENGLISH if key not in named and not key.startswith(tuple(prefixes))]
    assert unused == []
    direct = {
        key
        for script in SCRIPTS
        for key in re.findall(r'\b(?:words|marked|because)\("([^"]+)"', script)
    }
    direct |= set(re.findall(r'data-(?:words|label)="([^"]+)"', SOURCES["page.html"]))
    assert direct <= set(ENGLISH)


class Prose(HTMLParser):
    """Letters between the tags of the template, and in attributes that people hear."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(re.sub(r"\{[{%].*?[%}]\}", "", html))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        heard = ("aria-label", "title", "alt", "placeholder")
        self.found += [str(value) for name, value in attributes if name in heard]

    def handle_data(self, data: str) -> None:
        if re.search(r"\w", data):
            self.found.append(data)


def test_no_sentence_stands_outside_the_catalogues() -> None:
    """Between the tags of the page no letter; in the scripts no text of two words or more, but for
    what machines read."""
    assert Prose(SOURCES["page.html"]).found == []
    machines = r'use strict|pdml( |-)|\["use|:is\(|input, select|label|choice|long code|hint'
    machines += "|field (?:asked|brief)|noopener"
    for script in SCRIPTS:
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", script, flags=re.S)
        texts = [text for pair in re.findall(r'"([^"\n]*)"|`([^`\n]*)`', code) for text in pair]
        prose = [
            text
            for text in texts
            if text != NO_ANSWER and re.search(r"[A-Za-z]{2,} [a-z]{2,}", text)
        ]
        assert [text for text in prose if not re.search(machines, text)] == []


def test_marks_stand_only_where_they_are_read() -> None:
    """`data-words` makes nodes of them; a text that a script asks for would show the marks."""
    marked = set(re.findall(r'data-words="([^"]+)"', SOURCES["page.html"]))
    for key, sentence in ENGLISH.items():
        if re.search(r"[*`]", "".join(forms(sentence))):
            assert key in marked, key


PLAIN, HARDEST = 6, 12  # school years: of all sentences together (what patients' leaflets are to
# need at most, by the American Medical Association), and of the hardest one alone


def read_aloud(code: str) -> dict[str, str]:
    """The sentences as people read them: a word for each placeholder, without marks."""
    texts = {key: " ".join(forms(sentence)) for key, sentence in CATALOGUES[code].items()}
    plain = {key: re.sub(r"\{\w+\}", "x", text) for key, text in texts.items()}
    return {key: re.sub("[*`]", "", text) for key, text in plain.items() if text[-1] in ".?!"}


@pytest.mark.parametrize(
    ("code", "level"), [("en", flesch_kincaid), ("de", wiener_sachtextformel)], ids=["en", "de"]
)
def test_the_words_are_plain(code: str, level: Callable[[str], float]) -> None:
    texts = read_aloud(code)
    assert level(" ".join(texts.values())) <= PLAIN
    assert {key: level(text) for key, text in texts.items() if level(text) > HARDEST} == {}


def test_the_formulas_know_hard_from_plain() -> None:
    """By hand: 6 words of 6 syllables in a sentence, and legal German."""
    assert flesch_kincaid("The cat sat on the mat.") == pytest.approx(0.39 * 6 + 11.8 - 15.59)
    hard = (
        "Die Verarbeitung personenbezogener Gesundheitsinformationen erfolgt ausschließlich "
        "aufgrund ausdrücklicher Einwilligungserklärungen der Studienteilnehmerinnen."
    )
    assert wiener_sachtextformel(hard) > 15
    assert wiener_sachtextformel("Die Katze sitzt auf dem Bett. Sie ist müde.") < 4


# Words with which a page would promise more than any ε keeps: certainty, anonymity, "never".
PROMISES = {
    "en": r"never|always|impossible|anonym\w*|guarantee\w*|100 ?%",
    "de": r"nie|niemals|immer|unmöglich|anonym\w*|garantier\w*|100 ?%",
    "fr": r"jamais|toujours|impossible|anonym\w*|garanti\w*|100 ?%",
    "es": r"nunca|jamás|imposible|an[oó]nim\w*|garanti\w*|100 ?%",
    "it": r"mai|sempre|impossibile|anonim\w*|garanti\w*|100 ?%",
    "nl": r"nooit|altijd|onmogelijk|anonie\w*|garand\w*|garant\w*|100 ?%",
    "ar": r"أبدًا|أبدا|دائمًا|دائما|مستحيل|مجهول\w*|نضمن|يضمن|100 ?%",
}


MAYBE = {
    "en": "may or may not",
    "de": "oder auch nicht|Es ist offen, ob",
    "fr": "peut-être.*, peut-être pas",
    "es": "puede .* o no",
    "it": "può .* oppure no",
    "nl": "kan .* (?:of niet|wel of niet)",
    "ar": "قد .*وقد لا",
}


@pytest.mark.parametrize("code", CATALOGUES)
def test_no_language_promises_more_than_chance_keeps(code: str) -> None:
    """`test_words` looks for English sentences that some ε would make false; here for words that
    such sentences need. Both halves of "it may or may not be" stand wherever English has them."""
    for key, sentence in CATALOGUES[code].items():
        text = " ".join(forms(sentence))
        assert not re.search(rf"(?i)(?<!\w)(?:{PROMISES[code]})(?!\w)", text), key
    asked = ("question.sealed", "check.drawn", "done.intro")
    several = (*(f"{key}.several" for key in asked), "about.intro.every")
    for key in (*asked, *several, "server.unreached"):
        assert re.search(f"(?i){MAYBE[code]}", " ".join(forms(CATALOGUES[code][key]))), key
