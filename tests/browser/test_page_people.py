"""People who share a browser: another invitation is another person, to whom nothing of the first is
shown; everything can be forgotten; and of a withdrawn report only that stays.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Visitor
from collector_process import Collector, collecting
from form_study import ABOUT, TOLD
from recording import Recorder, receipt, refusal
from selenium.webdriver import Chrome
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

from pdml.study import Study
from pdml.study.messages import decode_report
from pdml.study.schema import template

ANN, BOB = "0123456789abcdef" * 2, "fedcba9876543210" * 2
PEOPLE = {"link": "#t=" + BOB, "half a link": "#t=" + BOB[:20], "no link": ""}


@pytest.fixture
def ann(engine: WebDriver, recorder: Recorder) -> Visitor:
    """Who was here first, with an invitation."""
    return Visitor(engine, recorder.url).opens("#t=" + ANN, fresh=True)


def until(visitor: Visitor, truth: Any) -> None:
    WebDriverWait(visitor.browser, 20, 0.02).until(lambda _: truth())


def new_tab(visitor: Visitor, fragment: str) -> Visitor:
    """Whoever comes next, in the same browser; the tab before is closed."""
    before = visitor.browser.current_window_handle
    visitor.browser.switch_to.new_window("tab")
    after = visitor.browser.current_window_handle
    visitor.browser.switch_to.window(before)
    visitor.browser.close()
    visitor.browser.switch_to.window(after)
    return Visitor(visitor.browser, visitor.url).opens(fragment)


def traces(visitor: Visitor) -> list[str]:
    """What the page holds of the first person, shown or not: ids, codes, bytes, answers, level."""
    everything = """
      const fields = [...document.querySelectorAll("input, select")];
      const checked = fields.filter((one) => one.type === "radio" && one.name.startsWith("a"));
      const page = document.documentElement.cloneNode(true);
      page.querySelectorAll("script").forEach((one) => one.remove());
      return [page.outerHTML,
              ...fields.filter((one) => one.type === "text").map(({ value }) => value),
              ...checked.filter((one) => one.checked).map(({ name }) => `checked ${name}`),
              location.href, JSON.stringify(history.state)].join("\\n")"""
    held = str(visitor.browser.execute_script(everything))
    memos = [json.loads(text) for _, text in json.loads(visitor.stored())]
    (memo,) = [one for one in memos if ANN in one.get("sent", "") or one.get("id") == "ab" * 16]
    secrets = [ANN, memo["id"], memo.get("code", "no code"), memo["nonce"], "checked a"]
    words = [
        "was randomised on this device before",
        "Thank you",
        "may or may not hold",
        "A report has",
    ]
    return [one for one in secrets + words if one in held.replace(visitor.text("#study"), "")]


def spaced(code: str) -> str:
    return "-".join(code[i : i + 4] for i in range(0, 32, 4))


@pytest.mark.parametrize("who", ["link", "half a link", "no link"])
@pytest.mark.parametrize("how", ["drawn", "in doubt", "stored"])
def test_whoever_comes_next_finds_nothing_of_the_first(
    ann: Visitor, recorder: Recorder, study: Study, who: str, how: str
) -> None:
    ann.has_drawn(study, 1, ANN)
    ann.opens("#t=" + ANN).fills(ABOUT, label=1)
    if how == "in doubt":
        recorder.answer = lambda body: (500, b"oops")
        ann.press("#send")
        ann.complaint()
        recorder.answer = receipt
    if how == "stored":
        ann.sends()
    kept = ann.stored()
    if who == "no link":  # as the server says of everybody who has none
        recorder.admission = refusal("token_missing")
    bob = new_tab(ann, PEOPLE[who])
    assert traces(bob) == []
    if who == "link":
        assert bob.shown() == "about"
        assert not bob.find("#drawn").is_displayed() and not bob.find("#someone").is_displayed()
        bob.fills(ABOUT, label=0)
        bob.sends()
        report = decode_report(recorder.bodies[-1])
        assert report.token == BOB and report.id != "ab" * 16
    else:
        said = {"half a link": "does not know this invitation", "no link": "by invitation only"}
        assert said[who] in bob.turned_away()
    assert json.loads(kept)[0] in json.loads(bob.stored())  # what the first needs is still there
    recorder.admission = None
    ann = new_tab(bob, "#t=" + ANN)
    assert ann.shown() == {"drawn": "about", "in doubt": "check", "stored": "done"}[how]


def test_without_a_link_an_open_study_is_not_drawn_again(ann: Visitor, recorder: Recorder) -> None:
    """Whoever lost theirs, and whoever else: the server would take both."""
    ann.fills(ABOUT, label=1)
    ann.sends()
    lost = new_tab(ann, "")
    assert "open the page with your link again" in lost.turned_away() and traces(lost) == []
    assert not lost.find("#knock").is_displayed()  # asking again would not help
    assert lost.find("#foot").is_displayed()  # where a receipt withdraws, and all can be forgotten
    assert len(json.loads(lost.stored())) == 1 and len(recorder.bodies) == 1


def test_the_tab_keeps_the_person_when_the_page_is_loaded_again(ann: Visitor) -> None:
    ann.fills(ABOUT, label=1)
    text = ann.text("#check pre")
    ann.browser.refresh()
    ann.waits_for("about")
    ann.fills(ABOUT, label=0)
    assert ann.text("#check pre") == text
    assert ANN not in ann.stored()  # but for the report's bytes no file of the browser names them


def forgets(visitor: Visitor) -> None:
    visitor.press("footer details:has(#forget) summary")
    visitor.press("#forget")
    until(visitor, lambda: "keeps nothing" in visitor.text("#gate-text"))
    assert visitor.shown() == ""  # nobody is asked at once


def test_everything_is_forgotten_but_what_is_lost_is_said_before(
    ann: Visitor, recorder: Recorder, study: Study
) -> None:
    ann.browser.execute_script("localStorage.setItem('pdml another-study', '{}')")
    ann.browser.execute_script("localStorage.setItem('of another page', '1')")
    ann.fills(ABOUT, label=1)
    ann.sends()
    report = decode_report(recorder.bodies[0])
    assert "your link shows this receipt again" in ann.text("#kept")
    details = "footer details:has(#forget)"
    ann.press(f"{details} summary")
    shown = ann.find(details).text
    for lost in (
        "withdrawal codes are lost",
        "does not withdraw it",
        "randomised anew",
        "everybody",
    ):
        assert lost in shown
    ann.press(f"{details} summary")
    forgets(ann)
    assert json.loads(ann.stored()) == [["of another page", "1"]] and ann.held_by_tab() == "[]"
    assert report.id not in ann.browser.page_source and "#" not in ann.browser.current_url
    assert ann.find("#a0").get_property("value") == ""
    ann.browser.execute_script("localStorage.clear()")
    recorder.admission = refusal("token_used")  # what protects from a second draw then
    ann.opens("#t=" + ANN)
    assert "used already" in ann.turned_away()


def test_a_link_cannot_say_that_all_is_forgotten(ann: Visitor) -> None:
    ann.fills(ABOUT, label=1)
    ann.opens("#forgotten")
    assert ann.shown() == "about" and "forgotten" not in ann.browser.current_url


def test_what_one_tab_forgets_another_does_not_show_or_keep(
    ann: Visitor, recorder: Recorder
) -> None:
    ann.fills(ABOUT, label=1)
    ann.sends()
    report = decode_report(recorder.bodies[0])
    first = ann.browser.current_window_handle
    ann.browser.switch_to.new_window("tab")
    second = Visitor(ann.browser, ann.url).opens("#t=" + ANN)
    assert second.shown() == "done"
    forgets(second)
    ann.browser.close()
    ann.browser.switch_to.window(first)
    until(ann, lambda: report.id not in ann.browser.page_source)
    assert (ann.stored(), ann.held_by_tab()) == ("[]", "[]")


def test_a_receipt_that_comes_after_all_was_forgotten_is_not_kept(
    ann: Visitor, recorder: Recorder
) -> None:
    ann.fills(ABOUT, label=1)
    ann.browser.execute_script(
        "const real = fetch; window.fetch = (...all) => { localStorage.clear(); "
        "return real(...all); }"
    )
    ann.press("#send")
    until(ann, lambda: ann.shown() == "about")
    assert ann.stored() == "[]" and len(recorder.bodies) == 1


def test_the_page_that_back_brings_up_again_is_not_the_first_person_s(
    ann: Visitor, study: Study
) -> None:
    """Browsers may keep a page as it was when it is left; this one looks who is here now."""
    ann.fills(ABOUT, label=1)
    ann.browser.execute_script(
        """window.same = true;
        const leaves = new PageTransitionEvent("pagehide", { persisted: true });
        window.dispatchEvent(leaves);
        window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))"""
    )
    assert ann.browser.execute_script("return window.same") and ann.shown() == "check"
    ann.browser.execute_script(
        """window.dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }));
        sessionStorage.setItem(`pdml ${arguments[0]} invitation`, arguments[1]);
        window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))""",
        study.unkeyed_hash,
        BOB,
    )
    ann.waits_for("about")
    assert not ann.browser.execute_script("return window.same")
    assert ann.find("#a0").get_property("value") == ""


# Withdrawal, against the real service.


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(template.render(TOLD), encoding="utf-8")
    return path


@pytest.fixture(params=[False, True], ids=["open", "invited"])
def guest(
    request: pytest.FixtureRequest, browser: Chrome, study_file: Path, tmp_path: Path
) -> Iterator[tuple[Visitor, Collector, str]]:
    """Somebody whose report is stored, and how they come back to the page."""
    with collecting(study_file, tmp_path, *([] if request.param else ["--open"])) as collector:
        fragment = ""
        if request.param:
            tokens = tmp_path / "tokens.csv"
            collector.command("invite", study_file, "--count", "1", "--out", str(tokens))
            fragment = "#t=" + tokens.read_text().splitlines()[1].split(",")[0]
        visitor = Visitor(browser, collector.url).opens(fragment, fresh=True)
        visitor.press("label:has(#consent)")
        visitor.go_on()
        visitor.waits_for("about")
        visitor.fills(ABOUT, label=1)
        visitor.sends()
        yield visitor, collector, fragment


@pytest.mark.parametrize("how", ["button", "code"])
def test_after_a_withdrawal_nothing_is_left_but_that(
    guest: tuple[Visitor, Collector, str], study_file: Path, how: str
) -> None:
    visitor, collector, fragment = guest
    ((key, text),) = json.loads(visitor.stored())
    memo = json.loads(text)
    if how == "button":
        visitor.press("#withdraw summary")
        visitor.press("#withdraw-now")
    else:
        visitor.press("footer details:has(#code) summary")
        visitor.find("#code").send_keys(spaced(memo["code"]))
        visitor.press("#by-code")
    until(visitor, lambda: "is withdrawn" in visitor.text("#done h2"))
    assert json.loads(visitor.stored()) == [[key, '{"withdrawn":true}']]
    assert visitor.held_by_tab() == "[]"
    assert (TOLD.memory_key(fragment.removeprefix("#t=")), key[:5]) == (key[5:], "pdml ")
    page = visitor.browser.page_source
    for one in (memo["id"], memo["code"], spaced(memo["code"]), memo["nonce"]):
        assert one not in page
    assert visitor.find("#a0").get_property("value") == ""
    for hidden in ("#withdraw", "#again", "#save", "#sent", "#kept"):
        assert not visitor.find(hidden).is_displayed()
    assert "City Hospital" in visitor.text(
        "#receipt"
    ) and "is not randomised again" in visitor.text("#done-text")
    visitor.browser.back()
    visitor.browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert visitor.shown() == "done"
    visitor.opens(fragment)  # and it stays so on this device: no second draw
    assert visitor.shown() == "done" and "is withdrawn" in visitor.text("#done h2")
    status = collector.command("status", study_file)
    assert (status["reports"], status["withdrawn"]) == (0, 1)


def test_a_receipt_s_code_withdraws_without_the_link(guest: tuple[Visitor, Collector, str]) -> None:
    """Who has lost the link, and kept the receipt: also then this device keeps nothing else."""
    visitor, _, fragment = guest
    ((key, text),) = json.loads(visitor.stored())
    lost = new_tab(visitor, "")
    lost.press("footer details:has(#code) summary")
    lost.find("#code").send_keys(json.loads(text)["code"])
    lost.press("#by-code")
    until(lost, lambda: "confirms that it has erased" in lost.text("#by-code-text"))
    assert json.loads(lost.stored()) == [[key, '{"withdrawn":true}']]
    assert fragment == "" or "by invitation only" in lost.turned_away()
    assert "is withdrawn" in new_tab(lost, fragment).text("#done h2")
