"""Time is an argument of every party: a clock, and no module that goes round it."""

import ast
import asyncio
import threading
import time
from pathlib import Path

import pytest

import pdml
from pdml.clock import SYSTEM_CLOCK, SystemClock

SOURCE = Path(pdml.__file__).parent
PARTIES = ("node", "collector", "device")
CALLS = {
    "time": {
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "sleep",
        "perf_counter",
        "perf_counter_ns",
    },
    "asyncio": {"sleep"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def own_times(source):
    """What in a module's text reads or waits by the machine's clock, a default argument included."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    uses = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = (
                node.value.attr
                if isinstance(node.value, ast.Attribute)
                else getattr(node.value, "id", "")
            )
            if node.attr in CALLS.get(module, ()):
                uses.append(f"{module}.{node.attr}")
        elif isinstance(node, ast.Name):
            module, name = imported.get(node.id, ("", ""))
            if name in CALLS.get(module, ()):
                uses.append(f"{module}.{name}")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "wait"
        ):
            receiver = ast.unparse(node.func.value)
            if (
                (node.args or node.keywords)
                and receiver != "asyncio"
                and not receiver.lower().endswith("clock")
            ):
                uses.append(f"{receiver}.wait")
    return uses


def modules():
    return {
        path.relative_to(SOURCE).as_posix(): own_times(path.read_text())
        for party in PARTIES
        for path in sorted((SOURCE / party).rglob("*.py"))
    }


def test_no_module_of_a_party_calls_the_clock_itself():
    assert {name: uses for name, uses in modules().items() if uses} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(1)",
        "import time\ndef f(clock=time.monotonic): pass",
        "from time import perf_counter as p\np()",
        "import asyncio\nasyncio.sleep(1)",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.now()",
        "def f(self): self._changed.wait(0.5)",
    ],
)
def test_the_check_finds_every_way_round_the_clock(text):
    assert own_times(text)


@pytest.mark.parametrize(
    "text",
    [
        "def f(self): self._clock.wait(self._changed, 0.5)",
        "def f(clock): clock.sleep(clock.monotonic())",
        "def f(event): event.wait()",
    ],
)
def test_the_check_lets_an_injected_clock_pass(text):
    assert own_times(text) == []


def test_the_system_clock_is_the_machines():
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 5 and abs(clock.monotonic() - time.monotonic()) < 5
    start = time.monotonic()
    clock.sleep(0.02)
    asyncio.run(clock.sleep_async(0.02))
    assert time.monotonic() - start >= 0.04


def test_waiting_tells_whether_the_event_came():
    event = threading.Event()
    assert not SYSTEM_CLOCK.wait(event, 0.01)
    event.set()
    assert SYSTEM_CLOCK.wait(event, 0.01)
    condition = threading.Condition()
    with condition:
        assert not SYSTEM_CLOCK.wait(condition, 0.01)
