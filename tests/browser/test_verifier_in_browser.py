"""The page that verifies results, in real browsers: a person drops a folder and reads the verdict."""

import json
import shutil
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.remote.file_detector import UselessFileDetector
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait
from test_page_access import AXE

from pdml.pages.verifier_page import verifier_page

RESULTS = Path(__file__).parents[1] / "vectors" / "results"
SECONDS = 120  # until a verdict, on the slowest machine


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "verify.html"
    path.write_bytes(verifier_page())
    return path.as_uri()


def texts(browser: WebDriver, selector: str) -> list[str]:
    return [one.text for one in browser.find_elements("css selector", selector)]


def verdict(browser: WebDriver) -> str:
    """What it says once all is checked."""
    shown = browser.find_element("id", "verdict")
    WebDriverWait(browser, SECONDS, 0.1).until(lambda _: shown.is_displayed())
    return shown.text


def choose_folder(browser: Chrome, page: str, folder: Path) -> str:
    browser.get(page)
    browser.find_element("id", "folder").send_keys(str(folder))
    return verdict(browser)


def drop(browser: Chrome, *paths: Path) -> None:
    """As the mouse does it: folders come as folders."""
    where = browser.find_element("id", "drop").rect
    place = {"x": where["x"] + 9, "y": where["y"] + 9}
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.execute_cdp_cmd("Input.dispatchDragEvent", {"type": kind, "data": data, **place})


def alter(folder: Path) -> None:
    path = folder / "model.json"
    fields = json.loads(path.read_bytes())
    fields["coefficients"][0][0] += 0.5
    path.write_text(json.dumps(fields, indent=1, ensure_ascii=False), encoding="utf-8")


@pytest.mark.parametrize("name", ["sums", "rounds-of-classes", "masked-of-classes"])
def test_a_good_folder_is_accepted(browser: Chrome, page: str, name: str) -> None:
    browser.get_log("browser")  # empties it
    assert choose_folder(browser, page, RESULTS / name).startswith("Accepted: model.json follows")
    assert not browser.find_element("id", "problems-part").is_displayed()
    assert len(texts(browser, "#checked li")) == 7
    assert any("report.html" in one for one in texts(browser, "#unchecked li"))
    assert texts(browser, "#statements tbody th") == ["alice", "bob", "carol"]
    model = json.loads((RESULTS / name / "model.json").read_bytes())
    lines = model["privacy"]["rows"] + model["privacy"].get("coalitions", [])
    assert len(texts(browser, "#ledger tbody tr")) == len(lines)
    assert texts(browser, "#simulated")[0].startswith("The noise is simulated")  # the specimens' is
    assert len(texts(browser, "#model tbody tr")) == len(model["feature_names"]) + 1
    assert browser.get_log("browser") == []  # nothing that the policy forbids, and no error


def test_a_bad_folder_is_refused(browser: Chrome, page: str, tmp_path: Path) -> None:
    folder = shutil.copytree(RESULTS / "sums", tmp_path / "sums")
    alter(folder)
    sentence = "model.json is not what the statements give"
    assert choose_folder(browser, page, folder) == f"Refused: {sentence}."
    assert texts(browser, "#problems li") == [f"{sentence}."]
    assert not browser.find_element("id", "checked-part").is_displayed()
    assert not browser.find_element("id", "model-part").is_displayed()
    path = folder / "statements" / "bob.statement"
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    assert "bob" in choose_folder(browser, page, folder)


def test_folders_and_files_can_be_dropped(browser: Chrome, page: str, tmp_path: Path) -> None:
    folder = shutil.copytree(RESULTS / "rounds-of-classes", tmp_path / "result")
    browser.get(page)
    drop(browser, folder)
    assert verdict(browser).startswith("Accepted")
    browser.get(page)
    drop(browser, *(path for path in sorted(folder.rglob("*")) if path.is_file()))
    assert verdict(browser).startswith("Accepted")
    (folder / "evidence").mkdir()
    browser.get(page)
    drop(browser, folder)
    assert verdict(browser) == "Refused: evidence/ is empty."


def test_files_are_read_in_both_browsers(second_browser: WebDriver, page: str) -> None:
    second_browser.get(page)
    files = [str(path) for path in (RESULTS / "rounds-of-classes").rglob("*") if path.is_file()]
    second_browser.file_detector = UselessFileDetector()  # the browser reads files itself
    second_browser.find_element("id", "files").send_keys("\n".join(files))
    assert verdict(second_browser).startswith("Accepted: model.json follows")


def test_the_study_that_was_agreed_on_is_compared(browser: Chrome, page: str) -> None:
    study = json.loads((RESULTS / "sums" / "model.json").read_bytes())["provenance"]["study_hash"]
    for agreed, start in ((study, "Accepted"), ("0" * 64, "Refused: study.toml is the study")):
        browser.get(page)
        browser.find_element("css selector", "summary").click()
        browser.find_element("id", "agreed").send_keys(agreed)
        browser.find_element("id", "folder").send_keys(str(RESULTS / "sums"))
        assert verdict(browser).startswith(start)


def test_a_browser_without_ed25519_claims_nothing(browser: Chrome, page: str) -> None:
    lacking = """Object.defineProperty(crypto.subtle, "importKey", { value: () =>
        Promise.reject(new DOMException("no Ed25519", "NotSupportedError")) });"""
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": lacking})
    try:
        browser.get(page)
        assert verdict(browser).startswith("This browser cannot check Ed25519 signatures")
        assert texts(browser, "#checked li") == []
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_accessible_and_fits(browser: Chrome, page: str, width: int) -> None:
    browser.set_window_size(width, 900)
    try:
        choose_folder(browser, page, RESULTS / "sums")
        browser.execute_script(AXE)
        found = browser.execute_async_script("axe.run().then(arguments[0])")
        assert [one["id"] for one in found["violations"]] == []
        wide = "return document.documentElement.scrollWidth <= innerWidth"
        assert browser.execute_script(wide)
    finally:
        browser.set_window_size(1000, 1000)
