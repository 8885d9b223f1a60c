"""Conversations with the service in this process: a client, a clock that stands still, and answers
that are problems.
"""

import asyncio
import hashlib

from collecting import TRIAL, Clock, InProcess

from pdml.collector.http import application
from pdml.collector.http.operator_routes import OperatorAuth
from pdml.collector.intake.service import Service
from pdml.study.messages import PROBLEMS

OPERATOR = "a-token-of-the-operator"
JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}


def count_reports(summary):
    return f"<p>{summary.reports} reports"


def create(
    store,
    *,
    study=TRIAL,
    operator=count_reports,
    token=OPERATOR,
    secure=False,
    proxied=False,
    **rest,
):
    service = Service(study, "alice", store, **{"clock": Clock(), "require_tokens": False} | rest)
    digest = hashlib.sha256(token.encode()).hexdigest() if token else ""
    auth = OperatorAuth(service, operator, digest, secure=secure, proxied=proxied)
    headers = {"content-security-policy": "default-src 'none'"}
    return application.create(service, auth, page=b"<p>page</p>", page_headers=headers)


def talk(store, conversation, address="127.0.0.1", **options):
    """Run a conversation with a client of the application at this address."""

    async def main():
        async with InProcess(create(store, **options), address) as client:
            return await conversation(client)

    return asyncio.run(main())


async def send(client, line, **headers):
    return await client.post("/v1/reports", content=line, headers=JSON | headers)


def assert_problem(answer, code):
    assert answer.headers["content-type"] == "application/problem+json"
    facts = answer.json()
    assert facts["code"] == code and facts["status"] == answer.status_code == PROBLEMS[code].status
    assert (
        answer.headers["cache-control"] == "no-store"
        and answer.headers["x-content-type-options"] == "nosniff"
    )
