"""The API told to machines, in OpenAPI 3.1; a test lets schemathesis hold the service to it."""

from typing import Any

import msgspec

from pdml.collect.rules import Rules
from pdml.messages import (
    MAX_BATCH,
    PROBLEMS,
    VERSION,
    Admission,
    Invitation,
    Problem,
    Receipt,
    Report,
)
from pdml.study import Study

_REF = "#/components/schemas/{name}"
_WHOLE = ("malformed", "too_large", "unsupported_type", "timeout", "too_many_requests")
_RULES = (
    "wrong_version",
    "wrong_study",
    "bad_id",
    "epsilon_not_on_menu",
    "bad_label",
    "bad_features",
    "token_missing",
)
_STORE = (
    "token_unknown",
    "token_used",
    "id_conflict",
    "too_early",
    "closed",
    "frozen",
    "storage_unavailable",
)


def document(study: Study, server: str, rules: Rules, *, operator: bool) -> dict[str, Any]:
    """The document of the service that collects for ``study`` at ``server``."""
    report = {"application/json": {"schema": _ref("Report")}}
    receipt = {"application/json": {"schema": _ref("Receipt")}}
    invitation = {"application/json": {"schema": _ref("Invitation")}}
    admission = {"application/json": {"schema": _ref("Admission")}}
    lines = {
        "application/x-ndjson": {
            "schema": {
                "type": "string",
                "description": f"One report per line, at most {MAX_BATCH}.",
            }
        }
    }
    answers = {
        "application/x-ndjson": {
            "schema": {
                "type": "string",
                "description": "A receipt or a problem per line, in the same order.",
            }
        }
    }
    paths: dict[str, Any] = {
        "/v1/reports": {
            "post": {
                "operationId": "sendReport",
                "summary": "Store one report. Sending the same bytes again gives the first answer.",
                "requestBody": {"required": True, "content": report},
                "responses": {
                    "201": {"description": "Stored, and on disk.", "content": receipt},
                    "200": {
                        "description": "Stored before: the first receipt again.",
                        "content": receipt,
                    },
                    **_problems(*_WHOLE, *_RULES, *_STORE),
                },
            }
        },
        "/v1/batches": {
            "post": {
                "operationId": "sendBatch",
                "summary": "Store many reports; each line is answered by itself.",
                "requestBody": {"required": True, "content": lines},
                "responses": {
                    "200": {"description": "One answer per line.", "content": answers},
                    **_problems(*_WHOLE, "batch_too_long"),
                },
            }
        },
        "/v1/invitations": {
            "post": {
                "operationId": "askAdmission",
                "summary": "Whether a report with this token would be taken now; uses nothing up.",
                "requestBody": {"required": True, "content": invitation},
                "responses": {
                    "200": {"description": "It would.", "content": admission},
                    **_problems(*_WHOLE, "token_missing", *_STORE),
                },
            }
        },
        "/v1/study": _get(
            "getStudy",
            "The study in canonical JSON; its SHA-256 is in the header pdml-study-hash.",
            "application/json",
            {},
        ),
        "/": _get("getPage", "The page for contributors.", "text/html", {"type": "string"}),
        "/healthz": _get(
            "getHealth",
            "Whether the store can commit, shown by a commit.",
            "application/json",
            {"type": "object"},
            "storage_unavailable",
        ),
        "/metrics": _metrics(),
        "/openapi.json": _get(
            "getDocument", "This document.", "application/json", {"type": "object"}
        ),
    }
    if operator:
        paths |= _operator()
    types = [Report, Receipt, Problem, Invitation, Admission]
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    _constrain(schemas["Report"], rules)
    schemas["Invitation"]["properties"]["token"]["pattern"] = "^([0-9a-f]{32})?$"
    schemas["Admission"]["properties"]["study"] = {"const": rules.study_hash}
    schemas["Problem"]["properties"]["code"]["enum"] = list(PROBLEMS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{study.title}: reports to {server}",
            "version": str(VERSION),
            "description": study.description,
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"operator": {"type": "http", "scheme": "bearer"}},
        },
    }


def _metrics() -> dict[str, Any]:
    told = _get(
        "getMetrics",
        "Totals of this process, for Prometheus.",
        "text/plain",
        {"type": "string"},
        "unauthorized",
    )
    told["get"]["security"] = [
        {"operator": []},
        {},
    ]  # from this machine, where nothing stands in front, without
    return told


def _operator() -> dict[str, Any]:
    page = _get(
        "getOperatorPage",
        "The operator's page, or its login form.",
        "text/html",
        {"type": "string"},
        "storage_unavailable",
    )
    page["get"]["responses"]["401"] = {
        "description": "The login form.",
        "content": {"text/html": {"schema": {"type": "string"}}},
    }
    summary = _get(
        "getSummary",
        "Totals and counts.",
        "application/json",
        {"type": "object"},
        "unauthorized",
        "storage_unavailable",
    )
    form = {
        "application/x-www-form-urlencoded": {
            "schema": {"type": "object", "properties": {"token": {"type": "string"}}}
        }
    }
    enter = {
        "operationId": "enter",
        "summary": "Trade the operator's token for a cookie.",
        "requestBody": {"required": True, "content": form},
        "responses": {
            "303": {"description": "Admitted."},
            "401": {
                "description": "The login form.",
                "content": {"text/html": {"schema": {"type": "string"}}},
            },
            **_problems("too_large", "timeout"),
        },
    }
    for part in (page, summary):
        part["get"]["security"] = [{"operator": []}]
    return {"/operator": {**page, "post": enter}, "/operator.json": summary}


def _constrain(report: dict[str, Any], rules: Rules) -> None:
    """What the rules ask beyond the types; the norm and the token cannot be said in a schema."""
    length = 4 * ((4 * rules.width + 2) // 3)
    hexadecimal = {"pattern": "^[0-9a-f]{32}$", "minLength": 32, "maxLength": 32}
    report["properties"] |= {
        "version": {"const": VERSION},
        "study": {"const": rules.study_hash},
        "id": {"type": "string", **hexadecimal},
        "epsilon": {"enum": sorted(rules.menu)},
        "label": {"type": "integer", "minimum": 0, "maximum": rules.classes - 1},
        "features": {
            "type": "string",
            "contentEncoding": "base64",
            "minLength": length,
            "maxLength": length,
        },
        "token": {"type": "string", **hexadecimal}
        if rules.require_tokens
        else {"type": "string", "pattern": "^([0-9a-f]{32})?$"},
    }
    if rules.require_tokens:
        report["required"] = [*report["required"], "token"]


def _get(
    operation: str, summary: str, kind: str, schema: dict[str, Any], *problems: str
) -> dict[str, Any]:
    success = {"description": summary, "content": {kind: {"schema": schema}}}
    return {
        "get": {
            "operationId": operation,
            "summary": summary,
            "responses": {"200": success, **_problems(*problems)},
        }
    }


def _problems(*codes: str) -> dict[str, Any]:
    """One response per status, naming its codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(PROBLEMS[code].status, []).append(code)
    content = {"application/problem+json": {"schema": _ref("Problem")}}
    told = {status: f"Refused: {', '.join(found)}." for status, found in sorted(by_status.items())}
    return {str(status): {"description": text, "content": content} for status, text in told.items()}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}
