"""`pdml collect serve` as a function: the service of one collection, until it is stopped."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pdml.collector.collection import Collection
from pdml.collector.http import application as app
from pdml.collector.http import service_log
from pdml.collector.http.attempts import Attempts
from pdml.collector.http.connection import Limits
from pdml.collector.http.guard import Guard
from pdml.collector.http.http_server import check_transport, serve
from pdml.collector.http.operator_token import operator_token
from pdml.collector.http.proxies import Proxies
from pdml.collector.intake.service import Render
from pdml.collector.storage.stores import redact_password
from pdml.study import Study, participant_notice


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
    limits : Limits
        Connections at once, and how long each part of a request may take.
    """

    host: str = "127.0.0.1"
    port: int = 8700
    cert: Path | None = None
    key: Path | None = None
    insecure_http: bool = False
    open_to_all: bool = False
    bad_tokens: int = 20
    operator_token: Path | None = None
    proxies: Sequence[str] = ()
    test: bool = False
    limits: Limits = field(default_factory=Limits)


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
    on_ready: Callable[[Ready], None] = lambda ready: None,
) -> None:
    """Take reports for one server of a study over HTTP, until a signal asks to stop.

    Parameters
    ----------
    study : Study
        The contract; a collection is made if there is none.
    server, database, keys
        As for `Collection`.
    page, page_headers : bytes, mapping of str to str
        The contributor's page, `pdml.device.page.render(study)`: this room makes none.
    operator : callable
        Makes the operator's page of a `Summary`, as `pdml.pages.operator_page.render` does.
    settings : Settings, optional
        Where to listen, and whom to let in.
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
    tls = check_transport(
        chosen.host, cert=chosen.cert, key=chosen.key, insecure_http=chosen.insecure_http
    )
    guard = Guard(chosen.limits, Proxies(chosen.proxies))
    with Collection(study, server, database=database, keys=keys, create=True) as collection:
        collection.require_clock()
        if not chosen.test:
            participant_notice.check(study, collection.now)  # what was due has been erased
        secure = tls or collection.url.startswith("https:")
        token_file, token_hash = operator_token(chosen.operator_token, collection.database)
        application = app.create(
            study,
            collection.server,
            collection.store,
            page=page,
            page_headers=page_headers,
            operator=operator,
            operator_token_hash=token_hash,
            require_tokens=not chosen.open_to_all,
            secure=secure,
            proxied=bool(chosen.proxies) or chosen.insecure_http or secure != tls,
            guard=guard,
            attempts=Attempts(chosen.bad_tokens),
        )

        def ready(url: str) -> None:
            on_ready(
                Ready(
                    url=url,
                    server=collection.server,
                    database=redact_password(collection.database),
                    operator_token=token_file,
                )
            )

        service_log.to_stderr()
        serve(
            application,
            host=chosen.host,
            port=chosen.port,
            guard=guard,
            cert=chosen.cert,
            key=chosen.key,
            secure=secure,
            on_ready=ready,
        )
