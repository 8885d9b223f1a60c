"""`pdml contribute` as people run it: questions in the terminal, a preview, one report however often."""

import hashlib
import json
import stat
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from running import PDML, run

from pdml.messages import Report, decode_report, features_of
from pdml.study import Study

TEXT = """
[study]
id = "small"
title = "A small study"
[label]
question = "Are you ill?"
classes = ["no", "yes"]
epsilon = { menu = [0.5, 1.0], default = 1.0 }
[[attributes]]
name = "age"
kind = "number"
range = [18, 100]
label = "How old are you?"
[[attributes]]
name = "sex"
kind = "category"
levels = ["female", "male"]
[[servers]]
name = "alice"
url = "https://alice.example"
[[servers]]
name = "bob"
url = "https://bob.example"
[topology]
edges = [["alice", "bob"]]
"""
STUDY = Study.from_text(TEXT)


class Server(ThreadingHTTPServer):
    """Keeps what it gets and acknowledges it."""

    daemon_threads = True
    url = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._say(200, STUDY.canonical())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(body)
        self._say(200 if self.path.endswith("batches") else 201, b"\n".join(map(acknowledge, body.splitlines())) + b"\n")

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def acknowledge(body: bytes) -> bytes:
    report, digest = decode_report(body), hashlib.sha256(body).hexdigest()
    return json.dumps({"id": report.id, "study": report.study, "server": "alice", "digest": digest, "hour": "2026-03-01T14Z"}).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "study.toml"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PDML_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def typed(keys: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A real process with a person at its other end."""
    return subprocess.run([*PDML, *arguments], input=keys, capture_output=True, text=True, timeout=60)


ANSWERS = ("--answer", "age=34", "--answer", "sex=male", "--epsilon", "1", "--label", "yes")


def test_questions_are_asked_and_the_label_last(server: Server, study: str) -> None:
    """Through real pipes: number, level by number, epsilon by number, the label by its name, and consent."""
    asked = typed("34\n2\n1\nyes\ny\n", "contribute", study, "--server", server.url)
    assert asked.returncode == 0, asked.stderr
    order = [
        asked.stderr.index(words) for words in ("How old are you? (from 18 to 100)", "female", "How private?", "Are you ill?", "Send this?")
    ]
    assert order == sorted(order)
    assert "62.2%" in asked.stderr and "it can never be sure" in asked.stderr  # e^0.5/(1 + e^0.5)
    report = decode_report(server.bodies[0])
    assert (report.epsilon, report.study) == (500_000, STUDY.hash)
    assert features_of(report).tobytes() == STUDY.encode({"age": 34, "sex": "male"}).tobytes()
    assert server.bodies[0].decode() in asked.stdout  # the preview was what was sent
    assert "Stored by alice" in asked.stdout


def test_nothing_is_sent_without_consent_and_the_draw_stays(capsys: pytest.CaptureFixture[str], server: Server, study: str) -> None:
    refused = typed("n\n", "contribute", study, "--server", server.url, *ANSWERS)
    assert refused.returncode == 1 and "Nothing was sent" in refused.stderr and server.bodies == []
    code, out, _ = run(capsys, "contribute", study, "--server", server.url, *ANSWERS, "--yes", "--json")
    assert code == 0
    assert server.bodies[0].decode() in refused.stdout  # the very report that was shown before
    assert json.loads(out)["receipt"]["digest"] == hashlib.sha256(server.bodies[0]).hexdigest()


def test_running_it_again_sends_the_same_whatever_is_said(
    capsys: pytest.CaptureFixture[str], server: Server, study: str, state: Path
) -> None:
    for label in ("yes", "no", "yes"):
        code, _, _ = run(capsys, "contribute", study, "--server", server.url, *ANSWERS[:-1], label, "--yes")
        assert code == 0
    assert len(server.bodies) == 3 and len(set(server.bodies)) == 1
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and "yes" not in file.read_text() and 'reported":[]' in file.read_text()
    run(capsys, "contribute", study, "--server", server.url, *ANSWERS, "--yes", "--record", "somebody else")
    assert decode_report(server.bodies[3]).id != decode_report(server.bodies[0]).id


def test_answers_come_from_a_file_and_the_token_from_a_link(
    capsys: pytest.CaptureFixture[str], server: Server, study: str, tmp_path: Path
) -> None:
    (tmp_path / "answers.json").write_text('{"age": 40.5, "sex": "female"}')
    given = ("--answers", str(tmp_path / "answers.json"), "--token", "https://alice.example/#t=" + "ab" * 16)
    code, out, _ = run(capsys, "contribute", study, "--server", server.url, *given, *ANSWERS[4:], "--yes", "--json")
    assert code == 0
    report = Report(**json.loads(out)["report"])
    assert report.token == "ab" * 16
    assert STUDY.decode(features_of(report)) == {"age": 40.5, "sex": "female"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--server", "carol"), "no server 'carol'"),
        ((), "--server must say who receives the report: one of alice, bob"),
        (("--server", "http://alice.example"), "https"),
        (("--server", "SELF", "--answer", "age=17"), "'age' must lie in [18, 100], got 17"),
        (("--server", "SELF", "--answer", "age=old"), "'age' must be a finite number"),
        (("--server", "SELF", "--answer", "sex=x"), "'sex' must be one of"),
        (("--server", "SELF", "--answer", "height=2"), "got one to 'height'"),
        (("--server", "SELF", "--answer", "age"), "--answer must look like name=value"),
        (("--server", "SELF", "--epsilon", "3"), "epsilon must be on the study's menu (0.5, 1), got 3"),
        (("--server", "SELF", "--epsilon", "nan"), "--epsilon must be on the study's menu"),
        (("--server", "SELF", "--label", "perhaps"), "--label must be one of 'no', 'yes', got something else"),
        (("--server", "SELF", "--token", "short"), "--token must be 32 hex digits"),
        (("--server", "SELF", "--tokens", "t.csv"), "--tokens needs --csv"),
        (("--server", "SELF", "--json", "NOT-YES"), "--json needs --yes"),
        (("--server", "SELF", "--answers", "study.toml"), "must be a JSON object"),
        (("--server", "SELF", "--csv", "people.csv"), "must be left out beside --csv"),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_is_sent(
    capsys: pytest.CaptureFixture[str], server: Server, study: str, arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(study).parent)
    given = [server.url if argument == "SELF" else argument for argument in arguments if argument != "NOT-YES"]
    consent = () if "NOT-YES" in arguments else ("--yes",)
    code, out, err = run(capsys, "contribute", study, *ANSWERS, *given, *consent)
    assert (code, out) == (1, "") and words in err and len(err.splitlines()) == 1
    assert server.bodies == [] and "Traceback" not in err


@pytest.mark.parametrize("status", [201, 403])
def test_a_malicious_server_reaches_no_terminal(
    capsys: pytest.CaptureFixture[str], server: Server, study: str, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    def lie(handler: Handler) -> None:
        said = json.loads(acknowledge(handler.rfile.read(int(handler.headers["Content-Length"]))))
        if status == 201:
            answer = {**said, "server": "alice\x1b[2J"}
        else:
            answer = {"type": "t", "title": "\x1b]0;owned\x07\r", "status": status, "code": "made_up"}
        handler._say(status, json.dumps(answer).encode())

    monkeypatch.setattr(Handler, "do_POST", lie)
    code, out, err = run(capsys, "contribute", study, "--server", server.url, *ANSWERS, "--yes")
    assert code == 1 and "Stored by" not in out
    assert (out + err).replace("\n", "").isprintable()


def test_an_unreachable_server_keeps_the_report(
    capsys: pytest.CaptureFixture[str], server: Server, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdml.contribute.delivery._FIRST_PAUSE", 0.0)
    code, _, err = run(capsys, "contribute", study, "--server", "http://127.0.0.1:9", *ANSWERS, "--yes")
    assert code == 1 and "could not be reached" in err and "the same report" in err
    code, _, _ = run(capsys, "contribute", study, "--server", server.url, *ANSWERS, "--yes")
    assert code == 0


def test_a_table_of_people_is_many_devices(capsys: pytest.CaptureFixture[str], server: Server, study: str, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("age,sex,ill,name\n" + "".join(f"{18 + i % 80},male,yes,person {i}\n" for i in range(250)))
    command = ("contribute", study, "--server", server.url, "--csv", str(people), "--label-column", "ill", "--epsilon", "0.5")
    code, out, _ = run(capsys, *command)
    assert code == 0 and "250 of 250 reports are stored" in out
    written = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("people.*.ndjson")}
    assert written == {f"people.{what}.ndjson": 0o600 for what in ("reports", "receipts", "failures")}
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
