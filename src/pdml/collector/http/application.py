"""The service as an ASGI application: every route, and one place for whatever goes wrong."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.collector.http import openapi
from pdml.collector.http.clients import Attempts
from pdml.collector.http.guard import Guard
from pdml.collector.http.operator_routes import OperatorAuth
from pdml.collector.http.responses import (
    NO_STORE,
    ClientDisconnected,
    Receive,
    Refused,
    Scope,
    Send,
    read_body,
    require_type,
    send,
    send_problem,
)
from pdml.collector.intake.intake import Answer
from pdml.collector.intake.service import Render, Service
from pdml.collector.storage.store import Store
from pdml.errors import MessageError, StorageUnavailable
from pdml.study import Study
from pdml.study.messages import (
    MAX_BATCH,
    MAX_INVITATION_BYTES,
    Admission,
    Problem,
    Withdrawn,
    decode_invitation,
    decode_withdrawal,
    problem,
    split_batch,
)

App = Callable[[Scope, Receive, Send], Awaitable[None]]
_Answers = Sequence[Answer | Admission | Withdrawn]
_Act = Callable[[Service, bytes], Awaitable[tuple[int, _Answers]]]
_log = logging.getLogger("pdml.collector")
_encoder = msgspec.json.Encoder()
_JSON, _NDJSON = b"application/json", b"application/x-ndjson"
_ROUTER_PROBLEMS = {404: "not_found", 405: "method_not_allowed"}


def create(
    study: Study,
    server: str,
    store: Store,
    *,
    page: bytes,
    page_headers: Mapping[str, str],
    operator: Render | None = None,
    operator_token_hash: str = "",
    clock: Clock = SYSTEM_CLOCK,
    require_tokens: bool = True,
    secure: bool = False,
    proxied: bool = False,
    guard: Guard | None = None,
    capacity: int = 50_000,
    attempts: Attempts | None = None,
) -> App:
    """The application for one server of ``study``. ``secure``: people reach it by https;
    ``proxied``: a connection from this machine may be anybody's; ``guard``: the one that `serve`
    has.
    """
    service = Service(
        study,
        server,
        store,
        clock=clock,
        require_tokens=require_tokens,
        capacity=capacity,
        attempts=attempts or Attempts(clock=clock),
        guard=guard,
    )
    auth = OperatorAuth(service, operator, operator_token_hash, secure=secure, proxied=proxied)
    router = Router(
        _routes(service, page, page_headers, auth, operator=operator is not None),
        redirect_slashes=False,  # one address for each thing
        lifespan=_lifespan(service),
    )

    async def app(scope: Scope, receive: Receive, sender: Send) -> None:
        scope["app"] = router  # so that it raises what it does not find
        if scope["type"] != "http":
            await router(scope, receive, sender)
            return
        try:
            await router(scope, receive, sender)
        except ClientDisconnected:
            pass
        except Exception as error:
            answer, headers = _problem_of(error)
            service.counters.problems[answer.code] += 1
            with suppress(Exception):  # too late if the answer had begun
                await send_problem(sender, answer, headers, close=True)

    return app


def _routes(
    service: Service,
    page: bytes,
    page_headers: Mapping[str, str],
    auth: OperatorAuth,
    *,
    operator: bool,
) -> list[Route]:
    study, rules = service.study, service.rules
    document = openapi.document(study, service.server, rules, operator=operator)
    safe = {"x-content-type-options": "nosniff"}
    fresh = {"cache-control": "no-cache", **safe}

    def post(path: str, kind: bytes, limit: int, act: _Act) -> Route:
        return Route(path, _Post(service, kind, limit, act), methods=["POST"])

    def get(path: str, body: bytes, kind: str, headers: Mapping[str, str]) -> Route:
        answer = Response(body, media_type=kind, headers=headers)
        return Route(path, answer, methods=["GET"])

    async def health(request: Request) -> Response:
        if await service.storage_error():
            raise Refused("storage_unavailable", "the store cannot commit now")
        return Response(b'{"status":"ok"}', media_type="application/json", headers=NO_STORE)

    return [
        post("/v1/reports", _JSON, rules.max_report, _take_report),
        post("/v1/batches", _NDJSON, rules.max_batch, _take_batch),
        post("/v1/invitations", _JSON, MAX_INVITATION_BYTES, _admit),
        post("/v1/withdrawals", _JSON, MAX_INVITATION_BYTES, _withdraw),
        get("/", page, "text/html", {**fresh, **page_headers}),
        get(
            "/v1/study",
            study.canonical(),
            "application/json",
            fresh | {"pdml-study-hash": study.hash},
        ),
        get("/openapi.json", _encoder.encode(document), "application/json", safe),
        Route("/healthz", health),
        *auth.routes(),
    ]


def _lifespan(service: Service) -> Any:
    @asynccontextmanager
    async def lifespan(app: Any) -> Any:
        await service.start()
        yield
        await service.stop()

    return lifespan


def _problem_of(error: Exception) -> tuple[Problem, Mapping[str, str]]:
    if isinstance(error, Refused):
        return error.problem, {}
    if isinstance(error, MessageError):
        return problem(error.code, str(error)), {}
    if isinstance(error, HTTPException):
        code = _ROUTER_PROBLEMS.get(error.status_code, "malformed")
        return problem(code), error.headers or {}
    if isinstance(error, StorageUnavailable):
        return problem("storage_unavailable", "the store cannot be used now"), {}
    # its text may quote what somebody sent, so that only its kind is logged
    _log.error("a request failed with %s", type(error).__name__)
    return problem("internal"), {}


class _Post:
    """Straight on ASGI: a framework's request costs more than checking and storing a report."""

    def __init__(self, service: Service, kind: bytes, limit: int, act: _Act) -> None:
        self._service, self._kind, self._limit, self._act = service, kind, limit, act

    async def __call__(self, scope: Scope, receive: Receive, sender: Send) -> None:
        require_type(scope, self._kind)
        body = await read_body(scope, receive, self._limit)
        status, answers = await self._act(self._service, body)
        await self._service.attempts.delay_response(scope, answers)
        if self._kind is _NDJSON:
            await send(sender, status, _encoder.encode_lines(answers), _NDJSON)
        elif isinstance(answer := answers[0], Problem):
            await send_problem(sender, answer)
        else:
            await send(sender, status, _encoder.encode(answer), _JSON)


async def _take_report(service: Service, body: bytes) -> tuple[int, _Answers]:
    """Sending the same again is no error: it gets the first answer."""
    ((answer, is_new),) = await service.intake.accept((body,))
    return 201 if is_new else 200, (answer,)


async def _take_batch(service: Service, body: bytes) -> tuple[int, _Answers]:
    lines = split_batch(body)
    if not lines:
        raise Refused("malformed", "a batch holds at least one report")
    if len(lines) > MAX_BATCH:
        raise Refused(
            "batch_too_long", f"a batch holds at most {MAX_BATCH} reports, got {len(lines)}"
        )
    return 200, [answer for answer, _ in await service.intake.accept(lines)]


async def _admit(service: Service, body: bytes) -> tuple[int, _Answers]:
    """Whether a report with this invitation would be taken now: asked before any person is."""
    return 200, (await service.admit(decode_invitation(body).token),)


async def _withdraw(service: Service, body: bytes) -> tuple[int, _Answers]:
    return 200, (await service.withdraw(decode_withdrawal(body).code),)
