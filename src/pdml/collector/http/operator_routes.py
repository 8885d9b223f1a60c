"""The operator's door: a token in a header, or a form that trades it for a cookie. Read-only behind
it.
"""

import asyncio
import hashlib
import hmac
import secrets
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pdml.collector.http import service_metrics
from pdml.collector.http.responses import Refused, read_body
from pdml.collector.intake.service import Render, Service
from pdml.formatting.markup import templates
from pdml.study.messages import is_loopback

_COOKIE = "pdml_operator"
_LASTS = 12 * 3600  # seconds
_MOST_SESSIONS = 100
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")  # a proxy nobody told us of
_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
}
_FORM = templates("pdml.collector").get_template("door.html")


class OperatorAuth:
    """Knows the token's hash and the sessions it has opened; both die with the process, the token's
    file does not.
    """

    def __init__(
        self,
        service: Service,
        render: Render | None,
        token_hash: str,
        *,
        secure: bool,
        proxied: bool,
    ) -> None:
        self._service = service
        self._render = render
        self._token_hash = token_hash
        self._secure = secure
        self._proxied = proxied
        self._sessions: dict[str, float] = {}

    def routes(self) -> list[Route]:
        pages = [
            Route("/operator", self.page, methods=["GET"]),
            Route("/operator", self.enter, methods=["POST"]),
            Route("/operator.json", self.json, methods=["GET"]),
        ]
        return [Route("/metrics", self.metrics, methods=["GET"]), *(pages if self._render else [])]

    async def metrics(self, request: Request) -> Response:
        """Also for this machine itself, where that can be told: from a proxy's connections it
        cannot.
        """
        if not (self._admitted(request) or self._is_here(request)):
            raise Refused("unauthorized")
        headers = {
            "content-type": service_metrics.CONTENT_TYPE,
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }
        return Response(service_metrics.render(self._service), headers=headers)

    def _is_here(self, request: Request) -> bool:
        if (
            self._proxied
            or request.client is None
            or any(name in request.headers for name in _FORWARDED)
        ):
            return False
        return is_loopback(request.client.host)

    async def page(self, request: Request) -> Response:
        if not self._admitted(request):
            return self._form("The token is in the file that the service named when it started.")
        assert self._render is not None
        summary = await self._service.summary()
        return HTMLResponse(await asyncio.to_thread(self._render, summary), headers=_HEADERS)

    async def json(self, request: Request) -> Response:
        if not self._admitted(request):
            raise Refused("unauthorized")
        body = msgspec.json.encode(await self._service.summary())
        return Response(
            body,
            media_type="application/json",
            headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
        )

    async def enter(self, request: Request) -> Response:
        form = parse_qs(
            (await read_body(request.scope, request.receive, 4096)).decode("utf-8", "replace")
        )
        if not self._is_token(form.get("token", [""])[0].strip()):
            self._service.counters.problems["unauthorized"] += 1
            return self._form("That is not the token.")
        now = self._service.clock()
        self._sessions = {key: ends for key, ends in self._sessions.items() if ends > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_hex(16)
        self._sessions[session] = now + _LASTS
        answer = RedirectResponse("/operator", status_code=303, headers=_HEADERS)
        answer.set_cookie(
            _COOKIE,
            session,
            max_age=_LASTS,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )
        return answer

    def _admitted(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(token.strip()):
            return True
        return self._sessions.get(request.cookies.get(_COOKIE, ""), 0) > self._service.clock()

    def _is_token(self, token: str) -> bool:
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        return bool(self._token_hash) and hmac.compare_digest(digest, self._token_hash)

    def _form(self, message: str) -> Response:
        text = _FORM.render(study=self._service.study, said=message)
        return HTMLResponse(
            text, status_code=401, headers={**_HEADERS, "www-authenticate": "Bearer"}
        )
