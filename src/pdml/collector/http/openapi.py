"""The API told to machines, in OpenAPI 3.1; a test lets schemathesis hold the service to it."""

from typing import Any

import msgspec

from pdml.collector.intake.report_rules import Rules
from pdml.study import Study
from pdml.study.messages import (
    FORMAT,
    MAX_BATCH,
    PROBLEMS,
    Admission,
    Invitation,
    Problem,
    Receipt,
    Report,
    Withdrawal,
    Withdrawn,
)

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
_JSON, _LINES, _HTML = "application/json", "application/x-ndjson", "text/html"


def document(study: Study, server: str, rules: Rules, *, operator: bool) -> JsonObject:
    """The document of the service that collects for ``study`` at ``server``."""
    lines = _TEXT | {"description": f"One report per line, at most {MAX_BATCH}."}
    answers = _TEXT | {"description": "A receipt or a problem per line, in the same order."}
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
            _content(_LINES, lines),
            {"200": _answer("One answer per line.", _content(_LINES, answers))},
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
        "/v1/study": _get("getStudy", _HASHED, _JSON, {}),
        "/": _get("getPage", "The page for contributors.", _HTML, _TEXT),
        "/healthz": _get(
            "getHealth",
            "Whether the store can commit, shown by a commit.",
            _JSON,
            _OBJECT,
            "storage_unavailable",
        ),
        "/metrics": _metrics(),
        "/openapi.json": _get("getDocument", "This document.", _JSON, _OBJECT),
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
    login = {"401": _answer("The login form.", _content(_HTML, _TEXT))}
    page_summary = "The operator's page, or its login form."
    page = _get("getOperatorPage", page_summary, _HTML, _TEXT, "storage_unavailable")
    page["get"]["responses"] |= login
    counts = ("unauthorized", "storage_unavailable")
    summary = _get("getSummary", "Totals and counts.", _JSON, _OBJECT, *counts)
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
    return _content(_JSON, {"$ref": _REF.format(name=name)})


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
