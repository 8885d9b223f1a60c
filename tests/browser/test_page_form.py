"""The form in a real browser: what it accepts, what it says, and that everybody can use it."""

import pytest
from browsing import Visitor
from form_study import ABOUT
from recording import Recorder

from pdml.device.languages import catalogues
from pdml.study import Study
from pdml.study.messages import decode_report, features_of


def test_an_attribute_may_have_any_name(visitor: Visitor) -> None:
    shown = visitor.browser.execute_async_script(
        """const levels = ["a", "b"], range = [0, 8], done = arguments[0];
        const attributes = [{name: "__proto__", kind: "category", levels}, {name: "constructor", kind: "number", range}];
        const given = JSON.parse('{"__proto__": "b", "constructor": 2}');
        Promise.all([1, 2].map(async (version) => {
          const coder = await coderOf({ attributes, encoder: { version } });
          const answers = decode(coder, encode(coder, given));
          return [answers["__proto__"], answers.constructor];
        })).then(done)"""
    )
    assert shown == [["b", 2], ["b", 2]]


def test_a_number_outside_its_range_is_refused_with_the_range(visitor: Visitor) -> None:
    for entered in ("", "17", "100.1", "abc", "1e2", "3 4", "٣٤،٥", "0x20", "18..5", "NaN"):
        visitor.browser.execute_script("a0.value = arguments[0]; about.requestSubmit()", entered)
        assert visitor.shown() == "about", entered
        assert "from 18 to 100" in visitor.text("#a0-hint")
        assert visitor.find("#a0").get_attribute("aria-invalid") == "true"
        assert visitor.browser.switch_to.active_element == visitor.find("#a0")
    for entered in ("18", "100", "34,5", "+20", "99.", "١٨", "٣٤٫٥"):
        visitor.browser.execute_script("a0.value = arguments[0]; about.requestSubmit()", entered)
        assert visitor.find("#a0").get_attribute("aria-invalid") is None, entered


def test_a_decimal_comma_is_understood(visitor: Visitor, study: Study) -> None:
    visitor.fills({**ABOUT, "a0": "34,5"}, label=1)
    report = decode_report(visitor.text("#check pre").encode())
    assert study.decode(features_of(report))["age"] == 34.5


def test_questions_must_be_answered(visitor: Visitor) -> None:
    visitor.go_on()
    assert visitor.shown() == "about"
    assert [visitor.text(f"#a{i}-hint") != "" for i in range(3)] == [True] * 3
    visitor.answers(ABOUT)
    visitor.go_on()
    visitor.go_on()
    visitor.go_on()  # without an answer to the question
    assert visitor.shown() == "question" and visitor.text("#answer-hint") == "Please choose one."


@pytest.mark.parametrize("code", ["en", "ar"])
def test_the_keyboard_alone_is_enough(
    visitor: Visitor, recorder: Recorder, study: Study, code: str
) -> None:
    visitor.tabs_to("language")
    visitor.types(catalogues()[code]["language.name"])
    assert visitor.browser.execute_script("return document.documentElement.lang") == code
    visitor.answers_by_keyboard()
    report = decode_report(recorder.bodies[0])
    assert report.epsilon == 400_000
    facts = {"age": 34, "sex": "female", "region": "south"}
    assert study.decode(features_of(report)) == facts


def test_every_control_has_a_name_and_every_group_a_legend(visitor: Visitor) -> None:
    wrong: list[str] = visitor.browser.execute_script(
        """
        const wrong = [];
        for (const e of document.querySelectorAll("input, select, button, summary, pre, svg")) {
          const named = e.labels?.length || e.textContent.trim() || e.getAttribute("aria-label") || e.closest("[aria-hidden]");
          if (!named) wrong.push(e.outerHTML);
        }
        for (const e of document.querySelectorAll("fieldset")) if (!e.querySelector("legend")?.textContent.trim()) wrong.push(e.outerHTML);
        for (const e of document.querySelectorAll("[aria-describedby]"))
          if (!document.getElementById(e.getAttribute("aria-describedby"))) wrong.push(e.outerHTML);
        const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
        if (new Set(ids).size < ids.length) wrong.push("an id twice");
        if (document.querySelectorAll("h1").length !== 1 || !document.documentElement.lang) wrong.push("no title or no language");
        return wrong"""
    )
    assert wrong == []
    for selector, role in (
        ("#problem", "alert"),
        ("#again-problem", "alert"),
        ("#notice", "status"),
    ):
        assert visitor.find(selector).get_attribute("role") == role
