"""The page in people's languages: the browser's, or the one that they choose; and whatever is sent
or stored is the same in all of them.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import pytest
from browsing import Visitor
from form_study import ABOUT, AGREED, ARABIC, FORM, GERMAN, TOLD_TRANSLATED, TRANSLATED
from recording import Recorder
from selenium.webdriver import Chrome

from pdml.device.languages import catalogues
from pdml.device.page import render
from pdml.study import study_summary
from pdml.study.messages import decode_report
from pdml.study.translations import LANGUAGES

MICROS = (10_000, 400_000, 1_000_000, 2_944_439, 8_000_000, 20_000_000)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder(render(TRANSLATED), TRANSLATED.canonical()) as running:
        yield running


@contextmanager
def reading(browser: Chrome, *languages: str) -> Iterator[None]:
    """A browser of people who read these, the first best."""
    agent = {"userAgent": browser.execute_script("return navigator.userAgent")}
    override = "Emulation.setUserAgentOverride"
    browser.execute_cdp_cmd(override, {**agent, "acceptLanguage": ",".join(languages)})
    try:
        yield
    finally:
        browser.execute_cdp_cmd(override, {**agent, "acceptLanguage": "en-US,en"})


def spoken(visitor: Visitor) -> str:
    return str(visitor.browser.execute_script("return document.documentElement.lang"))


def test_the_page_speaks_what_studies_may_be_written_in() -> None:
    assert set(catalogues()) == set(LANGUAGES)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (["de-CH", "en"], "de"),
        (["nl", "ar"], "ar"),  # which the study has, too
        (["nl"], "nl"),
        (["pl", "xx"], "en"),  # the study's own
        (["AR-ma", "de"], "ar"),
    ],
)
def test_the_language_follows_the_browser(visitor: Visitor, read: list[str], expected: str) -> None:
    with reading(visitor.browser, *read):
        visitor.opens()
        assert spoken(visitor) == expected
        assert visitor.browser.execute_script("return at('language').value") == expected
        assert visitor.text("#about h2") == catalogues()[expected]["about.title"]
        titles = {"de": GERMAN.title, "ar": ARABIC.title}
        assert visitor.text("h1") == visitor.browser.title == titles.get(expected, TRANSLATED.title)
        side = "rtl" if expected == "ar" else "ltr"
        assert visitor.browser.execute_script("return document.documentElement.dir") == side


def test_a_study_that_says_nothing_of_its_language_follows_the_page(browser: Chrome) -> None:
    with Recorder(render(FORM), FORM.canonical()) as recorder, reading(browser, "pl", "it"):
        visitor = Visitor(browser, recorder.url).opens(fresh=True)
        assert spoken(visitor) == "it" and visitor.find("h1").get_attribute("lang") == ""


def test_what_is_chosen_keeps_the_answers_and_is_not_stored(
    visitor: Visitor, recorder: Recorder
) -> None:
    visitor.answers(ABOUT)
    visitor.speaks("de")
    assert visitor.text("label[for=a0]") == "Wie alt sind Sie?"
    assert "In Jahren. Von 18 bis 100." in visitor.text("#a0-hint")
    assert visitor.find("label[for=a0]").get_attribute("lang") == "de"
    visitor.go_on()
    visitor.speaks("fr")  # which the study has not
    assert visitor.find("#privacy h2").text.startswith("Quelle")
    visitor.go_on()
    assert visitor.find("#label legend").text == TRANSLATED.question
    assert visitor.find("#label legend").get_attribute("lang") == "en"
    visitor.speaks("ar")
    assert visitor.find("#label legend").text == ARABIC.question
    visitor.answers({"answer": "1"})
    visitor.go_on()
    visitor.waits_for("check")
    assert "جنوب" in visitor.text("#check dl")  # the answer before the language was chosen
    visitor.sends()
    visitor.opens("#l=de")
    assert visitor.text("#done h2") == catalogues()["de"]["done.title"]
    assert '"l"' not in visitor.stored() and '"de"' not in visitor.stored()
    for head in recorder.heads:  # no server hears of the choice
        assert "l=" not in head.split("\r\n")[0]


def test_a_choice_survives_the_reload_and_the_invitation_does_not_stay(visitor: Visitor) -> None:
    token = "0123456789abcdef" * 2
    visitor.opens(f"#t={token}&l=it")
    assert spoken(visitor) == "it" and visitor.browser.current_url.endswith("/#l=it")
    visitor.speaks("nl")
    visitor.browser.refresh()
    visitor.waits_for("about")
    assert spoken(visitor) == "nl" and token in visitor.held_by_tab()
    visitor.opens("#l=__proto__")
    assert spoken(visitor) == "en"


def test_the_report_is_the_same_in_every_language(visitor: Visitor, recorder: Recorder) -> None:
    """The same chance and answers: the same report, but for its number and nonce."""
    drawn = "array.fill(array instanceof BigUint64Array ? 0n : 7)"
    for code in catalogues():
        visitor.opens(f"#l={code}", fresh=True)
        visitor.browser.execute_script(f"crypto.getRandomValues = (array) => {drawn}")
        visitor.fills(ABOUT, label=1, epsilon=1_000_000)
        visitor.sends()
        assert spoken(visitor) == code
    sent = [json.loads(body) for body in recorder.bodies]
    for name in ("id", "nonce"):  # drawn anew each time
        assert len({report.pop(name) for report in sent}) == len(catalogues())
    assert all(report == sent[0] for report in sent)


def test_people_agree_in_their_language_to_the_same_version(browser: Chrome) -> None:
    """The report carries the study's own text, of which every translation is a part."""
    with Recorder(render(TOLD_TRANSLATED), TOLD_TRANSLATED.canonical()) as recorder:
        for code, (notice, text) in AGREED.items():
            visitor = Visitor(browser, recorder.url).opens(f"#l={code}", fresh=True)
            assert visitor.text("#consent-text") == text
            assert visitor.find("#consent-text").get_attribute("lang") == code
            assert all(said in visitor.text("#notice-facts") for said in notice.values())
            assert catalogues()[code]["notice.purpose"] in visitor.text("#notice-facts")
            visitor.press("label:has(#consent)")
            visitor.go_on()
            visitor.fills(ABOUT, label=1)
            visitor.sends()
        consent = TOLD_TRANSLATED.consent
        assert consent is not None and len(recorder.bodies) == len(AGREED)
        assert {decode_report(body).consent for body in recorder.bodies} == {consent.digest}


def figures(sentence: str) -> list[Fraction]:
    """The numbers in a sentence of any of the languages, in its order."""
    digits = "".join(
        str(unicodedata.digit(letter)) if letter.isdigit() else letter for letter in sentence
    )
    found = re.findall(r"\d+(?:[.,٫]\d+)?", digits)
    return [Fraction(one.replace(",", ".").replace("٫", ".")) for one in found]


@pytest.mark.parametrize("code", LANGUAGES)
def test_what_chance_means_has_the_figures_of_the_proof(visitor: Visitor, code: str) -> None:
    """Those of Bayes' rule, which `test_words` proves for English, in every language and at every
    ε: no sentence says another one, and each says "under" and "over" where English does."""
    asked = [
        (micro, [f"k{chr(97 + i)}" for i in range(size)])
        for micro in MICROS
        for size in (2, 3, 7, 30)
    ]
    run = visitor.browser.execute_script
    run("setLanguage(arguments[0])", code)
    said = run("return arguments[0].map((one) => chanceInWords(...one))", asked)
    under, over = (
        str(catalogues()[code][f"share.{side}"]).split("{")[0].strip() for side in ("under", "over")
    )
    for (micro, classes), sentence in zip(asked, said, strict=True):
        english = study_summary.meaning(micro, classes).replace(study_summary.WEAK, "")
        plain = re.sub("[\u2066-\u2069\u200e\u200f\u061c]", "", sentence)
        assert figures(plain) == figures(english), (code, micro, len(classes))  # in this order
        assert plain.find("kb") < plain.find("ka") or len(classes) > 2  # "yes" before "no"
        for mine, theirs in ((under, "under"), (over, "over")):
            assert plain.count(f"{mine} ") == english.count(f"{theirs} "), plain


def test_numbers_and_dates_are_those_of_the_language(visitor: Visitor) -> None:
    run = visitor.browser.execute_script
    shown = {}
    for code in ("en", "de", "fr"):
        run("setLanguage(arguments[0])", code)
        shown[code] = run("return [number(1234.5), hourInWords('2026-03-01T08Z'), number(1e-7)]")
    assert [one[0] for one in shown.values()] == ["1234.5", "1234,5", "1234,5"]
    assert shown["de"][1].startswith("1. März 2026") and shown["en"][1].startswith("March 1, 2026")
    assert shown["fr"][1].startswith("1 mars 2026") and "UTC" in shown["fr"][1]
    assert shown["en"][2] == "0.0000001"
    assert run("return hourInWords('whenever')") == "whenever"


def test_levels_that_hardly_protect_say_so_in_every_language(browser: Chrome) -> None:
    weak = replace(TRANSLATED, menu=(1.0, 5.0), accept_weak=True)
    with Recorder(render(weak), weak.canonical()) as recorder:
        visitor = Visitor(browser, recorder.url).opens(fresh=True)
        for code, catalogue in catalogues().items():
            visitor.speaks(code)
            strong = browser.find_elements("css selector", "#menu strong")
            assert [one.get_property("textContent") for one in strong] == [catalogue["chance.weak"]]
