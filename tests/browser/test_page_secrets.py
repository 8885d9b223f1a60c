"""Studies with more secrets than the label, in a real browser: what is asked and how, what is said
of it, what is stored and what is sent.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from browsing import Visitor
from form_study import ALL_SECRET, FORM, INCOME, SECRETS, SECRETS_TRANSLATED, STATUS
from recording import Recorder
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from test_page_stored import WATCH

from pdml.collector.intake.report_rules import Refusal, Rules
from pdml.device.client import preview
from pdml.device.page import ContributorPage, render
from pdml.encoding import device_encoding
from pdml.study import Study, study_summary
from pdml.study.messages import decode_report, features_of, report_id

AGE = {"a1": "34"}
TRUTH = {"a0": "1", "a2": "2"}  # married, 50.5 to below 100
KEEPS = "crypto.getRandomValues = (array) => array.fill(array instanceof BigUint64Array ? "
KEEPS += "WORD - 1n : 7);"  # chance lets every answer stand


@pytest.fixture(scope="session")
def study() -> Study:
    return SECRETS_TRANSLATED


@pytest.fixture(scope="session")
def page(study: Study) -> ContributorPage:
    return render(study)


@pytest.fixture
def person(visitor: Visitor) -> Iterator[Visitor]:
    """Who has agreed, and is asked about herself."""
    agrees(visitor)
    yield visitor


def agrees(visitor: Visitor) -> None:
    visitor.press("label:has(#consent)")
    visitor.go_on()
    visitor.waits_for("about")


def to_the_questions(visitor: Visitor, epsilons: Mapping[str, str] | None = None) -> None:
    visitor.answers(AGE)
    visitor.go_on()
    visitor.waits_for("privacy")
    visitor.answers(epsilons or {})
    visitor.go_on()
    visitor.waits_for("question")


def rows(visitor: Visitor) -> list[list[str]]:
    found: list[list[str]] = visitor.browser.execute_script(
        "return [...document.querySelectorAll('#check [data-report] > div')]"
        ".map((e) => [...e.children].map((part) => part.textContent))"
    )
    return found


def holds_choices(visitor: Visitor) -> list[int]:
    """How many secret answers the page shows as chosen, and how many fields could keep one."""
    found: list[int] = visitor.browser.execute_script(
        "return ['[aria-pressed=true]', '#question :is(input, select, textarea)']"
        ".map((css) => document.querySelectorAll(css).length)"
    )
    return found


def memo_of(visitor: Visitor, study: Study) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dict(json.loads(visitor.stored()))[f"pdml {study.hash}"])
    return found


def test_what_is_asked_shown_stored_and_sent(
    person: Visitor, recorder: Recorder, study: Study
) -> None:
    person.browser.execute_script(KEEPS + WATCH)
    to_the_questions(person, {"epsilon-a0": "500000", "epsilon": "2000000"})
    person.answers({**TRUTH, "answer": "1"})
    assert holds_choices(person) == [3, 0]
    person.go_on()
    person.waits_for("check")
    sent = person.text("#check pre")
    report = decode_report(sent.encode())
    drawn = device_encoding.read_draws(study.encoder, features_of(report))
    assert drawn == ((1, 500_000), (2, 2_000_000)) and report.epsilon == 2_000_000
    assert not isinstance(
        Rules.of(study, require_tokens=False).read([sent.encode()], 0.0)[0], Refusal
    )
    output = preview(study, sent.encode())
    assert output.answers == {"status": "married", "age": 34, "income": "50.5 to below 100"}
    chance = "randomised, ε = {:g}; a true answer is kept with {}".format
    assert rows(person)[:4] == [
        ["Are you married?", "married", chance(0.5, "45.2%")],
        ["How old are you?", "34"],
        ["What do you earn?", "50.5 to below 100", chance(2, "64.9%")],
        ["Have you been diagnosed?", "yes", chance(2, "88.1%")],
    ]
    assert "Each answer with an ε below it is randomised." in person.text("#chance")
    person.sends()
    assert recorder.bodies == [sent.encode()]
    memo = memo_of(person, study)
    assert report_id(memo.pop("code")) == report.id
    assert json.loads(memo.pop("sent")) == json.loads(sent) and memo.pop("receipt")
    levels = {"label": report.label, "answers": [list(one) for one in drawn]}
    assert memo == {"id": report.id, "nonce": report.nonce, "epsilon": report.epsilon, **levels}
    for _, value in person.browser.execute_script("return window.puts"):  # whatever was stored ever
        put = json.loads(value)
        assert memo.items() <= put.items()
        assert set(put) - set(memo) <= {"code", "token", "sent", "receipt"}
    person.opens()  # contributed already
    assert person.shown() == "done" and "with an ε below it" in person.text("#done-text")


def test_chance_decides_once_about_all_and_only_the_rest_can_be_corrected(
    person: Visitor, study: Study
) -> None:
    person.fills(AGE, label=1, secrets=TRUTH)
    before = device_encoding.read_draws(
        study.encoder, features_of(decode_report(person.text("#check pre").encode()))
    )
    settled = memo_of(person, study)["answers"]
    assert tuple(map(tuple, settled)) == before
    person.opens()
    agrees(person)
    output = person.text("#drawn")
    for attribute, (level, micro) in zip((STATUS, INCOME), before, strict=True):
        assert f"“{attribute.choices[level]}”, at ε = {micro / 1e6:g}." in output
    person.answers({"a1": "35"})
    person.go_on()
    person.waits_for("check")  # nothing secret is asked again
    features = features_of(decode_report(person.text("#check pre").encode()))
    assert device_encoding.read_draws(study.encoder, features) == before
    assert study.decode(features)["age"] == 35


def test_what_is_chosen_is_gone_when_the_questions_are(person: Visitor, recorder: Recorder) -> None:
    """By going back, by leaving the page and coming back to it, and by loading it again; before
    chance has decided nothing is stored at all."""

    def chooses() -> None:
        person.browser.execute_script("show('question')")
        person.answers(TRUTH)
        assert holds_choices(person) == [2, 0]

    chooses()
    person.press("#question [data-back]")
    person.waits_for("privacy")
    assert holds_choices(person) == [0, 0]
    chooses()
    person.browser.get(recorder.url + "/v1/study")
    person.browser.back()
    WebDriverWait(person.browser, 20, 0.02).until(lambda _: person.shown())
    assert holds_choices(person) == [0, 0] and person.stored() == "[]"
    chooses()
    person.browser.refresh()
    person.waits_for("agree")
    assert holds_choices(person) == [0, 0] and person.stored() == "[]"


def test_every_secret_question_must_be_answered(person: Visitor, study: Study) -> None:
    to_the_questions(person)
    person.answers({"a0": "0"})
    person.go_on()
    hints = [person.text(f"#{one}-hint") for one in ("a0", "a2", "answer")]
    assert (
        hints == ["", "Please choose one.", "Please choose one."] and person.shown() == "question"
    )
    assert person.stored() == "[]"  # and nothing was drawn
    person.answers({"a2": "4"})  # prefers not to say, which is an answer like any other
    assert person.text("#a2-hint") == "In thousands a year."


def test_the_keyboard_alone_is_enough(person: Visitor, recorder: Recorder, study: Study) -> None:
    person.tabs_to("a1")
    person.types("34", Keys.ENTER)
    person.waits_for("privacy")
    for name in ("epsilon-a0", "epsilon-a2", "epsilon"):
        person.tabs_to(name)
        person.types(Keys.ARROW_UP)
    assert "ε = 1.3. " in person.text("#together")  # 0.5 + 0.4 + 0.4
    assert "can become 78.6% sure" in person.text("#together")
    person.types(Keys.ENTER)
    person.waits_for("question")
    for name in ("single", "Prefer not to say", "yes"):
        person.tabs_to(name)
        person.types(Keys.SPACE)
    person.finishes_by_keyboard()
    report = decode_report(recorder.bodies[0])
    chosen = device_encoding.read_draws(study.encoder, features_of(report))
    assert [micro for _, micro in chosen] == [500_000, 400_000] and report.epsilon == 400_000


def test_menus_say_what_python_says_and_suggest_what_the_study_does(person: Visitor) -> None:
    menus = person.browser.execute_script(
        "return [...document.querySelectorAll('#menu fieldset')].map((box) => ["
        "box.querySelector('legend').textContent, Number(box.querySelector(':checked').value),"
        "[...box.querySelectorAll('em')].map((said) => said.textContent)])"
    )
    for (legend, suggested, said), one in zip(menus, (STATUS, INCOME), strict=False):
        assert one.epsilon is not None
        assert legend == SECRETS.wording[one.name].label
        assert suggested == one.epsilon.default * 1e6
        assert said == [
            study_summary.meaning(micro, one.choices) for micro in one.epsilon.millionths
        ]
    assert menus[2][0] == SECRETS.question and "ε = 4." in person.text("#together")
    shown = person.browser.execute_script(
        "return [...document.querySelectorAll('#a2 button')].map((one) => one.textContent)"
    )
    assert [one.lower() for one in shown] == list(INCOME.choices)


@pytest.mark.parametrize(
    ("shown", "key"),
    [(FORM, "about.intro"), (SECRETS, "about.intro.several"), (ALL_SECRET, "about.intro.every")],
    ids=["label", "some", "all"],
)
def test_what_goes_as_it_is_is_said_truly(shown: Study, key: str) -> None:
    """In whatever language: the page holds the key of the sentence."""
    html = render(shown).html.decode().split("<script>")[0]
    assert re.findall(r'data-words="(about\.intro[^"]*)"', html) == [key]


def test_a_study_of_secrets_alone_sends_no_answer_in_the_clear(browser: Chrome) -> None:
    with Recorder(render(ALL_SECRET), ALL_SECRET.canonical()) as recorder:
        visitor = Visitor(browser, recorder.url).opens(fresh=True)
        agrees(visitor)
        assert not browser.find_elements("css selector", "#about .field")
        visitor.fills({}, label=1, secrets={"a0": "1", "a1": "0"})
        visitor.press("#back")
        visitor.waits_for("about")
        visitor.go_on()
        visitor.waits_for("check")
        visitor.sends()
        report = recorder.bodies[0]
        rules = Rules.of(ALL_SECRET, require_tokens=False)
        assert not isinstance(rules.read([report], 0.0)[0], Refusal)
        features = features_of(decode_report(report))
        drawn = device_encoding.read_draws(ALL_SECRET.encoder, features)
        assert features.tobytes() == ALL_SECRET.encode({}, drawn).tobytes()


def test_the_answers_are_told_in_the_language_of_the_person(person: Visitor) -> None:
    person.browser.execute_script(KEEPS)
    person.speaks("de")
    person.fills(AGE, label=1, secrets=TRUTH)
    shown = [row[:2] for row in rows(person)[:4]]
    assert shown[0] == ["Sind Sie verheiratet?", "verheiratet"]
    assert shown[2] == ["Was verdienen Sie?", "50,5 bis unter 100"]
    marked = person.browser.execute_script(
        "return [...document.querySelectorAll('#check .drawn dd span')].map((one) => one.lang)"
    )
    assert marked == ["de", "", "de"]  # bins are the page's own words
