"""What people are told on the page, what they tick, and how they take a report back: in a real
browser, against the real service.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Visitor
from collector_process import Collector, collecting
from form_study import ABOUT, TOLD
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from pdml.device import receipt as receipts
from pdml.device.receipt import withdraw
from pdml.errors import NotDelivered
from pdml.study import Study
from pdml.study.messages import decode_report, report_id
from pdml.study.schema import template


@pytest.fixture(scope="module")
def study() -> Study:
    return TOLD


@pytest.fixture
def study_file(tmp_path: Path, study: Study) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(template.render(study), encoding="utf-8")
    return path


@pytest.fixture
def collector(study_file: Path, tmp_path: Path) -> Iterator[Collector]:
    with collecting(study_file, tmp_path, "--open") as running:
        yield running


@pytest.fixture
def visitor(browser: Chrome, collector: Collector) -> Iterator[Visitor]:
    browser.get_log("browser")
    yield Visitor(browser, collector.url).opens(fresh=True)
    said = [entry["message"] for entry in browser.get_log("browser")]
    assert not [message for message in said if "Failed to load resource" not in message]


def agrees(visitor: Visitor) -> None:
    visitor.press("label:has(#consent)")
    visitor.go_on()
    visitor.waits_for("about")


def sends(visitor: Visitor) -> str:
    agrees(visitor)
    visitor.fills(ABOUT, label=1)
    text = visitor.text("#check pre")
    visitor.sends()
    return text


def test_people_are_told_who_asks_and_must_tick_before_they_are_asked(
    visitor: Visitor, study: Study, collector: Collector, study_file: Path
) -> None:
    assert visitor.shown() == "agree" and "Step 1 of 5" in visitor.text("#where")
    assert not visitor.browser.find_elements(By.ID, "trial")
    output = visitor.text("#notice-facts")
    for said in ("City Hospital", "1 Long Street", "study@", "privacy@", "who is at risk."):
        assert said in output
    for said in ("Your consent.", "sees every answer", "January 1, 2036", "https://hospital."):
        assert said in output
    assert study.consent and visitor.text("#consent-text") == study.consent.text
    assert "2026-03" in visitor.text("#consent-version")
    visitor.go_on()
    assert visitor.shown() == "agree" and "tick" in visitor.text("#consent-hint")
    assert visitor.find("#consent").get_attribute("aria-invalid") == "true"
    agrees(visitor)
    assert "Step 2 of 5" in visitor.text("#where")
    visitor.browser.back()
    visitor.waits_for("agree")
    visitor.go_on()
    visitor.waits_for("about")
    visitor.fills(ABOUT, label=1)
    report = decode_report(visitor.text("#check pre").encode())
    assert (report.consent, report.consent_version) == (study.consent.digest, "2026-03")
    assert "2026-03" in visitor.text("#check dl")
    visitor.sends()
    assert collector.command("status", study_file)["reports"] == 1


def test_a_draw_without_the_tick_is_never_made(visitor: Visitor) -> None:
    """Whichever way somebody gets to the last question."""
    visitor.browser.execute_script("show('about')")
    visitor.browser.execute_script(
        """
        const enter = (id, value) => (document.getElementById(id).value = value);
        enter("a0", "34"); enter("a2", "2");
        document.querySelector('input[name=a1][value="0"]').click();
        for (const step of ["about", "privacy"]) document.getElementById(step).requestSubmit();
        document.querySelector('#label button[value="1"]').click();
        document.getElementById("question").requestSubmit();"""
    )
    assert visitor.shown() == "agree" and visitor.stored() == "[]"


def test_a_report_is_taken_back_on_the_page(
    visitor: Visitor, collector: Collector, study_file: Path
) -> None:
    report = decode_report(sends(visitor).encode())
    shown = visitor.text("#receipt")
    assert "City Hospital" in shown and "study@hospital.example" in shown
    ((_, memo),) = json.loads(visitor.stored())
    code = json.loads(memo)["code"]
    assert report_id(code) == report.id
    assert "-".join(code[i : i + 4] for i in range(0, 32, 4)) in shown
    visitor.press("#withdraw summary")
    visitor.press("#withdraw-now")
    title = "#done h2"
    WebDriverWait(visitor.browser, 20, 0.02).until(lambda _: "withdrawn" in visitor.text(title))
    status = collector.command("status", study_file)
    assert (status["reports"], status["withdrawn"]) == (0, 1)
    for hidden in ("#withdraw", "#again"):
        assert not visitor.find(hidden).is_displayed()
    visitor.opens()  # and it stays so on this device: no second draw
    assert visitor.shown() == "done" and "withdrawn" in visitor.text(title)


def test_the_code_of_a_receipt_withdraws_on_another_device_until_it_is_too_late(
    visitor: Visitor, collector: Collector, study_file: Path, tmp_path: Path
) -> None:
    sends(visitor)
    ((_, memo),) = json.loads(visitor.stored())
    code = json.loads(memo)["code"]
    visitor.opens(fresh=True)

    def tries(text: str) -> str:
        visitor.browser.execute_script("document.getElementById('code').value = ''")
        visitor.browser.execute_script(
            "document.querySelector('#code').closest('details').open = 1"
        )
        visitor.browser.execute_script("document.getElementById('by-code-text').hidden = true")
        visitor.find("#code").send_keys(text)
        visitor.press("#by-code")
        said = visitor.find("#by-code-text")
        WebDriverWait(visitor.browser, 20, 0.02).until(lambda _: said.is_displayed())
        return visitor.text("#by-code-text")

    assert "No report at your organisation" in tries("0" * 32)
    assert "No report at your organisation" in tries("what is this?")
    collector.command("export", study_file, "--out", str(tmp_path / "data"), "--force-small")
    late = tries(code)
    assert "can no longer be withdrawn" in late and "cannot be called back" in late
    assert "January 1, 2036" in late
    collector.command("purge", study_file, "--early")
    spelt = " ".join(code[i : i + 4].upper() for i in range(0, 32, 4))
    assert "confirms that it has erased" in tries(spelt)


def test_the_saved_receipt_is_read_by_the_client_and_withdraws(
    visitor: Visitor, study: Study, tmp_path: Path
) -> None:
    sends(visitor)
    text = visitor.browser.execute_async_script(
        """const done = arguments[0], make = URL.createObjectURL;
        URL.createObjectURL = (blob) => (blob.text().then(done), make(blob));
        document.getElementById("save").click()"""
    )
    file = tmp_path / "receipt.json"
    file.write_text(text)
    saved = receipts.load(file)
    assert (saved.title, saved.organiser) == (study.title, "City Hospital")
    assert (saved.address, saved.contact) == ("1 Long Street, Ghent", "study@hospital.example")
    done = withdraw(study, receipt=file, memory=tmp_path / "none")
    assert (done.id, done.server, done.before) == (saved.receipt.id, "alice", False)
    assert withdraw(study, receipt=file, memory=tmp_path / "none").before
    with pytest.raises(NotDelivered, match="withdrawal_unknown"):
        other = json.loads(text) | {"code": "0" * 32}
        file.write_text(json.dumps(other))
        withdraw(study, receipt=file, memory=tmp_path / "none")
