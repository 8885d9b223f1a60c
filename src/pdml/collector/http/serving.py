"""`pdml collect serve` as a function. uvicorn is set up so that nothing about people reaches a log,
nothing travels in the clear, and nobody shuts others out."""

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from pdml.collector.collection import Collection
from pdml.collector.http.application import create
from pdml.collector.http.guard import PER_MINUTE, Attempts, ConnectionLimits, Guard, Proxies
from pdml.collector.http.listener import Listener
from pdml.collector.http.operator_routes import OperatorAuth, operator_token
from pdml.collector.intake.service import Render, Service
from pdml.collector.storage import redact_password
from pdml.collector.storage.store import Machine
from pdml.errors import InvalidInput, because
from pdml.study import Study, participant_notice
from pdml.study.messages import is_loopback

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good
_STRICT = ("strict-transport-security", "max-age=31536000")
_log = logging.getLogger("pdml.collector")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a service listens, and whom it lets in.

    Parameters
    ----------
    host, port : str, int
        Where to listen; port 0 is any free one.
    cert, key : Path, optional
        Certificate chain and private key (PEM), for TLS.
    insecure_http : bool
        Plain HTTP off this machine: only behind something that speaks TLS.
    open_to_all : bool
        Take reports without an invitation.
    bad_tokens : int
        Unknown invitations that an address may try in a minute.
    operator_token : Path, optional
        The file of the token that opens the operator's page, made if it is missing; by default
        beside the database.
    proxies : sequence of str
        Addresses or networks whose X-Forwarded-For is believed.
    test : bool
        Try a study out: also one that does not say what people must be told, which its page then
        says.
    limits : ConnectionLimits
        Connections at once, and how long each part of a request may take.
    """

    host: str = "127.0.0.1"
    port: int = 8700
    cert: Path | None = None
    key: Path | None = None
    insecure_http: bool = False
    open_to_all: bool = False
    bad_tokens: int = PER_MINUTE
    operator_token: Path | None = None
    proxies: Sequence[str] = ()
    test: bool = False
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A service that takes connections now."""

    url: str
    server: str
    database: str  # without a password
    operator_token: Path


def serve_study(
    study: Study,
    server: str = "",
    *,
    page: bytes,
    page_headers: Mapping[str, str],
    operator: Render,
    database: str = "",
    keys: Path | None = None,
    settings: Settings | None = None,
    machine: Machine | None = None,
    on_ready: Callable[[Ready], None] = lambda ready: None,
) -> None:
    """Take reports for one server of a study over HTTP, until a signal asks to stop.

    Parameters
    ----------
    study : Study
        A collection is made if there is none.
    server, database, keys
        As for `Collection`.
    page, page_headers : bytes, mapping of str to str
        The contributor's page, `pdml.device.page.render(study)`: this package makes none.
    operator : callable
        Makes the operator's page of a `Summary`: `pdml.pages.operator_page.render` of the study.
    settings : Settings, optional
        Where to listen, and whom to let in.
    machine : Machine, optional
        As for `Collection`.
    on_ready : callable
        Told once connections are taken.

    Raises
    ------
    MissingNotice
        If the study does not say what people must be told, or its retention has ended, unless
        ``settings.test``.
    ClockJump
        If the retention has ended by a clock that is not believed.
    InvalidInput
        If plain HTTP would travel where others can listen, or something of the settings, the
        database or the operator's token cannot be used: before anybody can connect.

    Guarantees
    ----------
    - A report is acknowledged once it is on disk, and counted once.
    - Only invited people can send one, unless ``settings.open_to_all``.
    """
    chosen = settings or Settings()
    if not chosen.test:
        participant_notice.check(study)
    tls = check_transport(chosen)
    guard = Guard(chosen.limits, Proxies(chosen.proxies))
    opened = Collection(study, server, database=database, keys=keys, create=True, machine=machine)
    with opened as collection:
        collection.require_clock()
        if not chosen.test:
            participant_notice.check(study, collection.now)  # what was due has been erased
        secure = tls or collection.url.startswith("https:")
        proxied = bool(chosen.proxies) or chosen.insecure_http or secure != tls
        token_file, token_hash = operator_token(chosen.operator_token, collection.database)
        clock = collection.machine.clock
        service = Service(
            study,
            collection.server,
            collection.store,
            clock=clock,
            require_tokens=not chosen.open_to_all,
            attempts=Attempts(chosen.bad_tokens, clock=clock),
            guard=guard,
        )
        auth = OperatorAuth(service, operator, token_hash, secure=secure, proxied=proxied)

        def ready(url: str) -> None:
            shown = redact_password(collection.database)
            names = {"url": url, "server": collection.server, "database": shown}
            on_ready(Ready(**names, operator_token=token_file))

        _log_to_stderr()
        app = create(service, auth, page=page, page_headers=page_headers)
        serve(app, chosen, guard=guard, secure=secure, on_ready=ready)


def check_transport(settings: Settings) -> bool:
    """Whether TLS is spoken; refuses plain HTTP where others could listen."""
    if (settings.cert is None) != (settings.key is None):
        raise InvalidInput("--cert and --key belong together, got only one of them")
    is_plain = settings.cert is None and not settings.insecure_http
    if is_plain and not is_loopback(settings.host):
        raise InvalidInput(
            f"host {settings.host} can be reached from elsewhere, where plain HTTP would show "
            "people's answers to everybody on the way: "
            "give --cert and --key, or --insecure-http if something in front of it speaks TLS"
        )
    return settings.cert is not None


def serve(
    app: Any,
    settings: Settings,
    *,
    guard: Guard | None = None,
    secure: bool = False,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until a signal asks to stop; reports taken by then are stored and answered first."""
    guard = guard or Guard()
    host, cert, key = settings.host, settings.cert, settings.key
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
    # the writer's thread needs the interpreter often and briefly: it should not wait 5 ms each time
    sys.setswitchinterval(0.0005)
    wire = _listen(host, settings.port)
    name = f"[{host}]" if ":" in host else host
    url = f"{'https' if cert else 'http'}://{name}:{wire.getsockname()[1]}"
    loop = partial(_guarded_loop, guard, lambda: on_ready(url))
    with wire, asyncio.Runner(loop_factory=loop) as runner:
        runner.run(uvicorn.Server(config).serve(sockets=[wire]))


def _guarded_loop(guard: Guard, ready: Callable[[], None]) -> asyncio.AbstractEventLoop:
    """A loop whose servers get their connections from the guard."""
    try:
        from uvloop import Loop as Base
    except ModuleNotFoundError:
        from asyncio import SelectorEventLoop as Base  # type: ignore[assignment]

    class Loop(Base):
        async def create_server(  # type: ignore[override]
            self, factory: Any, *_: Any, sock: socket.socket, ssl: Any = None, **__: Any
        ) -> Any:
            server = Listener(guard, factory, sock, ssl)
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
        wire = socket.socket(family, kind, protocol)
        try:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            wire.bind(address)
            wire.listen(2048)
        except BaseException:
            wire.close()
            raise
    except OSError as error:
        raise InvalidInput(f"cannot listen on {host} port {port}: {because(error)}") from None
    return wire


class _Lines(logging.Formatter):
    """One line each: what raised an error, and where, may quote what somebody sent."""

    def formatException(self, ei: object) -> str:
        return ""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).rstrip().replace("\n", " ")


def _log_to_stderr() -> None:
    """Errors of uvicorn alone, and no access log: addresses and times are people's, and it warns of
    every request that is none, as many as anybody sends."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (
        ("pdml.collector", logging.WARNING),
        ("uvicorn", logging.ERROR),
        ("asyncio", logging.CRITICAL),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level)
