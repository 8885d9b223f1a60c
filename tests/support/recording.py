"""A server that shows what crosses the wire: it serves the page, keeps every request, and answers
as it is told to.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pdml.clock import SystemClock
from pdml.device.page import ContributorPage
from pdml.study.messages import decode_report, problem

Answer = tuple[int, bytes]


def receipt(body: bytes, status: int = 201) -> Answer:
    report = decode_report(body)
    digest = hashlib.sha256(body).hexdigest()
    values = {
        "id": report.id,
        "study": report.study,
        "server": "alice",
        "digest": digest,
        "hour": "2026-03-01T14Z",
    }
    return status, json.dumps(values).encode()


def refusal(code: str) -> Callable[[bytes], Answer]:
    said = problem(code)
    return lambda body: (
        said.status,
        json.dumps(
            {"type": said.type, "title": said.title, "status": said.status, "code": code}
        ).encode(),
    )


class Pauses(SystemClock):
    """A clock by which waiting takes no time, and is noted."""

    def __init__(self, pauses: list[float] | None = None) -> None:
        self.pauses = [] if pauses is None else pauses

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@dataclass
class Recorder:
    page: ContributorPage
    canonical: bytes
    answer: Callable[[bytes], Answer | None] = receipt  # None: close the connection without a word
    admission: Callable[[bytes], Answer | None] | None = None  # None: everybody is welcome
    invitations: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)  # request lines and headers of everything asked

    def __enter__(self) -> "Recorder":
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def welcome(self, body: bytes) -> Answer:
        return 200, json.dumps({"study": hashlib.sha256(self.canonical).hexdigest()}).encode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def _handler(recorder: Recorder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer in one packet, else each waits 40 ms for an acknowledgement

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            recorder.heads.append(f"{self.requestline}\n{self.headers}")
            if self.path == "/":
                self._say(200, recorder.page.html, recorder.page.headers)
            elif self.path == "/v1/study":
                self._say(200, recorder.canonical, {"Content-Type": "application/json"})
            else:
                self._say(404, b"")

        def do_POST(self) -> None:
            recorder.heads.append(f"{self.requestline}\n{self.headers}")
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/invitations":
                recorder.invitations.append(body)
                self._answer((recorder.admission or recorder.welcome)(body))
                return
            recorder.bodies.append(body)
            if self.path == "/v1/batches":
                answers = [recorder.answer(line) for line in body.splitlines()]
                self._say(200, b"".join(answer[1] + b"\n" for answer in answers if answer))
                return
            self._answer(recorder.answer(body))

        def _answer(self, answer: Answer | None) -> None:
            if answer is None:
                self.close_connection = True
                return
            self._say(*answer)

        def _say(self, status: int, body: bytes, headers: object = ()) -> None:
            self.send_response(status)
            for name, value in dict(headers).items():  # type: ignore[call-overload]
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

    return Handler
