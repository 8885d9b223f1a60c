"""Pictures of every step for people to look at (PDML_SCREENSHOTS names their folder), on a phone
and a desk, by day and by night.
"""

import io
import os
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import Visitor
from form_study import ABOUT
from PIL import Image
from recording import Recorder, refusal
from selenium.webdriver import Chrome

from pdml.device.page import render
from pdml.study import Study

SIZES = {"phone": (390, 844), "desk": (1280, 900)}
LOOKS = [("phone", "light"), ("phone", "dark"), ("desk", "light"), ("desk", "dark")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = Path(os.environ.get("PDML_SCREENSHOTS") or tmp_path)
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(params=LOOKS, ids="-".join)
def look(request: pytest.FixtureRequest, browser: Chrome) -> Iterator[str]:
    size, scheme = request.param
    width, height = SIZES[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    yield f"{size}-{scheme}"
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def picture(browser: Chrome, path: Path) -> Image.Image:
    """The whole page."""
    width, height = browser.execute_script(
        "return [innerWidth, document.documentElement.scrollHeight]"
    )
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = b64decode(
        browser.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )["data"]
    )
    path.write_bytes(shot)
    return Image.open(io.BytesIO(shot)).convert("RGB")


def assert_looks_right(browser: Chrome, path: Path) -> None:
    image = picture(browser, path)
    light = sum(image.getpixel((2, image.height - 2))) / 3
    assert light > 200 if "light" in path.name else light < 60  # the background is the scheme's
    colours = image.getcolors(image.width * image.height) or ()
    assert len(colours) > 20  # letters and edges: not a blank page
    root = "document.documentElement"
    wide = browser.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
    assert wide <= 0, f"{path.name} scrolls sideways"


def test_the_gate_weak_levels_and_a_settled_draw_look_right(
    look: str,
    browser: Chrome,
    study: Study,
    folder: Path,
) -> None:
    classes = ("no", "yes, once", "yes, several times", "I would rather not say")
    rare = replace(study, menu=(0.4, 1.0, 5.0), accept_weak=True, classes=classes)
    with Recorder(render(rare), rare.canonical(), admission=refusal("token_missing")) as recorder:
        visitor = Visitor(browser, recorder.url).opens(fresh=True)
        assert_looks_right(browser, folder / f"{look}-6-gate.png")
        recorder.admission = None
        visitor.opens()
        browser.execute_script("show('privacy')")
        assert_looks_right(browser, folder / f"{look}-7-weak.png")
        visitor.fills(ABOUT, label=1)
        visitor.press("#back")
        visitor.waits_for("about")
        assert_looks_right(browser, folder / f"{look}-8-settled.png")
        recorder.answer = refusal("closed")
        visitor.fills(ABOUT, label=1)
        visitor.press("#send")
        visitor.complaint()
        assert_looks_right(browser, folder / f"{look}-9-refused.png")


def asked(visitor: Visitor) -> None:
    """At the question, with an answer chosen."""
    visitor.browser.execute_script("show('question')")
    visitor.press("#label button[value='1']")


def test_every_step_looks_right(look: str, visitor: Visitor, folder: Path) -> None:
    steps = {
        "1-about": lambda: None,
        "2-privacy": lambda: visitor.browser.execute_script("show('privacy')"),
        "3-question": lambda: asked(visitor),
        "4-check": lambda: visitor.fills(ABOUT, label=1),
        "5-done": lambda: visitor.sends(),
    }
    for name, act in steps.items():
        act()
        assert_looks_right(visitor.browser, folder / f"{look}-{name}.png")
    small: list[str] = visitor.browser.execute_script(
        "return [...document.querySelectorAll('button, .choice')].filter(e => "
        "e.offsetParent && e.offsetHeight < 44).map(e => e.id)"
    )
    assert small == []  # fingers need room


def test_nothing_moves_by_itself(look: str, visitor: Visitor) -> None:
    """A tenth is called good; on a busy machine what a press moves may come later than the half
    second after which it no longer counts as the press's.
    """
    visitor.fills(ABOUT, label=1)
    moved: float = visitor.browser.execute_async_script(
        """const done = arguments[0];
        let sum = 0;
        new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) sum += e.value; })
          .observe({type: "layout-shift", buffered: true});
        setTimeout(() => done(sum), 100)"""
    )
    assert moved < 0.05
