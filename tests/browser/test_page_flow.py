"""The page in a real browser, from the first question to the receipt, and everything that crosses
the wire meanwhile.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import Visitor
from form_study import ABOUT
from recording import Answer, Recorder, receipt, refusal
from reporting import make_report
from selenium.webdriver.support.ui import WebDriverWait

from pdml.study import Study
from pdml.study.messages import decode_report, encode_report, features_of

TOKEN = "0123456789abcdef" * 2


def test_a_report_is_filled_in_previewed_sent_and_receipted(
    visitor: Visitor, recorder: Recorder, study: Study
) -> None:
    visitor.fills_by_hand(ABOUT, label=1, epsilon=2_000_000)
    assert recorder.bodies == []  # chance has decided, and nothing has left yet
    promised = visitor.text("#check pre")
    assert (
        "34" in visitor.text("#check dl")
        and "female" in visitor.text("#check dl")
        and "south" in visitor.text("#check dl")
    )
    visitor.sends()
    assert recorder.bodies == [promised.encode()]  # the preview was exactly what was sent
    report = decode_report(recorder.bodies[0])
    assert encode_report(report) == recorder.bodies[0]  # canonical: as Python would write it
    assert (report.study, report.epsilon, report.token) == (study.hash, 2_000_000, "")
    assert (
        features_of(report).tobytes()
        == study.encode({"age": 34, "sex": "female", "region": "south"}).tobytes()
    )
    assert json.loads(receipt(recorder.bodies[0])[1])["digest"] in visitor.text("#receipt")


@pytest.mark.parametrize("label", [0, 1])
def test_what_leaves_is_what_chance_decided_and_nothing_beside_it(
    visitor: Visitor,
    recorder: Recorder,
    study: Study,
    label: int,
) -> None:
    """With chance fixed to decide for the other answer every byte of the report is known, and none
    carries the truth."""
    words = "array.fill(array instanceof BigUint64Array ? 0n : 0xab)"  # 0 is below every threshold
    visitor.browser.execute_script(f"crypto.getRandomValues = (array) => {words}")
    visitor.fills(ABOUT, label, 1_000_000)
    ((_, memo),) = json.loads(visitor.stored())
    code = json.loads(memo)["code"]  # drawn before any question was asked
    visitor.sends()
    (body,) = recorder.bodies
    features = study.encode({"age": 34, "sex": "female", "region": "south"})
    sent = make_report(study, code, epsilon=1_000_000, label=1 - label, features=features)
    assert body == encode_report(sent)
    for head in recorder.heads:  # no query, no cookie, no referrer
        assert (
            "?" not in head.splitlines()[0]
            and "cookie" not in head.lower()
            and "referer" not in head.lower()
        )


def test_reports_have_one_size_whatever_is_answered(visitor: Visitor) -> None:
    sizes = set()
    for about, label in (
        (ABOUT, 1),
        ({"a0": "99.75", "a1": "2", "a2": "5"}, 0),
        ({"a0": "18", "a1": "1", "a2": "0"}, 0),
    ):
        visitor.opens(fresh=True).fills(about, label)
        sizes.add(len(visitor.text("#check pre")))
    assert len(sizes) == 1


def test_sending_again_sends_the_same_bytes(visitor: Visitor, recorder: Recorder) -> None:
    visitor.fills(ABOUT, label=0)
    visitor.sends()
    recorder.answer = lambda body: receipt(body, 200)
    visitor.press("#again")
    for _ in range(200):
        if len(recorder.bodies) == 2 and "once more" in visitor.text("#done-text"):
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


def test_a_refusal_is_a_sentence_and_costs_no_second_draw(
    visitor: Visitor, recorder: Recorder
) -> None:
    visitor.fills(ABOUT, label=1)
    for code, words in SENTENCES.items():
        recorder.answer = refusal(code)
        visitor.browser.execute_script("document.getElementById('check').requestSubmit()")
        assert words in visitor.complaint()
    recorder.answer = receipt
    visitor.opens()  # perhaps the study has opened meanwhile
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    *refused, accepted = map(decode_report, recorder.bodies)
    assert len(refused) == len(SENTENCES)
    assert {(one.id, one.label, one.features) for one in refused} == {
        (accepted.id, accepted.label, accepted.features)
    }


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


def test_a_bad_server_leaves_the_report_in_doubt_and_only_it_can_be_sent(
    visitor: Visitor, recorder: Recorder
) -> None:
    visitor.fills(ABOUT, label=1)
    for name, answer in BAD.items():
        recorder.answer = answer
        visitor.browser.execute_script("document.getElementById('check').requestSubmit()")
        assert "same report" in visitor.complaint(), name
        assert not visitor.find("#back").is_displayed(), name
    visitor.fills(
        {**ABOUT, "a0": "50"}, label=0
    )  # as another tab could: what is shown is what would be sent
    assert visitor.text("#check pre").encode() == recorder.bodies[0]
    recorder.answer = receipt
    visitor.opens()  # also after the page was closed
    assert visitor.shown() == "check" and "34" in visitor.text("#check dl")
    visitor.sends()
    assert len(recorder.bodies) > len(BAD) and len(set(recorder.bodies)) == 1


def test_the_invitation_leaves_the_address_bar_and_survives_a_reload(
    visitor: Visitor, recorder: Recorder
) -> None:
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


def test_an_invitation_pasted_into_the_open_page_is_another_person_s(
    visitor: Visitor, recorder: Recorder
) -> None:
    visitor.opens("#t=" + TOKEN[::-1])
    visitor.fills(ABOUT, label=1)
    before = visitor.text("#check pre")
    visitor.browser.execute_script("window.same = true")
    pastes(visitor, TOKEN[::-1])  # the same once more: where nothing can be stored, a reload
    visitor.waits_for("about")  # would cost the draw
    assert visitor.browser.execute_script("return window.same")
    visitor.fills(ABOUT, label=1)
    assert visitor.text("#check pre") == before
    pastes(visitor, TOKEN)
    visitor.waits_for("about")
    assert visitor.find("#a0").get_property("value") == ""
    assert decode_report(before.encode()).id not in visitor.browser.page_source
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    report = decode_report(recorder.bodies[0])
    assert report.token == TOKEN and report.id != decode_report(before.encode()).id
    pastes(visitor, TOKEN[::-1])  # the first, who goes on where they were
    visitor.waits_for("about")
    visitor.fills(ABOUT, label=0)
    assert visitor.text("#check pre") == before


def test_the_browsers_own_back_goes_one_step_back(visitor: Visitor, recorder: Recorder) -> None:
    visitor.answers(ABOUT)  # browsers skip steps that no person took
    for step in ("privacy", "question"):
        visitor.go_on()
        visitor.waits_for(step)
    visitor.answers({"answer": "1"})
    for step in ("privacy", "about"):
        visitor.browser.back()
        visitor.waits_for(step)
    assert visitor.find("#a0").get_property("value") == "34"
    visitor.fills_by_hand(ABOUT, label=1, epsilon=1_000_000)
    visitor.browser.back()
    visitor.waits_for("about")  # once chance has decided the question is not asked again
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    visitor.browser.back()  # from the receipt there is no way back
    visitor.browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert visitor.shown() == "done"


def test_the_receipt_can_be_saved(visitor: Visitor, recorder: Recorder, tmp_path: Path) -> None:
    visitor.fills(ABOUT, label=1)
    visitor.sends()
    visitor.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
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


def test_a_page_of_a_tampered_study_says_so_by_its_hash(
    visitor: Visitor, recorder: Recorder, study: Study
) -> None:
    """The page hashes the very text it works with: another question is another study, which honest
    servers refuse.
    """
    genuine = recorder.page
    forged = genuine.html.replace(study.question.encode(), b"Have you never been diagnosed?")
    assert forged != genuine.html
    recorder.page = type(genuine)(html=forged, headers=genuine.headers)
    visitor.opens(fresh=True)
    visitor.fills(ABOUT, label=1)
    assert decode_report(visitor.text("#check pre").encode()).study != study.hash
