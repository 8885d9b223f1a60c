"""The service as an ASGI application. Reports take the short way, everything else starlette's."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pdml.collector.http import openapi
from pdml.collector.http.attempts import Attempts
from pdml.collector.http.guard import Guard
from pdml.collector.http.operator_routes import OperatorAuth
from pdml.collector.http.responses import (
    ClientDisconnected,
    Receive,
    Refused,
    Scope,
    Send,
    problem_headers,
    read_body,
    require_type,
    send,
    send_problem,
)
from pdml.collector.intake.report_rules import Clock
from pdml.collector.intake.service import Render, Service
from pdml.collector.storage.store import Store
from pdml.errors import MessageError, StorageUnavailable
from pdml.study import Study
from pdml.study.messages import (
    MAX_BATCH,
    MAX_INVITATION_BYTES,
    Admission,
    Problem,
    Receipt,
    Withdrawn,
    decode_invitation,
    decode_withdrawal,
    problem,
    split_batch,
)

App = Callable[[Scope, Receive, Send], Awaitable[None]]
_log = logging.getLogger("pdml.collector")
_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
JSON = b"application/json"
NDJSON = b"application/x-ndjson"


def create(
    study: Study,
    server: str,
    store: Store,
    *,
    page: bytes,
    page_headers: Mapping[str, str],
    operator: Render | None = None,
    operator_token_hash: str = "",
    clock: Clock = time.time,
    require_tokens: bool = True,
    secure: bool = False,
    proxied: bool = False,
    guard: Guard | None = None,
    capacity: int = 50_000,
    attempts: Attempts | None = None,
) -> App:
    """The application for one server of ``study``.

    ``page`` is the contributor's page and ``operator`` renders the operator's, both made elsewhere:
    this room imports neither. ``secure`` says that people reach it by https, so that cookies may
    only travel there, and ``proxied`` that something in front of it passes requests on, so that a
    connection from this machine may be anybody's. ``guard`` is the one that `serve` was given: what
    it refuses is told with the rest. ``capacity`` bounds the reports waiting to be stored.
    ``attempts`` slows down whoever tries unknown invitations.
    """
    service = Service(
        study,
        server,
        store,
        clock=clock,
        require_tokens=require_tokens,
        capacity=capacity,
        attempts=attempts or Attempts(),
        guard=guard,
    )
    door = OperatorAuth(service, operator, operator_token_hash, secure=secure, proxied=proxied)
    rest = _rest(service, page, page_headers, door, operator=operator is not None)
    hot = {
        "/v1/reports": _reports,
        "/v1/batches": _batches,
        "/v1/invitations": _invitations,
        "/v1/withdrawals": _withdrawals,
    }

    async def app(scope: Scope, receive: Receive, sender: Send) -> None:
        if scope["type"] != "http":
            await rest(scope, receive, sender)
            return
        route = hot.get(scope["path"]) if scope["method"] == "POST" else None
        try:
            if route:
                await route(service, scope, receive, sender)
            else:
                await rest(scope, receive, sender)
        except ClientDisconnected:
            pass
        except Refused as refused:
            service.counters.problems[refused.problem.code] += 1
            await send_problem(sender, refused.problem, close=True)
        except Exception as error:
            # its text may quote what somebody sent, so that only its kind is logged
            _log.error("a request failed with %s", type(error).__name__)
            service.counters.problems["internal"] += 1
            with suppress(Exception):  # too late if the answer had begun
                await send_problem(sender, problem("internal"), close=True)

    return app


async def _reports(service: Service, scope: Scope, receive: Receive, sender: Send) -> None:
    """One report. Sending the same again is no error: it gets the first answer."""
    require_type(scope, JSON)
    body = await read_body(scope, receive, service.rules.max_report)
    ((answer, new),) = await service.intake.accept((body,))
    if type(answer) is Receipt:
        await send(sender, 201 if new else 200, _encode(answer), JSON)
    else:
        await service.attempts.delay_response(scope, (answer,))
        await send_problem(sender, answer)  # type: ignore[arg-type]


async def _invitations(service: Service, scope: Scope, receive: Receive, sender: Send) -> None:
    """Whether a report with this invitation would be taken now: asked before any person is."""
    require_type(scope, JSON)
    body = await read_body(scope, receive, MAX_INVITATION_BYTES)
    try:
        answer = await service.admit(decode_invitation(body).token)
    except MessageError as error:
        answer = problem(error.code, str(error))
    except StorageUnavailable:
        answer = problem("storage_unavailable", "the store cannot be read now")
    if isinstance(answer, Admission):
        await send(sender, 200, _encode(answer), JSON)
        return
    service.counters.problems[answer.code] += 1
    await service.attempts.delay_response(scope, (answer,))
    await send_problem(sender, answer)


async def _withdrawals(service: Service, scope: Scope, receive: Receive, sender: Send) -> None:
    """A person takes their report back, by a code that only their device knows."""
    require_type(scope, JSON)
    body = await read_body(scope, receive, MAX_INVITATION_BYTES)
    answer: Withdrawn | Problem
    try:
        answer = await service.withdraw(decode_withdrawal(body).code)
    except MessageError as error:
        answer = problem(error.code, str(error))
    except StorageUnavailable:
        answer = problem("storage_unavailable", "the store cannot be written now")
    if isinstance(answer, Withdrawn):
        await send(sender, 200, _encode(answer), JSON)
        return
    service.counters.problems[answer.code] += 1
    await service.attempts.delay_response(scope, (answer,))
    await send_problem(sender, answer)


async def _batches(service: Service, scope: Scope, receive: Receive, sender: Send) -> None:
    """Many reports, each answered on its own line in the same order."""
    require_type(scope, NDJSON)
    lines = split_batch(await read_body(scope, receive, service.rules.max_batch))
    if not lines:
        raise Refused("malformed", "a batch holds at least one report")
    if len(lines) > MAX_BATCH:
        raise Refused(
            "batch_too_long", f"a batch holds at most {MAX_BATCH} reports, got {len(lines)}"
        )
    answers = await service.intake.accept(lines)
    await service.attempts.delay_response(scope, (answer for answer, _ in answers))
    await send(sender, 200, _encoder.encode_lines([answer for answer, _ in answers]), NDJSON)


def _rest(
    service: Service,
    page: bytes,
    page_headers: Mapping[str, str],
    door: OperatorAuth,
    *,
    operator: bool,
) -> Starlette:
    study = service.study
    canonical = study.canonical()
    document = _encode(openapi.document(study, service.server, service.rules, operator=operator))
    safe = {"x-content-type-options": "nosniff"}

    async def front(request: Request) -> Response:
        return Response(
            page,
            media_type="text/html",
            headers={"cache-control": "no-cache", **safe, **page_headers},
        )

    async def contract(request: Request) -> Response:
        headers = {"pdml-study-hash": study.hash, "cache-control": "no-cache", **safe}
        return Response(canonical, media_type="application/json", headers=headers)

    async def health(request: Request) -> Response:
        if await service.storage_error():
            return _problem(problem("storage_unavailable", "the store cannot commit now"))
        return Response(
            b'{"status":"ok"}',
            media_type="application/json",
            headers={"cache-control": "no-store", **safe},
        )

    async def described(request: Request) -> Response:
        return Response(document, media_type="application/json", headers=safe)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "malformed")
        service.counters.problems[code] += 1
        return _problem(problem(code), error.headers)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        service.counters.problems[error.problem.code] += 1
        return _problem(error.problem)

    async def unavailable(request: Request, error: Exception) -> Response:
        service.counters.problems["storage_unavailable"] += 1
        return _problem(problem("storage_unavailable", "the store cannot be read now"))

    async def failed(request: Request, error: Exception) -> Response:
        # starlette raises it again, and `create` logs and counts it
        return _problem(problem("internal"))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        await service.start()
        yield
        await service.stop()

    routes = [
        Route("/", front),
        Route("/v1/study", contract),
        # taken before; named here so that other methods get 405
        Route("/v1/reports", _method_placeholder, methods=["POST"]),
        Route("/v1/batches", _method_placeholder, methods=["POST"]),
        Route("/v1/invitations", _method_placeholder, methods=["POST"]),
        Route("/v1/withdrawals", _method_placeholder, methods=["POST"]),
        Route("/healthz", health),
        Route("/openapi.json", described),
    ]
    routes += door.routes()
    handlers = {
        HTTPException: http_error,
        Refused: refused,
        StorageUnavailable: unavailable,
        Exception: failed,
    }
    rest = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    rest.router.redirect_slashes = False  # one address for each thing
    return rest


async def _method_placeholder(request: Request) -> Response:
    raise AssertionError("reports do not come this way")


def _problem(answer: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(answer),
        status_code=answer.status,
        media_type="application/problem+json",
        headers={
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            **problem_headers(answer),
            **(headers or {}),
        },
    )
