"""A second engine: Firefox, driven by Selenium over Marionette, the protocol that Firefox itself
speaks.

Debian has no geckodriver, which does nothing but translate WebDriver into it; `Marionette` takes
its place in Selenium.
"""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import FirefoxOptions, Remote
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.remote.command import Command
from selenium.webdriver.remote.errorhandler import ErrorHandler
from selenium.webdriver.remote.remote_connection import RemoteConnection

SETTINGS = {
    "marionette.port": 0,  # any; the profile's folder tells which
    "intl.accept_languages": "en-US, en",
    "devtools.jsonview.enabled": False,  # it has another origin than what it shows
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.enabled": False,
    "app.update.enabled": False,
    "browser.region.network.url": "",
    "browser.safebrowsing.provider.mozilla.updateURL": "",
    "extensions.systemAddon.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
}
COMMANDS = {
    Command.NEW_SESSION: "WebDriver:NewSession",
    Command.SET_TIMEOUTS: "WebDriver:SetTimeouts",
    Command.GET: "WebDriver:Navigate",
    Command.GO_BACK: "WebDriver:Back",
    Command.REFRESH: "WebDriver:Refresh",
    Command.FIND_ELEMENT: "WebDriver:FindElement",
    Command.FIND_ELEMENTS: "WebDriver:FindElements",
    Command.FIND_CHILD_ELEMENTS: "WebDriver:FindElements",
    Command.CLICK_ELEMENT: "WebDriver:ElementClick",
    Command.CLEAR_ELEMENT: "WebDriver:ElementClear",
    Command.SEND_KEYS_TO_ELEMENT: "WebDriver:ElementSendKeys",
    Command.GET_ELEMENT_ATTRIBUTE: "WebDriver:GetElementAttribute",
    Command.GET_ELEMENT_PROPERTY: "WebDriver:GetElementProperty",
    Command.GET_ELEMENT_TAG_NAME: "WebDriver:GetElementTagName",
    Command.IS_ELEMENT_SELECTED: "WebDriver:IsElementSelected",
    Command.IS_ELEMENT_ENABLED: "WebDriver:IsElementEnabled",
    Command.W3C_GET_ACTIVE_ELEMENT: "WebDriver:GetActiveElement",
    Command.W3C_EXECUTE_SCRIPT: "WebDriver:ExecuteScript",
    Command.W3C_EXECUTE_SCRIPT_ASYNC: "WebDriver:ExecuteAsyncScript",
    Command.GET_ELEMENT_TEXT: "WebDriver:GetElementText",
    Command.GET_CURRENT_URL: "WebDriver:GetCurrentURL",
    Command.GET_PAGE_SOURCE: "WebDriver:GetPageSource",
    Command.W3C_GET_CURRENT_WINDOW_HANDLE: "WebDriver:GetWindowHandle",
    Command.NEW_WINDOW: "WebDriver:NewWindow",
    Command.SWITCH_TO_WINDOW: "WebDriver:SwitchToWindow",
    Command.CLOSE: "WebDriver:CloseWindow",
    Command.SCREENSHOT: "WebDriver:TakeScreenshot",
    Command.QUIT: "Marionette:Quit",
}


class Marionette(RemoteConnection):
    """Selenium's connection to a driver, without one: messages are "LENGTH:JSON"."""

    def __init__(self, port: int) -> None:
        super().__init__(client_config=ClientConfig(f"http://127.0.0.1:{port}"))
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._stream = self._socket.makefile("rwb")
        self._sent = 0
        self._receive()  # who is speaking

    def execute(self, command: str, params: dict[str, Any]) -> dict[str, Any]:
        asked = {key: value for key, value in params.items() if key != "sessionId"}
        if "Execute" in COMMANDS[command]:
            asked |= {"newSandbox": False, "sandbox": None}  # among the page's own names
        if command == Command.FIND_CHILD_ELEMENTS:
            asked["element"] = asked.pop("id")
        self._sent += 1
        text = json.dumps([0, self._sent, COMMANDS[command], asked]).encode()
        self._stream.write(b"%d:%s" % (len(text), text))
        self._stream.flush()
        _, number, error, result = self._receive()
        assert number == self._sent
        if error:
            ErrorHandler().check_response({"status": error["error"], "value": error})
        whole = isinstance(result, dict) and set(result) == {"value"}
        return {"value": result["value"] if whole else result}

    def _receive(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            letter = self._stream.read(1)
            if not letter:
                raise ConnectionError("Firefox has gone")
            length += letter
        return json.loads(self._stream.read(int(length[:-1])))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()
        super().close()


def missing() -> str:
    """What is not installed, or nothing."""
    return "" if shutil.which("firefox-esr") else "firefox-esr"


@contextmanager
def firefox(profile: Path) -> Iterator[Remote]:
    """A browser with a fresh profile."""
    lines = (
        f"user_pref({json.dumps(key)}, {json.dumps(value)});" for key, value in SETTINGS.items()
    )
    (profile / "user.js").write_text("\n".join(lines))
    command = ["firefox-esr", "--headless", "--marionette", "--no-remote", "--profile", profile]
    with open(profile / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        output, end = profile / "MarionetteActivePort", time.monotonic() + 60
        while not (output.exists() and output.read_text()):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((profile / "log").read_text())
            time.sleep(0.05)
        browser = Remote(Marionette(int(output.read_text())), options=FirefoxOptions())
        browser.set_script_timeout(110)  # below the driver's own patience
        yield browser
        browser.quit()
    finally:
        process.terminate()
        process.wait(30)
