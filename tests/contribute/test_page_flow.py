"""The page in a real browser, from the first question to the receipt, and everything that crosses the wire meanwhile."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import Visitor
from example_study import ABOUT
from recording import Answer, Recorder, receipt, refusal
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from pdml.messages import decode_report, encode_report, features_of
from pdml.study import Study

TOKEN = "0123456789abcdef" * 2


def stored(visitor: Visitor) -> str:
    return str(visitor.browser.execute_script("return JSON.stringify(Object.entries(localStorage))"))


def test_a_report_is_filled_in_previewed_sent_and_receipted(visitor: Visitor, recorder: Recorder, study: Study) -> None:
    visitor.fills_by_hand(ABOUT, label=1, epsilon=2_000_000)
    assert recorder.bodies == []  # chance has decided, and nothing has left yet
    promised = visitor.text("#check pre")
    assert "34" in visitor.text("#check dl") and "female" in visitor.text("#check dl") and "south" in visitor.text("#check dl")
    visitor.sends()
    assert recorder.bodies == [promised.encode()]  # the preview was exactly what was sent
    report = decode_report(recorder.bodies[0])
    assert encode_report(report) == recorder.bodies[0]  # canonical: as Python would write it
    assert (report.study, report.epsilon, report.token) == (study.hash, 2_000_000, "")
    assert features_of(report).tobytes() == study.encode({"age": 34, "sex": "female", "region": "south"}).tobytes()
    assert json.loads(receipt(recorder.bodies[0])[1])["digest"] in visitor.text("#receipt")


@pytest.mark.parametrize("label", [0, 1])
def test_the_true_answer_is_nowhere_but_on_the_screen(visitor: Visitor, recorder: Recorder, study: Study, label: int) -> None:
    """With the draws fixed to be the opposite, whatever carried the truth would differ from what is reported."""
    memo = {"id": "ab" * 16, "epsilon": 1_000_000, "reported": [1, 0]}
    visitor.browser.execute_script("localStorage.setItem(arguments[0], arguments[1])", f"pdml {study.hash}", json.dumps(memo))
    visitor.opens()
    visitor.fills(ABOUT, label)
    visitor.sends()
    (body,) = recorder.bodies
    truthful = encode_report(decode_report(body).__class__(**{**json.loads(body), "label": label}))
    assert json.loads(body)["label"] == 1 - label
    assert truthful not in (body, *(head.encode() for head in recorder.heads))
    for head in recorder.heads:  # no query, no cookie, no referrer
        assert "?" not in head.splitlines()[0] and "cookie" not in head.lower() and "referer" not in head.lower()
    assert "reported" not in stored(visitor)  # the draws are forgotten once they are of no use
    assert visitor.find("#question").get_property("elements") and not visitor.browser.execute_script(
        "return document.querySelector('[name=answer]:checked')"
    )


def test_reports_have_one_size_whatever_is_answered(visitor: Visitor) -> None:
    sizes = set()
    for about, label in ((ABOUT, 1), ({"a0": "99.75", "a1": "2", "a2": "5"}, 0), ({"a0": "18", "a1": "1", "a2": "0"}, 0)):
        visitor.fills(about, label)
        sizes.add(len(visitor.text("#check pre")))
    assert len(sizes) == 1


def test_chance_decides_once_and_the_level_is_settled_with_it(visitor: Visitor) -> None:
    seen: dict[int, str] = {}
    for label in (1, 0, 1, 0):
        visitor.fills(ABOUT, label)
        assert seen.setdefault(label, visitor.text("#check pre")) == visitor.text("#check pre")
    visitor.opens()  # reloading the page does not draw again either
    visitor.fills(ABOUT, label=1)
    assert visitor.text("#check pre") == seen[1]
    assert not [radio for radio in visitor.browser.find_elements("css selector", "[name=epsilon]") if radio.is_enabled()]
    assert "settled" in visitor.text("#settled")


def test_sending_again_sends_the_same_bytes(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills(ABOUT, label=0)
    visitor.sends()
    recorder.answer = lambda body: receipt(body, 200)
    visitor.press("#again")
    for _ in range(200):
        if len(recorder.bodies) == 2 and "once more" in visitor.text("#said"):
            break
        visitor.browser.execute_async_script("setTimeout(arguments[0], 20)")
    assert recorder.bodies[0] == recorder.bodies[1]
    visitor.opens()  # a device that has answered shows its receipt, and asks nothing
    assert visitor.shown() == "done"


SENTENCES = {
    "closed": "is closed",
    "too_early": "has not opened",
    "frozen": "complete",
    "token_unknown": "does not know this invitation",
    "token_missing": "by invitation",
    "token_used": "used already",
    "wrong_study": "another version of the study",
    "bad_features": "refused the report (bad_features)",
}


def test_a_refusal_is_a_sentence_and_costs_no_second_draw(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills(ABOUT, label=1)
    for code, words in SENTENCES.items():
        recorder.answer = refusal(code)
        visitor.browser.execute_script("document.getElementById('check').requestSubmit()")
        assert words in visitor.complaint()
    recorder.answer = receipt
    visitor.opens("#t=" + TOKEN)  # perhaps with the right link this time
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    *refused, accepted = map(decode_report, recorder.bodies)
    assert len(refused) == len(SENTENCES) and accepted.token == TOKEN
    assert {(one.id, one.label, one.features) for one in refused} == {(accepted.id, accepted.label, accepted.features)}


def lying(body: bytes) -> Answer:
    status, said = receipt(body)
    return status, said.replace(b'"digest": "', b'"digest": "00')


BAD: dict[str, Callable[[bytes], Answer | None]] = {
    "500": lambda body: (500, b"<h1>oops</h1>"),
    "closed connection": lambda body: None,
    "503": refusal("storage_unavailable"),
    "408": refusal("timeout"),
    "425": lambda body: (425, b'{"code": "closed"}'),
    "429": refusal("too_many_requests"),
    "503 that looks like a refusal": lambda body: (503, b'{"code": "closed", "status": 410}'),
    "false receipt": lying,
    "no receipt": lambda body: (201, b"null"),
}


def test_a_bad_server_leaves_the_report_in_doubt_and_only_it_can_be_sent(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills(ABOUT, label=1)
    for name, answer in BAD.items():
        recorder.answer = answer
        visitor.browser.execute_script("document.getElementById('check').requestSubmit()")
        assert "same report" in visitor.complaint(), name
        assert not visitor.find("#back").is_displayed(), name
    visitor.fills({**ABOUT, "a0": "50"}, label=0)  # as another tab could: what is shown is what would be sent
    assert visitor.text("#check pre").encode() == recorder.bodies[0]
    recorder.answer = receipt
    visitor.opens()  # also after the page was closed
    assert visitor.shown() == "check" and "34" in visitor.text("#check dl")
    visitor.sends()
    assert len(recorder.bodies) > len(BAD) and len(set(recorder.bodies)) == 1


def test_the_invitation_leaves_the_address_bar_and_survives_a_reload(visitor: Visitor, recorder: Recorder) -> None:
    visitor.opens("#t=" + TOKEN)
    assert TOKEN not in visitor.browser.current_url and "#" not in visitor.browser.current_url
    visitor.opens()
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    assert decode_report(recorder.bodies[0]).token == TOKEN
    assert not [head for head in recorder.heads if TOKEN in head]


def pastes(visitor: Visitor, link: str) -> None:
    """A link entered into the address bar of the open page: the fragment alone changes."""
    visitor.browser.get(visitor.url + "/#t=" + link)
    WebDriverWait(visitor.browser, 20, 0.02).until(lambda browser: "#" not in browser.current_url)


def test_an_invitation_pasted_into_the_open_page_is_taken(visitor: Visitor, recorder: Recorder) -> None:
    visitor.opens("#t=" + TOKEN[::-1])
    visitor.fills(ABOUT, label=1)
    before = decode_report(visitor.text("#check pre").encode())
    visitor.browser.execute_script("window.same = true")
    pastes(visitor, TOKEN)
    assert visitor.browser.execute_script("return window.same")  # a reload would cost the draws where nothing can be stored
    visitor.waits_for("about")  # what was shown holds the other invitation
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    report = decode_report(recorder.bodies[0])
    assert (report.token, report.id, report.label) == (TOKEN, before.id, before.label)
    pastes(visitor, TOKEN[::-1])  # also where nothing is asked any more
    assert visitor.shown() == "done"


def drawn(visitor: Visitor, study: Study, reported: list[int]) -> None:
    memo = {"id": "ab" * 16, "epsilon": 1_000_000, "reported": reported}
    visitor.browser.execute_script("localStorage.setItem(arguments[0], arguments[1])", f"pdml {study.hash}", json.dumps(memo))


@pytest.mark.parametrize("where", ["#check", "#about"])
def test_after_a_refusal_another_person_gets_draws_of_their_own(visitor: Visitor, recorder: Recorder, study: Study, where: str) -> None:
    assert not visitor.find("#someone").is_displayed()  # nothing is drawn yet
    drawn(visitor, study, [0, 1])
    visitor.opens("#t=" + TOKEN)
    visitor.fills(ABOUT, label=1)
    assert not visitor.find("#refused").is_displayed()
    recorder.answer = lambda body: (500, b"oops")
    visitor.press("#send")
    visitor.complaint()
    assert not visitor.find("#refused").is_displayed()  # in doubt: these bytes must not be lost
    recorder.answer = refusal("token_unknown")
    visitor.browser.execute_script("document.getElementById('check').requestSubmit()")
    WebDriverWait(visitor.browser, 20, 0.02).until(lambda _: visitor.find("#refused").is_displayed())
    if where == "#about":
        visitor.opens("#t=" + TOKEN[::-1])  # the next person, with a link of their own
    visitor.press(f"{where} details:has([data-forget]) summary")
    visitor.press(f"{where} [data-forget]")
    WebDriverWait(visitor.browser, 20, 0.02).until(lambda _: "reported" not in stored(visitor) and visitor.shown() == "about")
    assert not visitor.find("#someone").is_displayed()
    recorder.answer = receipt
    visitor.fills(ABOUT, label=0)
    visitor.sends()
    report = decode_report(recorder.bodies[-1])
    assert report.id != "ab" * 16
    assert report.token == (TOKEN[::-1] if where == "#about" else "")  # nobody inherits an invitation that was tried


def test_a_full_storage_is_still_read(visitor: Visitor, recorder: Recorder, study: Study) -> None:
    drawn(visitor, study, [1, 0])
    full = "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }"
    script = visitor.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": full})
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


def test_an_attribute_may_have_any_name(visitor: Visitor) -> None:
    shown = visitor.browser.execute_script(
        """const levels = ["a", "b"], range = [0, 8];
        const attributes = [{name: "__proto__", kind: "category", levels}, {name: "constructor", kind: "number", range}];
        const answers = decode(attributes, encode(attributes, JSON.parse('{"__proto__": "b", "constructor": 2}')));
        return [answers["__proto__"], answers.constructor]"""
    )
    assert shown == ["b", 2]


def test_another_person_on_the_same_device_gets_draws_of_their_own(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    visitor.browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true })")
    visitor.press("#done [data-forget]")
    visitor.waits_for("about")
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    assert len({decode_report(body).id for body in recorder.bodies}) == 2


def test_the_browsers_own_back_goes_one_step_back(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills_by_hand(ABOUT, label=1, epsilon=1_000_000)  # browsers skip steps that no person took
    for step in ("question", "privacy", "about"):
        visitor.browser.back()
        visitor.waits_for(step)
    assert visitor.find("#a0").get_property("value") == "34"
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    visitor.browser.back()  # from the receipt there is no way back
    visitor.browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert visitor.shown() == "done"


def test_the_receipt_can_be_saved(visitor: Visitor, recorder: Recorder, tmp_path: Path) -> None:
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    visitor.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    visitor.press("#save")
    files: list[Path] = []
    for _ in range(250):
        files = list(tmp_path.glob("receipt-*.json"))
        if files and files[0].stat().st_size:
            break
        visitor.browser.execute_async_script("setTimeout(arguments[0], 20)")
    saved = json.loads(files[0].read_text())
    assert saved["report"].encode() == recorder.bodies[0]
    assert saved["receipt"] == json.loads(receipt(recorder.bodies[0])[1])


def test_two_tabs_send_one_report(visitor: Visitor, recorder: Recorder) -> None:
    first = visitor.browser.current_window_handle
    visitor.fills(ABOUT, label=1)
    visitor.browser.switch_to.new_window("tab")
    try:
        second = Visitor(visitor.browser, visitor.url).opens()
        second.fills(ABOUT, label=1)
        second.sends()
    finally:
        visitor.browser.close()
        visitor.browser.switch_to.window(first)
    visitor.press("#send")
    visitor.waits_for("done")
    assert len(recorder.bodies) == 1


def test_a_report_in_doubt_in_another_tab_is_shown_before_it_is_sent(visitor: Visitor, recorder: Recorder) -> None:
    first = visitor.browser.current_window_handle
    visitor.fills(ABOUT, label=1)
    visitor.browser.switch_to.new_window("tab")
    try:
        second = Visitor(visitor.browser, visitor.url).opens()
        second.fills({**ABOUT, "a0": "50"}, label=0)
        recorder.answer = lambda body: (500, b"oops")
        second.press("#send")
        second.complaint()
    finally:
        visitor.browser.close()
        visitor.browser.switch_to.window(first)
    recorder.answer = receipt
    visitor.press("#send")
    assert "another tab" in visitor.complaint() and len(recorder.bodies) == 1  # not sent unseen
    assert visitor.text("#check pre").encode() == recorder.bodies[0]
    visitor.sends()
    assert len(set(recorder.bodies)) == 1


def test_a_report_in_doubt_in_another_tab_is_not_forgotten(visitor: Visitor, study: Study) -> None:
    drawn(visitor, study, [0, 1])
    visitor.opens().fills(ABOUT, label=1)
    visitor.browser.execute_script(
        """show("about");
        const key = arguments[0], memo = JSON.parse(localStorage.getItem(key));  // as the other tab would
        localStorage.setItem(key, JSON.stringify({...memo, sent: document.querySelector("#check pre").textContent}));
        document.querySelector("#about [data-forget]").click()""",
        f"pdml {study.hash}",
    )
    visitor.waits_for("check")
    assert "same report" in visitor.complaint() and "ab" * 16 in stored(visitor)


def test_a_memory_that_was_cleared_begins_again(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills(ABOUT, label=1)
    visitor.browser.execute_script("localStorage.clear(); document.getElementById('check').requestSubmit()")
    visitor.waits_for("about")
    assert recorder.bodies == []


def test_a_browser_that_remembers_nothing_is_told_about(visitor: Visitor, recorder: Recorder) -> None:
    forbid = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError') }})"
    script = visitor.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": forbid})
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


def test_a_number_outside_its_range_is_refused_with_the_range(visitor: Visitor) -> None:
    for entered in ("", "17", "100.1", "abc", "1e2", "3 4", "١٨", "0x20", "18..5", "NaN"):
        visitor.browser.execute_script("a0.value = arguments[0]; about.requestSubmit()", entered)
        assert visitor.shown() == "about", entered
        assert "from 18 to 100" in visitor.text("#a0-hint")
        assert visitor.find("#a0").get_attribute("aria-invalid") == "true"
        assert visitor.browser.switch_to.active_element == visitor.find("#a0")
    for entered in ("18", "100", "34,5", "+20", "99."):
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


def test_percentages_are_those_of_the_threshold(visitor: Visitor) -> None:
    words = visitor.text("#menu")
    for share in ("59.9%", "40.1%", "73.1%", "26.9%", "88.1%", "11.9%"):  # e^ε/(1 + e^ε) and the rest
        assert share in words
    assert visitor.browser.execute_script("return percent(WORD - 1n, WORD)") == "over 99.9%"
    three = visitor.browser.execute_script("return meaning(1000000, ['a', 'b', 'c'])")
    assert "57.6%" in three and "21.2%" in three  # e/(e + 2) and 1/(e + 2)


def test_the_keyboard_alone_is_enough(visitor: Visitor, recorder: Recorder) -> None:
    def press(*keys: str) -> None:
        visitor.browser.switch_to.active_element.send_keys(*keys)

    def focus() -> str:
        return str(
            visitor.browser.execute_script("const e = document.activeElement; return e.id || e.name || e.textContent.trim() || e.tagName")
        )

    def tab_to(name: str) -> None:
        for _ in range(12):
            press(Keys.TAB)
            if focus() == name:
                return
        raise AssertionError(f"Tab does not reach {name}")

    tab_to("a0")
    press("34")
    tab_to("a1")
    press(Keys.SPACE)
    tab_to("a2")
    press("south")
    tab_to("Continue")
    press(Keys.ENTER)
    visitor.waits_for("privacy")
    assert focus() == "How private?"  # the heading of the step, which a screen reader then says
    tab_to("epsilon")
    press(Keys.ARROW_UP)  # to the more private one
    press(Keys.ENTER)
    visitor.waits_for("question")
    tab_to("answer")
    press(Keys.SPACE)
    press(Keys.ENTER)
    visitor.waits_for("check")
    tab_to("send")
    press(Keys.ENTER)
    visitor.waits_for("done")
    assert decode_report(recorder.bodies[0]).epsilon == 400_000
    assert focus().startswith("Thank you")


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
    for selector, role in (("#problem", "alert"), ("#again-problem", "alert"), ("#notice", "status")):
        assert visitor.find(selector).get_attribute("role") == role


def test_a_page_of_a_tampered_study_says_so_by_its_hash(visitor: Visitor, recorder: Recorder, study: Study) -> None:
    """The page hashes the very text it works with: another question is another study, which honest servers refuse."""
    genuine = recorder.page
    forged = genuine.html.replace(b"Have you ever been diagnosed", b"Have you never been diagnosed")
    recorder.page = type(genuine)(html=forged, headers=genuine.headers)
    visitor.opens(fresh=True)
    visitor.fills(ABOUT, label=1)
    assert decode_report(visitor.text("#check pre").encode()).study != study.hash
