"""What the operator may see, read-only: behind a token in a header, or a form that trades it for a
cookie. The token lies in a file that only the operator can read."""

import hashlib
import hmac
import os
import secrets
import stat
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pdml.collector.http.responses import NO_STORE, Refused, read_body
from pdml.collector.intake.service import Render, Service
from pdml.errors import InvalidInput
from pdml.files import open_ours, write_private
from pdml.formatting.markup import templates
from pdml.study.messages import is_loopback

_COOKIE = "pdml_operator"
_LASTS = 12 * 3600  # seconds
_MOST_SESSIONS = 100
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")  # a proxy nobody told us of
_LONGEST = 4096  # bytes of a token's file
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_HEADERS = {
    **NO_STORE,
    "referrer-policy": "no-referrer",
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
}
_FORM = templates("pdml.collector").get_template("login.html")


class OperatorAuth:
    """Knows the token's hash and the sessions it has opened; both die with the process."""

    def __init__(
        self,
        service: Service,
        render: Render | None = None,
        token_hash: str = "",
        *,
        secure: bool = False,
        proxied: bool = False,
    ) -> None:
        """``secure``: people reach it by https; ``proxied``: a connection may be anybody's."""
        self._service = service
        self._render = render
        self._token_hash = token_hash
        self._secure = secure
        self._proxied = proxied
        self._sessions: dict[str, float] = {}

    @property
    def has_page(self) -> bool:
        return self._render is not None

    def routes(self) -> list[Route]:
        pages = [
            Route("/operator", self.page, methods=["GET"]),
            Route("/operator", self.enter, methods=["POST"]),
            Route("/operator.json", self.json, methods=["GET"]),
        ]
        return [Route("/metrics", self.metrics, methods=["GET"]), *(pages if self.has_page else [])]

    async def metrics(self, request: Request) -> Response:
        """Also for this machine itself, where that can be told: behind a proxy it cannot."""
        if not (self._admitted(request) or self._is_here(request)):
            raise Refused("unauthorized")
        headers = {**NO_STORE, "content-type": _METRICS}
        return Response(_render_metrics(self._service), headers=headers)

    def _is_here(self, request: Request) -> bool:
        if self._proxied or any(name in request.headers for name in _FORWARDED):
            return False
        return request.client is not None and is_loopback(request.client.host)

    async def page(self, request: Request) -> Response:
        if not self._admitted(request):
            return self._form("The token is in the file that the service named when it started.")
        assert self._render is not None
        summary = await self._service.summary()
        text = await self._service.run(partial(self._render, summary))
        return HTMLResponse(text, headers=_HEADERS)

    async def json(self, request: Request) -> Response:
        if not self._admitted(request):
            raise Refused("unauthorized")
        body = msgspec.json.encode(await self._service.summary())
        return Response(body, media_type="application/json", headers=NO_STORE)

    async def enter(self, request: Request) -> Response:
        body = await read_body(request.scope, request.receive, 4096)
        form = parse_qs(body.decode("utf-8", "replace"))
        if not self._is_token(form.get("token", [""])[0].strip()):
            self._service.counters.problems["unauthorized"] += 1
            return self._form("That is not the token.")
        now = self._service.clock.now()
        self._sessions = {key: ends for key, ends in self._sessions.items() if ends > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_hex(16)
        self._sessions[session] = now + _LASTS
        answer = RedirectResponse("/operator", status_code=303, headers=_HEADERS)
        cookie = partial(answer.set_cookie, httponly=True, samesite="strict", secure=self._secure)
        cookie(_COOKIE, session, max_age=_LASTS, path="/")
        return answer

    def _admitted(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(token.strip()):
            return True
        return self._sessions.get(request.cookies.get(_COOKIE, ""), 0) > self._service.clock.now()

    def _is_token(self, token: str) -> bool:
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        return bool(self._token_hash) and hmac.compare_digest(digest, self._token_hash)

    def _form(self, message: str) -> Response:
        text = _FORM.render(study=self._service.study, message=message)
        headers = {**_HEADERS, "www-authenticate": "Bearer"}
        return HTMLResponse(text, status_code=401, headers=headers)


def _render_metrics(service: Service) -> str:
    """Prometheus text: totals of this process. Counts by class or ε are the operator's alone."""
    counters, writer, attempts = service.counters, service.writer, service.attempts
    refused = {f'{{code="{code}"}}': count for code, count in service.problems().items()}
    metrics: list[tuple[str, str, float | dict[str, int]]] = [
        ("reports_stored_total", "Reports stored since the start.", counters.stored),
        ("reports_replayed_total", "Reports sent again, answered as before.", counters.replayed),
        ("problems_total", "Reports, requests and connections refused, by code.", refused),
        ("bad_tokens_total", "Unknown invitations and codes, and ids of others.", attempts.counted),
        ("bad_tokens_slowed_total", "Late answers to them.", attempts.slowed),
        ("commits_total", "Transactions, each for many reports.", writer.commits),
        ("commit_seconds_total", "Time spent in them.", writer.commit_seconds),
        ("queued", "Reports waiting for their transaction.", writer.queued),
        ("connections", "Connections open now.", service.guard.connections),
        ("uptime_seconds", "Time since the start.", service.clock.now() - counters.started),
    ]
    lines = []
    for name, text, values in metrics:
        name, kind = f"pdml_collect_{name}", "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        samples = values if isinstance(values, dict) else {"": values}
        lines += [f"{name}{labels} {value!r}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"


def operator_token(file: Path | None, database: str) -> tuple[Path, str]:
    """The token's file, made if there is none, and the hash that the service keeps."""
    if file is None:
        if "://" in database:
            raise InvalidInput("operator-token must name a file where the database is not one")
        file = Path(database).with_suffix(".operator-token")
    write_private(file, secrets.token_urlsafe(24) + "\n", first=True)
    secret = _read(file)
    if len(secret) < 16:
        must = f"the operator's token in {file} must have at least 16 characters"
        raise InvalidInput(f"{must}, got {len(secret)}: others could guess it")
    return file, hashlib.sha256(secret.encode()).hexdigest()


def _read(file: Path) -> str:
    """What only we can read, and nobody else has put there."""
    handle = open_ours(file, "the operator's token")
    try:
        if stat.S_IMODE(os.fstat(handle).st_mode) & 0o077:
            bad = f"the operator's token {file} can be read by others"
            raise InvalidInput(f"{bad}: make a new one, or chmod 600 {file}")
        content = os.read(handle, _LONGEST)
    finally:
        os.close(handle)
    try:
        return content.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidInput(f"the operator's token {file} is not text") from None
