"""Unit tests start no process, open no connection and drive no browser: an attempt fails."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FORBIDDEN = {"subprocess.Popen", "os.fork", "os.posix_spawn", "socket.connect", "socket.bind"}
_running: list[str] = []  # the unit test that runs


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if _running and event in FORBIDDEN:
        raise AssertionError(f"{_running[-1]} is a unit test, and must not use {event}{arguments}")


sys.addaudithook(refuse)


# What trains, searches or integrates for seconds: left out of `make test-unit`.
LONG = (
    "accounting/test_answer_lines.py",
    "accounting/test_response_rows.py",
    "node/test_budget_histories.py",
    "numerics/test_expected_accuracy.py",
    "numerics/test_kernel.py",
    "planning/test_planner.py",
    "planning/test_proposal.py",
    "planning/test_resolve_plan.py",
    "planning/test_rounds_search.py",
    "planning/test_synthetic.py",
    "planning/test_utility.py",
    "research/",
    "simulation/",
    "study/test_budget_checks.py",
    "study/test_sensitive.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            name = item.path.relative_to(here).as_posix()
            if name.startswith(LONG):
                item.add_marker("long")


@pytest.fixture(autouse=True)
def within_this_process(request: pytest.FixtureRequest) -> Iterator[None]:
    _running.append(request.node.nodeid)
    yield
    _running.pop()
