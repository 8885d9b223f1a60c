"""What the page remembers in a real browser: the draw, reports in doubt, tabs, people who share a
device."""

import json
from dataclasses import replace

import pytest
from browsing import Visitor
from form_study import ABOUT
from recording import Recorder, receipt, refusal
from selenium.webdriver.support.ui import WebDriverWait

from pdml.device.page import render
from pdml.study import Study
from pdml.study.messages import decode_report
from pdml.study.schema.servers import Relay


def test_chance_decides_once_and_the_level_is_settled_with_it(visitor: Visitor) -> None:
    visitor.fills(ABOUT, label=1, epsilon=400_000)
    first = visitor.text("#check pre")
    visitor.press("#back")
    visitor.waits_for("about")
    settled = visitor.text("#drawn")
    assert "is not asked again" in settled and "ε = 0.4" in settled
    visitor.go_on()  # past the question, whose answer nothing remembers
    visitor.waits_for("check")
    assert visitor.text("#check pre") == first
    visitor.opens()  # reloading the page does not draw again either
    visitor.fills({**ABOUT, "a0": "35"}, label=0)
    before, after = (decode_report(text.encode()) for text in (first, visitor.text("#check pre")))
    assert (after.id, after.epsilon, after.label) == (before.id, before.epsilon, before.label)
    assert after.features != before.features  # the other answers can be corrected


@pytest.mark.parametrize("where", ["#check", "#about"])
def test_after_a_refusal_another_person_gets_draws_of_their_own(
    visitor: Visitor, recorder: Recorder, study: Study, where: str
) -> None:
    assert not visitor.find("#someone").is_displayed()  # nothing is drawn yet
    visitor.has_drawn(study, 1)
    visitor.opens()
    visitor.fills(ABOUT, label=1)
    assert not visitor.find("#refused").is_displayed()
    recorder.answer = lambda body: (500, b"oops")
    visitor.press("#send")
    visitor.complaint()
    assert not visitor.find("#refused").is_displayed()  # in doubt: these bytes must not be lost
    recorder.answer = refusal("bad_features")
    visitor.browser.execute_script("document.getElementById('check').requestSubmit()")
    WebDriverWait(visitor.browser, 20, 0.02).until(
        lambda _: visitor.find("#refused").is_displayed()
    )
    if where == "#about":
        visitor.opens()
    visitor.press(f"{where} details:has([data-forget]) summary")
    visitor.press(f"{where} [data-forget]")
    wait = WebDriverWait(visitor.browser, 20, 0.02)
    wait.until(lambda _: "ab" * 16 not in visitor.stored() and visitor.shown() == "about")
    assert not visitor.find("#someone").is_displayed()
    recorder.answer = receipt
    visitor.fills(ABOUT, label=0)
    visitor.sends()
    assert decode_report(recorder.bodies[-1]).id != "ab" * 16


def test_a_full_storage_is_still_read(visitor: Visitor, recorder: Recorder, study: Study) -> None:
    visitor.has_drawn(study, 0)
    full = (
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }"
    )
    script = visitor.browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": full}
    )
    try:
        visitor.opens()
        assert visitor.text("#notice") == ""  # chance will not decide again
        visitor.fills(ABOUT, label=1)
        visitor.sends()
        report = decode_report(recorder.bodies[0])
        assert (report.id, report.label) == ("ab" * 16, 0)
        visitor.opens(fresh=True)
        assert "does not let the page remember" in visitor.text("#notice")
    finally:
        visitor.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_another_person_on_the_same_device_gets_draws_of_their_own(
    visitor: Visitor, recorder: Recorder
) -> None:
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    visitor.browser.execute_script(
        "document.querySelectorAll('details').forEach(d => { d.open = true })"
    )
    visitor.press("#done [data-forget]")
    visitor.waits_for("about")
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    assert len({decode_report(body).id for body in recorder.bodies}) == 2


def test_two_tabs_send_one_report(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills(ABOUT, label=1)
    with visitor.another_tab() as second:
        second.fills(ABOUT, label=1)
        second.sends()
    visitor.press("#send")
    visitor.waits_for("done")
    assert len(recorder.bodies) == 1


def test_a_report_in_doubt_in_another_tab_is_shown_before_it_is_sent(
    visitor: Visitor, recorder: Recorder
) -> None:
    visitor.fills(ABOUT, label=1)
    with visitor.another_tab() as second:
        second.fills({**ABOUT, "a0": "50"}, label=0)
        recorder.answer = lambda body: (500, b"oops")
        second.press("#send")
        second.complaint()
    recorder.answer = receipt
    visitor.press("#send")
    assert "another tab" in visitor.complaint() and len(recorder.bodies) == 1  # not sent unseen
    assert visitor.text("#check pre").encode() == recorder.bodies[0]
    visitor.sends()
    assert len(set(recorder.bodies)) == 1


def test_a_report_in_doubt_in_another_tab_is_not_forgotten(visitor: Visitor, study: Study) -> None:
    visitor.has_drawn(study, 1)
    visitor.opens().fills(ABOUT, label=1)
    visitor.browser.execute_script(
        """show("about");
        const key = arguments[0], memo = JSON.parse(localStorage.getItem(key));  // as the other tab would
        localStorage.setItem(key, JSON.stringify({...memo, sent: document.querySelector("#check pre").textContent}));
        document.querySelector("#about [data-forget]").click()""",
        f"pdml {study.unkeyed_hash}",
    )
    visitor.waits_for("check")
    assert "same report" in visitor.complaint() and "ab" * 16 in visitor.stored()


def test_a_memory_that_was_cleared_begins_again(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills(ABOUT, label=1)
    visitor.browser.execute_script(
        "localStorage.clear(); document.getElementById('check').requestSubmit()"
    )
    visitor.waits_for("about")
    assert recorder.bodies == []


def test_a_browser_that_remembers_nothing_is_told_about(
    visitor: Visitor, recorder: Recorder
) -> None:
    forbid = (
        "Object.defineProperty(window, 'localStorage', {get() { throw new "
        "DOMException('no', 'SecurityError') }})"
    )
    script = visitor.browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": forbid}
    )
    try:
        visitor.opens()
        assert "does not let the page remember" in visitor.text("#notice")
        visitor.fills(ABOUT, label=1)
        recorder.answer = lambda body: None
        visitor.press("#send")
        visitor.complaint()
        recorder.answer = receipt
        visitor.sends()  # within the session the same bytes, and nothing else
        assert len(set(recorder.bodies)) == 1 and len(recorder.bodies) > 1
    finally:
        visitor.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_a_revision_does_not_draw_again(visitor: Visitor, recorder: Recorder, study: Study) -> None:
    visitor.fills(ABOUT, label=1)
    before = decode_report(visitor.text("#check pre").encode())
    relay = Relay(address="relay.example:4222", fingerprint="ab" * 32)
    later = replace(study, relay=relay, replaces=study.hash)
    recorder.page, recorder.canonical = render(later), later.canonical()
    visitor.opens()
    visitor.fills(ABOUT, label=0)
    after = decode_report(visitor.text("#check pre").encode())
    assert after.study == later.hash != before.study
    assert (after.id, after.label, after.epsilon) == (before.id, before.label, before.epsilon)


def test_a_memory_that_cannot_be_read_is_no_reason_to_draw_again(
    visitor: Visitor, study: Study
) -> None:
    for text in ("{", "null", '{"id": "ab"}'):
        visitor.browser.execute_script(
            "localStorage.setItem(arguments[0], arguments[1])", f"pdml {study.unkeyed_hash}", text
        )
        visitor.browser.refresh()
        wait = WebDriverWait(visitor.browser, 20, 0.02)
        wait.until(lambda _: "cannot be read" in visitor.text("#notice"))
        assert visitor.shown() == "" and text in json.loads(visitor.stored())[0]
