"""Unit tests start no process, open no connection and drive no browser: an attempt fails."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

FORBIDDEN = {"subprocess.Popen", "os.fork", "os.posix_spawn", "socket.connect", "socket.bind"}
_running: list[str] = []  # the unit test that runs


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if _running and event in FORBIDDEN:
        raise AssertionError(f"{_running[-1]} is a unit test, and must not use {event}{arguments}")


sys.addaudithook(refuse)


@pytest.fixture(autouse=True)
def within_this_process(request: pytest.FixtureRequest) -> Iterator[None]:
    _running.append(request.node.nodeid)
    yield
    _running.pop()
