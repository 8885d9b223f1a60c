"""Bytes to a service: the same at every attempt, verified TLS or this machine, receipts believed
only for what was sent.
"""

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from recording import Answer, Pauses, Recorder, receipt, refusal
from reporting import make_report

from pdml.device.delivery import Delivery
from pdml.errors import DataError, InvalidInput, NotDelivered
from pdml.study import Study
from pdml.study.messages import Problem, Receipt, encode_report


@pytest.fixture
def report(study: Study) -> bytes:
    features = study.encode({"age": 34, "sex": "female", "region": "south"})
    sent = make_report(study, id="ab" * 16, epsilon=1_000_000, label=1, features=features)
    return encode_report(sent)


def patient(url: str, pauses: list[float] | None = None) -> Delivery:
    """A client whose clock does not run."""
    return Delivery(url, clock=Pauses(pauses))


@pytest.mark.parametrize(
    "url",
    [
        "http://alice.example",
        "http://192.168.0.7:80",
        "http://127.0.0.1.example",
        "http://localhost.example",
        "http://[2001:db8::1]",
    ],
)
def test_plain_http_off_this_machine_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="https"):
        Delivery(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "alice",
        "ftp://a",
        "https://",
        "https://a:b@c",
        "https://a/?q=1",
        "https://a/#t=1",
        "https://a:99999",
        "//a",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="address"):
        Delivery(url)


def test_a_receipt_comes_back(recorder: Recorder, report: bytes, study: Study) -> None:
    with patient(recorder.url + "/") as service:
        service.require_study(study.hash)
        answer = service.send(report)
    assert isinstance(answer, Receipt) and answer.id == "ab" * 16
    assert recorder.bodies == [report]


def test_another_study_is_noticed_before_anything_is_sent(recorder: Recorder) -> None:
    with patient(recorder.url) as service, pytest.raises(NotDelivered, match="another study"):
        service.require_study("0" * 64)
    assert recorder.bodies == []


def test_attempts_repeat_the_same_bytes_and_give_up_in_the_end(
    recorder: Recorder, report: bytes
) -> None:
    answers = iter([None, (503, b"busy"), receipt(report)])
    recorder.answer = lambda body: next(answers)
    pauses: list[float] = []
    with patient(recorder.url, pauses) as service:
        assert isinstance(service.send(report), Receipt)
    assert set(recorder.bodies) == {report} and len(recorder.bodies) == 3
    assert pauses == [0.5, 1.0]
    recorder.answer = lambda body: None
    with patient(recorder.url) as service, pytest.raises(NotDelivered, match="same report"):
        service.send(report)


def test_a_refusal_is_not_repeated(recorder: Recorder, report: bytes) -> None:
    recorder.answer = refusal("closed")
    with patient(recorder.url) as service:
        answer = service.send(report)
    assert isinstance(answer, Problem) and answer.code == "closed"
    assert len(recorder.bodies) == 1


def changed(field: str) -> Callable[[bytes], Answer]:
    def lie(body: bytes) -> Answer:
        said = json.loads(receipt(body)[1])
        other = said[field][::-1]  # as well-formed as the right one
        return 201, json.dumps({**said, field: other}).encode()

    return lie


LIES = {
    "another id": changed("id"),
    "another digest": changed("digest"),
    "another study": changed("study"),
    "nothing": lambda body: (201, b"{}"),
    "a page": lambda body: (200, b"<html>"),
}


@pytest.mark.parametrize("answer", LIES.values(), ids=LIES)
def test_a_receipt_for_something_else_is_not_believed(
    recorder: Recorder, report: bytes, answer: Callable[[bytes], Answer]
) -> None:
    recorder.answer = answer
    with patient(recorder.url) as service, pytest.raises(NotDelivered, match="may or may not"):
        service.send(report)


def test_a_receipt_with_the_status_of_a_refusal_is_not_believed(
    recorder: Recorder, report: bytes
) -> None:
    recorder.answer = lambda body: receipt(body, 400)
    with patient(recorder.url) as service, pytest.raises(NotDelivered, match="may or may not"):
        service.send(report)


def test_a_server_that_speaks_no_http_reaches_no_terminal(report: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(b"\x1b[2J\x1b]0;owned\x07\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with (
            Delivery(f"http://127.0.0.1:{listening.getsockname()[1]}", attempts=1) as service,
            pytest.raises(NotDelivered, match="owned") as caught,
        ):
            service.send(report)
        thread.join()
    assert str(caught.value).isprintable()


def test_a_redirection_is_not_followed(recorder: Recorder, report: bytes) -> None:
    recorder.answer = lambda body: (307, b"")
    with patient(recorder.url) as service, pytest.raises(NotDelivered, match="points elsewhere"):
        service.send(report)


def test_a_batch_is_answered_line_by_line(recorder: Recorder, report: bytes) -> None:
    other = report.replace(b"ab" * 16, b"cd" * 16)
    recorder.answer = lambda line: refusal("token_used")(line) if line == other else receipt(line)
    with patient(recorder.url) as service:
        answers = service.send_batch([report, other, report])
    assert [isinstance(answer, Receipt) for answer in answers] == [True, False, True]
    recorder.answer = lambda line: None if line == other else receipt(line)  # a line too few
    with patient(recorder.url) as service, pytest.raises(NotDelivered, match="may or may not"):
        service.send_batch([report, other])


def test_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "absent.pem"):
        with pytest.raises(DataError, match="PEM"):
            Delivery("https://alice.example", ca=tmp_path / name)
