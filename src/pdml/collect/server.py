"""uvicorn, set up so that nothing about people reaches a log and nothing travels in the clear."""

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pdml.errors import InvalidInput
from pdml.messages import is_loopback

_PATIENCE = 30.0  # seconds for the head of a request
_LARGEST_HEAD = 64 << 10
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good


def check_transport(host: str, *, cert: Path | None, key: Path | None, insecure_http: bool) -> bool:
    """Whether TLS is spoken; refuses plain HTTP where others could listen."""
    if (cert is None) != (key is None):
        raise InvalidInput("--cert and --key belong together, got only one of them")
    if cert is None and not insecure_http and not is_loopback(host):
        raise InvalidInput(
            f"host {host} can be reached from elsewhere, where plain HTTP would show people's answers to everybody on the way: "
            "give --cert and --key, or --insecure-http if something in front of it speaks TLS"
        )
    return cert is not None


def serve(
    app: Any, *, host: str, port: int, cert: Path | None = None, key: Path | None = None, on_ready: Callable[[str], None] = lambda url: None
) -> None:
    """Serve until a signal asks to stop; reports taken by then are stored and answered first. ``on_ready`` is told the address."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        lifespan="on",
        access_log=False,  # addresses and times of people
        log_config=None,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=_Patient,
        ssl_certfile=cert,
        ssl_keyfile=key,
        ssl_ciphers=_CIPHERS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        backlog=2048,
    )
    try:
        config.load()  # reads the certificate
    except OSError as error:
        raise InvalidInput(f"cannot use --cert {cert} with --key {key}: {(error.strerror or str(error)).lower()}") from None
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    gc.freeze()  # what was loaded stays; and a report leaves no cycles, so that looking for them often is waste
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(0.0005)  # the writer's thread needs the interpreter often and briefly: it should not wait 5 ms each time
    listener = _listen(host, port)
    place = f"[{host}]" if ":" in host else host
    server = _Announcing(config, lambda: on_ready(f"{'https' if cert else 'http'}://{place}:{listener.getsockname()[1]}"))
    with listener:
        server.run(sockets=[listener])


class _Patient(HttpToolsProtocol):
    """uvicorn's protocol, with two changes.

    - The head of an answer leaves in one write with its body: half the system calls and packets.
    - Patience has an end: a request's head must be complete within `_PATIENCE` seconds and `_LARGEST_HEAD` bytes, else the
      connection is cut. uvicorn would hold it for ever, and as many as there are file descriptors. Bodies have their own limits.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Joining(transport, self.loop))  # type: ignore[arg-type]
        self._received = 0
        self._waiting: float | None = self.loop.time()  # since when for a head; None: for none
        self._watch = self.loop.call_later(_PATIENCE, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._waiting is not None:
            self._received += len(data)
            if self._received > _LARGEST_HEAD:
                self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._waiting is None:
            self._received, self._waiting = 0, self.loop.time()

    def on_headers_complete(self) -> None:
        self._waiting = None
        super().on_headers_complete()

    def _look(self) -> None:
        """One timer per connection, set anew when it ends: cheaper than one per request."""
        left = _PATIENCE if self._waiting is None else self._waiting + _PATIENCE - self.loop.time()
        if left > 0:
            self._watch = self.loop.call_later(left, self._look)
        else:
            self.transport.abort()


class _Joining:
    """A transport that holds back the head of an answer for the body, until the end of the loop's turn at the latest."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if not self._head and data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)  # an answer without a body, as to HEAD
        else:
            self._transport.write(self._head + data)
            self._head = b""

    def _flush(self) -> None:
        if self._head:
            self.write(b"")

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Announcing(uvicorn.Server):
    """Says when it is ready, not when it hopes to be."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def _listen(host: str, port: int) -> socket.socket:
    """Our own socket: its errors are sentences, and port 0 tells which port it became."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise InvalidInput(f"cannot listen on {host} port {port}: {(error.strerror or str(error)).lower()}") from None
    return listener
