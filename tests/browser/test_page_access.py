"""What people with disabilities meet, in a real browser: axe-core (WCAG 2.2 AA and its best
practices) on every step, in every language, by day and by night; magnified; on the narrowest
screen.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources

import pytest
from browsing import Visitor
from form_study import ABOUT, SECRETS_TRANSLATED, TOLD_TRANSLATED
from recording import Recorder, receipt, refusal
from selenium.webdriver import Chrome

from pdml.device.languages import catalogues
from pdml.device.page import render

AXE = resources.files("selenium_axe_python").joinpath("axe-core", "axe.min.js").read_text("utf-8")
AXE += """
window.axe = axe;
window.violations = async (rules) => {
  const all = { rules: { "target-size": { enabled: true } } }; // WCAG 2.2, not yet by default
  const asked = { resultTypes: ["violations"], ...(rules.length ? { runOnly: rules } : all) };
  const { violations } = await axe.run(document, asked);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
};
window.wide = () => {
  const root = document.documentElement, page = root.scrollWidth > root.clientWidth;
  const beyond = ({ left, right }) => right > innerWidth + 1 || left < -1;
  const seen = (one) => one.checkVisibility() && !one.matches(".unseen, option");
  const out = (one) => seen(one) && beyond(one.getBoundingClientRect());
  const all = [...document.querySelectorAll("body *")].filter(out);
  return [...(page ? ["the page"] : []), ...all.map((one) => one.outerHTML.slice(0, 200))];
};
"""
# The page as it stands, said in one language after another: by language, what is wrong with it.
LOOK = """
const [codes, rules, done] = arguments, all = {};
(async () => {
  for (const code of codes) {
    setLanguage(code);
    const found = rules ? await window.violations(rules) : window.wide();
    if (found.length) all[code] = found;
  }
  done(all);
})().catch((error) => done({ error: String(error) }));
"""
COLOURS = ["color-contrast", "link-in-text-block"]  # what else axe looks at is the same by night


@dataclass(frozen=True)
class Setting:
    """How a person looks at the page; without rules of axe it is to be narrow enough."""

    scheme: str = "light"
    width: int = 0  # CSS pixels; 0: the window's
    letters: int = 1  # how much larger than usual this person has chosen them
    rules: list[str] | None = None  # empty: all

    def apply(self, browser: Chrome) -> None:
        features = {"prefers-color-scheme": self.scheme, "prefers-reduced-motion": "reduce"}
        named = [{"name": name, "value": value} for name, value in features.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})
        size = {"width": self.width, "height": 900 if self.width else 0}
        emulated = {**size, "deviceScaleFactor": 0, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", emulated)
        size_now = f"document.documentElement.style.fontSize = '{self.letters}em'"
        browser.execute_script(size_now)


SETTINGS = {
    "by day": Setting(rules=[]),
    "by night": Setting(scheme="dark", rules=COLOURS),
    "at 200% of 1,280 pixels": Setting(width=640),
    "at 320 pixels": Setting(width=320),  # also 1,280 at 400%
    "at 320 pixels, with large letters": Setting(width=320, letters=2),
}


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """In English, German and Arabic; in the other languages only the page's own words are."""
    with Recorder(render(TOLD_TRANSLATED), TOLD_TRANSLATED.canonical()) as running:
        yield running


def walk(visitor: Visitor, recorder: Recorder, look: Callable[[str], None]) -> None:
    """Every step, also with mistakes and with everything unfolded."""
    recorder.admission = refusal("token_missing")
    visitor.opens(fresh=True)
    look("gate")
    recorder.admission = None
    visitor.opens()
    look("agree")
    visitor.go_on()
    look("agree, without the tick")
    visitor.press("label:has(#consent)")
    visitor.go_on()
    visitor.waits_for("about")
    look("about")
    visitor.browser.execute_script("document.getElementById('about').requestSubmit()")
    look("about, with mistakes")
    visitor.answers(ABOUT)
    visitor.go_on()
    look("privacy")
    visitor.go_on()
    visitor.waits_for("question")
    visitor.answers({"answer": "1"})
    look("question")
    visitor.go_on()
    visitor.waits_for("check")
    recorder.answer = refusal("closed")
    visitor.press("#send")
    visitor.complaint()
    look("check, refused")
    recorder.answer = receipt
    visitor.sends()
    visitor.browser.execute_script("at('by-code').click()")
    look("done, with a wrong code")


def walk_secrets(visitor: Visitor, look: Callable[[str], None]) -> None:
    """The steps that differ where there are more secrets than the label."""
    visitor.press("label:has(#consent)")
    visitor.go_on()
    visitor.waits_for("about")
    visitor.answers({"a1": "34"})
    visitor.go_on()
    look("privacy")
    visitor.go_on()
    visitor.waits_for("question")
    visitor.go_on()
    visitor.answers({"a0": "1"})
    look("questions, with mistakes")
    visitor.answers({"a2": "4", "answer": "1"})
    visitor.go_on()
    visitor.waits_for("check")
    look("check")
    visitor.press("#back")
    visitor.waits_for("about")
    look("about, settled")


def barriers(visitor: Visitor, walk: Callable[[Callable[[str], None]], None]) -> str:
    """What axe finds by day or night, and what has to be scrolled sideways (WCAG 1.4.4 and 1.4.10),
    on the way through the page; nothing, if it is well.
    """
    browser = visitor.browser
    found: dict[str, dict[str, list[str]]] = {}

    def look(step: str) -> None:
        if not browser.execute_script("return typeof axe !== 'undefined'"):
            browser.execute_script(AXE)
        browser.execute_script(
            "for (const one of document.querySelectorAll('details')) one.open = true"
        )
        for name, setting in SETTINGS.items():
            setting.apply(browser)
            wrong = browser.execute_async_script(LOOK, list(catalogues()), setting.rules)
            found.update({f"{step}, {name}": wrong} if wrong else {})
        Setting().apply(browser)

    try:
        walk(look)
    finally:
        Setting().apply(browser)
    return json.dumps(found, indent=1, ensure_ascii=False) if found else ""


def test_nobody_is_shut_out_on_any_step_in_any_language(
    visitor: Visitor, recorder: Recorder
) -> None:
    assert barriers(visitor, lambda look: walk(visitor, recorder, look)) == ""


@pytest.mark.slow
def test_nobody_is_shut_out_where_several_answers_are_secret(browser: Chrome) -> None:
    with Recorder(render(SECRETS_TRANSLATED), SECRETS_TRANSLATED.canonical()) as recorder:
        visitor = Visitor(browser, recorder.url).opens(fresh=True)
        assert barriers(visitor, lambda look: walk_secrets(visitor, look)) == ""


def test_that_would_find_something(visitor: Visitor) -> None:
    browser = visitor.browser
    browser.execute_script(AXE)

    def found(rules: list[str] | None) -> str:
        return " ".join(browser.execute_async_script(LOOK, ["de"], rules).get("de", []))

    assert found([]) == found(None) == ""
    browser.execute_script("document.getElementById('consent').labels[0].replaceWith(consent)")
    assert "label:" in found([])
    browser.execute_script("document.querySelector('h2').style.width = '3000px'")
    assert "the page" in found(None)
