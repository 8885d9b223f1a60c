"""What a server can count over many devices: labels are flipped as often as the study says, and a
wrong page is seen to be wrong.
"""

from collections.abc import Iterator

import pytest
from browsing import Visitor
from form_study import ABOUT
from recording import Recorder
from scipy.stats import binom
from selenium.webdriver import Chrome

from pdml.device.page import ContributorPage, _headers, render
from pdml.mechanisms.label_flip import LabelFlip
from pdml.study import Study
from pdml.study.messages import decode_report

DEVICES = 600
FALSE_ALARM = 1e-6  # of one count, two-sided and exact

# Each round is a device that remembers nothing: the page draws, keeps, writes and posts a report by
# its own functions.
SUBMIT = """
const [hash, micro, classes, devices, done] = arguments;
const NONE = { consent: "", consent_version: "" };
(async () => {
  const study = JSON.parse(document.getElementById("study").textContent);
  const coder = await coderOf(study);
  const features = encode(coder, {age: 34, sex: "female", region: "south"});
  for (let i = 0; i < devices; i++) {
    localStorage.clear();
    const text = reportText(hash, drawOnce(hash, await drawNumbers(), i % classes, micro, classes), features, "", NONE);
    const {receipt} = await post(text);
    if (!receipt) return done("no receipt");
  }
  done("");
})();
"""


def flips(visitor: Visitor, recorder: Recorder, study: Study, micro: int) -> int:
    """How many of the reports on the wire differ from the true label, which alternates."""
    recorder.bodies.clear()
    assert (
        visitor.browser.execute_async_script(SUBMIT, study.hash, micro, len(study.classes), DEVICES)
        == ""
    )
    reports = [decode_report(body) for body in recorder.bodies]
    assert len({report.id for report in reports}) == DEVICES
    assert {(report.study, report.epsilon) for report in reports} == {(study.hash, micro)}
    return sum(report.label != i % len(study.classes) for i, report in enumerate(reports))


def plausible(count: int, epsilon: float) -> bool:
    low, high = binom.ppf(
        [FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], DEVICES, LabelFlip(epsilon).flip_probability
    )
    return bool(low <= count <= high)


def test_labels_are_flipped_as_often_as_promised(
    visitor: Visitor, recorder: Recorder, study: Study
) -> None:
    assert plausible(flips(visitor, recorder, study, 1_000_000), 1.0)


@pytest.fixture
def wrong_page(study: Study) -> Iterator[ContributorPage]:
    """A page that flips as for twice the ε it reports."""
    page = render(study)
    html = page.html.decode()
    style, script = (html.split(f"<{tag}>")[1].split(f"</{tag}>")[0] for tag in ("style", "script"))
    forged = script.replace(
        "word() < threshold(micro, classes)", "word() < threshold(2 * micro, classes)"
    )
    assert forged != script
    yield ContributorPage(
        html=html.replace(script, forged).encode(), headers=_headers(style, forged)
    )


def test_a_page_with_another_threshold_is_rejected(
    browser: Chrome, wrong_page: ContributorPage, study: Study
) -> None:
    """The chance to miss it is P(Binomial(600, 0.119) >= 108) < 2e-5."""
    with Recorder(wrong_page, study.canonical()) as recorder:
        visitor = Visitor(browser, recorder.url).opens(fresh=True)
        visitor.fills(ABOUT, label=1)  # it looks like any other page
        assert not plausible(flips(visitor, recorder, study, 1_000_000), 1.0)
