"""Real browsers, one of each kind for a run, and a person in front of one."""

import os
from collections.abc import Iterator

import firefox
import pytest
from browsing import Visitor, chromium, missing
from recording import Recorder
from selenium.webdriver import Chrome
from selenium.webdriver.remote.webdriver import WebDriver


def require(name: str) -> None:
    """A browser that is not there is a failure only where everything is to be tested."""
    if name and os.environ.get("CI") == "true":
        pytest.fail(f"the page must be tested in real browsers: install {name}")
    if name:
        pytest.skip(f"needs a real browser: install {name}")


@pytest.fixture(scope="session")
def second_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    require(firefox.missing())
    with firefox.firefox(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    require(missing())
    with chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(
    params=[
        pytest.param("browser", id="chromium"),
        pytest.param("second_browser", id="firefox", marks=pytest.mark.firefox),
    ]
)
def engine(request: pytest.FixtureRequest) -> WebDriver:
    """Two browsers that share no line of code; `make test` takes the first alone."""
    driver: WebDriver = request.getfixturevalue(request.param)
    return driver


@pytest.fixture
def visitor(browser: Chrome, recorder: Recorder) -> Iterator[Visitor]:
    """A person on a device that remembers nothing. Whatever the policy forbids and the page tries
    is a failure.
    """
    browser.get_log("browser")  # empties it
    yield Visitor(browser, recorder.url).opens(fresh=True)
    complaints = [
        entry["message"]
        for entry in browser.get_log("browser")
        if "Failed to load resource" not in entry["message"]
    ]
    assert not complaints  # neither a violation of the policy nor an error of the script
