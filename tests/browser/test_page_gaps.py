"""Version 2 on the page, in a real browser: questions may be left out, by keyboard too, and people
see what a reader of the report will see.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import Visitor
from form_study import FORM
from recording import Recorder
from selenium.webdriver.common.keys import Keys

from pdml.device.client import preview
from pdml.device.page import ContributorPage, render
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.maps import Fourier, Products, Splines, Squares
from pdml.study import Study
from pdml.study.messages import pack_features

AGE = Number(name="age", low=18, high=100, average=45, spread=15, missing="average")
SEX = Category(name="sex", levels=("female", "male", "other"), missing="level")
REGION = Category(name="region", levels=tuple("ABCDEF"), missing="level")
STEPS = Number(name="steps", low=0, high=100_000, whole=True, average=6_000, spread=4_000)
MADE = (
    Squares(),
    Products(pairs=(("age", "steps"),)),
    Splines(columns=("steps",)),
    Fourier(count=5, seed=3),
)
SECOND = replace(
    FORM,
    encoder=Encoder(attributes=(AGE, SEX, REGION, STEPS), maps=MADE),
    wording={name: FORM.wording[name] for name in ("age", "sex", "region")},
)


@pytest.fixture(scope="session")
def study() -> Study:
    return SECOND


@pytest.fixture(scope="session")
def page(study: Study) -> ContributorPage:
    return render(study)


def facts(visitor: Visitor) -> list[list[str]]:
    found: list[list[str]] = visitor.browser.execute_script(
        "return [...document.querySelectorAll('#check [data-report] > div')]"
        ".map((e) => [...e.children].map((part) => part.textContent))"
    )
    return found


def pictured(visitor: Visitor, name: str) -> None:
    """For people to look at, where PDML_SCREENSHOTS names a folder."""
    if folder := os.environ.get("PDML_SCREENSHOTS"):
        visitor.browser.set_window_size(1000, 1700)
        visitor.browser.save_screenshot(str(Path(folder) / f"{name}.png"))


def test_questions_can_be_left_out_by_keyboard(
    visitor: Visitor, recorder: Recorder, study: Study
) -> None:
    def press(*keys: str) -> None:
        visitor.browser.switch_to.active_element.send_keys(*keys)

    def tab_to(name: str) -> None:
        for _ in range(12):
            press(Keys.TAB)
            here = "const e = document.activeElement; return e.id || e.name || e.textContent.trim()"
            if visitor.browser.execute_script(here) == name:
                return
        raise AssertionError(f"Tab does not reach {name}")

    visitor.go_on()
    assert visitor.shown() == "about"  # silence is not taken for a wish to be silent
    tab_to("a0-skip")
    press(Keys.SPACE)
    assert not visitor.find("#a0").is_enabled()
    tab_to("a1")
    press(Keys.ARROW_UP)  # from the first round to the last
    tab_to("a2")
    press("Prefer")
    tab_to("a3")
    press("50000")
    pictured(visitor, "left-out")
    press(Keys.ENTER)
    visitor.waits_for("privacy")
    visitor.go_on()
    visitor.answers({"answer": "1"})
    visitor.go_on()
    visitor.waits_for("check")
    pictured(visitor, "left-out-check")
    shown = dict(facts(visitor)[:4])
    assert shown == {
        "How old are you?": "prefer not to say",
        "Sex": "prefer not to say",
        "Where do you live?": "prefer not to say",
        "steps": "18000 or more",
    }
    assert facts(visitor)[4] == [
        "Also sent, made of these answers",
        "the square of every number that is sent as it is; the product of age and steps; "
        "how near steps is to each of five values; "
        "5 waves of every number that is sent as it is, in directions that all know",
    ]
    visitor.sends()
    seen = preview(study, recorder.bodies[0])
    assert dict(seen.answers) == {
        "age": None,
        "sex": None,
        "region": None,
        "steps": "18000 or more",
    }
    expected = study.encode({"age": None, "sex": None, "region": None, "steps": 50_000})
    assert seen.report.features == pack_features(expected)


def test_a_wish_can_be_taken_back(visitor: Visitor, study: Study) -> None:
    visitor.press("label:has(#a0-skip)")
    visitor.press("label:has(#a0-skip)")
    assert visitor.find("#a0").is_enabled()
    visitor.fills({"a0": "46,5", "a1": "0", "a2": "2", "a3": "1234"}, label=0)
    assert [value for _, value in facts(visitor)[:4]] == ["46.5", "female", "C", "1234"]
