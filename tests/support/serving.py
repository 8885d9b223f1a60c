"""A real web server on this machine: it serves files, breaks off, refuses, or says nothing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Site:
    """``files`` by path; ``broken`` paths break off after so many bytes, ``refused`` ones answer
    with a status, ``silent`` ones with nothing.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)  # ends a silence


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        site: Site = self.server.site
        site.asked.append(self.path)
        if self.path in site.silent:
            site.released.wait(20)
        content = site.files.get(self.path, b"")
        status = site.refused.get(self.path, 200 if self.path in site.files else 404)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if status == 200 else 0))
        self.end_headers()
        if status == 200:
            self.wfile.write(content[: site.broken.get(self.path, len(content))])
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


@contextmanager
def serve() -> Iterator[Site]:
    server = _Server(("127.0.0.1", 0), _Handler)
    site = Site(url=f"http://127.0.0.1:{server.server_port}")
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
