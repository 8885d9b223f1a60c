"""The page of predictions in a real browser: a person fills it in, reads what the model says, and
nothing leaves the page.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from browsing import Visitor
from example_study import STUDY
from form_study import REGION
from recording import Recorder
from selenium.webdriver import Chrome
from test_page_access import AXE, Setting

from pdml.device.page import ContributorPage
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.model.export.javascript import device_pipeline
from pdml.model.model import Model
from pdml.pages.prediction_page import prediction_page
from pdml.study import Wording
from pdml.tables import Table

MENU = Menu(menu=(0.5, 1.0, 2.0), default=1.0)
AGE = Number(name="age", low=18, high=100, whole=True, missing="average")
STATUS = Category(name="status", levels=("single", "married"), missing="level", epsilon=MENU)
INCOME = Number(name="income", low=0, high=200, bins=(20, 50, 100), epsilon=MENU)
MAPS = ({"map": "bins", "columns": ["age"], "count": 3},)
ENCODER = Encoder(attributes=(AGE, STATUS, REGION, INCOME), maps=MAPS)  # type: ignore[arg-type]
ASKED = replace(
    STUDY, encoder=ENCODER, wording={"age": Wording(label="How old are you?", help="In years.")}
)
NAMES = [each.name for each in ENCODER.attributes]


def model_of(classes: tuple[str, ...], encoder: Encoder = ENCODER) -> Model:
    rng, many = np.random.default_rng(4), 1 if len(classes) == 2 else len(classes)
    return Model(
        classes=classes,
        coefficients=3 * rng.normal(size=(many, encoder.n_features)),
        intercepts=rng.normal(size=many),
        norm_bound=1.0,
        fit_intercept=True,
        feature_names=encoder.feature_names,
        encoder=encoder.to_dict(),
        provenance={"study_hash": ASKED.hash},
    )


MODEL = model_of(ASKED.classes)


def chances(model: Model, *answers: Any) -> Any:
    """What Python says of one person."""
    cells = {
        name: np.array([answer], dtype=object if isinstance(answer, str) else float)
        for name, answer in zip(NAMES, answers, strict=True)
    }
    return model.predict_proba(model.features(Table(columns=cells, source="a person")))[0]


@pytest.fixture
def served() -> Iterator[Recorder]:
    page = ContributorPage(prediction_page(MODEL, ASKED), {"content-type": "text/html"})
    with Recorder(page, b"") as running:
        yield running


@pytest.fixture
def person(browser: Chrome, served: Recorder) -> Iterator[Visitor]:
    """Whoever opens the page; a violation of its policy or an error of its script is a failure."""
    browser.get_log("browser")
    yield Visitor(browser, served.url).opens()
    assert not [entry["message"] for entry in browser.get_log("browser")]


def output(person: Visitor) -> list[float]:
    """The probabilities on the screen, with all their digits."""
    return [float(each) for each in person.browser.execute_script(
        "return [...document.querySelectorAll('.chances data')].map((each) => each.value)"
    )]  # fmt: skip


def test_a_person_reads_what_python_says_and_nothing_is_sent(person, served):
    person.answers({"q0": "34", "q1": "1", "q2": "3", "q3": "49,5"})
    person.press(".primary")
    expected = chances(MODEL, 34, "married", "west", 49.5)
    np.testing.assert_allclose(output(person), expected, rtol=0, atol=1e-12)
    assert person.text("#chosen") == ASKED.classes[int(expected.argmax())]
    shown = f"{100 * expected.max():.1f}%"
    assert person.text(".chances .most data") == shown
    assert person.focus() == "outcome"  # a screen reader says it
    person.answers({"q3": "50"})  # another answer: what was shown is no longer true
    assert not person.find("#result").is_displayed()
    person.press(".primary")
    expected = chances(MODEL, 34, "married", "west", 50.0)
    np.testing.assert_allclose(output(person), expected, rtol=0, atol=1e-12)
    assert [head.splitlines()[0] for head in served.heads] == ["GET / HTTP/1.1"]
    left = "return [localStorage.length, sessionStorage.length, document.cookie, location.search]"
    assert person.browser.execute_script(left) == [0, 0, "", ""]


def test_who_prefers_not_to_say_gets_a_prediction_too(person):
    person.press("label:has(#q0-skip)")
    assert not person.find("#q0").is_enabled()
    person.answers({"q1": "-1", "q2": "0", "q3": "0"})
    person.press(".primary")
    expected = chances(MODEL, np.nan, "", "north", 0.0)
    np.testing.assert_allclose(output(person), expected, rtol=0, atol=1e-12)
    person.press("[type=reset]")
    assert not person.find("#result").is_displayed() and person.find("#q0").is_enabled()
    assert person.find("#q3").get_property("value") == person.text("#chosen") == ""


def test_a_bad_answer_is_told_in_one_sentence(person):
    person.answers({"q0": "34.5", "q3": "1e2"})
    person.press(".primary")
    said = {name: person.text(f"#{name}-mistake") for name in ("q0", "q1", "q2", "q3")}
    assert said == {
        "q0": "Please enter a whole number from 18 to 100, without a fraction.",
        "q1": "Please choose one.",
        "q2": "Please choose one.",
        "q3": "Please enter a number from 0 to 200, in digits.",
    }
    assert person.focus() == "q0" and not person.find("#result").is_displayed()
    person.answers({"q0": "17", "q1": "0", "q2": "0", "q3": ""})
    person.press(".primary")
    outside = "Please enter a whole number from 18 to 100: the model was made for no other."
    assert person.text("#q0-mistake") == outside and person.text("#q1-mistake") == ""
    assert person.text("#q3-mistake") == "Please enter a number from 0 to 200."


def test_the_page_could_not_send_if_it_wanted_to(browser, served):
    visitor = Visitor(browser, served.url).opens()
    tried = browser.execute_async_script(
        """
        const done = arguments[0], tries = [fetch("/leak").then(() => "sent", () => "refused")];
        const image = new Image();
        tries.push(new Promise((told) => (image.onload = image.onerror = () => told("tried"))));
        image.src = "/leak.png";
        navigator.sendBeacon("/leak", "x");
        const form = document.createElement("form");
        form.action = "/leak";
        document.body.append(form);
        form.submit();
        Promise.all(tries).then((all) => setTimeout(() => done(all), 200))"""
    )
    assert tried == ["refused", "tried"]
    assert [head.splitlines()[0] for head in served.heads] == ["GET / HTTP/1.1"]
    assert visitor.browser.current_url == served.url + "/"
    browser.get_log("browser")


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_the_browser_s_arithmetic_is_python_s(person, classes):
    """Many people at once, where no other engine of JavaScript is installed."""
    rng, ours = np.random.default_rng(1), model_of(classes)
    people = [
        [age, status, region, income]
        for age in (None, 18, 55, 100)
        for status in ("single", "married", None)
        for region in REGION.levels[:3]
        for income in (0.0, 20.0, float(rng.uniform(0, 200)))
    ]
    found = person.browser.execute_script(
        "return JSON.parse(arguments[1]).map((each) => predicted(JSON.parse(arguments[0]), each))",
        json.dumps(device_pipeline(ours).to_dict()),
        json.dumps(people),
    )
    for one, (age, status, region, income) in zip(found, people, strict=True):
        expected = chances(ours, np.nan if age is None else age, status or "", region, income)
        np.testing.assert_allclose(one["chances"], expected, rtol=0, atol=1e-12)
        assert one["chosen"] == int(expected.argmax())


@pytest.mark.parametrize(
    "setting",
    [Setting(rules=[]), Setting(scheme="dark", rules=["color-contrast"]), Setting(width=320)],
    ids=["day", "night", "narrow"],
)
def test_everybody_can_use_it(person, setting):
    browser = person.browser
    browser.execute_script(AXE)
    setting.apply(browser)
    try:
        for answers in ({"q0": "x"}, {"q0": "34", "q1": "0", "q2": "0", "q3": "3"}):
            person.answers(answers)
            person.press(".primary")
            script = "const [rules, done] = arguments; window.violations(rules).then(done)"
            found = (
                browser.execute_script("return window.wide()")
                if setting.rules is None
                else browser.execute_async_script(script, setting.rules)
            )
            assert found == []
    finally:
        Setting().apply(browser)


@pytest.mark.parametrize(
    ("code", "mark", "said"),
    [
        ("de", ",", "Bitte geben Sie eine ganze Zahl von 18 bis 100 ohne Nachkommastellen ein."),
        ("ar", "[.٫]", "يُرجى إدخال عدد صحيح من"),
    ],
)
def test_it_speaks_other_languages_with_their_numbers(browser, code, mark, said):
    """Also in mistakes and percentages; axe-core finds nothing in Arabic either."""
    page = ContributorPage(prediction_page(MODEL, language=code), {"content-type": "text/html"})
    with Recorder(page, b"") as running:
        person = Visitor(browser, running.url).opens()
        person.answers({"q0": "34,5", "q1": "0", "q2": "0", "q3": "49٫5"})
        person.press(".primary")
        assert said in person.text("#q0-mistake") and person.text("#q3-mistake") == ""
        person.answers({"q0": "34"})
        person.press(".primary")
        expected = chances(MODEL, 34, "single", "north", 49.5)
        np.testing.assert_allclose(output(person), expected, rtol=0, atol=1e-12)
        shown = person.text(".chances .most data")
        written = browser.execute_script(
            "return new Intl.NumberFormat(locale, arguments[0]).format(arguments[1])",
            {"style": "percent", "minimumFractionDigits": 1, "maximumFractionDigits": 1},
            float(expected.max()),
        )
        assert shown == written and re.search(rf"\d{mark}\d", shown)
        browser.execute_script(AXE)
        script = "const [rules, done] = arguments; window.violations(rules).then(done)"
        assert browser.execute_async_script(script, []) == []
        assert not [entry["message"] for entry in browser.get_log("browser")]
