"""`pdml collect` as people call it."""

import csv
import json
import os
import re
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from example_study import STUDY
from reporting import make_report
from running import run

from pdml.cli.commands.collect import collect
from pdml.collector.intake.report_rules import Rules, collection_id
from pdml.collector.storage.records import Entry
from pdml.collector.storage.sqlite import SqliteStore
from pdml.study import ServerEntry
from pdml.study.frozen_dataset import open_frozen
from pdml.study.messages import encode_report
from pdml.study.schema.template import render

ALICE = ServerEntry("alice", "https://alice.example/study/")
TRIAL = replace(STUDY, servers=(ALICE, *STUDY.servers[1:]), min_records=4)
AT = ["study.toml", "--server", "alice"]
DB = f"{STUDY.id}-alice.db"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PDML_COLLECT_DB", raising=False)
    (tmp_path / "study.toml").write_text(render(TRIAL))
    return tmp_path


def reports(count: int, token: str = "") -> list[str]:
    """Store reports as the service would; their ids."""
    summary = {"features": TRIAL.encode({"age": 30, "sex": "other"}), "token": token}
    lines = [
        encode_report(
            make_report(
                TRIAL,
                os.urandom(16).hex(),
                epsilon=TRIAL.epsilon_micro[i % 2],
                label=i % 2,
                **summary,
            )
        )
        for i in range(count)
    ]
    entries = [
        each
        for each in Rules.of(TRIAL, require_tokens=False).read(lines, 1.8e9)
        if isinstance(each, Entry)
    ]
    store = SqliteStore(Path(DB), collection_id(TRIAL, "alice"))
    assert {outcome.code for outcome in store.commit(entries)} == {"stored"}
    store.close()
    return [each.report for each in entries]


@pytest.mark.parametrize(
    ("opens", "closes", "sentence"),
    [
        (2024, 2025, "the study closed at 2025-01-01 00:00 UTC"),
        (2088, 2089, "the study opens at 2088-01-01 00:00 UTC"),
        (2024, 2089, ""),
    ],
)
def test_reopening_outside_the_study_s_times_says_that_nothing_is_taken(
    capsys: pytest.CaptureFixture[str], opens: int, closes: int, sentence: str
) -> None:
    times = {
        "opens": datetime(opens, 1, 1, tzinfo=UTC),
        "closes": datetime(closes, 1, 1, tzinfo=UTC),
    }
    Path(AT[0]).write_text(render(replace(TRIAL, **times)))
    run(capsys, "collect", "invite", *AT, "--count", "1", "--out", "links.csv")
    code, out, err = run(capsys, "collect", "close", *AT, "--reopen")
    assert code == 0, err
    assert sentence in " ".join(out.split()) and ("no report is taken" in out) == bool(sentence)


def test_a_collection_s_whole_life(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = reports(5)
    code, out, err = run(capsys, "collect", "status", *AT)
    assert (
        (code, err) == (0, "")
        and "is open: 5 reports, of 4 that training needs" in out
        and "yes" in out
    )
    code, out, err = run(capsys, "collect", "delete", *AT, "--report", first)
    assert (code, out, err) == (0, f"Report {first} is withdrawn.\n", "")
    assert (
        run(capsys, "collect", "delete", *AT, "--report", first)[1]
        == f"Report {first} was withdrawn before.\n"
    )
    assert run(capsys, "collect", "close", *AT)[1] == "The collection of alice is closed.\n"
    assert (
        run(capsys, "collect", "close", *AT, "--reopen")[1] == "The collection of alice is open.\n"
    )
    code, out, _ = run(capsys, "collect", "export", *AT, "--out", "data", "--json")
    summary = json.loads(out)
    assert (
        code == 0
        and summary["records"] == 4 == len(open_frozen("data"))
        and open_frozen("data").manifest.digest == summary["digest"]
    )
    code, out, _ = run(capsys, "collect", "export", *AT, "--out", "again")
    assert code == 0 and summary["digest"] in out
    summary = json.loads(run(capsys, "collect", "status", *AT, "--json")[1])
    assert (summary["state"], summary["reports"], summary["withdrawn"]) == (
        "frozen",
        4,
        1,
    ) and summary["frozen_at"].endswith("Z")
    for refused in (
        ["delete", *AT, "--report", second],
        ["close", *AT],
        ["invite", *AT, "--count", "1", "--out", "t.csv"],
    ):
        code, out, err = run(capsys, "collect", *refused)
        assert (code, out) == (1, "") and "frozen" in err and err.count("\n") == 1
    assert not Path("t.csv").exists()


def test_invitations_are_links_that_keep_the_token_from_servers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "collect", "invite", *AT, "--count", "1000", "--out", "tokens.csv")
    assert (code, err) == (0, "") and "1,000 invitations" in out
    with open("tokens.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["token"] for row in rows}) == 1000 and all(
        len(row["token"]) == 32 for row in rows
    )
    assert all(row["link"] == f"https://alice.example/study/#t={row['token']}" for row in rows)
    assert stat.S_IMODE(os.stat("tokens.csv").st_mode) == 0o600
    assert rows[0]["token"].encode() not in Path(DB).read_bytes()
    reports(1, rows[0]["token"])
    summary = json.loads(run(capsys, "collect", "status", *AT, "--json")[1])
    assert (summary["invitations"], summary["invitations_used"]) == (1000, 1)
    assert run(capsys, "collect", "invite", *AT, "--count", "1", "--out", "tokens.csv")[0] == 1


def test_a_small_collection_is_frozen_only_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    reports(2)
    code, _, err = run(capsys, "collect", "export", *AT, "--out", "data")
    assert code == 1 and "holds 2 reports" in err
    assert run(capsys, "collect", "export", *AT, "--out", "data", "--force-small")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["status", *AT], f"there is no collection in {DB}"),
        (["status", "study.toml"], "several servers"),
        (["status", "study.toml", "--server", "eve"], "no server 'eve'"),
        (["status", "nowhere.toml"], "nowhere.toml"),
        (["status", *AT, "--db", "mysql://x"], "postgresql://"),
        (["serve", *AT, "--test", "--host", "0.0.0.0"], "--insecure-http"),
        (["serve", *AT, "--test", "--cert", "a.pem"], "belong together"),
        (["serve", *AT, "--test", "--cert", "a.pem", "--key", "b.pem"], "cannot use --cert a.pem"),
        (["serve", *AT, "--test", "--db", "study.toml"], "as a collection"),
        (["serve", *AT, "--test", "--db", "no/such/folder.db"], "no such file"),
        (["serve", *AT, "--test", "--proxy", "everybody"], "proxy must be an address or a network"),
    ],
)
def test_refusals_are_one_sentence(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "collect", *arguments)
    assert (code, out) == (1, "") and reason in err and err.count("\n") == 1


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "-1"])
@pytest.mark.parametrize("option", ["--head-timeout", "--body-timeout", "--write-timeout"])
def test_deadlines_are_numbers_of_seconds(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "collect", "serve", *AT, "--test", option, value)
    assert (code, out) == (2, "") and option in err and "Traceback" not in err


def test_without_their_keys_reports_are_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    reports(5)
    Path(DB).with_suffix(".keys").rename("vault")
    for command in (["status", *AT], ["close", *AT], ["export", *AT, "--out", "data"]):
        code, out, err = run(capsys, "collect", *command)
        assert (
            (code, out) == (1, "")
            and "keys of this collection are not in" in err
            and err.count("\n") == 1
        )
    assert not Path(DB).with_suffix(".keys").exists()
    code, out, _ = run(capsys, "collect", "export", *AT, "--out", "data", "--keys", "vault")
    assert code == 0 and "5 reports are frozen" in out


@pytest.mark.parametrize(
    "command", ["serve", "invite", "status", "delete", "purge", "clock", "close", "export"]
)
def test_every_command_explains_itself_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "collect", command, "--help")
    assert (code, err) == (0, "")
    assert f"\n    pdml collect {command} " in out and "--json" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_collection_is_erased_early_only_if_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    reports(5)
    code, out, err = run(capsys, "collect", "purge", *AT)
    assert (code, out) == (1, "") and "has no retention" in err and err.count("\n") == 1
    code, out, err = run(capsys, "collect", "purge", *AT, "--due")
    kept = "Nothing was erased: the reports of alice are kept until somebody erases them.\n"
    assert (code, out, err) == (0, kept, "")
    run(capsys, "collect", "export", *AT, "--out", "data")
    digest = open_frozen("data").manifest.digest
    code, out, err = run(capsys, "collect", "purge", *AT, "--early")
    assert (code, err) == (0, "") and "All reports of alice were erased in the hour 20" in out
    assert f"Delete the data set with digest {digest}, too." in out
    summary = json.loads(run(capsys, "collect", "status", *AT, "--json")[1])
    assert (summary["state"], summary["reports"]) == ("erased", 0) and summary["erased_at"]
    assert "were erased in the hour" in run(capsys, "collect", "status", *AT)[1]
    code, _, err = run(capsys, "collect", "export", *AT, "--out", "again")
    assert code == 1 and "nothing to freeze" in err


def test_every_command_is_told() -> None:
    text = (Path(__file__).parents[3] / "docs" / "guide/collect.md").read_text(encoding="utf-8")
    names = {getattr(each.callback, "__name__", "") for each in collect.registered_commands}
    assert set(re.findall(r"pdml collect (\w+)", text)) == names
