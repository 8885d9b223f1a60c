"""A real web server on this machine that can misbehave: each answer to a path follows the next line
of its script.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Site:
    """``files`` are served whole or by range. ``script`` holds, per path, what to do with each
    request in turn; then it behaves.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    script: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range
    etag: str | None = '"one"'
    ranges: bool = True
    released: threading.Event = field(default_factory=threading.Event)  # ends a silence


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        site: Site = self.server.site
        wanted = self.headers.get("Range")
        site.asked.append((self.path, wanted))
        turn = site.script[self.path].pop(0) if site.script[self.path] else {}
        if "status" in turn:
            self._head(turn["status"], {"Content-Length": "0", **turn.get("headers", {})})
            return
        content = site.files.get(self.path)
        if content is None:
            self._head(404, {"Content-Length": "0"})
            return
        start, status = 0, 200
        headers = {"ETag": site.etag} if site.etag else {}
        condition = self.headers.get("If-Range")
        if wanted and site.ranges and (condition is None or condition == site.etag):
            start, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
            if start >= len(content):
                self._head(416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"})
                return
            headers["Content-Range"] = (
                f"bytes {start + turn.get('shift', 0)}-{len(content) - 1}/{len(content)}"
            )
        body = turn.get("body", content)[start:]
        if not turn.get("no_length"):
            headers["Content-Length"] = str(len(body))
        self._head(status, headers)
        self.wfile.write(body[: turn.get("cut", len(body))])
        self.wfile.flush()
        if turn.get("silent"):
            site.released.wait(20)
        self.close_connection = True

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


@contextmanager
def serve(certificate: Path | None = None) -> Iterator[Site]:
    server = _Server(("127.0.0.1", 0), _Handler)
    if certificate is not None:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    site = Site(url=f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}")
    server.site = site  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
