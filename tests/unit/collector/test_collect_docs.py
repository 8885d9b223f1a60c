"""docs/reference/collector.md stays true: routes and limits."""

import re
from pathlib import Path

from collecting import TRIAL

from pdml.collector.http.application import document
from pdml.collector.intake.report_rules import Rules
from pdml.study.messages import MAX_BATCH

TEXT = (Path(__file__).parents[3] / "docs" / "reference/collector.md").read_text()


def test_every_route_is_documented():
    paths = document(TRIAL, "alice", Rules.of(TRIAL, require_tokens=True), operator=True)["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(re.findall(r"`((?:GET|POST) /[\w./]*)`", TEXT)) == routes


def test_the_limits_are_the_limits():
    assert f"up to {MAX_BATCH:,} reports" in TEXT
