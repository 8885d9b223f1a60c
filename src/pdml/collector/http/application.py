"""The service as an ASGI application: every route, one place for whatever goes wrong, and the API
told to machines, in OpenAPI 3.1."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

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
from pdml.collector.intake.report_rules import Rules
from pdml.collector.intake.service import Answer, Service
from pdml.errors import MessageError, StorageUnavailable
from pdml.study import Study
from pdml.study.messages import (
    FORMAT,
    MAX_BATCH,
    MAX_INVITATION_BYTES,
    PROBLEMS,
    Admission,
    Invitation,
    Problem,
    Receipt,
    Report,
    Withdrawal,
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
    service: Service, auth: OperatorAuth, *, page: bytes, page_headers: Mapping[str, str]
) -> App:
    """The application of a service; ``page`` is the contributor's, made elsewhere."""
    router = Router(
        _routes(service, auth, page, page_headers),
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
    service: Service, auth: OperatorAuth, page: bytes, page_headers: Mapping[str, str]
) -> list[Route]:
    study, rules = service.study, service.rules
    api = _encoder.encode(document(study, service.server, rules, operator=auth.has_page))
    safe = {"x-content-type-options": "nosniff"}
    fresh = {"cache-control": "no-cache", **safe}
    study_hash = {"pdml-study-hash": study.hash}

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
        get("/v1/study", study.canonical(), "application/json", fresh | study_hash),
        get("/openapi.json", api, "application/json", safe),
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
    ((answer, is_new),) = await service.accept((body,))
    return 201 if is_new else 200, (answer,)


async def _take_batch(service: Service, body: bytes) -> tuple[int, _Answers]:
    lines = split_batch(body)
    if not lines:
        raise Refused("malformed", "a batch holds at least one report")
    if len(lines) > MAX_BATCH:
        most = f"a batch holds at most {MAX_BATCH} reports, got {len(lines)}"
        raise Refused("batch_too_long", most)
    return 200, [answer for answer, _ in await service.accept(lines)]


async def _admit(service: Service, body: bytes) -> tuple[int, _Answers]:
    """Whether a report with this invitation would be taken now: asked before any person is."""
    return 200, (await service.admit(decode_invitation(body).token),)


async def _withdraw(service: Service, body: bytes) -> tuple[int, _Answers]:
    return 200, (await service.withdraw(decode_withdrawal(body).code),)


_REF = "#/components/schemas/{name}"
_WHOLE = ("malformed", "too_large", "unsupported_type", "timeout", "too_many_requests")
_CHECKED = ("wrong_version", "wrong_study", "bad_id", "epsilon_not_on_menu", "bad_label")
_RULES = (*_CHECKED, "bad_features", "wrong_consent", "token_missing")
_DECIDED = ("token_unknown", "token_used", "id_conflict", "too_early", "closed", "frozen")
_STORE = (*_DECIDED, "storage_unavailable")

JsonObject = dict[str, Any]
_TEXT: JsonObject = {"type": "string"}
_OBJECT: JsonObject = {"type": "object"}
_HASHED = "The study in canonical JSON; its SHA-256 is in the header pdml-study-hash."
_JSON_TYPE, _NDJSON_TYPE, _HTML_TYPE = _JSON.decode(), _NDJSON.decode(), "text/html"


def document(study: Study, server: str, rules: Rules, *, operator: bool) -> JsonObject:
    """The document of the service that collects for ``study`` at ``server``."""
    lines = _TEXT | {"description": f"One report per line, at most {MAX_BATCH}."}
    answers = _TEXT | {"description": "A receipt or a problem per line, in the same order."}
    health = "Whether the store can commit, shown by a commit."
    paths = {
        "/v1/reports": _post(
            "sendReport",
            "Store one report. Sending the same bytes again gives the first answer.",
            _of("Report"),
            {
                "201": _answer("Stored, and on disk.", _of("Receipt")),
                "200": _answer("Stored before: the first receipt again.", _of("Receipt")),
            },
            *(*_WHOLE, *_RULES, *_STORE),
        ),
        "/v1/batches": _post(
            "sendBatch",
            "Store many reports; each line is answered by itself.",
            _content(_NDJSON_TYPE, lines),
            {"200": _answer("One answer per line.", _content(_NDJSON_TYPE, answers))},
            *(*_WHOLE, "batch_too_long"),
        ),
        "/v1/invitations": _post(
            "askAdmission",
            "Whether a report with this token would be taken now; uses nothing up.",
            _of("Invitation"),
            {"200": _answer("It would.", _of("Admission"))},
            *(*_WHOLE, "token_missing", *_STORE),
        ),
        "/v1/withdrawals": _post(
            "withdrawReport",
            "Erase a report but for its id, by the code that only its device knows.",
            _of("Withdrawal"),
            {"200": _answer("Erased, now or before.", _of("Withdrawn"))},
            *(*_WHOLE, "withdrawal_unknown", "frozen", "storage_unavailable"),
        ),
        "/v1/study": _get("getStudy", _HASHED, _JSON_TYPE, {}),
        "/": _get("getPage", "The page for contributors.", _HTML_TYPE, _TEXT),
        "/healthz": _get("getHealth", health, _JSON_TYPE, _OBJECT, "storage_unavailable"),
        "/metrics": _metrics(),
        "/openapi.json": _get("getDocument", "This document.", _JSON_TYPE, _OBJECT),
    }
    if operator:
        paths |= _operator()
    types = [Report, Receipt, Problem, Invitation, Admission, Withdrawal, Withdrawn]
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    _constrain(schemas["Report"], rules)
    schemas["Invitation"]["properties"]["token"]["pattern"] = "^([0-9a-f]{32})?$"
    schemas["Withdrawal"]["properties"]["code"]["pattern"] = "^[0-9a-f]{32}$"
    schemas["Admission"]["properties"]["study"] = {"const": rules.study_hash}
    schemas["Problem"]["properties"]["code"]["enum"] = list(PROBLEMS)
    operators = {"operator": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{study.title}: reports to {server}",
            "version": str(FORMAT.version),
            "description": study.description,
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": operators},
    }


def _metrics() -> JsonObject:
    summary = "Totals of this process, for Prometheus."
    path_item = _get("getMetrics", summary, "text/plain", _TEXT, "unauthorized")
    # from this machine, where nothing stands in front, without
    path_item["get"]["security"] = [{"operator": []}, {}]
    return path_item


def _operator() -> JsonObject:
    login = {"401": _answer("The login form.", _content(_HTML_TYPE, _TEXT))}
    page_summary = "The operator's page, or its login form."
    page = _get("getOperatorPage", page_summary, _HTML_TYPE, _TEXT, "storage_unavailable")
    page["get"]["responses"] |= login
    counts = ("unauthorized", "storage_unavailable")
    summary = _get("getSummary", "Totals and counts.", _JSON_TYPE, _OBJECT, *counts)
    for part in (page, summary):
        part["get"]["security"] = [{"operator": []}]
    enter = _post(
        "enter",
        "Trade the operator's token for a cookie.",
        _content("application/x-www-form-urlencoded", _OBJECT | {"properties": {"token": _TEXT}}),
        {"303": {"description": "Admitted."}, **login},
        *("too_large", "timeout"),
    )
    return {"/operator": page | enter, "/operator.json": summary}


def _constrain(report: JsonObject, rules: Rules) -> None:
    """What the rules ask beyond the types; the norm and the token cannot be said in a schema."""
    length = 4 * ((4 * rules.width + 2) // 3)
    hexadecimal = _TEXT | {"pattern": "^[0-9a-f]{32}$", "minLength": 32, "maxLength": 32}
    perhaps = _TEXT | {"pattern": "^([0-9a-f]{32})?$"}
    packed = {"contentEncoding": "base64", "minLength": length, "maxLength": length}
    report["properties"] |= {
        "version": {"const": FORMAT.version},
        "study": {"const": rules.study_hash},
        "id": hexadecimal,
        "nonce": hexadecimal,
        "epsilon": {"enum": sorted(rules.menu)},
        "label": {"type": "integer", "minimum": 0, "maximum": rules.classes - 1},
        "features": _TEXT | packed,
        "token": hexadecimal if rules.require_tokens else perhaps,
        "consent": {"enum": [consent for consent, _ in rules.consents]},
        "consent_version": {"enum": [version for _, version in rules.consents]},
    }
    report["required"] = list(report["properties"])


def _get(operation: str, summary: str, kind: str, schema: JsonObject, *problems: str) -> JsonObject:
    answers = {"200": _answer(summary, _content(kind, schema)), **_problems(*problems)}
    return {"get": {"operationId": operation, "summary": summary, "responses": answers}}


def _post(
    operation: str, summary: str, body: JsonObject, answers: JsonObject, *problems: str
) -> JsonObject:
    details = {"operationId": operation, "summary": summary}
    request = {"requestBody": {"required": True, "content": body}}
    return {"post": details | request | {"responses": answers | _problems(*problems)}}


def _answer(description: str, content: JsonObject) -> JsonObject:
    return {"description": description, "content": content}


def _content(kind: str, schema: JsonObject) -> JsonObject:
    return {kind: {"schema": schema}}


def _of(name: str) -> JsonObject:
    """One of the messages, as JSON."""
    return _content(_JSON_TYPE, {"$ref": _REF.format(name=name)})


def _problems(*codes: str) -> JsonObject:
    """One response per status, naming its codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(PROBLEMS[code].status, []).append(code)
    content = _content("application/problem+json", {"$ref": _REF.format(name="Problem")})
    descriptions = {
        status: f"Refused: {', '.join(problem_codes)}."
        for status, problem_codes in sorted(by_status.items())
    }
    return {str(status): _answer(text, content) for status, text in descriptions.items()}
