"""`pytest -p processor_time`: the processor's seconds of each file, its processes included.

Wall clocks tell little on a machine with other work. Of processes only those count that have ended.
"""

import os
from collections import defaultdict
from collections.abc import Generator

import pytest

MARK = "processor time"
_last = 0.0


def seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_runtest_logstart() -> None:
    global _last
    _last = seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    global _last
    report = yield
    now = seconds()
    report.user_properties = [*report.user_properties, (MARK, now - _last)]
    _last = now
    return report


class Totals:
    """Sums over all workers."""

    def __init__(self) -> None:
        self.files: dict[str, float] = defaultdict(float)
        self.tests: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = dict(report.user_properties).get(MARK, 0.0)
        self.files[report.nodeid.partition("::")[0]] += spent
        self.tests[report.nodeid] += spent

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor time")
        terminalreporter.line(f"{sum(self.files.values()):8.1f} s in all")
        for spent in (self.files, self.tests):
            for name, each in sorted(spent.items(), key=lambda pair: -pair[1])[:60]:
                terminalreporter.line(f"{each:8.1f} s {name}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Totals())
