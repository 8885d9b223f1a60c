"""The OpenAPI document is true: schemathesis sends what it allows and what it forbids, and holds
the answers to it.
"""

import json

import httpx
import pytest
import schemathesis
from collecting import TRIAL, Slept, on_a_thread, report
from conversation import create
from hypothesis import HealthCheck, settings
from schemathesis import checks

from pdml.collector.http.application import document
from pdml.collector.http.guard import Attempts
from pdml.collector.intake.report_rules import Rules, collection_id
from pdml.collector.storage.sqlite import SqliteStore
from pdml.study.messages import PROBLEMS


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    store = SqliteStore(
        tmp_path_factory.mktemp("openapi") / "reports.db", collection_id(TRIAL, "alice")
    )

    # what schemathesis makes up is unknown, or repeats an id: answers would come late
    with on_a_thread(create(store, attempts=Attempts(clock=Slept()))) as url:
        yield url


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """A batch as it is, if it is text; whatever else schemathesis thinks of, as JSON."""
    return (
        value.encode("utf-8", "surrogatepass")
        if isinstance(value, str)
        else json.dumps(value).encode()
    )


checks.load_all_checks()
TRUE = [
    checks.CHECKS.get_one(f"{name}_conformance")
    for name in ("status_code", "content_type", "response_schema")
]
schema = schemathesis.openapi.from_dict(
    document(TRIAL, "alice", Rules.of(TRIAL, require_tokens=False), operator=True)
)


@schema.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_the_service_does_what_the_document_says(case, service):
    case.call_and_validate(base_url=service, checks=[checks.not_a_server_error, *TRUE])


def test_the_document_is_the_one_that_is_served(service):
    assert httpx.get(f"{service}/openapi.json").json() == json.loads(json.dumps(schema.raw_schema))


def test_good_reports_match_the_document_and_bad_ones_do_not():
    import jsonschema_rs

    summary = document(TRIAL, "alice", Rules.of(TRIAL, require_tokens=False), operator=True)
    validator = jsonschema_rs.validator_for(
        {**summary["components"]["schemas"]["Report"], "components": summary["components"]}
    )
    assert validator.is_valid(json.loads(report()))
    for changes in (
        {"label": 3},
        {"epsilon": 7},
        {"id": "x"},
        {"study": "0" * 64},
        {"features": "short"},
        {"version": 2},
        {"consent": "0" * 64, "consent_version": "1"},
    ):
        assert not validator.is_valid(json.loads(report(**changes)))


def test_every_problem_that_can_be_met_is_documented():
    """Each code stands in the response of some route, but for those that every route can give."""
    summary = json.dumps(
        document(TRIAL, "alice", Rules.of(TRIAL, require_tokens=True), operator=True)["paths"]
    )
    anywhere = {"not_found", "method_not_allowed", "internal", "length_required"}
    assert {code for code in PROBLEMS if code not in summary} <= anywhere
