"""A machine whose date is wrong: real commands, in processes whose clock is a year ahead."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from example_study import ASKING
from reporting import make_report

from pdml.collector.intake.report_rules import Rules, collection_id
from pdml.collector.storage.sqlite import SqliteStore
from pdml.study.messages import encode_report
from pdml.study.schema.template import render

TODAY = datetime(2026, 6, 1, 12, tzinfo=UTC)
END = datetime(2027, 1, 1, tzinfo=UTC)
STUDY = replace(
    ASKING,
    opens=datetime(2026, 1, 1, tzinfo=UTC),
    closes=datetime(2026, 12, 1, tzinfo=UTC),
    notice=replace(ASKING.notice, retention=END),
    min_records=4,
)
# the machine's clock, and nothing else of it
PDML = (
    "import os, time; now = float(os.environ['CLOCK']); time.time = lambda: now; "
    "from pdml.cli import main; main()"
)
AT = ["study.toml", "--server", "alice"]


@pytest.fixture
def machine(tmp_path: Path):
    """A command at a date, as (exit code, standard output, standard error); with 5 reports."""
    (tmp_path / "study.toml").write_text(render(STUDY))

    def command(when: datetime, name: str, *arguments: str):
        result = subprocess.run(
            [sys.executable, "-c", PDML, "collect", name, *AT, *arguments],
            cwd=tmp_path,
            env=os.environ | {"CLOCK": str(when.timestamp()), "COLUMNS": "400"},
            capture_output=True,
            text=True,
            timeout=60,  # a service that starts would not end
        )
        return result.returncode, result.stdout, result.stderr

    assert command(TODAY, "invite", "--count", "2", "--out", "tokens.csv")[0] == 0
    features = STUDY.encode({"age": 30, "sex": "other"})
    lines = [
        encode_report(make_report(STUDY, os.urandom(16).hex(), features=features)) for _ in range(5)
    ]
    entries = Rules.of(STUDY, require_tokens=False).read(lines, TODAY.timestamp())
    store = SqliteStore(tmp_path / f"{STUDY.id}-alice.db", collection_id(STUDY, "alice"))
    assert {outcome.code for outcome in store.commit(entries)} == {"stored"}
    store.close()
    return command


def held(machine, when: datetime) -> int:
    return json.loads(machine(when, "status", "--json")[1])["reports"]


def test_a_year_s_jump_erases_nothing_and_says_so(machine, tmp_path: Path) -> None:
    later = TODAY + timedelta(days=365)
    code, out, err = machine(later, "status")
    assert code == 0 and "5 reports would be erased, and nothing was" in out, err
    for name, *arguments in (
        ("purge",),
        ("purge", "--due"),
        ("export", "--out", "data"),
        ("invite", "--count", "1", "--out", "more.csv"),
        ("serve", "--port", "0"),
    ):
        code, out, err = machine(later, name, *arguments)
        assert code != 0 and out == "", name
        assert (
            "the clock says 2027-06-01 12:00 UTC, 365 days after the latest time that this "
            "collection has seen (2026-06-01 12:00 UTC)" in err
        )
        assert "the retention ended at 2027-01-01 00:00 UTC" in err
        assert "`pdml collect clock --confirm`" in err
    assert not (tmp_path / "more.csv").exists() and not (tmp_path / "data").exists()
    assert machine(later, "clock")[0] == 0  # which only tells
    assert held(machine, later) == 5  # however often it is asked
    # the date is set right: all goes on as if nothing had been
    code, out, err = machine(TODAY + timedelta(hours=1), "export", "--out", "data")
    assert (code, err) == (0, "") and "5 reports are frozen" in out


def test_a_year_s_pause_is_confirmed_by_one_command(machine) -> None:
    later = TODAY + timedelta(days=365)
    code, out, err = machine(later, "clock", "--confirm")
    assert (code, err) == (0, "")
    assert "The clock says 2027-06-01T12Z, which is confirmed." in out
    assert "All reports were erased in the hour 2027-06-01T12Z." in out
    summary = json.loads(machine(later, "status", "--json")[1])
    assert (summary["state"], summary["reports"], summary["clock_jump"]) == ("erased", 0, None)
    code, out, err = machine(later + timedelta(days=365), "purge", "--due")
    assert (code, err) == (0, "")  # nothing is left to be erased by mistake


def test_a_timer_warns_before_the_end(machine) -> None:
    code, out, err = machine(END - timedelta(days=2), "purge", "--due")
    assert code == 0 and "are kept until 2027-01-01T00:00:00Z" in out
    assert "5 reports will not be erased then unless the date is confirmed" in err
    assert machine(END - timedelta(days=2), "clock", "--confirm")[0] == 0
    code, out, err = machine(END, "purge", "--due")
    assert (code, err) == (0, "") and "All reports of alice were erased" in out


def test_erasing_early_needs_no_date(machine) -> None:
    code, out, err = machine(TODAY + timedelta(days=365), "purge", "--early")
    assert code == 0 and "All reports of alice were erased" in out, err


def test_whoever_runs_a_command_every_week_is_never_asked(machine) -> None:
    when = END - timedelta(days=8)
    summary = json.loads(machine(when, "clock", "--json")[1])  # a pause of half a year: harmless
    assert (summary["clock_jump"], summary["latest_hour"]) == (None, "2026-12-24T00Z")
    assert held(machine, when + timedelta(days=7)) == 5
    assert held(machine, END) == 0


def test_a_service_does_not_start_after_the_end_and_erases_what_was_due(machine) -> None:
    for days in (8, 1):
        machine(END - timedelta(days=days), "clock")
    code, out, err = machine(END, "serve", "--port", "0")
    assert code == 1 and out == "" and "which has passed: nobody may be asked by it" in err
    assert held(machine, END) == 0
