"""Nobody is asked in vain: the page asks the server first whether it would take a report, and shows
no question before."""

import json
import threading

import pytest
from browsing import Visitor
from form_study import ABOUT
from recording import Answer, Recorder, refusal
from selenium.webdriver.support.ui import WebDriverWait

from pdml.study import Study
from pdml.study.messages import decode_report

TOKEN = "0123456789abcdef" * 2
SENTENCES = {
    "token_missing": "by invitation only",
    "token_unknown": "does not know this invitation",
    "token_used": "was used already",
    "closed": "is closed",
    "too_early": "has not opened",
    "frozen": "complete",
}
ASKED = """
const all = document.querySelectorAll("form, #attributes, #label, #menu");
return [...all].filter((e) => e.offsetParent !== null).length"""


@pytest.mark.parametrize("code", SENTENCES)
def test_whoever_would_be_refused_sees_no_question(
    visitor: Visitor,
    recorder: Recorder,
    code: str,
) -> None:
    recorder.admission = refusal(code)
    recorder.invitations.clear()
    visitor.opens("#t=" + TOKEN)
    assert SENTENCES[code] in visitor.turned_away()
    assert visitor.browser.execute_script(ASKED) == 0 and visitor.find("#foot").is_displayed()
    assert [json.loads(body) for body in recorder.invitations] == [{"token": TOKEN}]
    assert not [head for head in recorder.heads if TOKEN in head]  # in no address and no header
    assert recorder.bodies == []
    recorder.admission = None
    visitor.press("#knock")  # the study has opened, say
    visitor.waits_for("about")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        (500, b"oops"),
        (200, b"{}"),
        (200, b"<p>"),
        (200, b"null"),
        (503, b'{"code": "closed"}'),
    ],
)
def test_an_answer_that_is_none_asks_nothing_either(
    visitor: Visitor,
    recorder: Recorder,
    answer: Answer | None,
) -> None:
    recorder.admission = lambda body: answer
    visitor.opens()
    assert visitor.browser.execute_script(ASKED) == 0
    why = visitor.turned_away()
    assert "try again later" in why or "another version of the study" in why


def test_no_question_is_on_the_screen_while_the_answer_is_out(
    visitor: Visitor,
    recorder: Recorder,
) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(body: bytes) -> Answer:
        asked.set()
        go.wait(20)
        return recorder.welcome(body)

    recorder.admission = slow
    visitor.browser.get("about:blank")
    visitor.browser.get(visitor.url + "/")
    assert asked.wait(20)
    assert visitor.browser.execute_script(ASKED) == 0
    assert "Asking your organisation" in visitor.text("#gate-text")
    go.set()
    visitor.waits_for("about")


def test_a_good_link_pasted_after_a_bad_one_opens_the_page(
    visitor: Visitor,
    recorder: Recorder,
) -> None:
    unknown = refusal("token_unknown")
    token = TOKEN.encode()
    recorder.admission = lambda body: (recorder.welcome if token in body else unknown)(body)
    visitor.opens("#t=" + TOKEN[::-1])
    assert "does not know" in visitor.turned_away()
    visitor.browser.get(visitor.url + "/#t=" + TOKEN)
    visitor.waits_for("about")
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    assert decode_report(recorder.bodies[0]).token == TOKEN


def test_a_report_in_doubt_is_sent_again_without_asking(
    visitor: Visitor,
    recorder: Recorder,
) -> None:
    """Its invitation may be used up by now: by this very report."""
    visitor.fills(ABOUT, label=1)
    recorder.answer = lambda body: None
    visitor.press("#send")
    visitor.complaint()
    recorder.admission = refusal("token_used")
    visitor.opens()
    assert visitor.shown() == "check"


def test_another_study_at_the_same_address_is_noticed_before_any_question(
    visitor: Visitor,
    recorder: Recorder,
    study: Study,
) -> None:
    recorder.canonical += b" "
    visitor.opens()
    assert "another version of the study" in visitor.turned_away()
    WebDriverWait(visitor.browser, 20, 0.02).until(lambda _: visitor.find("#knock").is_displayed())
