"""uvicorn, set up so that nothing about people reaches a log, nothing travels in the clear, and
nobody shuts others out.
"""

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from pdml.collector.http.guard import Guard
from pdml.errors import InvalidInput, because
from pdml.study.messages import is_loopback

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good
_STRICT = ("strict-transport-security", "max-age=31536000")
_log = logging.getLogger("pdml.collector")


def check_transport(host: str, *, cert: Path | None, key: Path | None, insecure_http: bool) -> bool:
    """Whether TLS is spoken; refuses plain HTTP where others could listen."""
    if (cert is None) != (key is None):
        raise InvalidInput("--cert and --key belong together, got only one of them")
    if cert is None and not insecure_http and not is_loopback(host):
        raise InvalidInput(
            f"host {host} can be reached from elsewhere, where plain HTTP would show "
            "people's answers to everybody on the way: "
            "give --cert and --key, or --insecure-http if something in front of it speaks TLS"
        )
    return cert is not None


def serve(
    app: Any,
    *,
    host: str,
    port: int,
    guard: Guard | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    secure: bool = False,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until a signal asks to stop; reports taken by then are stored and answered first."""
    guard = guard or Guard()
    config = uvicorn.Config(
        guard.around(app),
        lifespan="on",
        access_log=False,  # addresses and times of people
        log_config=None,
        server_header=False,
        proxy_headers=False,  # the guard knows whom to believe
        ws="none",
        http="httptools",
        headers=[_STRICT] if secure or cert else [],
        ssl_certfile=cert,
        ssl_keyfile=key,
        ssl_ciphers=_CIPHERS,
        timeout_keep_alive=int(guard.limits.head) + 1,  # the guard is first
        timeout_graceful_shutdown=10,
    )
    try:
        config.load()  # reads the certificate
    except OSError as error:
        raise InvalidInput(f"cannot use --cert {cert} with --key {key}: {because(error)}") from None
    # what was loaded stays; and a report leaves no cycles, so that looking for them often is waste
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(
        0.0005
        # the writer's thread needs the interpreter often and briefly: it should not wait 5 ms each
        # time
    )
    listener = _listen(host, port)
    place = f"[{host}]" if ":" in host else host
    url = f"{'https' if cert else 'http'}://{place}:{listener.getsockname()[1]}"
    with (
        listener,
        asyncio.Runner(loop_factory=lambda: _guarded_loop(guard, lambda: on_ready(url))) as runner,
    ):
        runner.run(uvicorn.Server(config).serve(sockets=[listener]))


def _guarded_loop(guard: Guard, ready: Callable[[], None]) -> asyncio.AbstractEventLoop:
    """A loop whose servers get their connections from the guard. uvicorn asks for one when the
    application has started.
    """
    try:
        from uvloop import Loop as Base
    except ModuleNotFoundError:
        from asyncio import SelectorEventLoop as Base  # type: ignore[assignment]

    class Loop(Base):
        async def create_server(  # type: ignore[override]
            self, factory: Any, *_: Any, sock: socket.socket, ssl: Any = None, **__: Any
        ) -> Any:
            server = guard.listen(factory, sock, ssl)
            ready()
            return server

    loop = Loop()
    loop.set_exception_handler(_complain)
    return loop


def _complain(loop: Any, context: dict[str, Any]) -> None:
    """One line, and only the kind of what happened: asyncio's own words hold people's addresses."""
    error = context.get("exception")
    if not isinstance(error, OSError):  # a connection that broke is nobody's mistake
        _log.error("the event loop met %s", type(error).__name__ if error else "a problem")


def _listen(host: str, port: int) -> socket.socket:
    """Our own socket: its errors are sentences, and port 0 tells which port it became."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise InvalidInput(f"cannot listen on {host} port {port}: {because(error)}") from None
    return listener
