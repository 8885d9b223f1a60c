"""How tests drive the page in a real browser: as a person would, by what is on the screen."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from pdml.study import Study

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)


def missing() -> str:
    """What is not installed, or nothing."""
    return next((name for name in ("chromium", "chromedriver") if shutil.which(name) is None), "")


@contextmanager
def chromium(profile: Path, *flags: str) -> Iterator[Chrome]:
    """A browser with a fresh profile."""
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, *flags, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        browser.set_script_timeout(110)  # below the driver's own patience
        browser.set_window_size(1000, 1000)
        yield browser
    finally:
        browser.quit()


class Visitor:
    """A person in front of the page."""

    def __init__(self, browser: WebDriver, url: str) -> None:
        self.browser, self.url = browser, url

    def opens(self, fragment: str = "", *, fresh: bool = False) -> "Visitor":
        """The page anew; ``fresh``: on a device that remembers nothing."""
        self.browser.get("about:blank")  # else a new fragment alone would not load the page
        if fresh:
            self._forget()
        with self._new_tab() if fresh else nullcontext():
            self.browser.get(self.url + "/" + fragment)
        wait = WebDriverWait(self.browser, 20, 0.02)
        wait.until(lambda _: self.shown() or self.find("#foot").is_displayed())
        return self

    def _forget(self) -> None:
        if isinstance(self.browser, Chrome):
            kinds = {"origin": self.url, "storageTypes": "local_storage"}
            self.browser.execute_cdp_cmd("Storage.clearDataForOrigin", kinds)
        else:
            self.browser.get(self.url + "/v1/study")
            self.browser.execute_script("localStorage.clear(); sessionStorage.clear()")

    @contextmanager
    def _new_tab(self) -> Iterator[None]:
        """What is opened meanwhile finds no storage of the tab."""
        if not isinstance(self.browser, Chrome):
            yield
            return
        clear = {"source": "if (location.origin !== 'null') sessionStorage.clear()"}
        command = "Page.addScriptToEvaluateOnNewDocument"
        script = self.browser.execute_cdp_cmd(command, clear)
        yield
        self.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)

    def turned_away(self) -> str:
        """Why no question is asked; empty if one is."""
        return "" if self.shown() else self.text("#gate-text")

    def shown(self) -> str:
        """The step on the screen."""
        return str(
            self.browser.execute_script(
                "return [...document.forms].find(f => f.offsetParent !== null)?.id ?? ''"
            )
        )

    def waits_for(self, step: str) -> None:
        WebDriverWait(self.browser, 20, 0.02).until(
            lambda _: self.shown() == step, f"the step {step!r}"
        )

    def find(self, css: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def text(self, css: str) -> str:
        return str(self.find(css).get_property("textContent"))

    def press(self, css: str) -> None:
        self.find(css).click()

    def speaks(self, code: str) -> None:
        """Chooses a language."""
        Select(self.find("#language")).select_by_value(code)

    def go_on(self) -> None:
        self.press(f"#{self.shown()} .primary")

    def answers(self, fields: Mapping[str, str]) -> None:
        """What to enter by the id or the name of a field; radio buttons, lists and the buttons of
        secret questions take the level's position.
        """
        for name, value in fields.items():
            if lists := self.browser.find_elements(By.CSS_SELECTOR, f"select#{name}"):
                Select(lists[0]).select_by_value(value)
            elif texts := self.browser.find_elements(By.CSS_SELECTOR, f"input#{name}"):
                texts[0].clear()
                texts[0].send_keys(value)
            elif self.browser.find_elements(By.CSS_SELECTOR, f"fieldset#{name}.asked"):
                self.press(f"#{name} button[value='{value}']")
            else:
                self.press(f"label:has(input[name={name}][value='{value}'])")

    def fills_by_hand(self, about: Mapping[str, str], label: int, epsilon: int) -> None:
        """All steps up to the preview, with mouse and keyboard."""
        self.answers(about)
        self.go_on()
        self.waits_for("privacy")
        self.answers({"epsilon": str(epsilon)})
        self.go_on()
        self.waits_for("question")
        self.answers({"answer": str(label)})
        self.go_on()
        self.waits_for("check")

    def types(self, *keys: str) -> None:
        """Into whatever has the focus."""
        self.browser.switch_to.active_element.send_keys(*keys)

    def focus(self) -> str:
        """What has it, by its id, its name or its words."""
        found = "const e = document.activeElement; return e.id || e.name || e.textContent.trim()"
        return str(self.browser.execute_script(found))

    def tabs_to(self, name: str) -> None:
        for _ in range(12):
            self.types(Keys.TAB)
            if self.focus() == name:
                return
        raise AssertionError(f"Tab does not reach {name}")

    def answers_by_keyboard(self) -> None:
        """The whole study: 34 years, the first sex, the third region, "no", and the more private
        level; from the first step to the receipt.
        """
        if self.shown() == "agree":
            self.tabs_to("consent")
            self.types(Keys.SPACE)
            self.types(Keys.ENTER)
            self.waits_for("about")
        self.tabs_to("a0")
        self.types("34")
        self.tabs_to("a1")
        self.types(Keys.SPACE)
        self.tabs_to("a2")
        for _ in range(3):
            self.types(Keys.ARROW_DOWN)
        self.types(Keys.TAB, Keys.ENTER)
        self.waits_for("privacy")
        assert self.focus() == self.text("#privacy h2")  # which a screen reader then says
        self.tabs_to("epsilon")
        self.types(Keys.ARROW_UP)
        self.types(Keys.ENTER)
        self.waits_for("question")
        self.tabs_to(self.text("#label button"))
        self.types(Keys.SPACE)
        self.finishes_by_keyboard()

    def finishes_by_keyboard(self) -> None:
        """From the last answer to the receipt."""
        self.tabs_to(self.text("#question .primary"))
        self.types(Keys.ENTER)
        self.waits_for("check")
        self.tabs_to("send")
        self.types(Keys.ENTER)
        self.waits_for("done")
        assert self.focus() == self.text("#done h2")

    def fills(
        self,
        about: Mapping[str, str],
        label: int,
        epsilon: int | None = None,
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """The same in one go, for tests about what comes after; once chance has decided neither
        label nor ``secrets`` are asked."""
        self.browser.execute_script(
            """
            const [about, label, epsilon, secrets] = arguments, form = (id) => document.getElementById(id);
            const enter = (name, value) => {
              const box = document.getElementById(name);
              if (box) box.value = value; else document.querySelector(`input[name="${name}"][value="${value}"]`).click();
            };
            for (const [name, value] of Object.entries(about)) enter(name, value);
            form("about").requestSubmit();
            if (form("privacy").hidden) return;
            if (epsilon !== null) enter("epsilon", epsilon);
            form("privacy").requestSubmit();
            for (const [id, value] of Object.entries({ ...secrets, answer: label })) {
              document.querySelector(`#${id} button[value="${value}"]`).click();
            }
            form("question").requestSubmit();""",
            dict(about),
            label,
            epsilon,
            dict(secrets),
        )
        self.waits_for("check")

    def stored(self) -> str:
        """What the page remembers on this device."""
        return str(
            self.browser.execute_script("return JSON.stringify(Object.entries(localStorage))")
        )

    def held_by_tab(self) -> str:
        """What the page remembers until the tab is closed."""
        return str(
            self.browser.execute_script("return JSON.stringify(Object.entries(sessionStorage))")
        )

    def has_drawn(self, study: Study, label: int, token: str = "") -> None:
        """As if an answer had been randomised before: what is reported, with the id abab..., at
        ε = 1.
        """
        memo = {"id": "ab" * 16, "nonce": "cd" * 16, "epsilon": 1_000_000, "label": label}
        memo["code"] = "ef" * 16
        self.browser.execute_script(
            "localStorage.setItem(arguments[0], arguments[1])",
            f"pdml {study.memory_key(token)}",
            json.dumps(memo),
        )

    @contextmanager
    def another_tab(self) -> "Iterator[Visitor]":
        """The same person with the page open twice; at the end of the block back in the first
        tab.
        """
        first = self.browser.current_window_handle
        self.browser.switch_to.new_window("tab")
        try:
            yield Visitor(self.browser, self.url).opens()
        finally:
            self.browser.close()
            self.browser.switch_to.window(first)

    def sends(self) -> None:
        self.press("#send")
        self.waits_for("done")

    def complaint(self) -> str:
        """The sentence after a send that failed; the button can be pressed again by then."""
        WebDriverWait(self.browser, 30, 0.02).until(
            lambda _: self.text("#problem") != "" and self.find("#send").is_enabled(),
            "a problem to be told",
        )
        return self.text("#problem")
