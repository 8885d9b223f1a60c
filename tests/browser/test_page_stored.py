"""What a real browser stores is a function of what the page sends: by the page's own view, and in
the profile's files."""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browsing import Visitor, chromium
from form_study import ABOUT
from guessing import hits, most_hits
from recording import Recorder, receipt, refusal
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from pdml.device.page import render
from pdml.mechanisms.label_flip import LabelFlip
from pdml.study import Study
from pdml.study.messages import report_id

TOKEN = "0123456789abcdef" * 2
EPSILON = 0.01  # so private that a report says next to nothing: whatever else is stored stands out
LEARN, DEVICES = 60, 330
EVERYTHING = """
const done = arguments[0];
(async () => done({
  local: Object.entries(localStorage), session: Object.entries(sessionStorage),
  state: history.state, name: window.name, cookies: document.cookie,
  databases: await indexedDB.databases(), caches: await caches.keys(),
  fields: document.querySelectorAll("#question :is(input, select, textarea)").length,
  pressed: document.querySelectorAll("[aria-pressed=true]").length,
}))();
"""
WATCH = """
const put = Storage.prototype.setItem;
window.puts = [];
Storage.prototype.setItem = function (...pair) {
  window.puts.push(pair);
  return put.apply(this, pair);
};
"""


def everything(visitor: Visitor) -> dict[str, Any]:
    found: dict[str, Any] = visitor.browser.execute_async_script(EVERYTHING)
    return found


def drawn(text: str) -> dict[str, Any]:
    return {key: json.loads(text)[key] for key in ("id", "nonce", "epsilon", "label")}


def assert_stored(visitor: Visitor, study: Study, memo: dict[str, Any], step: str) -> None:
    """The memo, in the tab the invitation, and nothing else anywhere."""
    found = everything(visitor)
    local = dict(found["local"])
    held = json.loads(local.pop(f"pdml {study.memory_key(TOKEN)}"))
    assert report_id(held.pop("code")) == memo["id"]  # which was drawn before any question
    assert held == memo
    assert local == {} and dict(found["session"]) == {
        f"pdml {study.unkeyed_hash} invitation": TOKEN
    }
    assert found["state"] == {"step": step} or found["state"] is None
    assert (found["databases"], found["caches"], found["cookies"], found["name"]) == (
        [],
        [],
        "",
        "",
    )
    assert (found["fields"], found["pressed"]) == (
        0,
        0,
    )  # what was chosen is not even on the page any more


@pytest.mark.parametrize("label", [0, 1])
def test_at_every_step_the_browser_holds_a_function_of_the_report(
    visitor: Visitor,
    recorder: Recorder,
    study: Study,
    label: int,
) -> None:
    visitor.opens("#t=" + TOKEN)
    visitor.browser.execute_script(WATCH)
    visitor.fills_by_hand(ABOUT, label, epsilon=1_000_000)
    text = visitor.text("#check pre")
    assert_stored(visitor, study, drawn(text), "check")
    # Also what was replaced at once: other tabs hear of it.
    for _, value in visitor.browser.execute_script("return window.puts"):
        put = json.loads(value)
        assert report_id(put.pop("code")) == put["id"]
        assert put == drawn(text)
    recorder.answer = refusal("storage_unavailable")
    visitor.press("#send")
    visitor.complaint()
    assert recorder.bodies == [text.encode()]
    assert_stored(visitor, study, {**drawn(text), "sent": text}, "check")
    visitor.opens()  # in doubt, after the page was closed
    assert_stored(visitor, study, {**drawn(text), "sent": text}, "check")
    recorder.answer = refusal("bad_features")
    visitor.press("#send")
    wait = WebDriverWait(visitor.browser, 20, 0.02)
    wait.until(lambda _: "bad_features" in visitor.text("#problem"))
    assert_stored(visitor, study, drawn(text), "check")
    recorder.answer = receipt
    visitor.sends()
    assert_stored(
        visitor,
        study,
        {**drawn(text), "sent": text, "receipt": json.loads(receipt(text.encode())[1])},
        "done",
    )


def test_what_is_chosen_is_gone_when_the_question_is(visitor: Visitor, recorder: Recorder) -> None:
    """Before anything is drawn: by going back, by leaving the page and by coming back to it."""
    visitor.answers(ABOUT)
    for step in ("privacy", "question"):
        visitor.go_on()
        visitor.waits_for(step)
    visitor.answers({"answer": "1"})
    assert everything(visitor)["pressed"] == 1
    visitor.press("#question [data-back]")
    visitor.waits_for("privacy")
    assert everything(visitor)["pressed"] == 0
    visitor.go_on()
    visitor.waits_for("question")
    visitor.answers({"answer": "1"})
    visitor.browser.get(recorder.url + "/v1/study")
    visitor.browser.back()
    WebDriverWait(visitor.browser, 20, 0.02).until(lambda _: visitor.shown())
    found = everything(visitor)
    assert found["pressed"] == 0 and found["local"] == []


# Each round is a device that remembers nothing: the forms are filled and submitted, and what is
# stored after the answer is told.
ROUNDS = """
const [about, truths, micro, done] = arguments, states = [];
const form = (id) => document.getElementById(id), pause = (next) => setTimeout(next, 1);
(async () => {
  for (const truth of truths) {
    localStorage.clear();
    for (const [name, value] of Object.entries(about)) {
      const box = form(name), radio = `input[name="${name}"][value="${value}"]`;
      if (box) box.value = value; else document.querySelector(radio).click();
    }
    form("about").requestSubmit();
    document.querySelector(`input[name="epsilon"][value="${micro}"]`).click();
    form("privacy").requestSubmit();
    document.querySelector(`#label button[value="${truth}"]`).click();
    form("question").requestSubmit();
    form("check").requestSubmit();
    while (form("send").disabled || form("problem").hidden) await new Promise(pause);
    states.push(Object.fromEntries(Object.entries(localStorage)));
  }
  done(states);
})();
"""


def test_after_an_unclear_answer_the_browser_betrays_nothing_beside_the_report(
    browser: Chrome,
    study: Study,
) -> None:
    """More hits than allowed have a chance of at most 1e-6; `test_stored` shows that a table of
    draws would be noticed."""
    private = replace(study, menu=(EPSILON, 1.0))
    rng = random.Random(11)
    truths = [rng.randrange(2) for _ in range(LEARN + DEVICES)]
    busy = refusal("storage_unavailable")
    with Recorder(render(private), private.canonical(), answer=busy) as recorder:
        visitor = Visitor(browser, recorder.url).opens(fresh=True)
        states = []
        for first in range(0, len(truths), 65):  # a call of the driver must not take minutes
            part = truths[first : first + 65]
            states += browser.execute_async_script(ROUNDS, ABOUT, part, private.epsilon_micro[0])
        sent = [body.decode() for body in recorder.bodies]
        assert len(set(sent)) == len(truths) and visitor.shown() == "check"
    both = [{"stored": state, "wire": text} for state, text in zip(states, sent, strict=True)]
    assert hits(both, truths, LEARN) <= most_hits(DEVICES, 1 - LabelFlip(EPSILON).flip_probability)


def files(folder: Path, pattern: str) -> Iterator[bytes]:
    for path in folder.glob(pattern):
        if path.is_file():
            yield path.read_bytes()


def logged(folder: Path) -> bytes:
    return b"".join(files(folder, "**/Local Storage/leveldb/*"))


@pytest.mark.parametrize("label", [0, 1])
def test_the_files_of_a_profile_hold_no_other_draw(
    recorder: Recorder,
    study: Study,
    tmp_path: Path,
    label: int,
) -> None:
    """LevelDB keeps what was overwritten: every state that was ever stored is in its log, and each
    is the report's."""
    recorder.answer = refusal("storage_unavailable")
    with chromium(tmp_path / "profile") as browser:
        visitor = Visitor(browser, recorder.url).opens("#t=" + TOKEN)
        visitor.fills_by_hand(ABOUT, label, epsilon=1_000_000)
    with chromium(tmp_path / "profile") as browser:  # the next day: what is sent replaces the draw
        visitor = Visitor(browser, recorder.url).opens("#t=" + TOKEN)
        visitor.fills(ABOUT, label)
        visitor.press("#send")
        visitor.complaint()
        # a browser that is ended may not have written yet
        WebDriverWait(browser, 30, 0.1).until(lambda _: b',"sent":' in logged(tmp_path))
    (sent,) = {body.decode() for body in recorder.bodies}
    report = json.loads(sent)
    logs = logged(tmp_path)
    memo = rb'\{"id":"([0-9a-f]{32})","nonce":"[0-9a-f]{32}","epsilon":(\d+),"label":(\d+),'
    memo += rb'"code":"[0-9a-f]{32}"(,"sent":|\})'
    memos = re.findall(memo, logs)
    assert {(id.decode(), int(epsilon), int(drawn)) for id, epsilon, drawn, _ in memos} == {
        (report["id"], report["epsilon"], report["label"])
    }
    assert {kind for *_, kind in memos} == {b"}", b',"sent":'}  # the draw, and what replaced it
    everywhere = b"\n".join(files(tmp_path, "**/*"))
    id = report["id"].encode()
    assert everywhere.count(id) == logs.count(id)  # in no other file
    assert report["id"].encode("utf-16-le") not in everywhere and b'"reported"' not in everywhere
