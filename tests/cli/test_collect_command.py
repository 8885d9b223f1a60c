"""`pdml collect` as people call it."""

import csv
import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from example_study import STUDY
from running import run

from pdml.cli.collect_operator import token
from pdml.collect.rules import Rules, identity
from pdml.collect.sqlite import SqliteStore
from pdml.collect.store import Entry
from pdml.frozen import open_frozen
from pdml.messages import Report, encode_report, pack_features
from pdml.study import ServerEntry
from pdml.study.template import render

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
    features = pack_features(TRIAL.encode({"age": 30, "sex": "other"}))
    lines = [
        encode_report(
            Report(
                1,
                TRIAL.hash,
                os.urandom(16).hex(),
                TRIAL.epsilon_micro[i % 2],
                i % 2,
                features,
                token,
            )
        )
        for i in range(count)
    ]
    entries = [
        each
        for each in Rules.of(TRIAL, require_tokens=False).read(lines, 1.8e9)
        if isinstance(each, Entry)
    ]
    store = SqliteStore(Path(DB), identity(TRIAL, "alice"))
    assert {outcome.code for outcome in store.commit(entries)} == {"stored"}
    store.close()
    return [each.id.hex() for each in entries]


def test_a_collection_s_whole_life(capsys: pytest.CaptureFixture[str]) -> None:
    first, *_ = reports(5)
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
    told = json.loads(out)
    assert (
        code == 0
        and told["records"] == 4 == len(open_frozen("data"))
        and open_frozen("data").manifest.digest == told["digest"]
    )
    code, out, _ = run(capsys, "collect", "export", *AT, "--out", "again")
    assert code == 0 and told["digest"] in out
    told = json.loads(run(capsys, "collect", "status", *AT, "--json")[1])
    assert (told["state"], told["reports"], told["withdrawn"]) == ("frozen", 4, 1) and told[
        "frozen_at"
    ].endswith("Z")
    for refused in (
        ["delete", *AT, "--report", first],
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
    told = json.loads(run(capsys, "collect", "status", *AT, "--json")[1])
    assert (told["invitations"], told["invitations_used"]) == (1000, 1)
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
        (["delete", *AT, "--report", "xyz"], "32 lower-case hex digits"),
        (["serve", *AT, "--host", "0.0.0.0"], "--insecure-http"),
        (["serve", *AT, "--cert", "a.pem"], "belong together"),
        (["serve", *AT, "--cert", "a.pem", "--key", "b.pem"], "cannot use --cert a.pem"),
        (["serve", *AT, "--db", "study.toml"], "as a collection"),
        (["serve", *AT, "--db", "no/such/folder.db"], "no such file"),
        (["serve", *AT, "--host", "203.0.113.77", "--insecure-http"], "cannot listen"),
        (["serve", *AT, "--proxy", "everybody"], "proxy must be an address or a network"),
    ],
)
def test_refusals_are_one_sentence(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "collect", *arguments)
    assert (code, out) == (1, "") and reason in err and err.count("\n") == 1


def _link(path: Path) -> None:
    Path("real").write_text("a-token-of-sixteen-letters\n")
    Path("real").chmod(0o600)
    path.symlink_to("real")


def _text(content: bytes, mode: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)
        path.chmod(mode)

    return write


GOOD = b"a-token-of-sixteen-letters\n"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_text(b"short\n", 0o600), "at least 16 characters"),
        (_text(GOOD, 0o644), "can be read by others"),
        (_text(GOOD, 0o640), "can be read by others"),
        (_text(GOOD, 0o602), "can be read by others"),
        (_text(b"\xff" * 30, 0o600), "is not text"),
        (_link, "is a symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "is a symbolic link"),
        (lambda path: path.mkdir(), "must be a file"),
        (lambda path: os.mkfifo(path, 0o600), "must be a file"),
    ],
)
def test_an_operator_s_token_that_others_could_know_is_refused(
    make: Callable[[Path], None], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(Path("token"))
    code, out, err = run(capsys, "collect", "serve", *AT, "--operator-token", "token")
    assert (code, out) == (1, "") and reason in err and err.count("\n") == 1


def test_the_operator_s_token_is_made_for_us_alone(tmp_path: Path) -> None:
    file, first = token(None, str(tmp_path / "reports.db"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (
        token(file, "postgresql://x")
        == (file, first)
        == (file, sha256(file.read_bytes().strip()).hexdigest())
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "-1"])
@pytest.mark.parametrize("option", ["--head-timeout", "--body-timeout", "--write-timeout"])
def test_deadlines_are_numbers_of_seconds(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "collect", "serve", *AT, option, value)
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


@pytest.mark.parametrize("command", ["serve", "invite", "status", "delete", "close", "export"])
def test_every_command_explains_itself_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "collect", command, "--help")
    assert (code, err) == (0, "")
    assert f"\n    pdml collect {command} " in out and "--json" in out
    assert max(map(len, out.splitlines())) <= 80
