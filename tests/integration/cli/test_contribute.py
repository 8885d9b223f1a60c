"""`pdml contribute` as people run it: questions in the terminal, a preview, one report however
often.
"""

import hashlib
import json
import os
import pty
import re
import select
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from example_study import ASKING, STUDY
from recording import Answer, Recorder, receipt, refusal
from running import PDML, run

from pdml.device import page
from pdml.encoding.attributes import Menu
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.maps import Squares
from pdml.study import study_summary
from pdml.study.messages import Report, decode_report, features_of
from pdml.study.schema import template
from pdml.study.translations import Question, Texts


@pytest.fixture
def server() -> Iterator[Recorder]:
    with Recorder(page.render(STUDY), STUDY.canonical()) as running:
        yield running


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "study.toml"
    path.write_text(template.render(STUDY), encoding="utf-8")
    return str(path)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PDML_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def typed(keys: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A real process with a person at its other end."""
    return subprocess.run(
        [*PDML, *arguments], input=keys, capture_output=True, text=True, timeout=60
    )


ANSWERS = ("--answer", "age=34", "--answer", "sex=male", "--epsilon", "1", "--label", "yes")


def test_questions_are_asked_and_the_label_last(server: Recorder, study: str) -> None:
    """Through real pipes: number, level by number, epsilon by number, the label by its name, and
    consent.
    """
    asked = typed("34\n2\n1\nyes\ny\n", "contribute", study, "--server", server.url)
    assert asked.returncode == 0, asked.stderr
    parts = ("age (from 18 to 100)", "Your sex", "How private?", STUDY.question, "Send this?")
    order = [asked.stderr.index(part) for part in parts]
    assert order == sorted(order)
    assert study_summary.meaning(400_000, STUDY.classes) in asked.stderr
    assert "the true answer is kept with a chance of 59.9%" in asked.stdout
    report = decode_report(server.bodies[0])
    assert (report.epsilon, report.study) == (400_000, STUDY.hash)
    assert features_of(report).tobytes() == STUDY.encode({"age": 34, "sex": "male"}).tobytes()
    assert server.bodies[0].decode() in asked.stdout  # the preview was what was sent
    assert "Stored by alice" in asked.stdout


def test_the_studys_texts_are_shown_in_another_language(
    tmp_path: Path,
) -> None:
    """What is sent is what English answers make; a language that the study has not is refused."""
    german = Texts(
        code="de",
        title="Wer?",
        description="Eine Umfrage.",
        question="Wurden Sie diagnostiziert?",
        classes=("nein", "ja"),
        attributes=(
            Question("age", "Alter"),
            Question("sex", "Geschlecht", levels=("weiblich", "männlich", "anders")),
        ),
    )
    both = replace(STUDY, language="en", languages=(german,))
    path = tmp_path / "both.toml"
    path.write_text(template.render(both), encoding="utf-8")
    with Recorder(page.render(both), both.canonical()) as listening:
        options = ("contribute", str(path), "--server", listening.url, "--language")
        asked = typed("34\nmännlich\n1\nja\ny\n", *options, "de")
        assert asked.returncode == 0, asked.stderr
        for said in ("Alter (from 18", "Geschlecht", "3  anders", german.question):
            assert said in asked.stderr
        assert german.question in asked.stdout
        report = decode_report(listening.bodies[0])
        answers = {"age": 34, "sex": "male"}
        assert features_of(report).tobytes() == STUDY.encode(answers).tobytes()
        refused = typed("", *options, "fr")
        assert refused.returncode == 1
        assert "language must be one of the study's (en, de), got 'fr'" in refused.stderr


def test_questions_can_be_left_out_and_the_preview_says_so(tmp_path: Path) -> None:
    age = Number(name="age", low=18, high=100, average=45, spread=10, missing="average")
    job = Category(name="job", levels=("farm", "office"), missing="level")
    steps = Number(name="steps", low=0, high=10**6, average=6_000, spread=4_000)
    encoder = Encoder(attributes=(age, job, steps), maps=(Squares(),))
    second = replace(STUDY, encoder=encoder, wording={})
    path = tmp_path / "second.toml"
    path.write_text(template.render(second), encoding="utf-8")
    with Recorder(page.render(second), second.canonical()) as server:
        asked = typed("\n3\n50000\n1\nyes\ny\n", "contribute", str(path), "--server", server.url)
    assert asked.returncode == 0, asked.stderr
    assert "age (from 18 to 100; empty: prefer not to say)" in asked.stderr
    shown = re.sub(" +", " ", asked.stdout)
    for line in (
        "age prefer not to say",
        "job prefer not to say",
        "steps 18000 or more",
        "made of these the square of every number that is sent as it is",
    ):
        assert f"\n {line}\n" in shown
    report = decode_report(server.bodies[0])
    expected = second.encode({"age": None, "job": None, "steps": 50_000})
    assert features_of(report).tobytes() == expected.tobytes()


def test_nothing_is_sent_without_consent_and_the_draw_stays(
    capsys: pytest.CaptureFixture[str], server: Recorder, study: str
) -> None:
    refused = typed("n\n", "contribute", study, "--server", server.url, *ANSWERS)
    assert refused.returncode == 1 and "Nothing was sent" in refused.stderr and server.bodies == []
    code, out, _ = run(
        capsys, "contribute", study, "--server", server.url, *ANSWERS, "--yes", "--json"
    )
    assert code == 0
    assert server.bodies[0].decode() in refused.stdout  # the very report that was shown before
    assert json.loads(out)["receipt"]["digest"] == hashlib.sha256(server.bodies[0]).hexdigest()


@pytest.mark.parametrize(
    ("keys", "summary"),
    [
        ("", "nobody answered 'age'"),
        ("34\n", "nobody answered 'Your choice'"),
        ("34\n2\n1\nyes\n", "Nothing was sent."),
    ],
)
def test_input_that_ends_is_no_consent(
    server: Recorder, study: str, keys: str, summary: str
) -> None:
    ended = typed(keys, "contribute", study, "--server", server.url)
    assert ended.returncode == 1 and summary in ended.stderr and server.bodies == []
    assert "Aborted" not in ended.stderr


def test_running_it_again_sends_the_same_whatever_is_said(
    capsys: pytest.CaptureFixture[str], server: Recorder, study: str, state: Path
) -> None:
    for label in ("yes", "no", "yes"):
        code, _, _ = run(
            capsys, "contribute", study, "--server", server.url, *ANSWERS[:-1], label, "--yes"
        )
        assert code == 0
    assert len(server.bodies) == 3 and len(set(server.bodies)) == 1
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    run(
        capsys,
        "contribute",
        study,
        "--server",
        server.url,
        *ANSWERS,
        "--yes",
        "--record",
        "somebody else",
    )
    assert decode_report(server.bodies[3]).id != decode_report(server.bodies[0]).id


def test_answers_come_from_a_file_and_the_token_from_a_link(
    capsys: pytest.CaptureFixture[str], server: Recorder, study: str, tmp_path: Path
) -> None:
    (tmp_path / "answers.json").write_text('{"age": 40.5, "sex": "female"}')
    given = (
        "--answers",
        str(tmp_path / "answers.json"),
        "--token",
        "https://alice.example/#t=" + "ab" * 16,
    )
    code, out, _ = run(
        capsys, "contribute", study, "--server", server.url, *given, *ANSWERS[4:], "--yes", "--json"
    )
    assert code == 0
    report = Report(**json.loads(out)["report"])
    assert report.token == "ab" * 16
    assert STUDY.decode(features_of(report)) == {"age": 40.5, "sex": "female"}


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        (("--server", "dave"), "no server 'dave'"),
        ((), "--server must name your organisation: one of alice, bob, carol"),
        (("--server", "http://alice.example"), "https"),
        (("--server", "SELF", "--answer", "age=17"), "'age' must lie in [18, 100], got 17"),
        (("--server", "SELF", "--answer", "age=old"), "'age' must be a number in digits"),
        (("--server", "SELF", "--answer", "sex=x"), "'sex' must be one of"),
        (("--server", "SELF", "--answer", "height=2"), "('age', 'sex'), got one to 'height'"),
        (("--server", "SELF", "--answer", "age"), "--answer must look like name=value"),
        (
            ("--server", "SELF", "--epsilon", "3"),
            "epsilon must be on the study's menu (0.4, 1, 2), got 3",
        ),
        (("--server", "SELF", "--epsilon", "nan"), "--epsilon must be on the study's menu"),
        (
            ("--server", "SELF", "--label", "perhaps"),
            "--label must be one of 'no', 'yes', got something else",
        ),
        (("--server", "SELF", "--token", "short"), "--token must be 32 hex digits"),
        (("--server", "SELF", "--tokens", "t.csv"), "--tokens needs --csv"),
        (("--server", "SELF", "--json", "NOT-YES"), "--json needs --yes"),
        (("--server", "SELF", "--answers", "study.toml"), "must be a JSON object"),
        (("--server", "SELF", "--csv", "people.csv"), "must be left out beside --csv"),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_is_sent(
    capsys: pytest.CaptureFixture[str],
    server: Recorder,
    study: str,
    arguments: tuple[str, ...],
    summary: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(study).parent)
    given = [
        server.url if argument == "SELF" else argument
        for argument in arguments
        if argument != "NOT-YES"
    ]
    consent = () if "NOT-YES" in arguments else ("--yes",)
    code, out, err = run(capsys, "contribute", study, *ANSWERS, *given, *consent)
    assert (code, out) == (1, "") and summary in err and len(err.splitlines()) == 1
    assert server.bodies == [] and server.heads == []


WRONG = [("--answer", "sex=x"), ("--token", "0"), ("--epsilon", "3"), ("--label", "x")]
REFUSALS = ["token_missing", "token_unknown", "token_used", "closed", "too_early"]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong[0])
def test_what_is_given_is_refused_before_anything_is_asked(
    server: Recorder,
    study: str,
    state: Path,
    wrong: tuple[str, str],
) -> None:
    asked = typed("34\n2\n1\nyes\ny\n", "contribute", study, "--server", server.url, *wrong)
    assert asked.returncode == 1
    assert len(asked.stderr.splitlines()) == 1  # one sentence, and no prompt before it
    assert server.heads == [] and not state.exists()


@pytest.mark.parametrize("code", REFUSALS)
def test_whoever_would_be_refused_is_asked_nothing(
    server: Recorder,
    study: str,
    state: Path,
    code: str,
) -> None:
    server.admission = refusal(code)
    given = ("--server", server.url, "--token", "ab" * 16)
    asked = typed("34\n2\n1\nyes\ny\n", "contribute", study, *given)
    assert asked.returncode == 1 and f"({code})" in asked.stderr
    assert len(asked.stderr.splitlines()) == 1
    assert [json.loads(body) for body in server.invitations] == [{"token": "ab" * 16}]
    assert not [head for head in server.heads if "ab" * 16 in head]  # in no address and no header
    assert server.bodies == [] and not state.exists()  # nothing was drawn either


def test_a_wrong_answer_in_the_terminal_is_asked_again(server: Recorder, study: str) -> None:
    asked = typed("old\n17\n34\n3\n1\nyes\ny\n", "contribute", study, "--server", server.url)
    assert asked.returncode == 0, asked.stderr
    assert "Please answer again: 'age' must be a number in digits" in asked.stderr
    assert "must lie in [18, 100], got 17" in asked.stderr


def at_a_terminal(lines: list[tuple[str, str]], *arguments: str) -> tuple[int, str]:
    """A person who waits for each prompt: what is typed before a hidden one is ready is lost."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(PDML[0], [*PDML, *arguments])
    seen = done = ""
    for prompt, line in lines:
        while prompt not in seen:
            assert select.select([terminal], [], [], 60)[0], f"no {prompt!r} after {seen!r}"
            seen += os.read(terminal, 1 << 16).decode()
        done, seen = done + seen, ""
        os.write(terminal, f"{line}\n".encode())
    with suppress(OSError):  # how Linux says that the other end was closed
        while more := os.read(terminal, 1 << 16):
            seen += more.decode()
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), done + seen


def test_what_is_typed_unseen_is_asked_twice_because_it_cannot_be_changed(
    server: Recorder, study: str
) -> None:
    given = ("--answer", "age=34", "--answer", "sex=male", "--epsilon", "1", "--yes")
    typing = [("(not shown): ", "yes"), ("Once more: ", "no")]
    again = [("(not shown): ", "yes"), ("Once more: ", "2")]
    command = ("contribute", study, "--server", server.url, *given)
    code, screen = at_a_terminal([*typing, *again], *command)
    assert code == 0 and "the same both times" in screen and len(server.bodies) == 1
    shown = screen.split("Your choice")[1].split("The report to")[0]
    assert "yes" not in shown and "no\r" not in shown  # the terminal has not echoed it


def test_a_sensitive_answer_is_asked_like_the_secret_one(tmp_path: Path) -> None:
    """Its epsilon first, then the answer unseen and twice: a report shows what chance made of it."""
    status = Category(name="status", levels=("a", "b"), epsilon=Menu(menu=(0.5, 1.0), default=0.5))
    income = Number(
        name="income", low=0, high=9, bins=(4.0,), epsilon=Menu(menu=(0.8,), default=0.8)
    )
    encoder = Encoder(attributes=(status, income))
    path = tmp_path / "sensitive.toml"
    secret = replace(STUDY, encoder=encoder, wording={}, plan=None)
    path.write_text(template.render(secret), encoding="utf-8")
    typing = [
        ("Your choice: ", "2"),
        ("Your choice: ", "1"),
        ("Your choice (not shown): ", "b"),
        ("Once more: ", "b"),
        ("whole; not shown): " if income.whole else "; not shown): ", "7"),
        ("Once more: ", "7"),
    ]
    with Recorder(page.render(secret), secret.canonical()) as server:
        given = ("--epsilon", "1", "--label", "yes", "--yes")
        code, screen = at_a_terminal(
            typing, "contribute", str(path), "--server", server.url, *given
        )
    assert code == 0, screen
    assert "status: how private?" in screen and "income: how private?" in screen
    assert screen.count("the device then randomises it") == 2
    assert "epsilon 1)" in screen and "epsilon 0.8)" in screen  # as chosen


def test_after_a_refusal_the_secret_question_is_not_asked_again(
    server: Recorder,
    study: str,
) -> None:
    server.answer = refusal("bad_features")
    first = typed("34\n2\n1\nyes\ny\n", "contribute", study, "--server", server.url)
    assert first.returncode == 1 and "bad_features" in first.stderr
    server.answer = receipt
    again = typed("35\n1\ny\n", "contribute", study, "--server", server.url)
    assert again.returncode == 0, again.stderr
    assert STUDY.question not in again.stderr
    assert "This record was randomised before: epsilon 0.4" in again.stderr
    before, after = map(decode_report, server.bodies)
    assert (before.id, before.epsilon, before.label) == (after.id, after.epsilon, after.label)
    assert STUDY.decode(features_of(after)) == {"age": 35, "sex": "female"}


@pytest.mark.parametrize("status", [201, 403])
def test_a_malicious_server_reaches_no_terminal(
    capsys: pytest.CaptureFixture[str], server: Recorder, study: str, status: int
) -> None:
    def lying(body: bytes) -> Answer:
        said = json.loads(receipt(body)[1]) | {"server": "alice\x1b[2J"}
        refused = {"type": "t", "title": "\x1b]0;owned\x07\r", "status": status, "code": "made_up"}
        return status, json.dumps(said if status == 201 else refused).encode()

    server.answer = lying
    code, out, err = run(capsys, "contribute", study, "--server", server.url, *ANSWERS, "--yes")
    assert code == 1 and "Stored by" not in out
    assert (out + err).replace("\n", "").isprintable()


def test_an_unreachable_server_keeps_the_report(
    capsys: pytest.CaptureFixture[str],
    server: Recorder,
    study: str,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pdml.device.delivery._FIRST_PAUSE", 0.0)
    code, _, err = run(
        capsys, "contribute", study, "--server", "http://127.0.0.1:9", *ANSWERS, "--yes"
    )
    assert code == 1 and "could not be reached" in err
    assert not state.exists()  # nothing is asked or drawn in vain
    server.answer = lambda body: None
    code, _, err = run(capsys, "contribute", study, "--server", server.url, *ANSWERS, "--yes")
    assert code == 1 and "could not be reached" in err and "the same report" in err
    server.answer = receipt
    code, _, _ = run(capsys, "contribute", study, "--server", server.url, *ANSWERS, "--yes")
    assert code == 0 and len(set(server.bodies)) == 1


def test_a_table_of_people_is_many_devices(
    capsys: pytest.CaptureFixture[str], server: Recorder, study: str, tmp_path: Path
) -> None:
    people = tmp_path / "people.csv"
    people.write_text(
        "age,sex,ill,name\n" + "".join(f"{18 + i % 80},male,yes,person {i}\n" for i in range(250))
    )
    command = (
        "contribute",
        study,
        "--server",
        server.url,
        "--csv",
        str(people),
        "--label-column",
        "ill",
        "--epsilon",
        "0.4",
    )
    code, out, _ = run(capsys, *command)
    assert code == 0 and "250 of 250 reports are stored" in out
    written = {
        file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("people.*.ndjson")
    }
    assert written == {
        f"people.{what}.ndjson": 0o600 for what in ("reports", "receipts", "failures")
    }
    assert sorted(len(body.splitlines()) for body in server.bodies) == [50, 100, 100]
    code, out, _ = run(capsys, *command)
    assert code == 0 and "250 had receipts already" in out and len(server.bodies) == 3
    people.write_text(people.read_text().replace("18,", "130,"))
    code, _, err = run(capsys, *command)
    assert code == 1 and "--clamp" in err
    code, _, err = run(capsys, *command, "--clamp")
    assert code == 1 and "drawn for another table" in err
    code, _, err = run(capsys, *command, "--clamp", "--outbox", str(tmp_path / "second.ndjson"))
    assert code == 0 and len(server.bodies) == 6


# Consent, the receipt, and taking it back


@pytest.fixture
def asking(tmp_path: Path) -> str:
    path = tmp_path / "asking.toml"
    path.write_text(template.render(ASKING), encoding="utf-8")
    return str(path)


@pytest.fixture
def listening() -> Iterator[Recorder]:
    with Recorder(page.render(ASKING), ASKING.canonical()) as running:
        yield running


def test_who_asks_is_told_and_consent_is_asked_before_any_question(
    listening: Recorder, asking: str
) -> None:
    asked = typed("y\n34\n2\n1\nyes\ny\n", "contribute", asking, "--server", listening.url)
    assert asked.returncode == 0, asked.stderr
    summary = ("City Hospital", "privacy@", "2036-01-01 00:00 UTC", "I have read", "Do you agree?")
    order = [asked.stderr.index(part) for part in (*summary, "age (from 18 to 100)")]
    assert order == sorted(order)
    report = decode_report(listening.bodies[0])
    assert ASKING.consent and report.consent == ASKING.consent.digest
    assert "version 2026-03" in asked.stdout
    assert "Organiser: City Hospital, 1 Long Street, Ghent, study@hospital" in asked.stdout
    assert re.search("Withdrawal code [0-9a-f]{32}: whoever has this code", asked.stdout)


@pytest.mark.parametrize(
    ("keys", "summary"), [("n\n", "Nothing was asked"), ("", "nobody answered 'Do you agree?'")]
)
def test_whoever_does_not_agree_is_asked_nothing(
    listening: Recorder, asking: str, state: Path, keys: str, summary: str
) -> None:
    options = ("--server", listening.url, *ANSWERS, "--yes")
    asked = typed(keys, "contribute", asking, *options)
    assert asked.returncode == 1 and summary in asked.stderr
    assert listening.bodies == [] and not state.exists()


def test_the_receipt_is_saved_and_withdraws(
    capsys: pytest.CaptureFixture[str], listening: Recorder, asking: str, tmp_path: Path
) -> None:
    file = tmp_path / "receipt.json"
    said = ("--server", listening.url, *ANSWERS, "--agree", "--yes", "--receipt", str(file))
    code, out, err = run(capsys, "contribute", asking, *said)
    assert (code, err) == (0, "") and json.loads(file.read_bytes())["code"] in out
    code, _, err = run(capsys, "contribute", asking, *said)
    assert code == 1 and "receipt.json exists" in err  # before anything is sent
    listening.answer = refusal("frozen")
    withdrawal = ["contribute", "withdraw", asking, "--receipt", str(file)]
    code, _, err = run(capsys, *withdrawal)
    assert code == 1 and "can no longer be withdrawn" in err and err.count("\n") == 1
    id = decode_report(listening.bodies[0]).id
    summary = {"id": id, "study": ASKING.hash, "server": "alice", "before": False}
    listening.answer = lambda body: (200, json.dumps(summary).encode())
    code, out, _ = run(capsys, "contribute", "withdraw", asking, "--server", listening.url)
    assert (code, out) == (0, f"alice has erased everything of report {id} but its number.\n")
    code, out, _ = run(capsys, *withdrawal, "--json")
    assert code == 0 and json.loads(out) == summary
    listening.answer = lambda body: (200, b"{}")
    code, _, err = run(capsys, *withdrawal)
    assert code == 1 and "may or may not be withdrawn" in err
